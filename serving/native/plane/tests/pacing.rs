//! A queue takes what its model can answer in time, also right after the model was loaded; a quick one is never refused by
//! mistake, whatever its first run or some runs take.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support;
use crate::support::messages::{float_values, outputs, predict_x};
use crate::support::{
    Gate, LONG, Model, Running, answer, eventually, grpc, half_plus_two, publish_with, scalar_signature, settings,
};
use tidegate_codec::status::Code;
use tidegate_engine::batching::Batching;
use tidegate_engine::serving_map::Change;

const EXHAUSTED: i32 = Code::ResourceExhausted as i32;
const EACH: usize = 50;
const LATE: i32 = Code::DeadlineExceeded as i32;

/// A model whose n-th run of some rows takes so long.
fn timed(time: impl Fn(usize, usize) -> Duration + Send + Sync + 'static) -> Arc<Model> {
    let runs = AtomicUsize::new(0);
    Model::new(move |work| {
        std::thread::sleep(time(runs.fetch_add(1, Ordering::Relaxed), work.rows));
        Ok(answer(half_plus_two(work)))
    })
}

fn served(model: &Arc<Model>, concurrency: usize) -> Running {
    let running = Running::start(&settings());
    let (max_batch_rows, max_queued_rows) = (1024, 16_384);
    let batching = Batching { max_batch_rows, max_queued_rows, concurrency, ..support::batching() };
    running.plane.apply(vec![publish_with("m", 1, model, scalar_signature(), batching)]).unwrap();
    running
}

/// Asks so often at once, with this deadline: how many were answered, refused and late.
fn burst(running: &Running, count: usize, timeout: &str) -> [usize; 3] {
    finish(ask(running, count, timeout))
}

/// Over several connections, as an HTTP/2 client takes few small answers unread.
fn ask(running: &Running, count: usize, timeout: &str) -> Vec<(grpc::Client, Vec<grpc::Call>)> {
    let over_one = |_| {
        let mut client = running.grpc();
        let start =
            |value| client.start(grpc::PREDICT, &[("grpc-timeout", timeout)], grpc::frame(&predict_x(&[value as f32])));
        let calls = (0..EACH).map(start).collect();
        (client, calls)
    };
    (0..count / EACH).map(over_one).collect()
}

fn finish(asked: Vec<(grpc::Client, Vec<grpc::Call>)>) -> [usize; 3] {
    let mut counts = [0; 3];
    let all = asked.into_iter().flat_map(|(client, calls)| {
        calls.into_iter().enumerate().map(move |(value, call)| (value, client.finish(call))).collect::<Vec<_>>()
    });
    for (value, found) in all {
        match found.code {
            0 => assert_eq!(float_values(&outputs(&found.body)[0].1), [value as f32 * 0.5 + 2.0]),
            EXHAUSTED => assert!(found.message.contains("rows wait, which takes about"), "{}", found.message),
            other => assert_eq!(other, LATE, "{}", found.message),
        }
        counts[[0, EXHAUSTED, LATE].iter().position(|code| *code == found.code).unwrap()] += 1;
    }
    counts
}

fn millis(count: usize) -> Duration {
    Duration::from_millis(count as u64)
}

