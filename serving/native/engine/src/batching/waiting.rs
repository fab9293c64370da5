//! What of a batch still waits, shared by the batch and by the requests in it. Whether one of them waits, and that it
//! waits no longer, is one load and one store, however long the queue is.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::sync::lock;

/// In place of a count: an executor has the batch.
const TAKEN: u64 = u64::MAX;

/// What waits, in one word, so that it is counted off once: rows in the lower bits, requests beyond the limit above them.
const ROW_BITS: u32 = 40;

/// Rows that wait, and requests among them for which the queue had no place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) rows: usize,
    pub(crate) beyond: usize,
}

impl Count {
    fn word(self) -> u64 {
        (self.beyond as u64) << ROW_BITS | self.rows as u64
    }

    fn of_word(word: u64) -> Count {
        Count { rows: (word & ((1 << ROW_BITS) - 1)) as usize, beyond: (word >> ROW_BITS) as usize }
    }
}

/// Rows of one batch that count against its queue.
#[derive(Debug, Default)]
pub struct Waiting {
    count: AtomicU64,
    /// Rows among them that the queue's limit does not count.
    excess: AtomicUsize,
    /// Of which tier its requests are, 0 for the highest.
    pub(crate) tier: usize,
    any_cancelled: AtomicBool,
    cancelled: Mutex<Vec<u64>>,
    /// What of a taken batch waits once more, and the seats of its requests, ascending.
    rest: OnceLock<(Box<[usize]>, Arc<Waiting>)>,
}

/// Where a request waits.
#[derive(Clone, Debug)]
pub struct Place {
    /// What of its batch waits.
    pub waiting: Arc<Waiting>,
    /// The request's rows.
    pub rows: usize,
    /// Rows before it in the batch as it was first put together.
    pub seat: usize,
    /// Whether the queue had no place for it.
    pub beyond: bool,
}

impl Place {
    /// Whether the request waits for an executor: none has its batch, or it is to run again.
    pub fn waits(&self) -> bool {
        self.waiting.has(self.seat)
    }

    fn count(&self) -> Count {
        Count { rows: self.rows, beyond: usize::from(self.beyond) }
    }
}

impl Waiting {
    /// Of an empty batch of requests of this tier.
    pub(crate) fn of_tier(tier: usize) -> Waiting {
        Waiting { tier, ..Waiting::default() }
    }

    /// A request enters the batch, which no executor has.
    pub(crate) fn enter(&self, count: Count, excess: usize) {
        self.count.fetch_add(count.word(), Ordering::AcqRel);
        if excess > 0 {
            self.excess.fetch_add(excess, Ordering::AcqRel);
        }
    }

    /// A request is answered or given up. What it counted, if it was still waiting.
    pub(crate) fn leave(&self, place: &Place) -> Option<Count> {
        self.count_off(place.seat, place.count())
    }

    fn has(&self, seat: usize) -> bool {
        match self.rest.get() {
            Some((seats, rest)) => seats.binary_search(&seat).is_ok() && rest.has(seat),
            None => self.count.load(Ordering::Acquire) != TAKEN,
        }
    }

