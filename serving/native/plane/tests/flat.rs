//! Requests that leave out the axis of one element, as TensorFlow Serving's clients do: read as rows, answered flat.
//! Sends both ranks through every endpoint, alone and in one batch; whatever else has another rank stays refused.

use std::sync::Arc;

use crate::support;
use crate::support::examples::{SESSION_RUN, session};
use crate::support::messages::{Request, bytes_of, content, float_values, outputs, shape_of, tensor};
use crate::support::{Gate, LONG, Model, Running, column_of, eventually, floats, publish, settings, signature, spec};
use tidegate_codec::dtype::DType;
use tidegate_codec::model_spec::{ModelSpec, VersionChoice};
use tidegate_codec::signatures::{Signature, TensorSpec};
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Column, Tensor};
use tidegate_engine::batching::{Prediction, Work};
use tidegate_engine::serving_map::Change;
use tidegate_plane::endpoints::embedded::arrays::{Arrays, NamedArray};
use tidegate_plane::endpoints::embedded::endpoint::EmbeddedRequest;

fn column(name: &str) -> TensorSpec {
    spec(name, DType::Float32, &[-1, 1])
}

fn upright() -> Signature {
    signature(vec![column("x")], vec![column("y")])
}

fn serving(signature: Signature, model: &Arc<Model>) -> Running {
    let running = Running::start(&settings());
    running.plane.apply(vec![publish("m", 1, model, signature)]).unwrap();
    running
}

fn half_plus_two() -> Running {
    serving(upright(), &Model::half_plus_two())
}

fn shaped(shape: &[i64], values: &[f32]) -> Vec<u8> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(DType::Float32.tensorflow(), shape, &content(&bytes))
}

fn predicted(running: &Running, request: &Request) -> Vec<(String, Vec<i64>, Vec<f32>)> {
    let answer = running.grpc().predict(&request.encode());
    assert_eq!((answer.code, answer.message.as_str()), (0, ""));
    let found = outputs(&answer.body).into_iter();
    found.map(|(name, tensor)| (name, shape_of(&tensor), float_values(&tensor))).collect()
}

fn y(shape: &[i64], values: &[f32]) -> Vec<(String, Vec<i64>, Vec<f32>)> {
    vec![("y".to_owned(), shape.to_vec(), values.to_vec())]
}

/// Asks in process with inputs by name, values and shape; the first output's shape and values.
fn ask(running: &Running, inputs: &[(&str, &[f32], &[usize])]) -> Result<(Vec<usize>, Vec<f32>), Status> {
    let named = |(name, values, shape): &(&str, &[f32], &[usize])| {
        let array = Tensor { column: column_of(values), shape: shape.to_vec() };
        NamedArray { name: (*name).to_owned(), dtype: DType::Float32, array }
    };
    let spec = ModelSpec { name: "m", choice: VersionChoice::Any, signature_name: "" };
    let endpoint = running.plane.embedded();
    let routed = endpoint.route(&EmbeddedRequest { spec, ..EmbeddedRequest::default() }, |_| Vec::new()).unwrap();
    let waiting = endpoint.submit(routed, &Arrays(inputs.iter().map(named).collect()), None, None);
    let answer = waiting.wait(LONG).unwrap();
    answer.map(|outputs| (outputs[0].shape.clone(), floats(&outputs[0].column)))
}

/// a [-1,1], b [-1,1] and c [-1] into sum [-1,1], both [-1,2] and c [-1].
fn several() -> Running {
    let inputs = vec![column("a"), column("b"), spec("c", DType::Float32, &[-1])];
    let outputs = vec![column("sum"), spec("both", DType::Float32, &[-1, 2]), spec("c", DType::Float32, &[-1])];
    let model = Model::new(|work: &Work| {
        assert_eq!(&*work.shapes, [vec![1], vec![1], vec![]], "a model gets the signature's shapes");
        let [a, b, c] = [0, 1, 2].map(|index| floats(&work.columns[index]));
        let sum: Vec<f32> = a.iter().zip(&b).zip(&c).map(|((a, b), c)| a + b + c).collect();
        let both: Vec<f32> = a.iter().zip(&b).flat_map(|(a, b)| [*a, *b]).collect();
        let output =
            |values: &[f32], shape: &[usize]| Some(Tensor { column: column_of(values), shape: shape.to_vec() });
        let rows = work.rows;
        let outputs = vec![output(&sum, &[rows, 1]), output(&both, &[rows, 2]), output(&c, &[rows])];
        Ok(Prediction { outputs, errors: Vec::new() })
    });
    serving(signature(inputs, outputs), &model)
}

