//! How long a model takes: what any run costs and what each row adds, as a straight line through the last runs.
//!
//! A run that took longer than one of more rows tells nothing, such as a first one that loads what it needs: the line goes
//! through the others. It is that of Theil and Sen, through medians. What it says about more rows than were measured is a
//! guess, and so has a bound.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::sync::lock;

/// The line goes through so many runs.
const RUNS: usize = 16;

/// Runs that take no longer need no line: whatever waits is soon through.
const QUICK: u64 = 1_000_000;

/// Nobody is refused for what fewer runs took.
const PROOF: usize = 3;

/// A run of so many times the rows of the largest so far may be guessed at.
const GROWTH: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Run {
    rows: u64,
    took: u64,
}

#[derive(Debug, Default)]
struct Runs {
    last: Vec<Run>,
    next: usize,
    slow: usize,
}

/// A straight line: nanoseconds of a run and of a row in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Line {
    run: u64,
    row: u64,
}

/// How long runs of one signature take. All times are in nanoseconds, and 0 before anything is known.
#[derive(Debug, Default)]
pub struct ServiceTime {
    run: AtomicU64,
    row: AtomicU64,
    /// What a row took at most, its share of its run included.
    share: AtomicU64,
    /// Rows of the largest of the last runs, and whether these tell what a row adds.
    largest: AtomicU64,
    sloped: AtomicU64,
    /// Up to so many rows in one run the line holds.
    reach: AtomicU64,
    runs: Mutex<Runs>,
    /// When the run that began last is expected to end.
    busy_until: Mutex<Option<Instant>>,
}

impl ServiceTime {
    /// A run begins whose time matters.
    pub fn begin(&self, until: Instant) {
        *lock(&self.busy_until) = Some(until);
    }

    /// How long after this moment the run that began last is expected to go on.
    pub fn busy_after(&self, moment: Instant) -> Duration {
        let until = *lock(&self.busy_until);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(moment))
    }

    /// Learns from a run.
    pub fn count(&self, rows: usize, took: Duration) {
        let run = Run { rows: rows.max(1) as u64, took: took.as_nanos() as u64 };
        let mut runs = lock(&self.runs);
        runs.add(run);
        if runs.slow == 0 {
            return self.note(Line { run: run.took, row: 0 }, run.took / run.rows, &runs.last);
        }
        let telling = telling(&runs.last);
        let share = median(telling.iter().map(|run| run.took / run.rows));
        // Fewer runs prove nothing.
        let line = if runs.last.len() >= PROOF { line_through(&telling) } else { Line::default() };
        self.note(line, share, &telling);
    }

    fn note(&self, line: Line, share: u64, runs: &[Run]) {
        self.run.store(line.run.max(1), Ordering::Relaxed);
        self.row.store(line.row, Ordering::Relaxed);
        self.share.store(share, Ordering::Relaxed);
        let largest = runs.iter().map(|run| run.rows).max().unwrap_or(0);
        self.largest.store(largest, Ordering::Relaxed);
        // Where rows are nearly all that took time, the same is to be expected of many more.
        let by_rows = runs.len() >= PROOF && 4 * line.row * largest >= 3 * (line.run + line.row * largest);
        self.reach.store(if by_rows { u64::MAX } else { largest * GROWTH as u64 }, Ordering::Relaxed);
        self.sloped.store(u64::from(is_spread(runs) && line != Line::default()), Ordering::Relaxed);
    }

    /// Time for rows in so many runs, as far as it is known; rows beyond what the line reaches count nothing.
    #[inline]
    pub fn expect(&self, rows: u64, runs: u64) -> u64 {
        let rows = rows.min(self.reach.load(Ordering::Relaxed).saturating_mul(runs + 1));
        let (run, row) = (self.run.load(Ordering::Relaxed), self.row.load(Ordering::Relaxed));
        rows.saturating_mul(row).saturating_add(runs.saturating_mul(run))
    }

    /// The longest that a run of so many rows may take; none where nothing is known.
    pub fn at_most(&self, rows: usize) -> Option<u64> {
        let known = self.is_known_for(rows);
        match self.largest.load(Ordering::Relaxed) {
            0 => None,
            _ if known => Some(self.expect(rows as u64, 1)),
            _ => Some(self.share.load(Ordering::Relaxed).saturating_mul(rows as u64)),
        }
    }

    /// The most rows that should run in so much time: it is neither more than can be guessed at nor so few that runs cost
    /// more than their rows.
    pub fn fitting(&self, time: u64) -> usize {
        let largest = self.largest.load(Ordering::Relaxed).max(1) as usize;
        let (run, row) = (self.run.load(Ordering::Relaxed), self.row.load(Ordering::Relaxed));
        if !self.is_known_for(largest) {
            // Twice as many rows tell what a row adds.
            let fits = time / self.share.load(Ordering::Relaxed).max(1);
            return (fits as usize).clamp(1, GROWTH.max(2 * largest));
        }
        let fits = (time.saturating_sub(run) / row.max(1)).max(run / row.max(1));
        (fits as usize).clamp(1, GROWTH * largest)
    }

    fn is_known_for(&self, rows: usize) -> bool {
        self.sloped.load(Ordering::Relaxed) != 0 && rows <= GROWTH * self.largest.load(Ordering::Relaxed) as usize
    }
}

