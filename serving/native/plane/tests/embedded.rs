//! Predicting without a socket: the same handles, queues and answers as through the endpoints, and callers that give up.
//! Calls the endpoint on threads of its own, as an embedding program does.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::support;
use crate::support::{Gate, LONG, Model, Running, eventually, floats, publish, scalar_signature, settings};
use tidegate_codec::dtype::DType;
use tidegate_codec::model_spec::{ModelSpec, VersionChoice};
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::Tensor;
use tidegate_engine::serving_map::Change;
use tidegate_plane::endpoints::embedded::arrays::{Arrays, NamedArray};
use tidegate_plane::endpoints::embedded::endpoint::{EmbeddedRequest, PendingAnswer};
use tidegate_plane::endpoints::embedded::reply::EmbeddedAnswer;
use tidegate_plane::endpoints::reply::AnyReply;
use tidegate_plane::plane::Plane;
use tidegate_plane::settings::Settings;

fn without_endpoints() -> Settings {
    Settings { grpc_address: None, rest_address: None, ..settings() }
}

fn spec(choice: VersionChoice<'_>) -> ModelSpec<'_> {
    ModelSpec { name: "m", choice, signature_name: "" }
}

fn x(values: &[f32]) -> Arrays {
    let array = Tensor { column: support::column_of(values), shape: vec![values.len()] };
    Arrays(vec![NamedArray { name: "x".to_owned(), dtype: DType::Float32, array }])
}

fn start(plane: &Plane, values: &[f32], timeout: Duration) -> Result<PendingAnswer<AnyReply>, Status> {
    let question = EmbeddedRequest { spec: spec(VersionChoice::Any), ..EmbeddedRequest::default() };
    let routed = plane.embedded().route(&question, |_| Vec::new())?;
    Ok(plane.embedded().submit(routed, &x(values), Some(timeout), None))
}

fn ask(plane: &Plane, values: &[f32]) -> EmbeddedAnswer {
    start(plane, values, LONG)?.wait(LONG * 2).expect("an answer in time")
}

fn one_version(executor: &Arc<Model>) -> Running {
    let running = Running::start(&without_endpoints());
    running.plane.apply(vec![publish("m", 1, executor, scalar_signature())]).unwrap();
    running
}

#[test]
fn callers_get_their_own_rows_of_shared_batches() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let running = one_version(&model);
    let plane = &running.plane;
    thread::scope(|scope| {
        let first = scope.spawn(|| ask(plane, &[0.0]));
        gate.wait_for(1);
        let others: Vec<_> = (1..8).map(|at| scope.spawn(move || ask(plane, &[at as f32, -(at as f32)]))).collect();
        eventually("all wait", || running.m1("tidegate_queued_rows") == 14.0);
        gate.open();
        assert_eq!(floats(&first.join().unwrap().unwrap()[0].column), [2.0]);
        for (at, other) in others.into_iter().enumerate() {
            let half = (at + 1) as f32 / 2.0;
            let outputs = other.join().unwrap().unwrap();
            assert_eq!((floats(&outputs[0].column), outputs[0].shape.clone()), (vec![2.0 + half, 2.0 - half], vec![2]));
        }
    });
    assert_eq!(model.seen().len(), 2, "one batch while the first ran: {:?}", model.seen());
    let answered = "tidegate_requests_total{endpoint=\"embedded\",model=\"m\",version=\"1\",status=\"OK\"}";
    // An answer is counted once it is given.
    eventually("all are counted", || running.sample(answered) == 8.0);
}

#[test]
fn a_deadline_is_kept_to_without_any_other_thread() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let running = one_version(&model);
    // Long enough to come to the model on a busy machine, too.
    let runs = start(&running.plane, &[1.0], Duration::from_secs(1)).unwrap();
    gate.wait_for(1);
    let began = Instant::now();
    let waits = start(&running.plane, &[2.0], Duration::from_millis(30)).unwrap();
    let why = waits.wait(LONG).unwrap().unwrap_err();
    assert_eq!(why.message, "the deadline passed while the request waited in the batch queue");
    assert!(began.elapsed() >= Duration::from_millis(30), "{:?}", began.elapsed());
    let why = runs.wait(LONG).unwrap().unwrap_err();
    assert_eq!((why.code, why.message.as_str()), (Code::DeadlineExceeded, "the deadline passed while the request ran"));
    gate.open();
    assert_eq!(floats(&ask(&running.plane, &[3.0]).unwrap()[0].column), [3.5]);
    assert_eq!(model.seen(), [[0, 1], [0, 1]], "what waited too long was not computed");
}

