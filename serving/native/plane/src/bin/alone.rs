//! Measures the engine without protocols and sockets: requests are looked up, join batches, are run by a model that gives
//! back what it gets, and are answered and counted. Prints requests per second, round by round, as JSON.
//!
//! `--lanes 4 --models 1 --rounds 5 --round-ms 1000`: a lane is a thread that asks, as an I/O thread does, with up to
//! `--waiting` requests under way. All of it runs on the processors that the process may use.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_codec::dtype::DType;
use tidegate_codec::model_spec::{ModelSpec, VersionChoice};
use tidegate_codec::signatures::{RequestRows, Signature, TensorSpec};
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::{Column, Page, Tensor};
use tidegate_engine::batching::{Batching, Completions, Executor, FinishedBatch, Prediction, Queue, Work};
use tidegate_engine::engine::Engine;
use tidegate_engine::limits::Limits;
use tidegate_engine::log::LogLimits;
use tidegate_engine::metrics::{Call, Endpoint};
use tidegate_engine::request::{Dispatcher, Payload, Reply, RequestContext, Rows, Tags};
use tidegate_engine::request_id::RequestId;
use tidegate_engine::serving_map::{Change, KeyValue, Publish, Version, Wiring};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PATIENCE: Duration = Duration::from_secs(60);

/// What a lane's requests came to. Two lanes share no cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Lane {
    right: AtomicU64,
    wrong: AtomicU64,
}

/// Checks its answer and counts it.
struct Counted {
    lane: Arc<Lane>,
    sent: f32,
}

impl Reply for Counted {
    fn endpoint(&self) -> Endpoint {
        Endpoint::Embedded
    }

    fn is_gone(&mut self, _: bool) -> bool {
        false
    }

    fn succeed(self, rows: &Rows<'_>, _: Tags<'_>) -> Code {
        let Column::Raw(words) = &rows.outputs[0].column else { unreachable!("the output is of floats") };
        let at = rows.first * size_of::<f32>();
        let right = words.as_bytes()[at..at + size_of::<f32>()] == self.sent.to_le_bytes();
        let counter = if right { &self.lane.right } else { &self.lane.wrong };
        counter.fetch_add(1, Ordering::Relaxed);
        Code::Ok
    }

    fn fail(self, _: &Status, _: Tags<'_>) {
        self.lane.wrong.fetch_add(1, Ordering::Relaxed);
    }
}

/// One row of one float.
struct OneFloat(f32);

impl Payload for OneFloat {
    type Reply = Counted;

    fn call(&self) -> Call {
        Call::Predict
    }

    fn queue<'v>(&self, spec: &ModelSpec<'_>, version: &'v Version) -> Result<&'v Arc<Queue>, Status> {
        version.queue(spec.signature()).ok_or_else(|| Status::internal("the version has no such signature"))
    }

    fn select(&self, _: &Signature, _: &mut Counted) -> Result<(), Status> {
        Ok(())
    }

    fn read_inputs(&self, _: &Signature, page: &mut Page<'_>, _: usize) -> Result<RequestRows, Status> {
        page.room.take(size_of::<f32>())?;
        let Column::Raw(words) = &mut *page.columns[0] else { unreachable!("the input is of floats") };
        words.push(&self.0.to_le_bytes());
        Ok(RequestRows { rows: 1, flat: false, unbatched: false })
    }
}

/// The null model.
struct Same;

impl Executor for Same {
    fn execute(&self, work: Work) -> Result<Prediction, Status> {
        let same = Tensor { column: Column::clone(&work.columns[0]), shape: vec![work.rows] };
        Ok(Prediction { outputs: vec![Some(same)], errors: Vec::new() })
    }

    fn entries(&self) -> u64 {
        0
    }
}

/// Answers finished batches on the executor threads that ran them.
struct AnswerAtOnce(Weak<Dispatcher<Counted>>);

impl Completions for AnswerAtOnce {
    fn complete(&self, finished: FinishedBatch) {
        if let Some(dispatcher) = self.0.upgrade() {
            dispatcher.answer_batch(finished);
        }
    }
}

