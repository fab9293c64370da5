//! A bounded buffer between threads that answer requests and one that writes what is told of them. What does not fit is
//! dropped and counted: no request waits for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::metrics::OutletCounts;
use crate::sync::lock;

/// Items collect for this long before they are written, unless there are many.
const LINGER: Duration = Duration::from_millis(50);

/// Whoever writes is asked this often, also where nothing waits.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct State<T> {
    items: Vec<T>,
    closing: bool,
}

/// The buffer.
#[derive(Debug)]
pub struct Outlet<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    most: usize,
}

impl<T> Outlet<T> {
    /// For so many items at most.
    pub fn new(most: usize) -> Outlet<T> {
        Outlet { state: Mutex::new(State { items: Vec::new(), closing: false }), changed: Condvar::new(), most }
    }

    /// Takes an item, or drops and counts it.
    pub fn offer(&self, item: T, counts: &OutletCounts) {
        let mut state = lock(&self.state);
        if state.closing || state.items.len() >= self.most {
            drop(state);
            counts.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        state.items.push(item);
        let waiting = state.items.len();
        drop(state);
        if waiting == 1 || waiting == self.most / 4 {
            self.changed.notify_one();
        }
    }

    /// Whatever waits is written; nothing more is taken.
    pub fn close(&self) {
        lock(&self.state).closing = true;
        self.changed.notify_one();
    }

    /// The thread that writes, until the end. `write` says how many of the items it wrote; it is asked once a second, and
    /// at the end, where there are none.
    pub fn run(&self, counts: &OutletCounts, mut write: impl FnMut(&[T]) -> usize) {
        loop {
            let (items, closing) = self.take();
            // A fault in one piece must not keep all others; it has been printed where it happened.
            let written = catch_unwind(AssertUnwindSafe(|| write(&items))).unwrap_or(0).min(items.len());
            counts.written.fetch_add(written as u64, Ordering::Relaxed);
            counts.dropped.fetch_add((items.len() - written) as u64, Ordering::Relaxed);
            if closing {
                return;
            }
        }
    }

    fn take(&self) -> (Vec<T>, bool) {
        let mut state = lock(&self.state);
        let nothing = |state: &mut State<T>| state.items.is_empty() && !state.closing;
        state = self.changed.wait_timeout_while(state, LOOK, nothing).unwrap_or_else(PoisonError::into_inner).0;
        if state.items.is_empty() {
            return (Vec::new(), state.closing);
        }
        let until = Instant::now() + LINGER;
        while !state.closing && state.items.len() < self.most / 4 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        (std::mem::take(&mut state.items), state.closing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_or_is_not_written_is_counted() {
        let (outlet, counts) = (Outlet::new(4), OutletCounts::default());
        (0..6).for_each(|item| outlet.offer(item, &counts));
        outlet.close();
        outlet.offer(6, &counts);
        let mut seen = Vec::new();
        outlet.run(&counts, |items| {
            seen.extend_from_slice(items);
            items.len() - 1
        });
        let counted = [&counts.written, &counts.dropped].map(|count| count.load(Ordering::Relaxed));
        assert_eq!((seen, counted), (vec![0, 1, 2, 3], [3, 4]));
    }

    #[test]
    fn a_fault_while_writing_loses_that_piece_alone() {
        let (outlet, counts) = (Outlet::new(8), OutletCounts::default());
        let mut pieces = 0;
        outlet.offer(1, &counts);
        outlet.run(&counts, |items| {
            pieces += 1;
            if pieces == 1 {
                outlet.offer(2, &counts);
                outlet.close();
                panic!("on purpose");
            }
            items.len()
        });
        let counted = [&counts.written, &counts.dropped].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counted, [1, 1]);
    }
}
