//! Several I/O threads and several executors: who takes what of whom, and that nothing stays.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Fixture, fill, fixture, fixture_with_lanes, limits};
use tidegate_codec::signatures::Signature;
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Column, Tensor};
use tidegate_engine::batching::queue::NextBatch;
use tidegate_engine::batching::search::Where;
use tidegate_engine::batching::{
    Batching, Completions, Entry, Executor, ExecutorThread, FinishedBatch, Prediction, Work,
};

const SOON: Duration = Duration::from_secs(20);

/// The value of a row whose run goes on until it is told to end.
const LONG: u64 = 999;

fn lanes(count: usize) -> Fixture {
    fixture_with_lanes(Signature::clone(fixture(4, 4).queue.signature()), &limits(64, 4096), count)
}

/// Gives back what came, a batch that begins with LONG once it may; it tells when that has begun.
struct Same {
    begun: Mutex<Sender<()>>,
    may_end: Mutex<Receiver<()>>,
}

impl Executor for Same {
    fn execute(&self, work: Work) -> Result<Prediction, Status> {
        let column = Column::clone(&work.columns[0]);
        let Column::Raw(words) = &column else { panic!("not floats") };
        if words.as_bytes()[..4] == (LONG as f32).to_le_bytes() {
            self.begun.lock().unwrap().send(()).unwrap();
            self.may_end.lock().unwrap().recv_timeout(3 * SOON).unwrap();
        }
        Ok(Prediction { outputs: vec![Some(Tensor { column, shape: vec![work.rows] })], errors: Vec::new() })
    }

    fn entries(&self) -> u64 {
        0
    }
}

/// Tells the slots that were answered, where somebody wants to know.
struct Told(Option<Mutex<Sender<u64>>>);

impl Completions for Told {
    fn complete(&self, finished: FinishedBatch) {
        let Some(sender) = &self.0 else { return };
        let sender = sender.lock().unwrap();
        finished.entries.iter().filter_map(|entry| entry.slot).for_each(|slot| sender.send(slot).unwrap());
    }
}

/// Says that it is over when it is dropped, so that who waits for that ends with a test that fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn an_executor_that_keeps_to_a_lane_takes_of_it_first_or_nothing_else() {
    let fixture = lanes(3);
    let take = |place| match fixture.queue.take_from(place, None, Instant::now()) {
        NextBatch::Batch(batch) => Some(batch.lane),
        _ => None,
    };
    (0..3).for_each(|lane| drop(fixture.append_to(lane, 1, 1, 4).unwrap()));
    (0..3).for_each(|lane| fixture.queue.release_open(lane));
    assert_eq!([Where::Only(2), Where::Only(2)].map(take), [Some(2), None]);
    assert_eq!([Where::First(1), Where::First(1), Where::First(1)].map(take), [Some(1), Some(0), None]);
}

#[test]
fn what_came_to_another_lane_before_a_turn_is_taken_first_and_nothing_of_a_lower_tier_before_what_is_of_a_higher_one() {
    let fixture = lanes(3);
    let before = Instant::now();
    let ask = |lane, level, received| {
        let entry = Entry { level, received, ..fixture.entry(1) };
        fixture.queue.append(&Arc::new(()), lane, entry, 4, &|page| fill(page, 1.0, 1)).unwrap();
        fixture.queue.release_open(lane);
    };
    ask(0, 0, before + SOON);
    ask(0, 1, before);
    ask(1, 0, before + SOON);
    ask(2, 0, before);
    ask(2, 1, before);
    let place = Where::Only(1);
    let taken = std::array::from_fn(|_| match fixture.queue.take_from(place, Some(before), before + SOON) {
        NextBatch::Batch(batch) => Some((batch.lane, batch.entries[0].level)),
        _ => None,
    });
    assert_eq!(taken, [Some((2, 0)), Some((1, 0)), Some((0, 0)), Some((2, 1)), Some((0, 1)), None]);
}

#[test]
fn what_goes_by_its_time_out_is_left_to_the_executor_of_its_lane_until_it_has_been_due_for_a_turn() {
    let fixture = lanes(2);
    fixture.queue.tune(&Batching { timeout_us: 1000, ..limits(64, 4096) });
    let (came, timeout, turn) = (Instant::now(), Duration::from_micros(1000), Duration::from_millis(1));
    let ask = |lane| {
        let entry = Entry { received: came, ..fixture.entry(1) };
        fixture.queue.append(&Arc::new(()), lane, entry, 4, &|page| fill(page, 1.0, 1)).unwrap();
    };
    let take = |now| match fixture.queue.take_from(Where::First(1), Some(now - turn), now) {
        NextBatch::Batch(batch) => Some(batch.lane),
        _ => None,
    };
    (0..2).for_each(ask);
    assert_eq!(take(came + timeout + turn / 2), Some(1));
    ask(1);
    assert_eq!([take(came + timeout + turn), take(came + timeout + turn)], [Some(0), Some(1)]);
}

#[test]
fn an_executor_that_keeps_to_a_lane_takes_nothing_of_a_lower_tier_before_what_is_of_a_higher_one() {
    let fixture = lanes(2);
    let take = |place| match fixture.queue.take_from(place, None, Instant::now()) {
        NextBatch::Batch(batch) => Some((batch.lane, batch.entries[0].level)),
        _ => None,
    };
    let ask = |lane, level| {
        let entry = Entry { level, ..fixture.entry(1) };
        fixture.queue.append(&Arc::new(()), lane, entry, 4, &|page| fill(page, 1.0, 1)).unwrap();
        fixture.queue.release_open(lane);
    };
    ask(0, 1);
    ask(1, 0);
    assert_eq!([Where::Only(0), Where::Only(0), Where::Only(0)].map(take), [Some((1, 0)), Some((0, 1)), None]);
    ask(1, 0);
    assert_eq!(take(Where::Only(0)), None, "nothing of a lower tier waits");
}

#[test]
fn who_waits_behind_a_long_run_is_served_by_an_executor_that_keeps_to_a_busy_lane() {
    let fixture = Arc::new(lanes(3));
    let (queue, pool) = (fixture.queue.clone(), fixture.queue.executors.clone());
    let (end, may_end) = channel();
    let (sender, begun) = channel();
    let executor = Arc::new(Same { begun: Mutex::new(sender), may_end: Mutex::new(may_end) });
    let (sender, told) = channel();
    let told_of = |lane| -> Arc<dyn Completions> { Arc::new(Told((lane == 1).then(|| Mutex::new(sender.clone())))) };
    let completions = (0..3).map(told_of).collect();
    let queues = Arc::new([queue.clone()]);
    let executors = ExecutorThread { pool: pool.clone(), queues, executor, completions };
    pool.resize(2);
    (0..2).for_each(|_| pool.wake());
    let running = [executors.clone(), executors].map(|executor| thread::spawn(|| executor.run()));
    let over = AtomicBool::new(false);
    let ask = |lane, slot| {
        fixture.append_to(lane, slot, 1, 4).unwrap();
        queue.release_open(lane);
        pool.wake();
    };
    thread::scope(|scope| {
        let _over = Over(&over);
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                match queue.queued_rows() {
                    0..1024 => ask(0, 1),
                    _ => thread::yield_now(),
                }
            }
        });
        ask(1, LONG);
        begun.recv_timeout(SOON).unwrap();
        let unanswered = (2..200).find(|slot| {
            ask(1, *slot);
            told.recv_timeout(SOON) != Ok(*slot)
        });
        assert_eq!(unanswered, None);
    });
    end.send(()).unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(LONG));
    pool.close();
    running.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(queue.queued_rows(), 0);
}
