//! How long a model takes: what any batch costs and what each row adds, learned from the batches that ran.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Nanoseconds of a batch and of a row in it; 0 before anything is known.
#[derive(Debug, Default)]
pub struct ServiceTime {
    batch: AtomicU64,
    row: AtomicU64,
    /// What a row took in the last batch of several: one slow batch alone proves nothing.
    last: AtomicU64,
}

impl ServiceTime {
    /// Learns from a batch.
    pub fn count(&self, rows: usize, took: Duration) {
        let (rows, took) = (rows as u64, took.as_nanos() as u64);
        let known = self.batch.load(Ordering::Relaxed);
        // The least that was seen, which slowly forgets.
        let batch = if known == 0 { took } else { took.min(known + known / 16) };
        self.batch.store(batch.max(1), Ordering::Relaxed);
        if rows > 1 {
            let sample = ((took - batch) / (rows - 1)).max(1);
            let last = self.last.swap(sample, Ordering::Relaxed);
            let sample = if last == 0 { sample } else { sample.min(last) };
            let known = self.row.load(Ordering::Relaxed);
            let row = if known == 0 { sample } else { (known + sample) / 2 };
            self.row.store(row, Ordering::Relaxed);
        }
    }

    /// Nanoseconds for rows in so many batches.
    #[inline]
    pub fn expect(&self, rows: u64, batches: u64) -> u64 {
        let (batch, row) = (self.batch.load(Ordering::Relaxed), self.row.load(Ordering::Relaxed));
        rows.saturating_mul(row).saturating_add(batches.saturating_mul(batch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn learned(batches: &[(usize, u64)]) -> ServiceTime {
        let service = ServiceTime::default();
        batches.iter().for_each(|(rows, millis)| service.count(*rows, Duration::from_millis(*millis)));
        service
    }

    #[test]
    fn a_model_that_is_slow_by_the_row_is_told_from_one_that_is_slow_by_the_batch() {
        let by_row = learned(&[(1, 70), (11, 770)]);
        assert!((6500..7500).contains(&(by_row.expect(100, 0) / MS)), "{}", by_row.expect(100, 0));
        let by_batch = learned(&[(1, 100), (11, 100), (64, 101)]);
        assert!(by_batch.expect(1000, 1) / MS < 150, "{}", by_batch.expect(1000, 1));
        let alone = learned(&[(1, 50), (1, 50)]);
        assert_eq!(alone.expect(10, 10) / MS, 500);
    }

    #[test]
    fn one_slow_batch_among_quick_ones_proves_nothing() {
        let service = learned(&[(1, 1), (10, 1), (10, 2000), (10, 1)]);
        assert!(service.expect(10_000, 10) / MS < 100, "{}", service.expect(10_000, 10));
    }
}
