//! Which requests a queue takes: those that it has place for and that can be answered in time. Who has little under way comes
//! before connections that have much, which leave them the last places, too.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_codec::status::Status;

use crate::batching::incoming::Incoming;
use crate::batching::lane::OPEN_SHAPES;
use crate::batching::limits::Batching;
use crate::batching::pacing::{SHORT, too_slow};
use crate::batching::queue::Queue;

/// Of a queue of at least so many rows the last eighth is shared: a connection's rows that are under way may be at most
/// half of what is left.
const SHARED: usize = 1024;

/// A queue has plenty of places where no more than this part of them is taken.
const PLENTY: usize = 2;

/// A connection has a good part of a batch under way with so much of one.
const PART: usize = 16;

/// Of the two tiers of a level the lower one has this bit.
const LOWER: usize = 1;

/// What is known of a request that is counted in.
#[derive(Default)]
pub(super) struct Admitted {
    /// Rows that the limit does not count: as many rows as the queue never holds count as one batch, since they run batch
    /// by batch.
    pub(super) excess: usize,
    /// Whether the queue has no place for it.
    pub(super) beyond: bool,
}

impl Queue {
    /// Refuses a request that is not decoded yet where the queue has no place for the smallest. Where the last request left
    /// plenty it is looked at only behind decoding.
    #[inline]
    pub(super) fn check_place(&self, incoming: &Incoming<'_>) -> Result<(), Status> {
        let left = self.lanes[incoming.lane].left.load(Ordering::Relaxed);
        match incoming.may_wait || left < incoming.batching.max_queued_rows / PLENTY {
            true => Ok(()),
            false => self.place_for(1, self.counted_rows(incoming.tier), incoming),
        }
    }

    /// Counts a request's rows in, where there is place for them and they can be answered in time, or where it may wait.
    pub(super) fn admit(&self, rows: usize, incoming: &Incoming<'_>) -> Result<Admitted, Status> {
        let (batching, limit) = (incoming.batching, incoming.batching.max_queued_rows);
        if rows == 0 {
            return Ok(Admitted::default());
        }
        let excess = if rows > limit { rows - batching.max_batch_rows.min(limit) } else { 0 };
        if excess > 0 {
            self.excess_rows.fetch_add(excess, Ordering::Relaxed);
        }
        let queued = self.queued_rows.fetch_add(rows, Ordering::Relaxed);
        self.lanes[incoming.lane].left.store(queued + rows, Ordering::Relaxed);
        let (before, all) = match self.has_lower() {
            true => (self.rows_ahead(incoming.tier).saturating_sub(rows), self.rows_ahead(incoming.tier | LOWER)),
            false => (queued, queued + rows),
        };
        self.count_tier(incoming.tier, rows, true);
        let counted = all.saturating_sub(self.excess_rows.load(Ordering::Relaxed));
        let ahead = match excess > 0 {
            // A request of many batches must itself be through in time.
            true => before + rows,
            // It has its turn between their parts.
            false if self.served.unanswered.is_little(rows) => counted.saturating_sub(rows),
            false => before,
        };
        let counted_before = counted.saturating_sub(rows - excess);
        let admitted = match incoming.may_wait {
            true => Ok(()),
            false => self
                .place_for(rows - excess, counted_before, incoming)
                .and_then(|()| self.check_wait(ahead, rows - excess, incoming)),
        };
        if let Err(status) = admitted {
            self.queued_rows.fetch_sub(rows, Ordering::Relaxed);
            self.excess_rows.fetch_sub(excess, Ordering::Relaxed);
            self.count_tier(incoming.tier, rows, false);
            return Err(status);
        }
        let beyond = counted > limit;
        self.served.metrics.count_queued(rows as i64);
        if beyond {
            self.served.metrics.waiting_requests.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Admitted { excess, beyond })
    }

    /// The tier of a request: where more waits than a batch, and its connection has a good part of one under way already, it
    /// comes behind the others of its level.
    pub(super) fn tier_of(&self, level: usize, under_way: usize, batching: &Batching) -> usize {
        let behind = under_way > 0 && under_way >= batching.max_batch_rows / PART && self.is_busy(batching);
        2 * level + if behind && !self.is_in_order(batching) { LOWER } else { 0 }
    }

    /// Whether more rows wait than those of a batch, or of all that may be open where these wait for more.
    fn is_busy(&self, batching: &Batching) -> bool {
        let open = match batching.timeout_us {
            0 => 1,
            _ if self.fixed_shapes.is_some() => self.lanes.len(),
            _ => OPEN_SHAPES * self.lanes.len(),
        };
        self.queued_rows() > batching.max_batch_rows.saturating_mul(open)
    }

    /// Whether requests run in the order in which they came.
    fn is_in_order(&self, batching: &Batching) -> bool {
        self.signature().sequences || batching.waits_when_full
    }

    /// Rows that count against the limit of requests of this tier: those of lower levels do not.
    fn counted_rows(&self, tier: usize) -> usize {
        self.rows_ahead(tier | LOWER).saturating_sub(self.excess_rows.load(Ordering::Relaxed))
    }

    /// Whether rows have a place behind others that count.
    fn place_for(&self, rows: usize, counted: usize, incoming: &Incoming<'_>) -> Result<(), Status> {
        let limit = incoming.batching.max_queued_rows;
        let left = limit.saturating_sub(counted);
        if rows > left {
            return Err(self.full(rows, limit));
        }
        let own = incoming.under_way.saturating_add(rows);
        if limit >= SHARED && left - rows < limit / 8 && own > left / 2 {
            return Err(self.crowded(rows, left, incoming));
        }
        Ok(())
    }

    /// Whether rows are answered in time behind those that wait, by what earlier runs took.
    fn check_wait(&self, ahead: usize, rows: usize, incoming: &Incoming<'_>) -> Result<(), Status> {
        if ahead == 0 {
            return Ok(());
        }
        let mut wait = self.time_for(ahead, rows, incoming.batching);
        if wait >= SHORT {
            wait += self.service.busy_after(incoming.received) / incoming.batching.concurrency as u32;
        }
        match wait > Duration::ZERO && incoming.received + wait > incoming.deadline {
            true => Err(self.count_refused(too_slow(ahead, wait))),
            false => Ok(()),
        }
    }

    #[cold]
    fn full(&self, rows: usize, limit: usize) -> Status {
        self.count_refused(Status::exhausted(format!(
            "the batch queue is full: {rows} more rows would pass its limit of {limit} rows"
        )))
    }

    #[cold]
    fn crowded(&self, rows: usize, left: usize, incoming: &Incoming<'_>) -> Status {
        let (own, limit) = (incoming.under_way, incoming.batching.max_queued_rows);
        self.count_refused(Status::exhausted(format!(
            "the batch queue is almost full: {rows} more rows beside the {own} that this connection has under way would be \
             more than half of the {left} that are left of {limit}: send fewer at a time, or try again later"
        )))
    }

    fn count_refused(&self, status: Status) -> Status {
        self.served.metrics.rejections.fetch_add(1, Ordering::Relaxed);
        status
    }
}
