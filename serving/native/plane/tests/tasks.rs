//! MultiInference and SessionRun from outside: several tasks over the same examples, feeds and fetches.
//! Each task joins the batch of its signature, and the call is answered once.

use std::sync::Arc;

use crate::support;
use crate::support::examples::{
    CLASSIFY, MULTI_INFERENCE, REGRESS, SESSION_RUN, classes, example, floats, list, multi, request, session, values,
};
use crate::support::inference::*;
use crate::support::messages::{bytes_of, float_tensor, float_values, varint_of};
use crate::support::{Gate, Model, eventually, zeros};
use tidegate_codec::dtype::DType;
use tidegate_codec::status::Status;
use tidegate_engine::batching::Prediction;

#[test]
fn several_tasks_are_answered_together() {
    let model = parses_itself();
    let running = running(&model, of_tensorflow());
    let one = example(&[("a", floats(&[1.0]))]);
    let input = list(std::slice::from_ref(&one));
    let tasks = [("m", "", CLASSIFY_METHOD), ("m", "value", REGRESS_METHOD)];
    let body = ok(running.grpc().call(MULTI_INFERENCE, &[], &multi(&tasks, &input)));
    let results = bytes_of(&body, 1);
    let length = one.len() as f32;
    assert_eq!(classes(bytes_of(results[0], 2)[0]), [[("no".to_owned(), -length), ("yes".to_owned(), length)]]);
    assert_eq!(values(bytes_of(results[1], 3)[0]), [length]);
    let spec = bytes_of(results[1], 1)[0];
    assert_eq!((bytes_of(spec, 1)[0], bytes_of(spec, 3)[0]), (&b"m"[..], &b"value"[..]));
    assert_eq!(varint_of(bytes_of(spec, 2)[0], 1), 7);
    assert_eq!(model.entries.load(std::sync::atomic::Ordering::Relaxed), 2);
}