#[test]
fn rest_answers_in_the_rank_of_the_request() {
    let running = half_plus_two();
    for (body, expected) in [
        (r#"{"instances":[1.0,2.0,5.0]}"#, r#"{"predictions":[2.5,3.0,4.5]}"#),
        (r#"{"instances":[{"x":1.0},{"x":2.0}]}"#, r#"{"predictions":[2.5,3.0]}"#),
        (r#"{"inputs":{"x":[1.0,2.0,5.0]}}"#, r#"{"outputs":[2.5,3.0,4.5]}"#),
        (r#"{"inputs":[1,2,5],"signature_name":"serving_default"}"#, r#"{"outputs":[2.5,3.0,4.5]}"#),
        (r#"{"instances":[[1.0],[2.0],[5.0]]}"#, r#"{"predictions":[[2.5],[3.0],[4.5]]}"#),
        (r#"{"instances":[{"x":[1.0]}]}"#, r#"{"predictions":[[2.5]]}"#),
        (r#"{"inputs":{"x":[[1.0],[2.0]]}}"#, r#"{"outputs":[[2.5],[3.0]]}"#),
    ] {
        let answer = running.rest().predict(body);
        assert_eq!((answer.status, answer.body.as_str()), (200, expected), "{body}");
    }
}

#[test]
fn grpc_answers_in_the_rank_of_the_request() {
    let running = half_plus_two();
    let of = |shape: &[i64], values: &[f32]| predicted(&running, &Request::new("m").input("x", shaped(shape, values)));
    assert_eq!(of(&[3], &[1.0, 2.0, 5.0]), y(&[3], &[2.5, 3.0, 4.5]));
    assert_eq!(of(&[3, 1], &[1.0, 2.0, 5.0]), y(&[3, 1], &[2.5, 3.0, 4.5]));
    assert_eq!(of(&[0], &[]), y(&[0], &[]));
    assert_eq!(of(&[0, 1], &[]), y(&[0, 1], &[]));
    let filtered = Request::new("m").input("x", shaped(&[1], &[1.0])).only("y");
    assert_eq!(predicted(&running, &filtered), y(&[1], &[2.5]));
    let filled = Request::new("m").input("x", shaped(&[2], &[]));
    assert_eq!(predicted(&running, &filled), y(&[2], &[2.0, 2.0]), "zeros where there are no values");
    let call = running.grpc().call(SESSION_RUN, &[], &session("m", &[("x:0", shaped(&[2], &[1.0, 2.0]))], &["y:0"]));
    let fetched = bytes_of(bytes_of(&call.body, 1)[0], 2)[0];
    assert_eq!((shape_of(fetched), float_values(fetched)), (vec![2], vec![2.5, 3.0]));
}

#[test]
fn predicting_in_process_answers_in_the_rank_of_the_request() {
    let running = half_plus_two();
    let ask = |shape: &[usize]| ask(&running, &[("x", &[1.0, 2.0], shape)]);
    assert_eq!(ask(&[2]).unwrap(), (vec![2], vec![2.5, 3.0]));
    assert_eq!(ask(&[2, 1]).unwrap(), (vec![2, 1], vec![2.5, 3.0]));
    assert_eq!(ask(&[1, 2]).unwrap_err().message, "input 'x' has shape [1,2], but the signature expects [-1,1]");
    assert_eq!(ask(&[2, 1, 1]).unwrap_err().message, "input 'x' has shape [2,1,1], but the signature expects [-1,1]");
}

#[test]
fn only_outputs_of_one_element_per_row_are_flat_and_only_if_every_input_of_that_shape_was() {
    let running = several();
    let ask = |a: &[i64], b: &[i64]| {
        let request = Request::new("m").input("a", shaped(a, &[1.0, 2.0])).input("b", shaped(b, &[3.0, 4.0]));
        let found = predicted(&running, &request.input("c", shaped(&[2], &[5.0, 6.0])));
        found.into_iter().map(|(name, shape, _)| (name, shape)).collect::<Vec<_>>()
    };
    let shapes = |sum: &[i64]| {
        let named = [("sum", sum), ("both", &[2, 2]), ("c", &[2])];
        named.map(|(name, shape)| (name.to_owned(), shape.to_vec())).to_vec()
    };
    assert_eq!(ask(&[2], &[2]), shapes(&[2]));
    for (a, b) in [(&[2][..], &[2, 1][..]), (&[2, 1], &[2]), (&[2, 1], &[2, 1])] {
        assert_eq!(ask(a, b), shapes(&[2, 1]), "{a:?} {b:?}");
    }
    let mut rest = running.rest();
    for (body, expected) in [
        (r#"{"instances":[{"a":1,"b":3,"c":5}]}"#, r#"{"predictions":[{"sum":9.0,"both":[1.0,3.0],"c":5.0}]}"#),
        (r#"{"instances":[{"a":1,"b":[3],"c":5}]}"#, r#"{"predictions":[{"sum":[9.0],"both":[1.0,3.0],"c":5.0}]}"#),
        (r#"{"inputs":{"c":[5],"b":[3],"a":[1]}}"#, r#"{"outputs":{"sum":[9.0],"both":[[1.0,3.0]],"c":[5.0]}}"#),
        (r#"{"inputs":{"c":[5],"b":[3],"a":[[1]]}}"#, r#"{"outputs":{"sum":[[9.0]],"both":[[1.0,3.0]],"c":[5.0]}}"#),
    ] {
        assert_eq!(rest.predict(body).body, expected, "{body}");
    }
    let scalars = signature(vec![spec("x", DType::Float32, &[-1])], vec![column("y")]);
    let model = Model::new(|work: &Work| {
        let output = Tensor { column: Column::clone(&work.columns[0]), shape: vec![work.rows, 1] };
        Ok(support::answer(output))
    });
    let running = serving(scalars, &model);
    assert_eq!(running.rest().predict(r#"{"instances":[1]}"#).body, r#"{"predictions":[[1.0]]}"#, "nothing came flat");
}

#[test]
fn a_model_gets_the_shape_of_its_signature_through_every_endpoint() {
    let model = Model::new(|work: &Work| {
        assert_eq!(&*work.shapes, [vec![1], vec![2]]);
        Ok(support::answer(support::half_plus_two(work)))
    });
    let inputs = vec![column("x"), spec("open", DType::Float32, &[-1, -1])];
    let running = serving(signature(inputs, vec![column("y")]), &model);
    let request = Request::new("m").input("x", shaped(&[1], &[1.0])).input("open", shaped(&[1, 2], &[0.0, 0.0]));
    assert_eq!(predicted(&running, &request), y(&[1], &[2.5]));
    let rest = running.rest().predict(r#"{"instances":[{"x":1,"open":[0,0]}]}"#);
    assert_eq!(rest.body, r#"{"predictions":[2.5]}"#);
    let asked = ask(&running, &[("x", &[1.0], &[1]), ("open", &[0.0, 0.0], &[1, 2])]);
    assert_eq!(asked.unwrap(), (vec![1], vec![2.5]));
}

#[test]
fn strings_may_come_flat_too() {
    let text = |name: &str| spec(name, DType::String, &[-1, 1]);
    let model = Model::new(|work: &Work| {
        let output = Tensor { column: Column::clone(&work.columns[0]), shape: vec![work.rows, 1] };
        Ok(support::answer(output))
    });
    let running = serving(signature(vec![text("x")], vec![text("y")]), &model);
    let mut rest = running.rest();
    assert_eq!(rest.predict(r#"{"instances":["a",{"b64":"Yg=="}]}"#).body, r#"{"predictions":["a","b"]}"#);
    assert_eq!(rest.predict(r#"{"inputs":{"x":[["a"],[""]]}}"#).body, r#"{"outputs":[["a"],[""]]}"#);
}

#[test]
fn every_other_rank_stays_refused() {
    let running = half_plus_two();
    let pair = signature(vec![spec("x", DType::Float32, &[-1, 2])], vec![column("y")]);
    let open = signature(vec![spec("x", DType::Float32, &[-1, -1])], vec![column("y")]);
    let deep = signature(vec![spec("x", DType::Float32, &[-1, 1, 1])], vec![column("y")]);
    let others = [("pair", pair), ("open", open), ("deep", deep)];
    let publish = |(name, signature)| publish(name, 1, &Model::half_plus_two(), signature);
    running.plane.apply(others.into_iter().map(publish).collect()).unwrap();
    for (model, shape, expected) in [
        ("m", &[][..], "[] [-1,1]"),
        ("m", &[1, 2], "[1,2] [-1,1]"),
        ("m", &[2, 1, 1], "[2,1,1] [-1,1]"),
        ("pair", &[2], "[2] [-1,2]"),
        ("open", &[2], "[2] [-1,-1]"),
        ("deep", &[2], "[2] [-1,1,1]"),
        ("deep", &[2, 1], "[2,1] [-1,1,1]"),
    ] {
        let (sent, wanted) = expected.split_once(' ').unwrap();
        let answer = running.grpc().predict(&Request::new(model).input("x", shaped(shape, &[])).encode());
        let scalar =
            if shape.is_empty() { "Batching Run() input tensors must have at least one dimension: " } else { "" };
        let text = format!("{scalar}input 'x' has shape {sent}, but the signature expects {wanted}");
        assert_eq!((answer.code, answer.message), (3, text), "{model}");
    }
    let mut rest = running.rest();
    for body in [r#"{"instances":[1,[2]]}"#, r#"{"instances":[[1],2]}"#, r#"{"inputs":[[1],2]}"#, r#"{"inputs":1}"#] {
        assert_eq!(rest.predict(body).status, 400, "{body}");
    }
    let level = "found at incorrect level: 1 in the JSON DOM. Expected at level:";
    for (model, depth) in [("pair", 1), ("open", 1), ("deep", 2)] {
        let answer = rest.post(&format!("/v1/models/{model}:predict"), r#"{"instances":[1]}"#);
        let text = format!("JSON Value: 1 {level} {depth}");
        assert!(answer.status == 400 && answer.body.contains(&text), "{}", answer.body);
    }
}

#[test]
fn requests_of_both_ranks_share_a_batch_and_are_logged_alike() {
    let open = spec("other", DType::Float32, &[-1, -1]);
    for inputs in [vec![column("x")], vec![column("x"), open]] {
        let gate = Arc::new(Gate::default());
        let model = Model::gated(&gate);
        let running = serving(signature(inputs.clone(), vec![column("y")]), &model);
        running.plane.apply(vec![Change::SetLog { model: "m".to_owned(), rate: 1.0 }]).unwrap();
        let other = if inputs.len() == 1 { "" } else { r#","other":[0,0]"# };
        let body = |x: &str| format!(r#"{{"instances":[{{"x":{x}{other}}}]}}"#);
        let mut clients = ["0", "1", "[2]", "3", "[4]"].map(|x| (running.rest(), body(x)));
        clients[0].0.send_predict(&clients[0].1);
        gate.wait_for(1);
        clients[1..].iter_mut().for_each(|(client, body)| client.send_predict(body));
        eventually("the others wait", || running.m1("tidegate_queued_rows") == 4.0);
        gate.open();
        let answers = clients.each_mut().map(|(client, _)| client.receive().body);
        assert_eq!(answers, ["2.0", "2.5", "[3.0]", "3.5", "[4.0]"].map(|y| format!(r#"{{"predictions":[{y}]}}"#)));
        assert_eq!(model.seen(), [vec![0, 1], vec![0, 1, 2, 3, 4]]);
        eventually("all are logged", || running.log_rows("written", "primary") == 5.0);
        let blocks = running.hooks.blocks.lock().unwrap();
        assert!(blocks.iter().all(|block| block.inputs[0].shapes.runs().eq([(block.rows, Some(&[1][..]))])
            && floats(&block.inputs[0].values).len() == block.rows));
    }
}
