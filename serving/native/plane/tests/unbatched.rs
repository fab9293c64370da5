//! Requests without a batch: scalars, fixed shapes and unknown ranks run alone and come back as they are.
//! A first axis that only looks like the batch is given up as soon as an answer shows that it is none.

use std::sync::Arc;

use crate::support;
use crate::support::messages::{Request, content, float_tensor, float_values, outputs, shape_of, tensor};
use crate::support::{
    Gate, Model, Running, answer, column_of, eventually, floats, half_plus_two, publish, settings, spec,
};
use tidegate_codec::dtype::DType;
use tidegate_codec::signatures::{FirstAxis, Signature, TensorSpec};
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::Tensor;
use tidegate_engine::batching::{Prediction, Work};
use tidegate_engine::log::Logged;
use tidegate_engine::serving_map::Change;

fn signature(axis: FirstAxis, inputs: Vec<TensorSpec>, outputs: Vec<TensorSpec>) -> Signature {
    let (name, method) = ("serving_default".to_owned(), "tensorflow/serving/predict".to_owned());
    Signature::with_axis(name, method, inputs, outputs, axis).unwrap()
}

fn serving(model: &Arc<Model>, signature: Signature) -> Running {
    let running = Running::start(&settings());
    let log = Change::SetLog { model: "m".to_owned(), rate: 1.0 };
    running.plane.apply(vec![publish("m", 1, model, signature), log]).unwrap();
    running
}

fn floats_of(shape: &[i64], values: &[f32]) -> Vec<u8> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(1, shape, &content(&bytes))
}

/// One output of a predict answer: shape and values.
fn answered(running: &Running, request: &Request) -> (Vec<i64>, Vec<f32>) {
    let answer = running.grpc().predict(&request.encode());
    assert_eq!((answer.code, answer.message.as_str()), (0, ""));
    let (_, y) = outputs(&answer.body).remove(0);
    (shape_of(&y), float_values(&y))
}

/// x * times, where x has any rank and times is a scalar.
fn scales() -> Arc<Model> {
    Model::new(|work| {
        assert!(work.unbatched);
        let times = floats(&work.columns[1])[0];
        let values: Vec<f32> = floats(&work.columns[0]).iter().map(|value| value * times).collect();
        Ok(answer(Tensor { column: column_of(&values), shape: work.shapes[0].clone() }))
    })
}

fn scaling() -> Running {
    let inputs = vec![TensorSpec::of_any_rank("x", DType::Float32), spec("times", DType::Float32, &[])];
    serving(&scales(), signature(FirstAxis::Free, inputs, vec![TensorSpec::of_any_rank("y", DType::Float32)]))
}

#[test]
fn a_request_keeps_exactly_its_shapes() {
    let running = scaling();
    for shape in [&[][..], &[3], &[2, 1, 2], &[0, 4]] {
        let values: Vec<f32> = (0..shape.iter().product::<i64>()).map(|at| at as f32 + 1.0).collect();
        let request = Request::new("m").input("x", floats_of(shape, &values)).input("times", floats_of(&[], &[2.0]));
        let doubled: Vec<f32> = values.iter().map(|value| value * 2.0).collect();
        assert_eq!(answered(&running, &request), (shape.to_vec(), doubled));
    }
    let wrong = Request::new("m").input("x", floats_of(&[1], &[1.0])).input("times", floats_of(&[1], &[2.0]));
    let refused = running.grpc().predict(&wrong.encode());
    assert_eq!(refused.message, "input 'times' has shape [1], but the signature expects []");
}

