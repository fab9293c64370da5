//! Measures taking and releasing a version's handle from many threads while versions come and go, beside `Arc` clones.
//! Prints `ready` with its process id, starts on a line from standard input, and prints operations per second as JSON.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_codec::dtype::DType;
use tidegate_codec::model_spec::VersionChoice;
use tidegate_codec::protobuf::tensor::Numbers;
use tidegate_codec::signatures::{Signature, TensorSpec};
use tidegate_codec::status::Status;
use tidegate_engine::batching::{Batching, Executor, Prediction, Work};
use tidegate_engine::log::{LogBlock, LogSink};
use tidegate_engine::serving_map::{Change, Publish, ServingMap};
use tidegate_engine::telemetry::{TelemetryOptions, TraceSink};
use tidegate_plane::hooks::Hooks;
use tidegate_plane::plane::Plane;
use tidegate_plane::settings::{Patience, Security, Settings};
use tidegate_plane::system::System;

/// Nobody connects.
const SOME: Duration = Duration::from_secs(1);

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MODELS: usize = 10;
const CHUNK: u64 = 256;

/// What is compared.
const ARMS: [&str; 4] = ["request", "handle", "arc_and_lookup", "arc"];

struct Nothing;

impl Executor for Nothing {
    fn execute(&self, _: Work) -> Result<Prediction, Status> {
        Ok(Prediction::default())
    }

    fn entries(&self) -> u64 {
        0
    }
}

impl Hooks for Nothing {
    fn released(&self, _: &str, _: i64) {}

    fn control(&self, _: &str, _: &[u8]) -> Result<Vec<u8>, Status> {
        Err(Status::internal("nothing is asked here"))
    }
}

impl System for Nothing {}

impl TraceSink for Nothing {}

impl LogSink for Nothing {
    fn take(&self, _: LogBlock) -> bool {
        true
    }
}

/// What the threads share.
struct Bench {
    plane: Plane,
    map: Arc<ServingMap>,
    names: Vec<String>,
    /// The arm that runs; none beyond the last.
    arm: AtomicUsize,
    counts: [AtomicU64; ARMS.len()],
    over: AtomicBool,
}

fn publish(model: usize, version: i64) -> Result<Change, String> {
    let spec = |name: &str| TensorSpec::new(name, DType::Float32, [-1]);
    let name = "serving_default".to_owned();
    let method = "tensorflow/serving/predict".to_owned();
    Ok(Change::Publish(Publish {
        model: format!("model-{model}"),
        version,
        signatures: vec![Signature::new(name, method, vec![spec("x")], vec![spec("y")])?],
        batching: Batching {
            max_batch_rows: 64,
            timeout_us: 0,
            max_queued_rows: 64,
            waits_when_full: false,
            concurrency: 1,
            allowed_batch_sizes: Arc::new([]),
            pad_variable_length_inputs: false,
            priority_levels: 0,
            default_priority_level: 0,
        },
        executor: Arc::new(Nothing),
        description: None,
    }))
}

impl Bench {
    fn new() -> Result<Bench, Box<dyn std::error::Error>> {
        let settings = Settings {
            grpc_address: None,
            grpc_socket_path: None,
            rest_address: None,
            metrics_path: None,
            starting: false,
            rest_cors: false,
            numbers: Numbers::InFields,
            shared_memory: false,
            security: Security::default(),
            telemetry: TelemetryOptions::default(),
            io_threads: 1,
            max_message_bytes: 1 << 20,
            request_memory_bytes: 1 << 30,
            max_connections: 1,
            patience: Patience { header: SOME, idle: SOME, keepalive: SOME, write: SOME },
            request_timeout: Duration::from_secs(1),
            event_keepalive: SOME,
            log_block_rows: 1,
            log_block_interval: Duration::from_secs(1),
            log_buffer_bytes: 0,
        };
        let plane = Plane::start(&settings, Arc::new(Nothing), Arc::new(Nothing))?;
        plane.apply((0..MODELS).map(|model| publish(model, 1)).collect::<Result<_, _>>()?)?;
        Ok(Bench {
            map: plane.map(),
            plane,
            names: (0..MODELS).map(|model| format!("model-{model}")).collect(),
            arm: AtomicUsize::new(usize::MAX),
            counts: Default::default(),
            over: AtomicBool::new(false),
        })
    }