#[test]
fn requests_are_counted_by_what_they_ask() {
    let running = running(&parses_itself(), of_tensorflow());
    let mut grpc = running.grpc();
    let input = list(&[example(&[("a", floats(&[1.0]))])]);
    let tasks = [("m", "", CLASSIFY_METHOD), ("m", "value", REGRESS_METHOD)];
    ok(grpc.call(MULTI_INFERENCE, &[], &multi(&tasks, &input)));
    ok(grpc.call(CLASSIFY, &[], &request("m", "", &input)));
    for signature in ["value", "value", "gone"] {
        grpc.call(REGRESS, &[], &request("m", signature, &input));
    }
    for _ in 0..4 {
        running.rest().predict(r#"{"instances":[1]}"#);
    }
    let counted = |method: &str| {
        let labels = format!("model=\"m\",version=\"7\",method=\"{method}\"");
        running.sample(&format!("tidegate_method_requests_total{{{labels}}}"))
    };
    let methods = ["MultiInference", "Classify", "Regress", "SessionRun", "Predict"];
    assert_eq!(methods.map(counted), [1.0, 1.0, 2.0, 0.0, 4.0]);
    grpc.call(SESSION_RUN, &[], &session("m", &[("x", float_tensor(&[1.0]))], &["y"]));
    assert_eq!(counted("SessionRun"), 1.0);
}

#[test]
fn tasks_that_cannot_be_together_are_refused_before_any_runs() {
    let model = parses_itself();
    let running = running(&model, of_tensorflow());
    let mut grpc = running.grpc();
    let input = list(&[example(&[("a", floats(&[1.0]))])]);
    let mut ask = |tasks: &[(&str, &str, &str)]| grpc.call(MULTI_INFERENCE, &[], &multi(tasks, &input));
    let good = ("m", "", CLASSIFY_METHOD);
    refused(&ask(&[]), "ModelSpec has no name specified.");
    refused(&ask(&[good, ("", "value", REGRESS_METHOD)]), "Found ModelSpec with an empty model name.");
    let same = "All ModelSpecs in a MultiInferenceRequest must access the same model name.";
    refused(&ask(&[good, ("n", "value", REGRESS_METHOD)]), same);
    refused(
        &ask(&[good, ("m", "serving_default", REGRESS_METHOD)]),
        "Duplicate evaluation of signature: serving_default",
    );
    refused(&ask(&[good, ("m", "gone", REGRESS_METHOD)]), "Requested signature not found in model graph: gone");
    let other = ask(&[good, ("m", "value", PREDICT_METHOD)]);
    let text = format!("Unsupported signature method_name: {PREDICT_METHOD}");
    assert_eq!((other.code, other.message), (12, text));
    let wrong = format!("Expected classification signature method_name to be {CLASSIFY_METHOD}. Was: {REGRESS_METHOD}");
    refused(&ask(&[good, ("m", "value", CLASSIFY_METHOD)]), &wrong);
    assert_eq!(ask(&[("n", "", CLASSIFY_METHOD)]).code, 5);
    assert_eq!(model.entries.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn one_task_that_fails_is_the_answer_to_all() {
    let model = Model::new(|work| {
        if work.served.signature.outputs.len() == 1 {
            return Err(Status::internal("no regression today"));
        }
        let pair = |dtype| Some(zeros(dtype, work.rows, &[2]));
        Ok(Prediction { outputs: vec![pair(DType::String), pair(DType::Float32)], errors: Vec::new() })
    });
    let running = running(&model, of_tensorflow());
    let input = list(&[example(&[])]);
    let tasks = [("m", "", CLASSIFY_METHOD), ("m", "value", REGRESS_METHOD)];
    let mut grpc = running.grpc();
    for order in [[tasks[0], tasks[1]], [tasks[1], tasks[0]]] {
        let answer = grpc.call(MULTI_INFERENCE, &[], &multi(&order, &input));
        assert_eq!((answer.code, answer.message.as_str()), (13, "no regression today"));
    }
    let empty = grpc.call(MULTI_INFERENCE, &[], &multi(&tasks, &[]));
    refused(&empty, "Input is empty.");
}

#[test]
fn tasks_of_a_client_that_went_away_are_not_computed() {
    let gate = Arc::new(Gate::default());
    let model = parses_at(&gate);
    let running = running(&model, of_tensorflow());
    let mut grpc = running.grpc();
    let input = list(&[example(&[])]);
    let first = grpc.start(CLASSIFY, &[], support::grpc::frame(&request("m", "", &input)));
    gate.wait_for(1);
    let tasks = [("m", "", CLASSIFY_METHOD), ("m", "value", REGRESS_METHOD)];
    let both = grpc.start(MULTI_INFERENCE, &[], support::grpc::frame(&multi(&tasks, &input)));
    eventually("both wait", || running.sample("tidegate_queued_rows{model=\"m\",version=\"7\"}") == 2.0);
    drop(both);
    let gone = "tidegate_requests_total{endpoint=\"grpc\",model=\"m\",version=\"7\",status=\"CANCELLED\"}";
    eventually("both are given up", || running.sample(gone) == 2.0);
    gate.open();
    ok(grpc.finish(first));
    eventually("both are thrown away", || running.sample("tidegate_cancelled_total{model=\"m\",version=\"7\"}") == 2.0);
    assert_eq!(model.entries.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[test]
fn a_session_runs_where_a_signature_has_its_feeds_and_fetches() {
    let running = running(&Model::half_plus_two(), of_tensorflow()[2..].to_vec());
    let mut grpc = running.grpc();
    let mut ask =
        |feeds: &[(&str, Vec<u8>)], fetches: &[&str]| grpc.call(SESSION_RUN, &[], &session("m", feeds, fetches));
    let body = ok(ask(&[("x:0", float_tensor(&[1.0, 2.0]))], &["y:0"]));
    let named = bytes_of(&body, 1)[0];
    assert_eq!((bytes_of(named, 1)[0], float_values(bytes_of(named, 2)[0])), (&b"y:0"[..], vec![2.5, 3.0]));
    let spec = bytes_of(&body, 3)[0];
    assert_eq!((bytes_of(spec, 1)[0], bytes_of(spec, 3)[0]), (&b"m"[..], &b"x"[..]));
    refused(&ask(&[("x", float_tensor(&[1.0]))], &[]), "Must specify at least one target to fetch or execute.");
    refused(&ask(&[("x", float_tensor(&[1.0]))], &["y", "y:0", "y"]), "'y' is fetched twice: fetch it once");
    let many = ask(&[("x", float_tensor(&[1.0]))], &["y"; 20_000]);
    assert_eq!((many.code, &*many.message), (8, "the request has more than 16384 fetches: send fewer at a time"));
    for (feed, fetch) in [("x", "z"), ("w", "y")] {
        let other = ask(&[(feed, float_tensor(&[1.0]))], &[fetch]);
        let text = format!("none of {{x}} has feeds {{{feed}}} and fetches {{{fetch}}}");
        assert_eq!((other.code, other.message.ends_with(&text)), (12, true), "{}", other.message);
    }
    let target = grpc.call(SESSION_RUN, &[], &[session("m", &[], &[]), vec![0x22, 1, b't']].concat());
    assert_eq!(target.code, 12);
}
