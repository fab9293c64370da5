//! While large answers are to be written, what gives back little runs, and what gives back more waits.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::{Fixture, fixture, fixture_for, limits};
use tidegate_codec::signatures::Signature;
use tidegate_codec::status::Status;
use tidegate_codec::tensors::Tensor;
use tidegate_engine::batching::{
    Batching, Completions, Executor, ExecutorThread, FinishedBatch, Outputs, Prediction, Work,
};

const MB: usize = 1 << 20;
const SOON: Duration = Duration::from_secs(10);

/// Rows whose answers are not small.
const MANY: usize = 10_000;

/// Gives back what came.
struct Same;

impl Executor for Same {
    fn execute(&self, mut work: Work) -> Result<Prediction, Status> {
        let column = std::mem::replace(&mut *work.columns[0], tidegate_codec::tensors::Column::Raw(Default::default()));
        Ok(Prediction { outputs: vec![Some(Tensor { column, shape: vec![work.rows] })], errors: Vec::new() })
    }

    fn entries(&self) -> u64 {
        0
    }
}

/// Gives back nothing.
struct Fails;

impl Executor for Fails {
    fn execute(&self, _: Work) -> Result<Prediction, Status> {
        Err(Status::invalid("it fails"))
    }

    fn entries(&self) -> u64 {
        0
    }
}

/// Hands finished batches to the test.
struct Hand(Mutex<Sender<FinishedBatch>>);

impl Completions for Hand {
    fn complete(&self, finished: FinishedBatch) {
        self.0.lock().unwrap().send(finished).unwrap();
    }
}

/// An executor thread on the fixture's queue, and what it finished.
fn thread(fixture: &Fixture) -> (ExecutorThread, Receiver<FinishedBatch>) {
    let (sender, finished) = channel();
    let hand: Arc<dyn Completions> = Arc::new(Hand(Mutex::new(sender)));
    let (pool, queues) = (fixture.queue.executors.clone(), Arc::new([fixture.queue.clone()]));
    pool.resize(1);
    (ExecutorThread { pool, queues, executor: Arc::new(Same), completions: Arc::new([hand]) }, finished)
}

fn much(fixture: &Fixture) -> Outputs {
    let mut outputs = fixture.queue.served.unanswered.expect(1, 1).unwrap();
    outputs.settle(20 * MB);
    outputs
}

fn slots(finished: &FinishedBatch) -> Vec<u64> {
    finished.entries.iter().filter_map(|entry| entry.slot).collect()
}

#[test]
fn a_small_batch_passes_a_large_one_that_waits_for_answers_to_be_written() {
    let fixture = fixture(MANY, 4 * MANY);
    let (thread, finished) = thread(&fixture);
    let pool = thread.pool.clone();
    let written = much(&fixture);
    fixture.append(1, MANY, 4 * MANY).unwrap();
    let running = std::thread::spawn(|| thread.run());
    fixture.append(2, MANY, 4 * MANY).unwrap();
    for slot in 3..6 {
        fixture.append(slot, 1, 4).unwrap();
        fixture.queue.release_open(0);
        pool.wake();
        assert_eq!(slots(&finished.recv_timeout(SOON).unwrap()), [slot]);
    }
    assert!(finished.try_recv().is_err(), "more is given back than is written");
    drop(written);
    let both = [finished.recv_timeout(SOON).unwrap(), finished.recv_timeout(SOON).unwrap()];
    assert_eq!(both.map(|batch| slots(&batch)).concat(), [1, 2]);
    pool.close();
    running.join().unwrap();
}

#[test]
fn a_thread_that_is_to_end_waits_for_answers_to_be_written() {
    let fixture = fixture(MANY, 4 * MANY);
    let (thread, finished) = thread(&fixture);
    let written = much(&fixture);
    fixture.append(1, MANY, 4 * MANY).unwrap();
    thread.pool.close();
    let running = std::thread::spawn(|| thread.run());
    assert!(finished.recv_timeout(Duration::from_millis(50)).is_err(), "it did not wait");
    drop(written);
    assert_eq!(slots(&finished.recv_timeout(SOON).unwrap()), [1]);
    running.join().unwrap();
}

#[test]
fn a_stream_has_no_turn_between_the_parts_of_another_request() {
    let light = |streaming| {
        let signature = Signature { streaming, ..Signature::clone(fixture(4, 4).queue.signature()) };
        let fixture = fixture_for(signature, &limits(4, 4));
        fixture.append(1, 1, 4).unwrap();
        fixture.queue.release_open(0);
        fixture.queue.take_light(Instant::now()).is_some()
    };
    assert_eq!([light(false), light(true)], [true, false]);
}

#[test]
fn a_small_batch_that_waits_for_company_passes_once_its_time_has_come() {
    let signature = Signature::clone(fixture(4, 4).queue.signature());
    let fixture = fixture_for(signature, &Batching { timeout_us: 50_000, ..limits(4, 4) });
    let (thread, finished) = thread(&fixture);
    let pool = thread.pool.clone();
    let written = much(&fixture);
    fixture.append(1, 1, 4).unwrap();
    let running = std::thread::spawn(|| thread.run());
    assert_eq!(slots(&finished.recv_timeout(SOON).unwrap()), [1], "nobody wakes its thread");
    drop(written);
    pool.close();
    running.join().unwrap();
}

#[test]
fn a_run_with_large_inputs_leaves_memory_of_the_models_to_be_given_back() {
    let fixture = fixture(MANY, MB);
    let (thread, finished) = thread(&fixture);
    let thread = ExecutorThread { executor: Arc::new(Fails), ..thread };
    thread.pool.close();
    let run = |rows| {
        fixture.append(1, rows, 4 * rows).unwrap();
        fixture.queue.release_open(0);
        thread.clone().run();
        drop(finished.recv_timeout(SOON).unwrap());
        fixture.memory.large_arrays()
    };
    assert_eq!([run(1), run(MB / 4 + 1)], [0, 1]);
}