    /// One thread's work: the current arm, until all is over.
    fn work(&self) {
        let mut at = 0;
        while !self.over.load(Ordering::Relaxed) {
            let arm = self.arm.load(Ordering::Relaxed);
            for _ in 0..CHUNK {
                at = if at + 1 == self.names.len() { 0 } else { at + 1 };
                let name = black_box(self.names[at].as_str());
                match arm {
                    0 => drop(black_box(self.plane.with_version(name, VersionChoice::Any, |version| version.number))),
                    1 => drop(black_box(self.plane.handle(name, VersionChoice::Any))),
                    2 => {
                        let map = black_box(self.map.clone());
                        drop(black_box(
                            map.resolve(name, VersionChoice::Any, None).map(|(_, version)| version.clone()),
                        ));
                    }
                    3 => drop(black_box(self.map.clone())),
                    _ => thread::yield_now(),
                }
            }
            if let Some(count) = self.counts.get(arm) {
                count.fetch_add(CHUNK, Ordering::Relaxed);
            }
        }
    }

    /// Publishes and retires versions all the time; returns how many maps that made.
    fn swap(&self, pause: Duration) -> Result<u64, String> {
        let (mut swaps, mut version) = (0, 1);
        while !self.over.load(Ordering::Relaxed) {
            for model in 0..MODELS {
                let retired = Change::Retire { model: format!("model-{model}"), version };
                self.plane.apply(vec![publish(model, version + 1)?])?;
                self.plane.apply(vec![retired])?;
                swaps += 2;
                thread::sleep(pause);
            }
            version += 1;
        }
        Ok(swaps)
    }
}

fn argument(name: &str, default: u64) -> u64 {
    let arguments: Vec<String> = std::env::args().collect();
    let found = arguments.windows(2).find(|pair| pair[0] == name);
    found.and_then(|pair| pair[1].parse().ok()).unwrap_or(default)
}

/// Runs every arm in turns; operations per second by arm and round.
fn measure(bench: &Bench, rounds: u64, round: Duration) -> [Vec<f64>; ARMS.len()] {
    let mut rates: [Vec<f64>; ARMS.len()] = Default::default();
    for number in 0..rounds {
        for step in 0..ARMS.len() {
            let arm = (number as usize + step) % ARMS.len();
            let before = bench.counts[arm].load(Ordering::Relaxed);
            bench.arm.store(arm, Ordering::Relaxed);
            let started = Instant::now();
            thread::sleep(round);
            let done = bench.counts[arm].load(Ordering::Relaxed) - before;
            rates[arm].push(done as f64 / started.elapsed().as_secs_f64());
        }
    }
    rates
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let threads = argument("--threads", 4) as usize;
    let (rounds, round) = (argument("--rounds", 20), Duration::from_millis(argument("--round-ms", 100)));
    let pause = Duration::from_micros(argument("--pause-us", 500));
    let (bench, start) = (Bench::new()?, Barrier::new(threads + 2));
    let mut rates = Default::default();
    let swaps = thread::scope(|scope| {
        for index in 0..threads {
            let body = || {
                start.wait();
                bench.work();
            };
            thread::Builder::new().name(format!("lookup-{index}")).spawn_scoped(scope, body)?;
        }
        let swapper = thread::Builder::new().name("swapper".to_owned()).spawn_scoped(scope, || {
            start.wait();
            bench.swap(pause)
        })?;
        println!("ready {}", std::process::id());
        std::io::stdin().read_line(&mut String::new())?;
        start.wait();
        rates = measure(&bench, rounds, round);
        bench.over.store(true, Ordering::Relaxed);
        swapper.join().map_err(|_| "the swapper panicked")?.map_err(Into::<Box<dyn std::error::Error>>::into)
    })?;
    let mut out = format!("{{\"threads\": {threads}, \"swaps\": {swaps}");
    for (name, rates) in ARMS.iter().zip(&rates) {
        write!(out, ", \"{name}\": {rates:?}")?;
    }
    println!("{out}}}");
    // The map holds versions, and the plane waits until nobody does.
    let Bench { plane, map, .. } = bench;
    drop(map);
    plane.stop();
    Ok(())
}
