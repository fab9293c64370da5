//! What waits of one I/O thread: closed batches in their order, and the open ones, each of requests of other shapes.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use crate::batching::batch::Batch;
use crate::metrics::CloseReason;

/// Open batches of a lane, at most: where requests of more shapes come, the oldest one closes.
pub(super) const OPEN_SHAPES: usize = 8;

/// Batches of one I/O thread.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// The one that requests are decoded into, which was joined last.
    pub(super) open: Option<Batch>,
    /// Open ones of other shapes; none where all requests have the same.
    pub(super) others: Vec<Batch>,
    pub(super) closed: VecDeque<Batch>,
    /// Of the request that is decoded: its shapes, and where its rows begin.
    pub(super) shapes: Vec<Vec<usize>>,
    pub(super) marks: Vec<usize>,
}

/// A lane and its lock.
#[derive(Debug, Default)]
pub(super) struct Guarded {
    lane: Mutex<Lane>,
    /// How many rows were in the queue with its last request: where these are few, the next one need not look, which would
    /// fetch what other lanes write.
    pub(super) left: AtomicUsize,
    /// Whether it ever had a request.
    pub(super) used: AtomicBool,
}

impl Deref for Guarded {
    type Target = Mutex<Lane>;
    fn deref(&self) -> &Mutex<Lane> {
        &self.lane
    }
}

/// What there is of a lane to be run.
pub(super) enum Ripe {
    Batch(Batch),
    /// Nothing before that time.
    Later(Instant),
    Nothing,
}

impl Lane {
    /// No request joins this batch any more.
    pub(super) fn close(&mut self, mut batch: Batch, reason: CloseReason) {
        batch.close_reason = reason;
        self.closed.push_back(batch);
    }

    /// Closes the open batch that requests were decoded into.
    pub(super) fn close_open(&mut self, reason: CloseReason) {
        if let Some(open) = self.open.take() {
            self.close(open, reason);
        }
    }

    /// The open batches may go.
    pub(super) fn release(&mut self) {
        self.open.iter_mut().chain(&mut self.others).for_each(|open| open.due = true);
    }

    /// Keeps an open batch beside the one that requests are decoded into; closes the oldest where there are too many.
    pub(super) fn keep_open(&mut self, batch: Batch) {
        self.others.push(batch);
        if self.others.len() < OPEN_SHAPES {
            return;
        }
        let oldest = self.others.iter().enumerate().min_by_key(|(_, batch)| batch.opened).map(|(at, _)| at);
        if let Some(oldest) = oldest {
            let batch = self.others.swap_remove(oldest);
            self.close(batch, CloseReason::Shapes);
        }
    }

    /// All that wait.
    pub(super) fn batches(&mut self) -> impl Iterator<Item = &mut Batch> {
        self.closed.iter_mut().chain(&mut self.open).chain(&mut self.others)
    }

    /// The oldest batch that is closed, or is open and has waited for `timeout_us` or, without one, was released.
    pub(super) fn take(&mut self, now: Instant, timeout_us: u64) -> Ripe {
        if !self.closed.is_empty() && self.others.is_empty() {
            return self.closed.pop_front().map_or(Ripe::Nothing, Ripe::Batch);
        }
        let (next, later) = self.next(now, timeout_us);
        let found = match next {
            Some((_, Some(at))) => self.take_open(at, timeout_us),
            _ => self.closed.pop_front(),
        };
        found.map(Ripe::Batch).or(later.map(Ripe::Later)).unwrap_or(Ripe::Nothing)
    }

    /// The oldest batch of those that may pass the others, closed or due.
    pub(super) fn take_passing(
        &mut self,
        may: impl Fn(&Batch) -> bool,
        now: Instant,
        timeout_us: u64,
    ) -> Option<Batch> {
        if let Some(at) = self.closed.iter().position(&may) {
            return self.closed.remove(at);
        }
        let due = self.open_ones().filter(|(_, batch)| batch.is_due(now, timeout_us) && may(batch));
        let oldest = due.min_by_key(|(_, batch)| batch.opened).map(|(at, _)| at);
        self.take_open(oldest?, timeout_us)
    }

    /// Open batches with their places.
    fn open_ones(&self) -> impl Iterator<Item = (usize, &Batch)> {
        let others = self.others.iter().enumerate().map(|(at, batch)| (at + 1, batch));
        self.open.iter().map(|batch| (0, batch)).chain(others).filter(|(_, batch)| batch.rows > 0)
    }

    /// When the first request came of the batch that `take` would take; none where it would take none.
    pub(super) fn waits_since(&self, now: Instant, timeout_us: u64) -> Option<Instant> {
        self.next(now, timeout_us).0.map(|(opened, _)| opened)
    }

    /// Since when `take` would take a batch, as far as that is known: one that goes by its time-out since that had passed,
    /// any other since its first request came; none where it would take none.
    pub(super) fn is_ripe_since(&self, now: Instant, timeout_us: u64) -> Option<Instant> {
        self.next(now, timeout_us).0.map(|(opened, open)| match open {
            Some(_) => opened + Duration::from_micros(timeout_us),
            None => opened,
        })
    }

    /// When the next batch was opened, and its place if it is open; and when one will be due, where one is not yet.
    fn next(&self, now: Instant, timeout_us: u64) -> (Option<(Instant, Option<usize>)>, Option<Instant>) {
        let front = self.closed.front().map(|batch| batch.opened);
        let (mut oldest, mut later) = (None::<(Instant, usize)>, None::<Instant>);
        for (at, batch) in self.open_ones() {
            if !batch.is_due(now, timeout_us) {
                let due = batch.opened + Duration::from_micros(timeout_us);
                later = Some(later.map_or(due, |other| other.min(due))).filter(|_| timeout_us > 0);
                continue;
            }
            oldest = Some(oldest.map_or((batch.opened, at), |other| other.min((batch.opened, at))));
        }
        let open = oldest.filter(|(opened, _)| front.is_none_or(|front| *opened < front));
        (open.map(|(opened, at)| (opened, Some(at))).or(front.map(|front| (front, None))), later)
    }

    fn take_open(&mut self, at: usize, timeout_us: u64) -> Option<Batch> {
        let mut batch = if at == 0 { self.open.take()? } else { self.others.swap_remove(at - 1) };
        batch.close_reason = if timeout_us > 0 { CloseReason::Timeout } else { CloseReason::Idle };
        Some(batch)
    }

    /// The next batch, whether its time has come or not.
    pub(super) fn take_early(&mut self) -> Option<Batch> {
        if let Some(batch) = self.closed.pop_front() {
            return Some(batch);
        }
        let mut open = self.open.take_if(|open| open.rows > 0).or_else(|| self.others.pop())?;
        open.close_reason = CloseReason::Drain;
        Some(open)
    }

    /// Takes out the oldest batches as far as they are dead.
    pub(super) fn take_dead(&mut self, is_dead: impl Fn(&Batch) -> bool) -> Vec<Batch> {
        let mut dead: Vec<Batch> = Vec::new();
        while self.closed.front().is_some_and(&is_dead) {
            dead.extend(self.closed.pop_front());
        }
        if self.closed.is_empty() {
            dead.extend(self.open.take_if(|open| open.rows > 0 && is_dead(open)));
            dead.extend(self.others.extract_if(.., |open| is_dead(open)));
        }
        dead
    }
}
