//! One executor thread: takes a batch, drops requests that nobody waits for, runs it, and hands it on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_codec::status::{Code, Status};

use crate::batching::batch::{Batch, Entry};
use crate::batching::bisect::{self, Conduct};
use crate::batching::executor::Executor;
use crate::batching::executor_pool::{ExecutorPool, Instruction};
use crate::batching::finished::{CompletionsByLane, FinishedBatch, Part};
use crate::batching::kept::Kept;
use crate::batching::pacing::Unrun;
use crate::batching::queue::{NextBatch, Queue};
use crate::batching::search::{Found, Search, Where};
use crate::batching::served_signature::ServedSignature;
use crate::batching::streaming;
use crate::batching::unanswered::LARGE;
use crate::metrics::Ran;

/// A thread that had no batch for that long lets others have the memory that it keeps.
const REST: Duration = Duration::from_secs(1);

/// Everything that an executor thread needs.
#[derive(Clone)]
pub struct ExecutorThread {
    /// Where it sleeps.
    pub pool: Arc<ExecutorPool>,
    /// The version's queues.
    pub queues: Arc<[Arc<Queue>]>,
    /// The model.
    pub executor: Arc<dyn Executor>,
    /// Where its finished batches go.
    pub completions: CompletionsByLane,
}

impl ExecutorThread {
    /// The thread's work. It drops what it holds of the version before it leaves the pool, which a release waits for.
    pub fn run(self) {
        // A panic has been printed where it happened. Its thread is counted out, so that the next request starts another.
        let ran = catch_unwind(AssertUnwindSafe(|| self.executor.host(&mut || self.serve_until_closed())));
        if ran.is_err() {
            self.pool.count_out();
        }
        let pool = self.pool.clone();
        drop(self);
        pool.forget_current_thread();
    }

    /// Answers what waits, where there is no thread to run it.
    pub fn refuse_waiting(&self, status: &Status) {
        for queue in &*self.queues {
            while let NextBatch::Batch(mut batch) = queue.take_early() {
                let entries = std::mem::take(&mut batch.entries);
                self.complete_unrun(&queue.served, Unrun::of(&batch, entries, status.clone()));
            }
        }
    }

    /// Serves until the pool is closed and nothing waits any more.
    fn serve_until_closed(&self) {
        let pool = &*self.pool;
        let mut turn = 0;
        let mut rests_at: Option<Instant> = None;
        let mut search = Search::default();
        loop {
            let mut later: Option<Instant> = None;
            let mut ran = false;
            let now = Instant::now();
            let place = search.place(now);
            for step in 0..self.queues.len() {
                let queue = &self.queues[(turn + step) % self.queues.len()];
                match next_of(queue, now, place) {
                    NextBatch::Batch(batch) => {
                        let found = Found { lane: batch.lane, requests: batch.entries.len() };
                        self.serve_guarded(queue, *batch);
                        search.ran(found, (now, Instant::now()), self.keeps_lanes(queue));
                        turn += step + 1;
                        ran = true;
                        break;
                    }
                    NextBatch::Later(due) => later = Some(later.map_or(due, |other| other.min(due))),
                    NextBatch::Nothing => {}
                }
            }
            if ran {
                rests_at = Some(now + REST);
            } else if rests_at.is_some_and(|at| at <= now) {
                rests_at = None;
                self.executor.share_memory();
            }
            let instruction = match ran {
                true if pool.should_leave() => Instruction::Leave,
                true => Instruction::Work,
                false if search.yields() => {
                    // An I/O thread that shares the processor has its turn: what it brings is there then, and nobody is woken.
                    thread::yield_now();
                    Instruction::Work
                }
                false => pool.wait(later.into_iter().chain(rests_at).min()),
            };
            match instruction {
                Instruction::Work => {}
                Instruction::Finish if !self.nothing_waits() => pool.pause(),
                Instruction::Finish => return,
                Instruction::Leave => {
                    // What this thread was woken for may still wait.
                    pool.wake();
                    return;
                }
            }
        }
    }

    /// Whether there is an executor for each lane that brings requests, and more than one.
    fn keeps_lanes(&self, queue: &Queue) -> bool {
        let lanes = queue.used_lanes();
        lanes > 1 && self.pool.present() >= lanes
    }

