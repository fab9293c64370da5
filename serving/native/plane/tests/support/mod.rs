//! A running plane with a model made of a closure, and clients that speak to it over real sockets.
//! The test files beside this folder start it, send requests and look at what the model, the hooks and they themselves saw.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "a test fails by panicking")]

#[path = "../../../codec/tests/support/mod.rs"]
mod codec;
pub mod examples;
pub mod grpc;
pub mod infer;
pub mod inference;
pub mod process;
pub mod rest;

#[allow(unused_imports, reason = "each test file uses a part")]
pub use codec::random::Random;
#[allow(unused_imports, reason = "each test file uses a part")]
pub use codec::{floats, messages, signature, spec};

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use tidegate_codec::dtype::DType;
use tidegate_codec::protobuf::tensor::Numbers;
use tidegate_codec::signatures::Signature;
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Column, Tensor, Words};
use tidegate_engine::batching::{Batching, Executor, Prediction, Work};
use tidegate_engine::log::{LogBlock, LogSink};
use tidegate_engine::serving_map::{Change, Publish};
use tidegate_engine::telemetry::{Ended, TelemetryOptions, TraceSink};
use tidegate_plane::hooks::Hooks;
use tidegate_plane::plane::Plane;
use tidegate_plane::settings::{Patience, Security, Settings};
use tidegate_plane::system::System;

use self::process::Process;

/// What is waited for takes milliseconds; a machine that is busy with something else may need much longer.
pub const LONG: Duration = Duration::from_secs(60);

/// Says that something is over, also where it failed.
pub struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Waits until something holds; fails where that takes too long.
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < until, "not within {LONG:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What is measured is less than what is compared with it. One of so many tries must show it, for machines that are busy.
pub fn far_less(most: usize, mut measure: impl FnMut() -> (Duration, Duration)) {
    let mut tries = Vec::new();
    while tries.len() < most {
        let (less, than) = measure();
        if less < than {
            return;
        }
        tries.push((less, than));
    }
    panic!("not less in any of {tries:?}");
}

/// An endpoint that batches stand before until it is opened.
#[derive(Default)]
pub struct Gate {
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    pub fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        let (state, timeout) = self.changed.wait_timeout_while(state, LONG * 2, |state| !state.0).unwrap();
        assert!(!timeout.timed_out(), "the gate was never opened");
        drop(state);
    }

    pub fn open(&self) {
        self.state.lock().unwrap().0 = true;
        self.changed.notify_all();
    }

    pub fn wait_for(&self, batches: usize) {
        let state = self.state.lock().unwrap();
        let (state, timeout) = self.changed.wait_timeout_while(state, LONG, |state| state.1 < batches).unwrap();
        assert!(!timeout.timed_out(), "only {} of {batches} batches came to the gate", state.1);
    }
}

type Run = dyn Fn(&Work) -> Result<Prediction, Status> + Send + Sync;

/// A model made of a closure; it counts its entries and keeps the rows of each batch.
pub struct Model {
    run: Box<Run>,
    pub entries: AtomicU64,
    pub batches: Mutex<Vec<Vec<usize>>>,
}

impl Model {
    pub fn new(run: impl Fn(&Work) -> Result<Prediction, Status> + Send + Sync + 'static) -> Arc<Model> {
        Arc::new(Model { run: Box::new(run), entries: AtomicU64::new(0), batches: Mutex::default() })
    }

    /// y = 0.5 x + 2.
    pub fn half_plus_two() -> Arc<Model> {
        Model::new(|work| Ok(answer(half_plus_two(work))))
    }

    /// The same, but every batch waits at a gate.
    pub fn gated(gate: &Arc<Gate>) -> Arc<Model> {
        let gate = gate.clone();
        Model::new(move |work| {
            gate.pass();
            Ok(answer(half_plus_two(work)))
        })
    }

    /// Offsets of the batches that ran.
    pub fn seen(&self) -> Vec<Vec<usize>> {
        self.batches.lock().unwrap().clone()
    }
}

