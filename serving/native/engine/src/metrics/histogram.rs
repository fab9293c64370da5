//! A histogram with buckets that double, wide enough for nanoseconds and for rows.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::metrics::prometheus::Samples;

const BUCKETS: usize = 40;

/// Counts by power of two.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: std::array::from_fn(|_| AtomicU64::new(0)), sum: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Counts one value.
    #[inline]
    pub fn add(&self, value: u64) {
        // Bucket i holds values up to 2^i.
        let index = (u64::BITS - value.saturating_sub(1).leading_zeros()) as usize;
        self.buckets[index.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Cumulative buckets from the first to the last that is not empty, sum and count; `unit` scales values.
    pub fn samples(&self, list: &mut impl Samples, name: &str, labels: &str, unit: f64) {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
        let last = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
        let mut below = 0;
        for (index, count) in counts.iter().enumerate().take(last + 1).skip(first) {
            below += count;
            let bound = 2f64.powi(index as i32) * unit;
            list.add(name, "_bucket", format_args!("{labels},le=\"{bound}\""), below as f64);
        }
        list.add(name, "_bucket", format_args!("{labels},le=\"+Inf\""), total as f64);
        list.add(name, "_sum", format_args!("{labels}"), self.sum.load(Ordering::Relaxed) as f64 * unit);
        list.add(name, "_count", format_args!("{labels}"), total as f64);
    }
}