/// Time that the machine keeps threads waiting for which they did not ask: where it does not, bounds are strict, and
/// where it is busy with something else, they are as much wider as that took.
struct Stolen {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Stolen {
    fn watch() -> Stolen {
        let stop = Arc::<AtomicBool>::default();
        let ended = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut stolen = Duration::ZERO;
            while !ended.load(Ordering::Relaxed) {
                let began = Instant::now();
                std::thread::sleep(millis(1));
                stolen += began.elapsed().saturating_sub(millis(2));
            }
            stolen
        });
        Stolen { stop, thread }
    }

    /// How much it was so far.
    fn end(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

#[test]
fn a_first_burst_is_answered_as_far_as_it_can_be_and_the_rest_is_refused_soon() {
    for concurrency in [1, 4] {
        let gate = Arc::new(Gate::default());
        let at = gate.clone();
        let model = timed(move |run, rows| {
            if run == 0 {
                at.pass();
            }
            millis(10 * concurrency * rows)
        });
        let running = served(&model, concurrency);
        // Of one row and slow: it tells nothing, and the three after it that do are of few rows at first.
        let mut first = running.grpc();
        let alone = first.start(grpc::PREDICT, &[], grpc::frame(&predict_x(&[1.0])));
        gate.wait_for(1);
        let stolen = Stolen::watch();
        let calls = ask(&running, 600, "3S");
        let (over, began) = (AtomicBool::new(false), Instant::now());
        let refusals = || running.m1("tidegate_queue_rejections_total");
        gate.open();
        let (soon, [answered, refused, late]) = std::thread::scope(|scope| {
            let watching = scope.spawn(|| {
                while refusals() < 50.0 && !over.load(Ordering::Relaxed) && began.elapsed() < LONG {
                    std::thread::sleep(millis(1));
                }
                (refusals() >= 50.0).then(|| began.elapsed())
            });
            assert_eq!(first.finish(alone).code, 0);
            let counts = finish(calls);
            over.store(true, Ordering::Relaxed);
            (watching.join().unwrap(), counts)
        });
        let stolen = stolen.end();
        // Rows that could have run meanwhile; where they are most of all, nobody may be left to be refused.
        let lost = (stolen.as_millis() / 10) as usize;
        let in_time = soon.is_some_and(|soon| soon < millis(2500) + stolen);
        assert!(in_time || lost >= 300, "most of the rest is refused after {soon:?}, {stolen:?} of it stolen");
        assert!(answered + lost >= 150 && late <= 30 + lost, "{answered} answered, {refused} refused, {late} late");
        eventually("refusals are counted", || refusals() == refused as f64);
        eventually("nobody waits", || running.m1("tidegate_queued_rows") == 0.0);
    }
}

#[test]
fn a_model_whose_first_run_alone_is_slow_answers_all() {
    let running = served(&timed(|run, _| millis(if run == 0 { 500 } else { 0 })), 1);
    for timeout in ["5S", "1S"] {
        assert_eq!(burst(&running, 600, timeout)[1], 0);
    }
}

#[test]
fn a_model_that_is_slow_now_and_then_answers_all() {
    let running = served(&timed(|run, _| millis(if run % 4 == 3 { 150 } else { 1 })), 1);
    for _ in 0..8 {
        assert_eq!(burst(&running, 300, "2S")[1], 0);
    }
}

#[test]
fn a_model_whose_runs_take_long_whatever_their_rows_answers_all() {
    let running = served(&timed(|_, _| millis(120)), 1);
    for _ in 0..3 {
        assert_eq!(burst(&running, 600, "10S")[1], 0);
    }
}

#[test]
fn what_was_put_back_can_still_be_given_up() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    // One batch of all, so that one request of it runs and the others are put back.
    let running = Running::start(&settings());
    let batching = Batching { max_batch_rows: 100, timeout_us: 60_000_000, ..support::batching() };
    running.plane.apply(vec![publish_with("m", 1, &model, scalar_signature(), batching)]).unwrap();
    let calls = ask(&running, 100, "4S");
    gate.wait_for(1);
    eventually("the others wait", || running.m1("tidegate_queued_rows") == 99.0);
    assert_eq!(finish(calls), [0, 0, 100]);
    eventually("none waits", || running.m1("tidegate_queued_rows") == 0.0);
    eventually("its memory is back", || running.sample("tidegate_request_memory_bytes") < 100.0);
    gate.open();
    running.plane.apply(vec![Change::SetBatching { model: "m".to_owned(), batching: support::batching() }]).unwrap();
    assert_eq!(running.grpc().predict(&predict_x(&[1.0])).code, 0);
}