    /// The requests of a batch that is lost are answered by the deadline sweep.
    fn serve_guarded(&self, queue: &Queue, batch: Batch) {
        if catch_unwind(AssertUnwindSafe(|| self.serve(queue, batch))).is_err() {
            queue.served.metrics.panics.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Others have a turn between two parts of a request with very many rows: one light batch of each signature.
    fn give_turns(&self) {
        for queue in &*self.queues {
            if let Some(batch) = queue.take_light(Instant::now()) {
                self.serve_guarded(queue, *batch);
            }
        }
    }

    fn nothing_waits(&self) -> bool {
        self.queues.iter().all(|queue| queue.queued_rows() == 0)
    }

    fn serve(&self, queue: &Queue, mut batch: Batch) {
        let served = &queue.served;
        let now = Instant::now();
        if let Err(refused) = batch.pad(&served.signature.inputs, || queue.lease()) {
            let entries = std::mem::take(&mut batch.entries);
            return self.complete_unrun(served, Unrun::of(&batch, entries, refused));
        }
        self.drop_dead(served, &mut batch, now);
        if batch.entries.is_empty() {
            return;
        }
        queue.pace(&mut batch, now);
        let mut unanswered = match served.unanswered.expect(batch.rows, batch.entries.len()) {
            Ok(unanswered) => unanswered,
            Err(refused) => {
                let entries = std::mem::take(&mut batch.entries);
                return self.complete_unrun(served, Unrun::of(&batch, entries, refused));
            }
        };
        served.times.closings.count(batch.close_reason, batch.entries.len(), batch.rows);
        let batching = queue.batching();
        let sizes = &*batching.allowed_batch_sizes;
        let again = batch.entries.len() > 1 || bisect::may_run_again(&served.signature, batch.unbatched, sizes);
        let logged = batch.entries.iter().any(|entry| entry.logged);
        let kept = if again || logged { ExecutorThread::keep(&mut batch) } else { None };
        batch.forget_kept();
        let lane = batch.lane;
        let conduct = Conduct {
            kept: kept.as_deref().filter(|_| again),
            sizes,
            max_batch_rows: batching.max_batch_rows,
            give_turns: &|| self.give_turns(),
        };
        let began = Instant::now();
        let parts = match served.signature.streaming {
            true => vec![streaming::run(&*self.executor, served, &mut batch)],
            false => bisect::run(&*self.executor, queue, &mut batch, &conduct),
        };
        let ran = Some(Ran { began, ended: Instant::now() });
        unanswered.settle(parts.iter().map(Part::byte_size).sum());
        if batch.memory.bytes() > LARGE {
            // The model's allocator had them too, as objects.
            served.memory.count_large_arrays();
        }
        self.completions[lane].complete(FinishedBatch {
            version: batch.version,
            memory: Some(batch.memory),
            unanswered: Some(unanswered),
            served: served.clone(),
            entries: batch.entries,
            ran,
            refused: false,
            inputs: kept.filter(|_| logged).unwrap_or_default(),
            shapes: batch.shapes,
            parts,
        });
        for unrun in queue.give_up(Instant::now()) {
            self.complete_unrun(served, unrun);
        }
    }

    /// Leaves out who is refused, too late or gone.
    fn drop_dead(&self, served: &Arc<ServedSignature>, batch: &mut Batch, now: Instant) {
        let cancelled = batch.waiting.cancelled();
        let is_cancelled = |entry: &Entry| entry.slot.is_some_and(|slot| cancelled.contains(&slot));
        let runs = batch.ends_sequence(&served.signature);
        let is_dead = |entry: &Entry| entry.refused || (!runs && (entry.deadline <= now || is_cancelled(entry)));
        let mut dead = batch.drop_dead(&served.signature.inputs, is_dead);
        dead.retain(|entry| !entry.refused);
        if dead.is_empty() {
            return;
        }
        let gone = dead.iter().filter(|entry| is_cancelled(entry)).count();
        served.metrics.cancelled.fetch_add(gone as u64, Ordering::Relaxed);
        served.metrics.deadline_drops.fetch_add((dead.len() - gone) as u64, Ordering::Relaxed);
        let late = "the deadline passed while the request waited in the batch queue";
        self.complete_unrun(served, Unrun::of(batch, dead, Status::new(Code::DeadlineExceeded, late)));
    }

    /// The inputs as they came, which the model may write into: for the log, and to be run again. Without memory for it a
    /// batch that fails does so as a whole, and its rows are dropped from the log.
    fn keep(batch: &mut Batch) -> Option<Vec<Kept>> {
        if let Some(kept) = batch.kept.take() {
            return Some(kept);
        }
        let bytes = batch.columns.iter().map(|column| column.byte_size()).sum();
        batch.memory.grow(bytes, bytes).ok()?;
        Some(batch.columns.iter().map(|column| Kept::copy(column)).collect())
    }

    fn complete_unrun(&self, served: &Arc<ServedSignature>, unrun: Unrun) {
        let Unrun { version, shapes, unbatched, lane, mut entries, refused, why } = unrun;
        for entry in &mut entries {
            entry.logged = false;
        }
        let part = Part { entries: 0..entries.len(), first_row: 0, unbatched, outputs: Err(why), errors: Vec::new() };
        self.completions[lane].complete(FinishedBatch {
            version,
            memory: None,
            unanswered: None,
            served: served.clone(),
            entries,
            ran: None,
            refused,
            inputs: Vec::new(),
            shapes,
            parts: vec![part],
        });
    }
}

/// What is to be run next; where much is to be answered yet, only what adds little.
fn next_of(queue: &Queue, now: Instant, (place, overdue): (Where, Option<Instant>)) -> NextBatch {
    if !queue.served.unanswered.is_much() {
        return queue.take_from(place, overdue, now);
    }
    let timeout_us = queue.batching().timeout_us;
    match queue.take_light(now) {
        Some(batch) => NextBatch::Batch(batch),
        // An open batch may be light, and is due by then.
        None if timeout_us > 0 && queue.queued_rows() > 0 => NextBatch::Later(now + Duration::from_micros(timeout_us)),
        None => NextBatch::Nothing,
    }
}
