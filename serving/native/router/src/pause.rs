//! The pause in which an address, or a model on a node, is left alone that failed; it grows with each failure after another.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// Whether it is left alone.
#[derive(Debug)]
pub struct Pause {
    begun: Instant,
    failures: AtomicU32,
    /// Milliseconds since then.
    until: AtomicU64,
}

impl Default for Pause {
    fn default() -> Pause {
        Pause { begun: Instant::now(), failures: AtomicU32::new(0), until: AtomicU64::new(0) }
    }
}

impl Pause {
    fn at(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.begun).as_millis() as u64
    }

    /// It failed. What fails within a pause failed together with what began it.
    pub fn fail(&self, now: Instant) {
        let (at, until) = (self.at(now), self.until.load(Ordering::Relaxed));
        if at < until {
            return;
        }
        let failures = self.failures.load(Ordering::Relaxed).min(16);
        let pause = (FIRST * (1 << failures)).min(LONGEST);
        let next = at + pause.as_millis() as u64;
        if self.until.compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.failures.store(failures + 1, Ordering::Relaxed);
        }
    }

    /// It answered.
    pub fn end(&self) {
        if self.has_failed() {
            self.failures.store(0, Ordering::Relaxed);
            self.until.store(0, Ordering::Relaxed);
        }
    }

    /// Whether it has failed since it answered last.
    pub fn has_failed(&self) -> bool {
        self.failures.load(Ordering::Relaxed) != 0
    }

    /// Whether it is left alone now.
    pub fn lasts(&self, now: Instant) -> bool {
        self.has_failed() && self.at(now) < self.until.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_the_address_answers() {
        let pause = Pause::default();
        let mut now = pause.begun;
        let lengths = [1, 2, 4, 8, 16, 32, 64, 100, 100].map(|hundreds| FIRST * hundreds);
        for length in lengths {
            pause.fail(now);
            pause.fail(now);
            assert!(pause.lasts(now + length - Duration::from_millis(1)), "{length:?}");
            now += length;
            assert!(!pause.lasts(now), "{length:?}");
        }
        pause.fail(now);
        pause.end();
        assert!(!pause.lasts(now));
        pause.fail(now);
        assert!(!pause.lasts(now + FIRST));
    }
}