impl Runs {
    fn add(&mut self, run: Run) {
        self.slow += usize::from(run.took > QUICK);
        if self.last.len() < RUNS {
            return self.last.push(run);
        }
        let old = std::mem::replace(&mut self.last[self.next], run);
        self.slow -= usize::from(old.took > QUICK);
        self.next = (self.next + 1) % RUNS;
    }
}

/// The runs that did not take longer than any of as many rows or more.
fn telling(runs: &[Run]) -> Vec<Run> {
    let shorter = |one: &Run| runs.iter().any(|other| other.rows >= one.rows && other.took < one.took);
    runs.iter().filter(|run| !shorter(run)).copied().collect()
}

/// Whether runs differ enough in size to tell what a row adds.
fn is_spread(runs: &[Run]) -> bool {
    let sizes = || runs.iter().map(|run| run.rows);
    sizes().max() >= sizes().min().map(|least| 2 * least)
}

fn line_through(runs: &[Run]) -> Line {
    let mut slopes: Vec<i64> = Vec::with_capacity(RUNS * RUNS / 2);
    if is_spread(runs) {
        for (index, one) in runs.iter().enumerate() {
            let others = runs[..index].iter().filter(|other| other.rows != one.rows);
            slopes.extend(
                others.map(|other| (one.took as i64 - other.took as i64) / (one.rows as i64 - other.rows as i64)),
            );
        }
    }
    let slope = median(slopes.into_iter()).max(0) as u64;
    let row = slope.min(median(runs.iter().map(|run| run.took / run.rows)));
    let run = median(runs.iter().map(|run| run.took.saturating_sub(row * run.rows)));
    Line { run, row }
}

/// The lower of the two in the middle where there are two; 0 of none.
fn median<T: Ord + Copy + Default>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    if values.is_empty() {
        return T::default();
    }
    let middle = (values.len() - 1) / 2;
    *values.select_nth_unstable(middle).1
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
        let by_row = learned(&[(1, 70), (11, 770), (2, 140)]);
        assert!((6500..7500).contains(&(by_row.expect(100, 0) / MS)), "{}", by_row.expect(100, 0));
        let by_batch = learned(&[(1, 100), (11, 100), (64, 101)]);
        assert!(by_batch.expect(1000, 1) / MS < 150, "{}", by_batch.expect(1000, 1));
        let alone = learned(&[(1, 50), (1, 50), (1, 50)]);
        assert_eq!(alone.expect(10, 10) / MS, 500);
        let large = learned(&[(100, 7500), (400, 30_000), (200, 15_000)]);
        assert_eq!(large.expect(1000, 1) / MS, 75_000, "also where no run was small");
    }

    #[test]
    fn one_slow_batch_among_quick_ones_proves_nothing() {
        let service = learned(&[(1, 1), (10, 1), (10, 2000), (10, 1)]);
        assert!(service.expect(10_000, 10) / MS < 100, "{}", service.expect(10_000, 10));
        assert_eq!(learned(&[(1, 2000)]).expect(10_000, 10) / MS, 0, "a first run may load what it needs");
        for first in [1, 8, 64] {
            let service = learned(&[(first, 2000), (8, 1), (64, 1)]);
            assert!(service.expect(10_000, 10) / MS < 100, "{}", service.expect(10_000, 10));
        }
    }

    #[test]
    fn runs_of_like_sizes_tell_nothing_of_larger_ones() {
        let service = learned(&[(60, 5000), (64, 5200), (62, 4900)]);
        assert_eq!(service.expect(1000, 1) / MS, 4900);
        assert!(service.at_most(1000).is_some_and(|most| most / MS > 75_000), "but they may take as much as that");
        assert_eq!((service.fitting(4000 * MS), service.fitting(100_000 * MS)), (50, 128));
    }

    #[test]
    fn a_few_rows_that_took_a_little_longer_do_not_tell_what_hundreds_take() {
        let service = learned(&[(1, 120), (2, 125), (8, 200)]);
        assert!(service.expect(600, 0) / MS < 800, "{}", service.expect(600, 0));
        let service = learned(&[(1, 120), (2, 125), (8, 200), (64, 130)]);
        assert!(service.expect(600, 0) / MS < 150, "{}", service.expect(600, 0));
    }

    #[test]
    fn rows_are_not_run_in_fewer_than_pay_for_a_run() {
        let service = learned(&[(1, 1001), (100, 1100), (500, 1500)]);
        let fitting = [500, 2000, 3000].map(|millis| service.fitting(millis * MS));
        assert_eq!(fitting, [1000, 1000, 2000]);
        assert_eq!(ServiceTime::default().at_most(1), None);
    }
}