    fn count_off(&self, seat: usize, count: Count) -> Option<Count> {
        if let Some((seats, rest)) = self.rest.get() {
            // What waits once more is within the limit.
            let count = Count { beyond: 0, ..count };
            return seats.binary_search(&seat).ok().and_then(|_| rest.count_off(seat, count));
        }
        let less = |waiting: u64| (waiting != TAKEN).then(|| waiting.saturating_sub(count.word()));
        self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).ok().map(|_| count)
    }

    /// Of the batch that was taken, the requests on these seats wait once more.
    pub(crate) fn put_back(&self, seats: Box<[usize]>, rows: usize) -> Arc<Waiting> {
        let count = AtomicU64::new(Count { rows, beyond: 0 }.word());
        let rest = Arc::new(Waiting { count, tier: self.tier, ..Waiting::default() });
        let _ = self.rest.set((seats, rest.clone()));
        rest
    }

    /// An executor takes the batch. Returns what still waited.
    pub(crate) fn take(&self) -> Count {
        match self.count.swap(TAKEN, Ordering::AcqRel) {
            TAKEN => Count::default(),
            waiting => Count::of_word(waiting),
        }
    }

    /// Whether every request of the batch is answered or given up, and no executor has it.
    pub(crate) fn is_dead(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// The rows that the queue's limit does not count; they are returned once.
    pub(crate) fn take_excess(&self) -> usize {
        self.excess.swap(0, Ordering::AcqRel)
    }

    /// Notes that the client of a request has gone.
    pub(crate) fn cancel(&self, seat: usize, slot: u64) {
        if let Some((_, rest)) = self.rest.get().filter(|(seats, _)| seats.binary_search(&seat).is_ok()) {
            return rest.cancel(seat, slot);
        }
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

    fn rows(rows: usize) -> Count {
        Count { rows, beyond: 0 }
    }

    fn left(waiting: &Arc<Waiting>, seat: usize, rows: usize) -> bool {
        waiting.leave(&Place { waiting: waiting.clone(), rows, seat, beyond: false }).is_some()
    }

    #[test]
    fn who_waits_beyond_the_limit_is_counted_off_once() {
        let waiting = Arc::<Waiting>::default();
        let place = |seat| Place { waiting: waiting.clone(), rows: 2, seat, beyond: true };
        (0..3).for_each(|_| waiting.enter(place(0).count(), 0));
        assert_eq!(waiting.leave(&place(0)), Some(Count { rows: 2, beyond: 1 }));
        assert_eq!(waiting.take(), Count { rows: 4, beyond: 2 });
        assert_eq!(waiting.leave(&place(2)), None);
        let rest = waiting.put_back([2, 4].into(), 4);
        assert_eq!(waiting.leave(&place(2)), Some(rows(2)), "it was counted off when the batch was taken");
        assert_eq!(rest.take(), rows(2));
    }

    #[test]
    fn who_leaves_after_the_batch_was_taken_did_not_wait() {
        let waiting = Arc::<Waiting>::default();
        waiting.enter(rows(3), 0);
        waiting.enter(rows(2), 0);
        assert!(left(&waiting, 0, 3));
        assert!(!waiting.is_dead());
        assert_eq!(waiting.take().rows, 2, "the others count until the batch is taken");
        assert!(!left(&waiting, 3, 2));
    }

    #[test]
    fn a_batch_that_everybody_left_is_dead_until_it_is_taken() {
        let waiting = Arc::<Waiting>::default();
        waiting.enter(rows(3), 1);
        assert!(left(&waiting, 0, 3) && waiting.is_dead());
        assert_eq!((waiting.take_excess(), waiting.take_excess()), (1, 0));
        assert_eq!(waiting.take().rows, 0);
        assert!(!waiting.is_dead());
    }

    #[test]
    fn clients_that_have_gone_are_known_also_after_the_batch_was_taken() {
        let waiting = Arc::<Waiting>::default();
        waiting.enter(rows(1), 0);
        assert!(waiting.cancelled().is_empty());
        waiting.take();
        waiting.cancel(0, 7);
        assert!(waiting.cancelled().contains(&7));
    }

    #[test]
    fn what_is_put_back_waits_and_can_leave_again() {
        let waiting = Arc::<Waiting>::default();
        waiting.enter(rows(10), 0);
        waiting.take();
        let rest = waiting.put_back([4, 6, 8].into(), 6);
        assert!(!left(&waiting, 0, 4), "it runs");
        assert!(!left(&waiting, 5, 1), "it is not among them");
        assert!(left(&waiting, 4, 2));
        waiting.cancel(6, 7);
        waiting.cancel(0, 8);
        assert_eq!((rest.cancelled().contains(&7), waiting.cancelled().contains(&8)), (true, true));
        assert_eq!(rest.take().rows, 4);
        let last = rest.put_back([8].into(), 2);
        assert!(!left(&waiting, 6, 2) && left(&waiting, 8, 2) && last.is_dead());
    }
}
