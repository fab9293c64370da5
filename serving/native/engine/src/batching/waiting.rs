//! What of a batch still waits, shared by the batch and by the requests in it. Whether one of them waits, and that it
//! waits no longer, is one load and one store, however long the queue is.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::sync::lock;

/// In place of a number of rows: an executor has the batch.
const TAKEN: usize = usize::MAX;

/// Rows of one batch that count against its queue.
#[derive(Debug, Default)]
pub struct Waiting {
    rows: AtomicUsize,
    /// Rows among them that the queue's limit does not count.
    excess: AtomicUsize,
    any_cancelled: AtomicBool,
    cancelled: Mutex<Vec<u64>>,
}

/// Where a request waits.
#[derive(Clone, Debug)]
pub struct Place {
    /// What of its batch waits.
    pub waiting: Arc<Waiting>,
    /// The request's rows.
    pub rows: usize,
}

impl Waiting {
    /// A request enters the batch, which no executor has.
    pub(crate) fn enter(&self, rows: usize, excess: usize) {
        self.rows.fetch_add(rows, Ordering::AcqRel);
        self.excess.fetch_add(excess, Ordering::AcqRel);
    }

    /// A request is answered or given up. True if it was still waiting, and so counts no longer.
    pub(crate) fn leave(&self, rows: usize) -> bool {
        let less = |waiting: usize| (waiting != TAKEN).then(|| waiting.saturating_sub(rows));
        self.rows.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok()
    }

    /// An executor takes the batch. Returns the rows that still waited.
    pub(crate) fn take(&self) -> usize {
        self.rows.swap(TAKEN, Ordering::AcqRel)
    }

    /// Whether every request of the batch is answered or given up, and no executor has it.
    pub(crate) fn is_dead(&self) -> bool {
        self.rows.load(Ordering::Acquire) == 0
    }

    /// The rows that the queue's limit does not count; they are returned once.
    pub(crate) fn take_excess(&self) -> usize {
        self.excess.swap(0, Ordering::AcqRel)
    }

    /// Notes that the client of a request has gone.
    pub(crate) fn cancel(&self, slot: u64) {
        lock(&self.cancelled).push(slot);
        self.any_cancelled.store(true, Ordering::Release);
    }

    /// The requests whose clients have gone.
    pub(crate) fn cancelled(&self) -> HashSet<u64> {
        if !self.any_cancelled.load(Ordering::Acquire) {
            return HashSet::new();
        }
        lock(&self.cancelled).iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_after_the_batch_was_taken_did_not_wait() {
        let waiting = Waiting::default();
        waiting.enter(3, 0);
        waiting.enter(2, 0);
        assert!(waiting.leave(3));
        assert!(!waiting.is_dead());
        assert_eq!(waiting.take(), 2, "the others count until the batch is taken");
        assert!(!waiting.leave(2));
    }

    #[test]
    fn a_batch_that_everybody_left_is_dead_until_it_is_taken() {
        let waiting = Waiting::default();
        waiting.enter(3, 1);
        assert!(waiting.leave(3) && waiting.is_dead());
        assert_eq!((waiting.take_excess(), waiting.take_excess()), (1, 0));
        assert_eq!(waiting.take(), 0);
        assert!(!waiting.is_dead());
    }

    #[test]
    fn clients_that_have_gone_are_known_also_after_the_batch_was_taken() {
        let waiting = Waiting::default();
        waiting.enter(1, 0);
        assert!(waiting.cancelled().is_empty());
        waiting.take();
        waiting.cancel(7);
        assert!(waiting.cancelled().contains(&7));
    }
}