impl Executor for Model {
    fn execute(&self, work: Work) -> Result<Prediction, Status> {
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.batches.lock().unwrap().push(work.offsets.clone());
        (self.run)(&work)
    }

    fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }
}

/// Zeros or empty strings.
pub fn zeros(dtype: DType, rows: usize, inner: &[usize]) -> Tensor {
    let (mut column, extent) = (Column::new(dtype), rows * Column::row_extent(dtype, inner));
    match &mut column {
        Column::Raw(words) => words.push(&vec![0; extent]),
        Column::Strings(strings) => (0..extent).for_each(|_| strings.push(b"")),
    }
    Tensor { column, shape: [&[rows][..], inner].concat() }
}

pub fn column_of(values: &[f32]) -> Column {
    let mut words = Words::default();
    values.iter().for_each(|value| words.push(&value.to_le_bytes()));
    Column::Raw(words)
}

pub fn half_plus_two(work: &Work) -> Tensor {
    let values: Vec<f32> = floats(&work.columns[0]).iter().map(|value| value * 0.5 + 2.0).collect();
    let rows = (!work.unbatched).then_some(work.rows);
    let shape = rows.into_iter().chain(work.shapes[0].iter().copied()).collect();
    Tensor { column: column_of(&values), shape }
}

pub fn answer(output: Tensor) -> Prediction {
    Prediction { outputs: vec![Some(output)], errors: Vec::new() }
}

/// Hooks that keep what they are told.
#[derive(Default)]
pub struct Recorder {
    pub released: Mutex<Vec<(String, i64, Option<String>)>>,
    pub blocks: Mutex<Vec<LogBlock>>,
    pub refuse_blocks: std::sync::atomic::AtomicBool,
    pub log_gate: Mutex<Option<Arc<Gate>>>,
    pub control_gate: Mutex<Option<Arc<Gate>>>,
    pub traces: Mutex<Vec<Arc<Ended>>>,
    pub asked: Mutex<Vec<(String, Vec<u8>)>>,
    pub answers: Mutex<Vec<Result<Vec<u8>, Status>>>,
}

impl Hooks for Recorder {
    fn released(&self, model: &str, version: i64) {
        let thread = std::thread::current().name().map(str::to_owned);
        self.released.lock().unwrap().push((model.to_owned(), version, thread));
    }

    fn control(&self, method: &str, request: &[u8]) -> Result<Vec<u8>, Status> {
        let gate = self.control_gate.lock().unwrap().clone();
        if let Some(gate) = gate {
            gate.pass();
        }
        self.asked.lock().unwrap().push((method.to_owned(), request.to_vec()));
        self.answers.lock().unwrap().pop().unwrap_or_else(|| Err(Status::not_found("nothing is known of that")))
    }
}

impl TraceSink for Recorder {
    fn take_traces(&self, ended: &[Arc<Ended>]) -> bool {
        self.traces.lock().unwrap().extend_from_slice(ended);
        true
    }
}

impl LogSink for Recorder {
    fn take(&self, block: LogBlock) -> bool {
        let gate = self.log_gate.lock().unwrap().clone();
        if let Some(gate) = gate {
            gate.pass();
        }
        if self.refuse_blocks.load(Ordering::Relaxed) {
            return false;
        }
        self.blocks.lock().unwrap().push(block);
        true
    }
}

pub fn settings() -> Settings {
    Settings {
        grpc_address: Some("127.0.0.1:0".to_owned()),
        grpc_socket_path: None,
        rest_address: Some("127.0.0.1:0".to_owned()),
        metrics_path: None,
        starting: false,
        rest_cors: false,
        numbers: Numbers::InFields,
        shared_memory: true,
        security: Security::default(),
        telemetry: TelemetryOptions::default(),
        io_threads: 1,
        max_message_bytes: 1 << 20,
        request_memory_bytes: 1 << 30,
        max_connections: 256,
        patience: patience(),
        request_timeout: LONG * 2,
        event_keepalive: Duration::from_secs(15),
        log_block_rows: 1 << 14,
        log_block_interval: Duration::from_millis(20),
        log_buffer_bytes: 64 << 20,
    }
}

