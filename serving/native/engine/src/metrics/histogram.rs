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

/// A number of requests and their time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// How many.
    pub count: u64,
    /// How long they took together.
    pub ns: u64,
}

/// Values of one thread, on their way to a histogram.
#[derive(Debug)]
pub struct Tally {
    buckets: [u32; BUCKETS],
    /// A bit for each bucket that holds something.
    touched: u64,
    sum: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { buckets: [0; BUCKETS], touched: 0, sum: 0 }
    }
}

impl Tally {
    /// All values together.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Counts one value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        let index = bucket_of(value);
        self.buckets[index] += 1;
        self.touched |= 1 << index;
        self.sum = self.sum.saturating_add(value);
    }
}

/// Bucket i holds values up to 2^i.
#[inline]
fn bucket_of(value: u64) -> usize {
    ((u64::BITS - value.saturating_sub(1).leading_zeros()) as usize).min(BUCKETS - 1)
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
        self.add_many(value, 1);
    }

    /// Counts so many equal values.
    #[inline]
    pub fn add_many(&self, value: u64, count: u64) {
        self.buckets[bucket_of(value)].fetch_add(count, Ordering::Relaxed);
        self.sum.fetch_add(value.saturating_mul(count), Ordering::Relaxed);
    }

    /// Counts the values of a tally.
    pub fn add_all(&self, tally: &Tally) {
        let mut left = tally.touched;
        while left != 0 {
            let index = left.trailing_zeros() as usize;
            self.buckets[index].fetch_add(u64::from(tally.buckets[index]), Ordering::Relaxed);
            left &= left - 1;
        }
        self.sum.fetch_add(tally.sum, Ordering::Relaxed);
    }

    /// How many values, and their sum.
    pub fn spent(&self) -> Spent {
        let count = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum();
        Spent { count, ns: self.sum.load(Ordering::Relaxed) }
    }

    /// Cumulative buckets from the first to the last that is not empty, sum and count; `unit` scales values.
    pub fn samples(&self, list: &mut impl Samples, name: &str, labels: &str, unit: f64) {
        Histogram::samples_of(std::iter::once(self), list, name, labels, unit);
    }

    /// The same of several together.
    pub fn samples_of<'h>(
        parts: impl Iterator<Item = &'h Histogram>,
        list: &mut impl Samples,
        name: &str,
        labels: &str,
        unit: f64,
    ) {
        let (mut counts, mut sum) = ([0u64; BUCKETS], 0u64);
        for part in parts {
            counts.iter_mut().zip(&part.buckets).for_each(|(count, more)| *count += more.load(Ordering::Relaxed));
            sum = sum.wrapping_add(part.sum.load(Ordering::Relaxed));
        }
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
        list.add(name, "_sum", format_args!("{labels}"), sum as f64 * unit);
        list.add(name, "_count", format_args!("{labels}"), total as f64);
    }
}
