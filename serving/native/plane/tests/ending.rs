//! Ends that something stands in the way of: a model or a log that hangs, a start that fails half-way, a panic.

use std::fs::File;
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::grpc::{PREDICT, frame};
use crate::support::messages::predict_x;
use crate::support::process::Process;
use crate::support::{
    Gate, LONG, Model, Recorder, Running, batching, eventually, publish, rest, scalar_signature, settings,
};
use socket2::SockRef;
use tidegate_codec::status::Status;
use tidegate_engine::batching::{Executor, Prediction, Work};
use tidegate_engine::serving_map::{Change, Publish};
use tidegate_plane::plane::Plane;
use tidegate_plane::settings::Settings;

#[test]
fn whoever_waits_for_a_model_that_hangs_is_told_before_the_end() {
    let gate = Arc::new(Gate::default());
    let running = Running::with(&Model::gated(&gate));
    running.plane.apply(vec![publish("other", 1, &Model::half_plus_two(), scalar_signature())]).unwrap();
    let (mut rest, mut grpc, mut other) = (running.rest(), running.grpc(), running.rest());
    rest.send_predict(r#"{"instances":[1]}"#);
    gate.wait_for(1);
    let call = grpc.start(PREDICT, &[], frame(&predict_x(&[2.0])));
    eventually("the second is queued", || running.m1("tidegate_queued_rows") == 1.0);
    assert_eq!(other.post("/v1/models/other:predict", r#"{"instances":[1]}"#).status, 200, "other models go on");
    let calls = running.plane.running_calls();
    assert_eq!((calls.len(), &*calls[0].model, calls[0].version, calls[0].call.rows), (1, "m", 1, 1));
    assert!(!running.plane.drain(Duration::from_millis(100)), "the model still runs");
    let refused = rest.receive();
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert!(refused.body.contains("model 'm' version 1"), "{}", refused.body);
    let refused = grpc.finish(call);
    assert_eq!((refused.code, refused.message.contains("model 'm' version 1")), (14, true), "{}", refused.message);
    assert!(!running.plane.stop_within(Duration::from_millis(100)), "the model still runs");
    gate.open();
    assert!(running.plane.stop_within(LONG), "it has returned");
}

#[test]
fn a_call_that_hangs_is_told_of_although_its_client_has_gone() {
    let gate = Arc::new(Gate::default());
    let running = Running::with(&Model::gated(&gate));
    let mut client = running.rest();
    client.send_predict(r#"{"instances":[1]}"#);
    gate.wait_for(1);
    SockRef::from(&client.stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    eventually("nobody is connected", || running.sample("tidegate_connections{endpoint=\"rest\"}") == 0.0);
    assert!(!running.plane.drain(Duration::from_millis(100)), "the model still runs");
    assert_eq!(running.plane.running_calls().len(), 1);
    let plane = running.plane.clone();
    let draining = std::thread::spawn(move || plane.drain(LONG));
    gate.open();
    assert!(draining.join().unwrap(), "it has returned");
}

#[test]
fn a_log_that_hangs_keeps_no_drain() {
    let running = Running::with(&Model::half_plus_two());
    let gate = Arc::new(Gate::default());
    *running.hooks.log_gate.lock().unwrap() = Some(gate.clone());
    running.plane.apply(vec![Change::SetLog { model: "m".to_owned(), rate: 1.0 }]).unwrap();
    assert_eq!(running.rest().predict(r#"{"instances":[1]}"#).status, 200);
    gate.wait_for(1);
    assert!(!running.plane.drain(Duration::from_millis(100)), "the log still writes");
    gate.open();
}

/// The test that runs in a process of its own, which may open few files.
const FEW_FILES: &str = "TIDEGATE_TEST_FEW_FILES";

#[test]
fn a_start_without_file_descriptors_is_an_error_and_leaves_no_thread() {
    if std::env::var_os(FEW_FILES).is_some() {
        return start_with_few_files();
    }
    let name = "ending::a_start_without_file_descriptors_is_an_error_and_leaves_no_thread";
    let command = format!("ulimit -n 64; exec {} --exact {name}", std::env::current_exe().unwrap().display());
    let ran = Command::new("sh").args(["-c", &command]).env(FEW_FILES, "1").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

fn start_with_few_files() {
    let before = threads();
    let settings = Settings { io_threads: 2, ..settings() };
    let mut failures = 0;
    for free in 0..24 {
        let mut files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        files.truncate(files.len() - free);
        let started = Plane::start(&settings, Arc::new(Recorder::default()), Arc::new(Process::default()));
        drop(files);
        match started {
            Err(_) => failures += 1,
            Ok(plane) => {
                let mut client = rest::Client::connect(plane.rest_address().unwrap());
                assert_eq!(client.get("/v2/health/live").status, 200, "{free} free files: a port that never answers");
                assert!(TcpStream::connect(plane.grpc_address().unwrap()).is_ok());
                plane.stop();
            }
        }
        eventually("no thread is left", || threads() == before);
    }
    assert!(failures > 8, "only {failures} starts failed");
}

/// Its first executor thread ends by a panic of the server's own, outside of the model's call.
struct Fails {
    model: Arc<Model>,
    failed: std::sync::atomic::AtomicBool,
}

impl Executor for Fails {
    fn execute(&self, work: Work) -> Result<Prediction, Status> {
        self.model.execute(work)
    }

    fn entries(&self) -> u64 {
        self.model.entries()
    }

    fn host(&self, thread: &mut (dyn FnMut() + Send)) {
        assert!(self.failed.swap(true, Ordering::Relaxed), "the first thread fails");
        thread();
    }
}

#[test]
fn a_thread_that_panics_is_not_counted_and_its_work_is_done() {
    let running = Running::start(&settings());
    let executor = Arc::new(Fails { model: Model::half_plus_two(), failed: false.into() });
    let publish = Publish {
        model: "m".to_owned(),
        version: 1,
        signatures: vec![scalar_signature()],
        batching: batching(),
        executor,
        description: None,
    };
    running.plane.apply(vec![Change::Publish(publish)]).unwrap();
    for _ in 0..2 {
        assert_eq!(running.rest().predict(r#"{"instances":[1]}"#).body, r#"{"predictions":[2.5]}"#);
    }
    running.plane.apply(vec![Change::Retire { model: "m".to_owned(), version: 1 }]).unwrap();
    eventually("it is released", || running.hooks.released.lock().unwrap().len() == 1);
}
