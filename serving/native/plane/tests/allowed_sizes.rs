//! Batches of allowed sizes: what the model is asked for, and that neither clients nor the log see the copies.
//! A gated model holds the first batch, so that each test decides what waits behind it.

use std::sync::{Arc, Mutex};

use crate::support;
use crate::support::messages::{Request, bytes_of, content, float_tensor, float_values, outputs, predict_x, tensor};
use crate::support::rest::Client;
use crate::support::{
    Gate, Model, Running, answer, column_of, eventually, floats, half_plus_two, publish_with, scalar_signature,
    settings, spec,
};
use tidegate_codec::dtype::DType;
use tidegate_codec::protobuf::wire;
use tidegate_codec::signatures::{FirstAxis, Signature};
use tidegate_codec::status::Status;
use tidegate_codec::tensors::Tensor;
use tidegate_engine::batching::{Batching, Prediction, Work};
use tidegate_engine::serving_map::Change;

fn sizes(sizes: &[usize]) -> Batching {
    Batching {
        max_batch_rows: sizes.last().copied().unwrap_or(64),
        allowed_batch_sizes: sizes.into(),
        ..support::batching()
    }
}

fn log_all() -> Change {
    Change::SetLog { model: "m".to_owned(), rate: 1.0 }
}

fn serving(model: &Arc<Model>, signature: Signature, batching: Batching) -> Running {
    let running = Running::start(&settings());
    running.plane.apply(vec![publish_with("m", 1, model, signature, batching), log_all()]).unwrap();
    running
}

fn assumed() -> Signature {
    let (x, y) = (vec![spec("x", DType::Float32, &[-1])], vec![spec("y", DType::Float32, &[-1])]);
    Signature::with_axis("serving_default".to_owned(), String::new(), x, y, FirstAxis::Assumed).unwrap()
}

/// The first input of each run.
type Asked = Arc<Mutex<Vec<Vec<f32>>>>;

/// Answers each row, and keeps the rows that it was asked for.
fn recording(
    gate: Option<Arc<Gate>>,
    answering: impl Fn(&Work) -> Result<Prediction, Status> + Send + Sync + 'static,
) -> (Arc<Model>, Asked) {
    let asked = Asked::default();
    let keeps = asked.clone();
    let model = Model::new(move |work| {
        if let Some(gate) = &gate {
            gate.pass();
        }
        assert!(work.unbatched || floats(&work.columns[0]).len() == work.rows);
        keeps.lock().unwrap().push(floats(&work.columns[0]));
        answering(work)
    });
    (model, asked)
}