#[test]
fn columns_of_json_keep_their_shapes_and_rows_are_stacked() {
    let running = scaling();
    let ask = |body: &str| running.rest().predict(body);
    assert_eq!(ask(r#"{"inputs":{"x":3,"times":2}}"#).body, r#"{"outputs":6.0}"#);
    assert_eq!(ask(r#"{"inputs":{"times":2,"x":[[1],[2]]}}"#).body, r#"{"outputs":[[2.0],[4.0]]}"#);
    assert_eq!(ask(r#"{"inputs":{"times":2,"x":[]}}"#).body, r#"{"outputs":[]}"#);
    let stacked = ask(r#"{"instances":[{"x":[1],"times":2}]}"#);
    let text = stacked.body;
    assert_eq!((stacked.status, text.contains("input 'times' has shape [1]")), (400, true), "{text}");
    let ragged = ask(r#"{"inputs":{"times":2,"x":[[1],[2,3]]}}"#);
    let text = "Encountered list at unexpected size: 2 at level: 1 expected size: 1";
    assert_eq!(ragged.body, format!("{{\"error\":\"{text}\"}}"));
}

#[test]
fn each_is_one_row_of_the_log_and_what_has_any_rank_is_one_list() {
    let running = scaling();
    let request = Request::new("m").input("x", floats_of(&[2, 2], &[1.0; 4])).input("times", floats_of(&[], &[2.0]));
    answered(&running, &request);
    eventually("the log has it", || running.log_rows("written", "primary") == 1.0);
    let block = running.hooks.blocks.lock().unwrap().remove(0);
    let shapes = |logged: &Logged| logged.shapes.runs().map(|(_, inner)| inner.unwrap().to_vec()).next().unwrap();
    assert_eq!((block.rows, block.inputs.iter().map(shapes).collect()), (1, vec![vec![4], vec![]]));
    assert_eq!((shapes(&block.outputs[0]), floats(&block.outputs[0].values)), (vec![4], vec![2.0; 4]));
}

/// Keeps what is positive, so that answers have rows of their own.
fn filters(gate: &Arc<Gate>) -> Arc<Model> {
    let gate = gate.clone();
    Model::new(move |work: &Work| {
        gate.pass();
        let kept: Vec<f32> = floats(&work.columns[0]).into_iter().filter(|value| *value > 0.0).collect();
        Ok(answer(Tensor { column: column_of(&kept), shape: vec![kept.len()] }))
    })
}

fn one_column(axis: FirstAxis) -> Signature {
    signature(axis, vec![spec("x", DType::Float32, &[-1])], vec![spec("y", DType::Float32, &[-1])])
}

#[test]
fn requests_are_kept_apart_once_an_answer_has_rows_of_its_own() {
    let gate = Arc::new(Gate::default());
    let model = filters(&gate);
    let running = serving(&model, one_column(FirstAxis::Assumed));
    let mut grpc = running.grpc();
    let start = |grpc: &mut support::grpc::Client, values: &[f32]| {
        let message = Request::new("m").input("x", float_tensor(values)).encode();
        grpc.start(support::grpc::PREDICT, &[], support::grpc::frame(&message))
    };
    let first = start(&mut grpc, &[1.0]);
    gate.wait_for(1);
    let waiting = [&[-1.0, 5.0, 6.0][..], &[7.0, -8.0], &[-9.0]].map(|values| start(&mut grpc, values));
    eventually("all wait", || running.m1("tidegate_queued_rows") == 6.0);
    gate.open();
    let kept = |call| float_values(&outputs(&grpc.finish(call).body)[0].1);
    assert_eq!(kept(first), [1.0]);
    assert_eq!(waiting.map(kept), [vec![5.0, 6.0], vec![7.0], vec![]]);
    assert_eq!(model.seen()[1..], [vec![0, 3, 5, 6], vec![0, 3], vec![0, 2], vec![0, 1]]);
    eventually("what is left out of the log is counted", || running.log_rows("dropped", "primary") == 6.0);
}

#[test]
fn requests_that_come_after_such_an_answer_never_share_a_run() {
    let gate = Arc::new(Gate::default());
    let at = gate.clone();
    let model = Model::new(move |work: &Work| {
        let values = floats(&work.columns[0]);
        if values.contains(&100.0) {
            at.pass();
        }
        let kept: Vec<f32> = values.into_iter().filter(|value| *value > 0.0).collect();
        Ok(answer(Tensor { column: column_of(&kept), shape: vec![kept.len()] }))
    });
    let running = serving(&model, one_column(FirstAxis::Assumed));
    let message = |values: &[f32]| Request::new("m").input("x", float_tensor(values));
    assert_eq!(answered(&running, &message(&[-1.0, 1.0])), (vec![1], vec![1.0]));
    let mut grpc = running.grpc();
    let calls = [&[100.0][..], &[1.0, -1.0], &[2.0]].map(|values| {
        let call = grpc.start(support::grpc::PREDICT, &[], support::grpc::frame(&message(values).encode()));
        gate.wait_for(1);
        call
    });
    eventually("two wait", || running.m1("tidegate_queued_rows") == 3.0);
    gate.open();
    assert!(calls.map(|call| grpc.finish(call).code).iter().all(|code| *code == 0));
    assert_eq!(model.seen()[1..], [[0, 1].to_vec(), vec![0, 2], vec![0, 1]]);
}

#[test]
fn rows_of_an_answer_must_be_as_many_in_each_output() {
    let outputs = || vec![spec("a", DType::Float32, &[-1]), spec("b", DType::Float32, &[-1])];
    let model = Model::new(|work| {
        let of = |count: usize| Some(Tensor { column: column_of(&vec![1.0; count]), shape: vec![count] });
        Ok(Prediction { outputs: vec![of(work.rows), of(work.rows + 1)], errors: Vec::new() })
    });
    let inputs = vec![spec("x", DType::Float32, &[-1])];
    let running = serving(&model, signature(FirstAxis::Assumed, inputs, outputs()));
    assert_eq!(
        running.rest().predict(r#"{"instances":[1,2]}"#).body,
        r#"{"error":"Tensor name: b has inconsistent batch size: 3 expecting: 2"}"#
    );
    assert_eq!(running.rest().predict(r#"{"inputs":[1,2]}"#).body, r#"{"outputs":{"a":[1.0,1.0],"b":[1.0,1.0,1.0]}}"#);
}

#[test]
fn inputs_of_different_lengths_run_alone_where_the_batch_is_only_assumed() {
    let pair = || vec![spec("a", DType::Float32, &[-1]), spec("b", DType::Float32, &[-1])];
    let y = || vec![spec("y", DType::Float32, &[-1])];
    let model = Model::new(|work| {
        let joined = [floats(&work.columns[0]), floats(&work.columns[1])].concat();
        assert!(work.unbatched || work.shapes.iter().all(Vec::is_empty));
        Ok(answer(Tensor { column: column_of(&joined), shape: vec![joined.len()] }))
    });
    let request = Request::new("m").input("b", float_tensor(&[1.0, 2.0])).input("a", float_tensor(&[3.0]));
    let running = serving(&model, signature(FirstAxis::Assumed, pair(), y()));
    assert_eq!(answered(&running, &request), (vec![3], vec![3.0, 1.0, 2.0]));
    let strict = serving(&model, signature(FirstAxis::Batch, pair(), y()));
    let refused = strict.grpc().predict(&request.encode());
    assert_eq!(
        (refused.code, refused.message.contains("equal 0th-dimension size")),
        (Code::InvalidArgument as i32, true)
    );
}

#[test]
fn rows_of_an_assumed_batch_share_a_run_and_none_at_all_run_too() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let running = serving(&model, one_column(FirstAxis::Assumed));
    let mut grpc = running.grpc();
    let message = |values: &[f32]| Request::new("m").input("x", float_tensor(values)).encode();
    let calls: Vec<_> = [&[0.0][..], &[2.0], &[4.0]]
        .iter()
        .map(|values| {
            let call = grpc.start(support::grpc::PREDICT, &[], support::grpc::frame(&message(values)));
            gate.wait_for(1);
            call
        })
        .collect();
    eventually("two wait", || running.m1("tidegate_queued_rows") == 2.0);
    gate.open();
    let given: Vec<f32> =
        calls.into_iter().flat_map(|call| float_values(&outputs(&grpc.finish(call).body)[0].1)).collect();
    assert_eq!((given, model.seen()), (vec![2.0, 3.0, 4.0], vec![vec![0, 1], vec![0, 1, 2]]));
    assert_eq!(answered(&running, &Request::new("m").input("x", float_tensor(&[]))), (vec![0], vec![]));
    assert_eq!(model.seen().len(), 3);
}

#[test]
fn as_many_rows_as_the_model_was_exported_for_run_alone() {
    let fixed = || vec![spec("x", DType::Float32, &[2])];
    let model = Model::half_plus_two();
    let running = serving(&model, signature(FirstAxis::Assumed, fixed(), vec![spec("y", DType::Float32, &[2])]));
    assert_eq!(answered(&running, &Request::new("m").input("x", float_tensor(&[0.0, 2.0]))), (vec![2], vec![2.0, 3.0]));
    assert_eq!(model.seen(), [vec![0, 1]]);
    assert_eq!(answered(&running, &Request::new("m").input("x", float_tensor(&[0.0]))), (vec![1], vec![2.0]));
}

#[test]
fn what_a_request_leaves_out_has_its_default() {
    let inputs = vec![spec("x", DType::Float32, &[-1]), spec("times", DType::Float32, &[])];
    let default = Tensor { column: column_of(&[3.0]), shape: vec![] };
    let plain = signature(FirstAxis::Free, inputs, vec![spec("y", DType::Float32, &[-1])]);
    let running = serving(&scales(), plain.with_defaults(vec![None, Some(default)]));
    let request = Request::new("m").input("x", float_tensor(&[1.0, 2.0]));
    assert_eq!(answered(&running, &request), (vec![2], vec![3.0, 6.0]));
    let refused = running.grpc().predict(&Request::new("m").input("times", floats_of(&[], &[1.0])).encode());
    assert!(refused.message.starts_with("Signature input alias: x(feed name: x) not found in request"));
    let extra = request.input("times", floats_of(&[], &[1.0])).input("z", float_tensor(&[1.0]));
    let refused = running.grpc().predict(&extra.encode());
    assert!(refused.message.starts_with("input size does not match signature: 3!=2"), "{}", refused.message);
    let rest = |body: &str| running.rest().predict(body).body;
    assert_eq!(rest(r#"{"inputs":{"x":[1,2]}}"#), r#"{"outputs":[3.0,6.0]}"#);
    assert_eq!(rest(r#"{"instances":[{"x":1},{"x":2}]}"#), r#"{"predictions":[3.0,6.0]}"#);
    assert_eq!(rest(r#"{"inputs":{"times":2}}"#), r#"{"error":"Missing named input: x in 'inputs' object."}"#);
    for rows in [r#"{"x":1},{"x":2,"times":3}"#, r#"{"times":1}"#, r#"{"x":1,"times":3},{"x":2}"#] {
        let refused = rest(&format!(r#"{{"instances":[{rows}]}}"#));
        assert!(refused.contains("keys must be equal to: times,x"), "{refused}");
    }
}

#[test]
fn an_error_of_any_row_is_that_of_the_whole_request() {
    let model = Model::new(|work| {
        let (outputs, errors) = (vec![Some(half_plus_two(work))], vec![(3, Status::invalid("row 3 is bad"))]);
        Ok(Prediction { outputs, errors })
    });
    let of_four = || vec![spec("x", DType::Float32, &[4])];
    let running = serving(&model, signature(FirstAxis::Free, of_four(), of_four()));
    let refused = running.grpc().predict(&Request::new("m").input("x", float_tensor(&[1.0; 4])).encode());
    assert_eq!((refused.code, refused.message.as_str()), (Code::InvalidArgument as i32, "row 3 is bad"));
}

#[test]
fn a_shape_that_the_signature_forbids_is_the_models_fault() {
    let model = Model::new(|_| Ok(answer(Tensor { column: column_of(&[1.0]), shape: vec![1] })));
    let inputs = vec![spec("x", DType::Float32, &[2])];
    let running = serving(&model, signature(FirstAxis::Free, inputs, vec![spec("y", DType::Float32, &[])]));
    let refused = running.grpc().predict(&Request::new("m").input("x", float_tensor(&[1.0, 2.0])).encode());
    assert_eq!(refused.message, "the model returned output 'y' of shape [1], but its signature says []");
}
