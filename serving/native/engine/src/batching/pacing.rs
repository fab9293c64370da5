//! Keeps a queue to what can be answered in time. A batch that may take too long runs some rows at a time, so that the
//! model's pace is known before all deadlines have passed; and what cannot be answered in time is refused at once, also
//! where it waits already.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidegate_codec::status::Status;

use crate::batching::batch::{Batch, Entry, KeepAlive};
use crate::batching::lane::Lane;
use crate::batching::limits::Batching;
use crate::batching::queue::Queue;
use crate::metrics::CloseReason;
use crate::sync::lock;

/// A run that takes less is never cut, and a queue that is empty sooner refuses nobody.
pub(super) const SHORT: Duration = Duration::from_millis(50);

/// So many rows may run of a model that never ran; where there are more, one request tells how long it takes.
const FIRST: usize = 32;

/// So many requests are refused in one go; then others have their turn.
const REFUSED: usize = 128;

/// Requests of one batch that are answered without a run.
pub(crate) struct Unrun {
    pub(crate) version: KeepAlive,
    pub(crate) shapes: Arc<[Vec<usize>]>,
    pub(crate) unbatched: bool,
    pub(crate) lane: usize,
    pub(crate) entries: Vec<Entry>,
    /// Whether they are refused where they wait.
    pub(crate) refused: bool,
    pub(crate) why: Status,
}

impl Unrun {
    /// Entries that were taken out of a batch, or are to be.
    pub(crate) fn of(batch: &Batch, entries: Vec<Entry>, why: Status) -> Unrun {
        let (version, shapes) = (batch.version.clone(), batch.shapes.clone());
        Unrun { version, shapes, unbatched: batch.unbatched, lane: batch.lane, entries, refused: false, why }
    }
}

impl Queue {
    /// How long it takes to answer rows that come behind others, as far as it is known.
    pub(super) fn time_for(&self, ahead: usize, rows: usize, batching: &Batching) -> Duration {
        let runs = (ahead / batching.max_batch_rows) as u64;
        let before = self.service.expect(ahead as u64, runs) / batching.concurrency as u64;
        Duration::from_nanos(before.saturating_add(self.service.expect(rows as u64, 1)))
    }

    /// Puts back what of a batch should not run now, as it might not be through before the first of its deadlines.
    pub(crate) fn pace(&self, batch: &mut Batch, now: Instant) {
        let at_most = self.service.at_most(batch.rows).map(Duration::from_nanos);
        if at_most.is_some_and(|time| time < SHORT) {
            return;
        }
        let rows = match at_most {
            Some(time) => self.rows_in_time(batch, time, now),
            None if batch.rows > FIRST => 1,
            None => return,
        };
        let at = batch.entries.partition_point(|entry| entry.first_row + entry.rows <= rows).max(1);
        if let Some(first_row) = batch.entries.get(at).map(|entry| entry.first_row) {
            self.put_back(batch, at, batch.rows - first_row);
            batch.close_reason = CloseReason::Deadline;
        }
        // Others have their turn after each part of a request with very many rows.
        let rows = if batch.oversized { self.batching.load().max_batch_rows } else { batch.rows };
        self.service.begin(now + Duration::from_nanos(self.service.expect(rows as u64, 1)));
    }

    /// How many rows of a batch should run now.
    fn rows_in_time(&self, batch: &Batch, at_most: Duration, now: Instant) -> usize {
        let earliest = batch.entries.iter().map(|entry| entry.deadline).min().unwrap_or(now);
        let left = earliest.saturating_duration_since(now);
        if at_most <= left * 3 / 4 { batch.rows } else { self.service.fitting((left / 2).as_nanos() as u64) }
    }

    /// Puts the entries from `at` on back, where they wait once more with their rows.
    fn put_back(&self, batch: &mut Batch, at: usize, rows: usize) {
        // Counted before anybody can leave again.
        self.queued_rows.fetch_add(rows, Ordering::Relaxed);
        self.served.metrics.count_queued(rows as i64);
        self.count_tier(batch.waiting.tier, rows, true);
        let rest = batch.split_off(at, &self.served.signature.inputs, self.lease());
        lock(self.lane(rest.waiting.tier, rest.lane)).closed.push_front(rest);
        if self.batching.load().concurrency > 1 {
            self.executors.wake();
        }
    }

    /// Finds who waits and cannot be answered in time, by what earlier runs took, and has them left out when their
    /// batches run.
    pub(crate) fn give_up(&self, now: Instant) -> Vec<Unrun> {
        let batching = self.batching.load();
        let mut found = Vec::new();
        if self.time_for(self.queued_rows(), 0, &batching) < SHORT {
            return found;
        }
        for (tier, lanes) in self.tiers() {
            let all = self.rows_ahead(tier);
            let time = self.time_for(all, 0, &batching);
            for lane in if time < SHORT { &[] } else { lanes } {
                self.give_up_of(&mut lock(lane), (all, time), (now, &batching), &mut found);
            }
        }
        found
    }

    /// Those of one lane; `all` rows are of its tier or a higher one, which takes that time.
    fn give_up_of(
        &self,
        lane: &mut Lane,
        (all, time): (usize, Duration),
        (now, batching): (Instant, &Batching),
        found: &mut Vec<Unrun>,
    ) {
        let own: usize = lane.batches().map(|batch| batch.rows).sum();
        // Lanes have their turns: of what waits in others, as large a part is ahead.
        let others = all.saturating_sub(own);
        let mut ahead = 0;
        for batch in lane.batches() {
            let before = |ahead: usize| ahead + ahead * others / own.max(1);
            let in_time = |entry: &Entry, ahead: usize| {
                now + self.time_for(before(ahead), entry.rows, batching) <= entry.deadline
            };
            let before_it = ahead;
            let late = batch.refuse_unless(now, &mut ahead, in_time);
            if batch.oversized {
                // Others have their turn between its parts.
                ahead = before_it;
            }
            for entries in late.chunks(REFUSED) {
                let unrun = Unrun::of(batch, entries.to_vec(), too_slow(all, time));
                found.push(Unrun { refused: true, ..unrun });
            }
        }
    }
}

/// Why requests are refused before the queue is full.
pub(super) fn too_slow(rows: usize, wait: Duration) -> Status {
    let wait = wait.as_millis();
    Status::exhausted(format!(
        "the batch queue is full: {rows} rows wait, which takes about {wait} ms, and the request's deadline is sooner"
    ))
}
