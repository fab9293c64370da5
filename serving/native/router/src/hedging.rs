//! Second copies of requests that take long, at most one for each twenty requests, so that they cannot double a fleet's
//! work when all of it is slow. As in Dean and Barroso, "The Tail at Scale" (2013).

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// A second copy for so many requests.
const REQUESTS_OF_A_COPY: i64 = 20;
/// Copies that may go at once, where few went before.
const MOST_AT_ONCE: i64 = 16;

/// When a second copy goes, and how many may.
#[derive(Debug)]
pub struct Hedging {
    /// Without an answer for so long.
    pub after: Duration,
    /// Requests that came for which no copy went.
    saved: AtomicI64,
}

impl Hedging {
    /// None went yet.
    pub fn new(after: Duration) -> Hedging {
        Hedging { after, saved: AtomicI64::new(REQUESTS_OF_A_COPY) }
    }

    /// A request came.
    pub fn note(&self) {
        if self.saved.load(Ordering::Relaxed) < REQUESTS_OF_A_COPY * MOST_AT_ONCE {
            self.saved.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether a copy may go now; then it is counted.
    pub fn take(&self) -> bool {
        let taken = self.saved.fetch_sub(REQUESTS_OF_A_COPY, Ordering::Relaxed) >= REQUESTS_OF_A_COPY;
        if !taken {
            self.saved.fetch_add(REQUESTS_OF_A_COPY, Ordering::Relaxed);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_copy_goes_for_twenty_requests_and_few_at_once() {
        let hedging = Hedging::new(Duration::ZERO);
        let taken = |count: usize| (0..count).filter(|_| hedging.take()).count();
        assert_eq!(taken(5), 1);
        (0..200).for_each(|_| hedging.note());
        assert_eq!(taken(50), 10);
        (0..100_000).for_each(|_| hedging.note());
        assert_eq!(taken(50), MOST_AT_ONCE as usize);
    }
}