fn publish(model: usize, concurrency: usize) -> Result<Change, String> {
    let spec = |name: &str| vec![TensorSpec::new(name, DType::Float32, [-1])];
    let (name, method) = ("serving_default".to_owned(), "tensorflow/serving/predict".to_owned());
    Ok(Change::Publish(Publish {
        model: format!("model-{model}"),
        version: 1,
        signatures: vec![Signature::new(name, method, spec("x"), spec("y"))?],
        batching: Batching {
            max_batch_rows: 64,
            timeout_us: 0,
            max_queued_rows: 16384,
            waits_when_full: false,
            concurrency,
            allowed_batch_sizes: Arc::new([]),
            pad_variable_length_inputs: false,
            priority_levels: 0,
            default_priority_level: 0,
        },
        executor: Arc::new(Same),
        description: None,
    }))
}

/// One lane's work: asks as long as fewer than `waiting` of its requests are under way, until all is over.
fn ask(dispatcher: &Dispatcher<Counted>, lane: &Arc<Lane>, model: &str, waiting: u64, over: &AtomicBool) {
    let spec = ModelSpec { name: model, choice: VersionChoice::Any, signature_name: "" };
    let engine = dispatcher.engine.clone();
    let mut asked = 0;
    while !over.load(Ordering::Relaxed) {
        let answered = lane.right.load(Ordering::Relaxed) + lane.wrong.load(Ordering::Relaxed);
        for _ in asked - answered..waiting {
            let sent = f32::from(asked as u16);
            let received = Instant::now();
            let context = RequestContext {
                reply: Counted { lane: lane.clone(), sent },
                id: RequestId::from_text(None, &engine.ids),
                trace: None,
                received,
                deadline: received + PATIENCE,
                bytes: size_of::<f32>(),
            };
            dispatcher.dispatch_in(&engine.map.load(), context, &spec, KeyValue::Is(None), &OneFloat(sent));
            asked += 1;
        }
        thread::yield_now();
    }
}

fn argument(name: &str, default: u64) -> u64 {
    let arguments: Vec<String> = std::env::args().collect();
    let found = arguments.windows(2).find(|pair| pair[0] == name);
    found.and_then(|pair| pair[1].parse().ok()).unwrap_or(default)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (count, models) = (argument("--lanes", 1) as usize, argument("--models", 1) as usize);
    let (rounds, round) = (argument("--rounds", 5), Duration::from_millis(argument("--round-ms", 1000)));
    let waiting = argument("--waiting", 256);
    let limits = Limits::new(1 << 20, 1, PATIENCE, PATIENCE, 1 << 30);
    let log = LogLimits { block_rows: 1, interval: PATIENCE, buffer_bytes: 0 };
    let engine = Arc::new(Engine::new(limits, &log));
    let dispatchers: Vec<_> = (0..count).map(|lane| Arc::new(Dispatcher::without_io(lane, engine.clone()))).collect();
    let answering = dispatchers.iter().map(|one| Arc::new(AnswerAtOnce(Arc::downgrade(one))) as Arc<dyn Completions>);
    let wiring = Wiring {
        completions: answering.collect(),
        metrics: engine.metrics.clone(),
        memory: engine.limits.memory.clone(),
        released: channel().0,
    };
    let changes = (0..models).map(|model| publish(model, count.div_ceil(models))).collect::<Result<_, _>>()?;
    engine.map.store(Arc::new(engine.map.load().after(changes, &wiring)?));
    let lanes: Vec<Arc<Lane>> = (0..count).map(|_| Arc::default()).collect();
    let answered = || lanes.iter().map(|lane| lane.right.load(Ordering::Relaxed)).sum::<u64>();
    let over = AtomicBool::new(false);
    let mut rates = Vec::new();
    thread::scope(|scope| {
        for ((at, dispatcher), lane) in dispatchers.iter().enumerate().zip(&lanes) {
            let (over, model) = (&over, format!("model-{}", at % models));
            scope.spawn(move || ask(dispatcher, lane, &model, waiting, over));
        }
        thread::sleep(round); // threads start and memory is made
        for _ in 0..rounds {
            let (before, began) = (answered(), Instant::now());
            thread::sleep(round);
            rates.push((answered() - before) as f64 / began.elapsed().as_secs_f64());
        }
        over.store(true, Ordering::Relaxed);
    });
    let wrong: u64 = lanes.iter().map(|lane| lane.wrong.load(Ordering::Relaxed)).sum();
    println!("{{\"lanes\": {count}, \"models\": {models}, \"wrong\": {wrong}, \"rates\": {rates:?}}}");
    Ok(())
}