pub fn patience() -> Patience {
    Patience { header: LONG, idle: LONG * 2, keepalive: Duration::from_secs(5), write: LONG }
}

pub fn batching() -> Batching {
    Batching {
        max_batch_rows: 64,
        timeout_us: 0,
        max_queued_rows: 1024,
        waits_when_full: false,
        concurrency: 1,
        allowed_batch_sizes: Arc::new([]),
        pad_variable_length_inputs: false,
        priority_levels: 0,
        default_priority_level: 0,
    }
}

/// x -> y, floats, one per row.
pub fn scalar_signature() -> Signature {
    signature(vec![spec("x", DType::Float32, &[-1])], vec![spec("y", DType::Float32, &[-1])])
}

pub fn publish(model: &str, version: i64, executor: &Arc<Model>, signature: Signature) -> Change {
    publish_with(model, version, executor, signature, batching())
}

pub fn publish_with(
    model: &str,
    version: i64,
    executor: &Arc<Model>,
    signature: Signature,
    batching: Batching,
) -> Change {
    Change::Publish(Publish {
        model: model.to_owned(),
        version,
        signatures: vec![signature],
        batching,
        executor: executor.clone(),
        description: None,
    })
}

/// Why a plane cannot start.
pub fn refused(settings: &Settings) -> String {
    let started = Plane::start(settings, Arc::new(Recorder::default()), Arc::new(Process::default()));
    started.map(drop).unwrap_err().to_string()
}

struct Held(Arc<Gate>);

impl System for Held {
    fn step_back(&self) {
        self.0.pass();
    }
}

/// A plane with its hooks, and what it asked of the process.
pub struct Running {
    pub plane: Arc<Plane>,
    pub hooks: Arc<Recorder>,
    pub process: Arc<Process>,
}

impl Running {
    pub fn start(settings: &Settings) -> Running {
        let (hooks, process) = (Arc::new(Recorder::default()), Arc::new(Process::default()));
        let plane = Plane::start(settings, hooks.clone(), process.clone()).unwrap();
        Running { plane: Arc::new(plane), hooks, process }
    }

    /// Its threads beside the I/O threads begin once they are let through the gate.
    pub fn held(settings: &Settings, gate: &Arc<Gate>) -> Running {
        Running::within(settings, Held(gate.clone()))
    }

    /// In this process.
    pub fn within(settings: &Settings, system: impl System + 'static) -> Running {
        let hooks = Arc::<Recorder>::default();
        let plane = Plane::start(settings, hooks.clone(), Arc::new(system)).unwrap();
        Running { plane: Arc::new(plane), hooks, process: Arc::default() }
    }

    /// With version 1 of model `m` on the scalar signature.
    pub fn with(executor: &Arc<Model>) -> Running {
        let running = Running::start(&settings());
        running.plane.apply(vec![publish("m", 1, executor, scalar_signature())]).unwrap();
        running
    }

    pub fn rest(&self) -> rest::Client {
        rest::Client::connect(self.plane.rest_address().unwrap())
    }

    pub fn grpc(&self) -> grpc::Client {
        grpc::Client::connect(self.plane.grpc_address().unwrap())
    }

    /// The value of a sample; 0 if there is none.
    pub fn sample(&self, name: &str) -> f64 {
        self.plane.stats(None).iter().find(|(sample, _)| sample == name).map_or(0.0, |(_, value)| *value)
    }

    /// The value of a sample of model `m` version 1.
    pub fn m1(&self, name: &str) -> f64 {
        self.sample(&format!("{name}{{model=\"m\",version=\"1\"}}"))
    }

    pub fn log_rows(&self, outcome: &str, role: &str) -> f64 {
        self.sample(&format!("tidegate_log_{outcome}_rows_total{{role=\"{role}\"}}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.plane.stop();
    }
}