#[test]
fn nobody_computes_for_a_caller_that_gave_up() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let running = one_version(&model);
    let first = start(&running.plane, &[1.0], LONG).unwrap();
    gate.wait_for(1);
    let given_up = start(&running.plane, &[2.0], LONG).unwrap();
    assert!(given_up.wait(Duration::from_millis(20)).is_none());
    drop(given_up);
    gate.open();
    assert!(first.wait(LONG).unwrap().is_ok());
    eventually("it is counted out", || running.m1("tidegate_cancelled_total") == 1.0);
    assert_eq!(model.seen(), [[0, 1]]);
}

#[test]
fn a_request_holds_its_version_until_it_is_answered() {
    let gate = Arc::new(Gate::default());
    let running = one_version(&Model::gated(&gate));
    let waiting = start(&running.plane, &[1.0], LONG).unwrap();
    gate.wait_for(1);
    running.plane.apply(vec![Change::Retire { model: "m".to_owned(), version: 1 }]).unwrap();
    assert_eq!(ask(&running.plane, &[1.0]).unwrap_err().code, Code::NotFound);
    assert!(running.hooks.released.lock().unwrap().is_empty());
    gate.open();
    assert_eq!(floats(&waiting.wait(LONG).unwrap().unwrap()[0].column), [2.5]);
    eventually("it is released", || running.hooks.released.lock().unwrap().len() == 1);
}

#[test]
fn a_drain_answers_those_who_are_in_and_a_stop_tells_those_who_cannot_be() {
    let gate = Arc::new(Gate::default());
    let running = one_version(&Model::gated(&gate));
    let plane = &running.plane;
    thread::scope(|scope| {
        let waiting = scope.spawn(|| ask(plane, &[1.0]));
        gate.wait_for(1);
        let draining = scope.spawn(|| plane.drain(LONG));
        eventually(
            "the endpoint is closed",
            || matches!(ask(plane, &[]), Err(why) if why.message.contains("draining")),
        );
        gate.open();
        assert!(draining.join().unwrap(), "all was answered");
        assert_eq!(floats(&waiting.join().unwrap().unwrap()[0].column), [2.5]);
    });

    let gate = Arc::new(Gate::default());
    let running = one_version(&Model::gated(&gate));
    let waiting = start(&running.plane, &[1.0], LONG).unwrap();
    gate.wait_for(1);
    assert!(!running.plane.drain(Duration::from_millis(20)), "not all was answered");
    let why = waiting.wait(LONG).unwrap().unwrap_err();
    assert_eq!((why.code, why.message.contains("stopped before")), (Code::Unavailable, true), "{why}");
    gate.open();
}

#[test]
fn inputs_that_do_not_fit_are_refused_as_through_the_endpoints() {
    let running = one_version(&Model::half_plus_two());
    let refused = |inputs: &Arrays| {
        let question = EmbeddedRequest { spec: spec(VersionChoice::Any), ..EmbeddedRequest::default() };
        let routed = running.plane.embedded().route(&question, |_| Vec::new()).unwrap();
        running.plane.embedded().submit(routed, inputs, None, None).wait(LONG).unwrap().unwrap_err().message
    };
    assert_eq!(
        refused(&Arrays::default()),
        "input size does not match signature: 0!=1 len({}) != len({x}). Sent extra: {}. Missing but required: {x}."
    );
    let mut twice = x(&[1.0, 2.0]);
    twice.0[0].array.shape = vec![1, 2];
    assert_eq!(refused(&twice), "input 'x' has shape [1,2], but the signature expects [-1]");
    let mut other = x(&[1.0]);
    other.0[0].dtype = DType::Int32;
    assert_eq!(refused(&other), "Expects arg[0] to be float but int32 is provided: send input 'x' as float");
}

#[test]
fn a_drain_waits_for_copies_of_what_was_answered() {
    let gate = Arc::new(Gate::default());
    let running = one_version(&Model::half_plus_two());
    running.plane.apply(vec![publish("m", 2, &Model::gated(&gate), scalar_signature())]).unwrap();
    let labels = [("stable".to_owned(), 1)].into();
    let changes = vec![
        Change::SetLabels { model: "m".to_owned(), labels, waiting: HashSet::new() },
        Change::SetShadow { model: "m".to_owned(), version: 2, fraction: 1.0 },
        Change::SetLog { model: "m".to_owned(), rate: 1.0 },
    ];
    running.plane.apply(changes).unwrap();
    assert!(ask(&running.plane, &[1.0]).is_ok());
    gate.wait_for(1);
    let plane = running.plane.clone();
    let draining = thread::spawn(move || plane.drain(LONG));
    eventually("the plane takes no more", || ask(&running.plane, &[1.0]).is_err());
    assert!(!draining.is_finished(), "a copy is still out");
    gate.open();
    assert!(draining.join().unwrap());
    let copies = running.log_rows("written", "shadow");
    assert!(copies >= 1.0 && copies == running.log_rows("eligible", "shadow"), "{copies}");
}
