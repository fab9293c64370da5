//! One value for each few threads, on cache lines of their own: what many processors count at once, and somebody reads
//! now and then.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// How many values there are; more threads than that share them.
pub const PARTS: usize = 32;

/// What is on cache lines of its own: two of them, because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Apart<T>(pub T);

impl<T> Deref for Apart<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// A value for each few threads.
#[derive(Debug)]
pub struct PerThread<T> {
    parts: [Apart<T>; PARTS],
}

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The calling thread's number, the same for as long as it lives.
fn mine() -> usize {
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed) % PARTS);
        }
        mine.get()
    })
}

impl<T> PerThread<T> {
    /// Each made of its number.
    pub fn new(make: impl FnMut(usize) -> T) -> PerThread<T> {
        let mut make = make;
        PerThread { parts: std::array::from_fn(|part| Apart(make(part))) }
    }

    /// The calling thread's.
    #[inline]
    pub fn mine(&self) -> &T {
        &self.parts[mine()].0
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.parts.iter().map(|part| &part.0)
    }
}

impl<T: Default> Default for PerThread<T> {
    fn default() -> PerThread<T> {
        PerThread::new(|_| T::default())
    }
}

/// A sum that threads add to without waiting for each other: each keeps up to `step` to itself before it tells.
#[derive(Debug)]
pub struct Sum {
    told: AtomicI64,
    kept: PerThread<AtomicI64>,
    step: i64,
}

impl Sum {
    /// Zero.
    pub fn new(step: usize) -> Sum {
        Sum { told: AtomicI64::new(0), kept: PerThread::default(), step: step as i64 }
    }

    /// Adds, or takes off. The sum as far as this thread knows it then: at most `slack` off, beyond what others are adding.
    #[inline]
    pub fn add(&self, count: i64) -> i64 {
        let kept = self.kept.mine();
        let now = kept.fetch_add(count, Ordering::Relaxed) + count;
        if now.abs() <= self.step {
            return self.told.load(Ordering::Relaxed) + now;
        }
        kept.fetch_sub(now, Ordering::Relaxed);
        self.told.fetch_add(now, Ordering::Relaxed) + now
    }

    /// How far off a thread's sum may be.
    pub fn slack(&self) -> i64 {
        self.step * PARTS as i64
    }

    /// The sum.
    pub fn exact(&self) -> i64 {
        self.told.load(Ordering::Relaxed) + self.kept.iter().map(|kept| kept.load(Ordering::Relaxed)).sum::<i64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_of_many_threads_is_right_once_they_are_done_and_nearly_so_before() {
        let sum = Sum::new(10);
        std::thread::scope(|scope| {
            for _ in 0..2 * PARTS {
                scope.spawn(|| {
                    for step in 0..1999 {
                        sum.add(if step < 1000 { 7 } else { -7 });
                    }
                });
            }
        });
        assert_eq!(sum.exact(), 2 * PARTS as i64 * 7);
        assert!((sum.add(0) - sum.exact()).abs() <= sum.slack());
    }

    #[test]
    fn a_thread_keeps_its_part() {
        let parts = PerThread::new(|part| part);
        let first = *parts.mine();
        assert_eq!(*parts.mine(), first);
        assert_eq!(parts.iter().copied().collect::<Vec<_>>(), (0..PARTS).collect::<Vec<_>>());
    }
}