/// Sends requests that wait together behind one of row 0, and gives their answers.
fn together(running: &Running, gate: &Gate, requests: &[&str]) -> Vec<support::rest::Answer> {
    let mut first = running.rest();
    first.send_predict(r#"{"instances":[0]}"#);
    gate.wait_for(1);
    let mut clients: Vec<Client> = requests.iter().map(|_| running.rest()).collect();
    for (client, rows) in clients.iter_mut().zip(requests) {
        let before = running.m1("tidegate_queued_rows");
        client.send_predict(&format!(r#"{{"instances":[{rows}]}}"#));
        eventually("it waits", || running.m1("tidegate_queued_rows") > before);
    }
    gate.open();
    assert_eq!(first.receive().body, r#"{"predictions":[2.0]}"#);
    clients.iter_mut().map(Client::receive).collect()
}

/// Inputs of all rows, and outputs of those that have them.
fn logged(running: &Running, rows: usize) -> (Vec<f32>, Vec<f32>) {
    eventually("the log has them", || {
        running.log_rows("written", "primary") + running.log_rows("dropped", "primary") >= rows as f64
    });
    let blocks = running.hooks.blocks.lock().unwrap();
    let inputs = blocks.iter().flat_map(|block| floats(&block.inputs[0].values)).collect();
    (inputs, blocks.iter().flat_map(|block| floats(&block.outputs[0].values)).collect())
}

#[test]
fn a_batch_is_filled_up_to_the_next_size_and_nobody_sees_it() {
    let gate = Arc::new(Gate::default());
    let (model, asked) = recording(Some(gate.clone()), |work| Ok(answer(half_plus_two(work))));
    let running = serving(&model, scalar_signature(), sizes(&[1, 3, 8]));
    let answers = together(&running, &gate, &["2,4", "6,8,10"]);
    assert_eq!(answers[0].body, r#"{"predictions":[3.0,4.0]}"#);
    assert_eq!(answers[1].body, r#"{"predictions":[5.0,6.0,7.0]}"#);
    assert_eq!(running.rest().predict(r#"{"instances":[12,14]}"#).body, r#"{"predictions":[8.0,9.0]}"#);
    let expected =
        [vec![0.0], vec![2.0, 4.0, 6.0, 8.0, 10.0, 2.0, 2.0, 2.0], vec![12.0, 14.0, 12.0]].map(|rows| rows.to_vec());
    assert_eq!(*asked.lock().unwrap(), expected);
    assert_eq!(model.seen()[1], [0, 2, 5], "requests own their rows, nobody the copies");
    assert_eq!(running.m1("tidegate_padding_rows_total"), 4.0);
    assert_eq!((running.m1("tidegate_rows_total"), running.m1("tidegate_batches_total")), (8.0, 3.0));
    let (inputs, outputs) = logged(&running, 8);
    assert_eq!(inputs, [0.0f32, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]);
    assert_eq!(outputs, inputs.iter().map(|x| x * 0.5 + 2.0).collect::<Vec<_>>());
}

#[test]
fn more_rows_than_the_largest_size_run_in_pieces_and_errors_keep_their_rows() {
    let (model, asked) = recording(None, |work| {
        let x = floats(&work.columns[0]);
        let wrong = x.iter().enumerate().filter(|(_, x)| **x < 0.0);
        let errors = wrong.map(|(row, x)| (row, Status::invalid(format!("{x} is below 0")))).collect();
        Ok(Prediction { errors, ..answer(half_plus_two(work)) })
    });
    let running = serving(&model, scalar_signature(), sizes(&[2, 4]));
    let all = running.rest().predict(r#"{"instances":[1,2,3,4,5,6,7,8,9]}"#);
    assert_eq!(all.body, r#"{"predictions":[2.5,3.0,3.5,4.0,4.5,5.0,5.5,6.0,6.5]}"#);
    let pieces = [vec![1.0, 2.0, 3.0, 4.0], vec![5.0, 6.0, 7.0, 8.0], vec![9.0, 9.0]];
    assert_eq!(*asked.lock().unwrap(), pieces);
    assert_eq!(model.seen(), [[0, 4], [0, 4], [0, 1]]);
    let one = running.rest().predict(r#"{"instances":[1,2,3,4,-5]}"#);
    assert_eq!((one.status, one.body.contains("-5 is below 0")), (400, true), "{}", one.body);
    assert_eq!(running.m1("tidegate_padding_rows_total"), 2.0);
}

#[test]
fn halves_of_a_batch_that_fails_have_allowed_sizes_too() {
    let gate = Arc::new(Gate::default());
    let (model, asked) = recording(Some(gate.clone()), |work| match floats(&work.columns[0]).contains(&-1.0) {
        true => Err(Status::invalid("-1 cannot be")),
        false => Ok(answer(half_plus_two(work))),
    });
    let running = serving(&model, scalar_signature(), sizes(&[2, 6]));
    let answers = together(&running, &gate, &["2", "-1", "4", "6,8"]);
    assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 400, 200, 200]);
    assert_eq!(answers[2].body, r#"{"predictions":[4.0]}"#);
    assert_eq!(answers[3].body, r#"{"predictions":[5.0,6.0]}"#);
    let seen: Vec<usize> = asked.lock().unwrap().iter().map(Vec::len).collect();
    assert_eq!(seen, [2, 6, 2, 6, 2, 2]);
    let (inputs, outputs) = logged(&running, 6);
    assert_eq!(inputs, [0.0, 2.0, -1.0, 4.0, 6.0, 8.0]);
    assert_eq!(outputs, [2.0, 3.0, 4.0, 5.0, 6.0], "none of the request that failed");
}

#[test]
fn an_answer_without_rows_is_asked_for_again_with_the_request_s_own_rows() {
    let (model, asked) = recording(None, |work| {
        let sum: f32 = floats(&work.columns[0]).iter().sum();
        Ok(answer(Tensor { column: column_of(&[sum]), shape: vec![1] }))
    });
    let running = serving(&model, assumed(), sizes(&[4, 8]));
    // Without a log nothing else keeps a copy of the inputs.
    running.plane.apply(vec![Change::SetLog { model: "m".to_owned(), rate: 0.0 }]).unwrap();
    let sum = |values: &[f32]| float_values(&outputs(&running.grpc().predict(&predict_x(values)).body)[0].1);
    assert_eq!(sum(&[1.0, 2.0, 3.0]), [6.0], "not 7, which has a copy of the first row in it");
    assert_eq!(sum(&[1.0, 2.0]), [3.0]);
    assert_eq!(*asked.lock().unwrap(), [vec![1.0, 2.0, 3.0, 1.0], vec![1.0, 2.0, 3.0], vec![1.0, 2.0]]);
    let (model, asked) = recording(None, |work| {
        let sum: f32 = floats(&work.columns[0]).iter().sum();
        Ok(answer(Tensor { column: column_of(&[sum, 0.0, 0.0]), shape: vec![3] }))
    });
    let running = serving(&model, assumed(), sizes(&[2, 4]));
    let sum = |values: &[f32]| float_values(&outputs(&running.grpc().predict(&predict_x(values)).body)[0].1);
    assert_eq!(sum(&[1.0, 1.0, 1.0, 1.0, 1.0]), [5.0, 0.0, 0.0], "pieces are not the request either");
    assert_eq!(asked.lock().unwrap().iter().map(Vec::len).collect::<Vec<_>>(), [4, 5]);
}

#[test]
fn strings_and_inner_dimensions_are_copied_whole() {
    let inputs = vec![spec("s", DType::String, &[-1, 2]), spec("x", DType::Float32, &[-1, -1])];
    let signature = support::signature(inputs, vec![spec("t", DType::String, &[-1, 2])]);
    let model = Model::new(|work| {
        assert_eq!(
            (work.rows, floats(&work.columns[1])),
            (4, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0])
        );
        Ok(answer(Tensor { column: work.columns[0].clone(), shape: vec![4, 2] }))
    });
    let running = serving(&model, signature, sizes(&[4]));
    let x: Vec<u8> = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let strings = ["a", "bc", "", "def"];
    let mut sent = Vec::new();
    strings.iter().for_each(|value| wire::put_bytes(&mut sent, 8, value.as_bytes()));
    let request = Request::new("m").input("s", tensor(7, &[2, 2], &sent)).input("x", tensor(1, &[2, 3], &content(&x)));
    let given = running.grpc().predict(&request.encode());
    assert_eq!((given.code, given.message.as_str()), (0, ""));
    assert_eq!(bytes_of(&outputs(&given.body)[0].1, 8), strings.map(str::as_bytes));
}

#[test]
fn a_request_that_runs_alone_has_its_own_size() {
    let inputs = vec![spec("x", DType::Float32, &[3])];
    let name = "serving_default".to_owned();
    let free =
        Signature::with_axis(name, String::new(), inputs, vec![spec("y", DType::Float32, &[3])], FirstAxis::Free);
    let (model, asked) = recording(None, |work| Ok(answer(half_plus_two(work))));
    let running = serving(&model, free.unwrap(), sizes(&[4]));
    let request = Request::new("m").input("x", float_tensor(&[0.0, 2.0, 4.0]));
    assert_eq!(float_values(&outputs(&running.grpc().predict(&request.encode()).body)[0].1), [2.0, 3.0, 4.0]);
    assert_eq!(*asked.lock().unwrap(), [[0.0, 2.0, 4.0]]);
}

#[test]
fn sizes_change_while_requests_wait_and_copies_for_another_version_have_them() {
    let gate = Arc::new(Gate::default());
    let (model, asked) = recording(Some(gate.clone()), |work| Ok(answer(half_plus_two(work))));
    let running = serving(&model, scalar_signature(), sizes(&[]));
    let (other, other_asked) = recording(None, |work| Ok(answer(half_plus_two(work))));
    let second = publish_with("m", 2, &other, scalar_signature(), sizes(&[4]));
    let shadow = Change::SetShadow { model: "m".to_owned(), version: 2, fraction: 1.0 };
    let stable = Change::SetLabels {
        model: "m".to_owned(),
        labels: [("stable".to_owned(), 1)].into(),
        waiting: std::collections::HashSet::new(),
    };
    running.plane.apply(vec![second, stable, shadow]).unwrap();
    let mut first = running.rest();
    first.send_predict(r#"{"instances":[2]}"#);
    gate.wait_for(1);
    let mut waiting = running.rest();
    waiting.send_predict(r#"{"instances":[4,6,8]}"#);
    eventually("it waits", || running.m1("tidegate_queued_rows") == 3.0);
    running.plane.apply(vec![Change::SetBatching { model: "m".to_owned(), batching: sizes(&[2]) }]).unwrap();
    gate.open();
    assert_eq!(first.receive().body, r#"{"predictions":[3.0]}"#);
    assert_eq!(waiting.receive().body, r#"{"predictions":[4.0,5.0,6.0]}"#);
    assert_eq!(*asked.lock().unwrap(), [vec![2.0], vec![4.0, 6.0], vec![8.0, 8.0]]);
    eventually("copies ran", || running.log_rows("written", "shadow") == 4.0);
    assert!(other_asked.lock().unwrap().iter().all(|rows| rows.len() == 4 || rows.len() == 2));
    assert!(!other_asked.lock().unwrap().is_empty());
}

#[test]
fn errors_of_rows_stay_with_their_requests_and_those_of_copies_with_nobody() {
    let gate = Arc::new(Gate::default());
    let (model, _) = recording(Some(gate.clone()), |work| {
        let x = floats(&work.columns[0]);
        let copied = x.iter().enumerate().filter(|(at, one)| **one < 0.0 || x[..*at].contains(one));
        let errors = copied.map(|(row, _)| (row, Status::invalid("no"))).collect();
        Ok(Prediction { errors, ..answer(half_plus_two(work)) })
    });
    let running = serving(&model, scalar_signature(), sizes(&[]));
    let mut clients = [running.rest(), running.rest(), running.rest(), running.rest()];
    clients[0].send_predict(r#"{"instances":[0]}"#);
    gate.wait_for(1);
    for (at, rows) in ["1,2", "-3", "4,5"].iter().enumerate() {
        clients[at + 1].send_predict(&format!(r#"{{"instances":[{rows}]}}"#));
        let waiting = [2.0, 3.0, 5.0][at];
        eventually("it waits", || running.m1("tidegate_queued_rows") == waiting);
    }
    running.plane.apply(vec![Change::SetBatching { model: "m".to_owned(), batching: sizes(&[2]) }]).unwrap();
    gate.open();
    let codes = clients.each_mut().map(|client| client.receive().status);
    assert_eq!(codes, [200, 200, 400, 200]);
    assert_eq!(model.seen()[1..], [vec![0, 2], vec![0, 1, 2], vec![0, 1]]);
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let model = Model::half_plus_two();
    let running = Running::with(&model);
    for (sizes, max_batch_rows, why) in [
        (&[2, 2][..], 2, "[2, 2]: they must be above 0 and ascend"),
        (&[4, 2], 2, "[4, 2]: they must be above 0 and ascend"),
        (&[0, 2], 2, "[0, 2]: they must be above 0 and ascend"),
        (&[2, 4], 8, "end at 4, max_batch_rows is 8"),
    ] {
        let batching = Batching { max_batch_rows, allowed_batch_sizes: sizes.into(), ..support::batching() };
        let refused = running.plane.apply(vec![Change::SetBatching { model: "m".to_owned(), batching }]).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}
