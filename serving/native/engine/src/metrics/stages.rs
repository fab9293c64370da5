//! How long the requests of one signature took, stage by stage; counted once for each batch that ran.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::metrics::answers::{Asked, CALLS, ENDPOINTS};
use crate::metrics::closings::Closings;
use crate::metrics::histogram::{Histogram, Spent, Tally};
use crate::sync::lock;

/// The names of the stages in metrics.
pub const STAGES: [&str; 4] = ["decode", "queue", "run", "encode"];

/// Sizes of batches that are told apart; what has another size beyond that many is in no `SizeTimes`.
const SIZES: usize = 4096;

/// The batches of one size: how many, and nanoseconds together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeTimes {
    /// How many.
    pub batches: u64,
    /// Decoding all their requests.
    pub decode_ns: u64,
    /// Running.
    pub run_ns: u64,
    /// Encoding all their answers.
    pub encode_ns: u64,
}

impl SizeTimes {
    /// Counts others too.
    pub fn add(&mut self, more: &SizeTimes) {
        self.batches += more.batches;
        self.decode_ns += more.decode_ns;
        self.run_ns += more.run_ns;
        self.encode_ns += more.encode_ns;
    }
}

/// Requests of one signature that ran.
#[derive(Debug, Default)]
pub struct SignatureMetrics {
    /// From a request's last byte until its batch is answered, by endpoint and method.
    pub whole: [[Histogram; CALLS.len()]; ENDPOINTS.len()],
    /// Until it is in a batch; until the model begins; until the model ends; until the batch is answered.
    pub stages: [Histogram; STAGES.len()],
    /// Its batches.
    pub closings: Closings,
    failed: AtomicU64,
    failed_ns: AtomicU64,
    last_ms: AtomicU64,
    sizes: Mutex<BTreeMap<usize, SizeTimes>>,
}

/// When the model began with a batch, and when it ended.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// Its beginning.
    pub began: Instant,
    /// Its end.
    pub ended: Instant,
}

/// Requests of a batch that ran, to be counted together.
#[derive(Debug)]
pub struct BatchTimes {
    ran: Ran,
    waits: [Tally; 2],
    /// Hardly ever more than one: clients of a model ask alike.
    wholes: Vec<(Asked, Tally)>,
    failed: Spent,
    count: u64,
}

impl BatchTimes {
    /// Of a batch that ran.
    pub fn new(ran: Ran) -> BatchTimes {
        let waits = [Tally::default(), Tally::default()];
        BatchTimes { ran, waits, wholes: Vec::with_capacity(1), failed: Spent::default(), count: 0 }
    }

    /// One more request: when its last byte had come, when it was in the batch, and when it was answered.
    #[inline]
    pub fn add(&mut self, asked: Asked, received: Instant, entered: Instant, now: Instant, failed: bool) {
        self.waits[0].add(nanoseconds(received, entered));
        self.waits[1].add(nanoseconds(entered, self.ran.began));
        let whole = nanoseconds(received, now);
        match self.wholes.iter_mut().find(|(other, _)| *other == asked) {
            Some((_, tally)) => tally.add(whole),
            None => {
                let mut tally = Tally::default();
                tally.add(whole);
                self.wholes.push((asked, tally));
            }
        }
        self.count += 1;
        if failed {
            self.failed = Spent { count: self.failed.count + 1, ns: self.failed.ns + whole };
        }
    }

    /// Counts them, once all are answered, as one batch of so many rows.
    pub fn count_in(self, metrics: &SignatureMetrics, rows: usize) {
        if self.count == 0 {
            return;
        }
        let Ran { began, ended } = self.ran;
        metrics.stages[0].add_all(&self.waits[0]);
        metrics.stages[1].add_all(&self.waits[1]);
        metrics.stages[2].add_many(nanoseconds(began, ended), self.count);
        let encoding = nanoseconds(ended, Instant::now());
        metrics.stages[3].add_many(encoding, self.count);
        for (asked, tally) in &self.wholes {
            metrics.whole[asked.endpoint as usize][asked.call as usize].add_all(tally);
        }
        if self.failed.count > 0 {
            metrics.failed.fetch_add(self.failed.count, Ordering::Relaxed);
            metrics.failed_ns.fetch_add(self.failed.ns, Ordering::Relaxed);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        metrics.last_ms.store(now.as_millis() as u64, Ordering::Relaxed);
        let (decode_ns, run_ns) = (self.waits[0].sum(), nanoseconds(began, ended));
        metrics.count_size(rows, &SizeTimes { batches: 1, decode_ns, run_ns, encode_ns: encoding });
    }
}

impl SignatureMetrics {
    /// All that ran.
    pub fn all(&self) -> Spent {
        self.whole
            .iter()
            .flatten()
            .map(Histogram::spent)
            .fold(Spent::default(), |all, one| Spent { count: all.count + one.count, ns: all.ns + one.ns })
    }

    /// Those that failed.
    pub fn failed(&self) -> Spent {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Spent { count: load(&self.failed), ns: load(&self.failed_ns) }
    }

    /// Batches by their rows, the smallest first.
    pub fn sizes(&self) -> BTreeMap<usize, SizeTimes> {
        lock(&self.sizes).clone()
    }

    fn count_size(&self, rows: usize, times: &SizeTimes) {
        let mut sizes = lock(&self.sizes);
        if sizes.len() < SIZES || sizes.contains_key(&rows) {
            sizes.entry(rows).or_default().add(times);
        }
    }

    /// When the last batch was answered, in milliseconds since 1970; 0 for never.
    pub fn last_ms(&self) -> u64 {
        self.last_ms.load(Ordering::Relaxed)
    }
}

fn nanoseconds(from: Instant, until: Instant) -> u64 {
    let passed: Duration = until.saturating_duration_since(from);
    u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::answers::{Call, Endpoint};

    #[test]
    fn stages_follow_each_other_and_failures_are_apart() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut times = BatchTimes::new(Ran { began: at(10), ended: at(30) });
        let asked = |endpoint, call| Asked { endpoint, call };
        times.add(asked(Endpoint::Grpc, Call::Predict), at(0), at(1), at(31), false);
        times.add(asked(Endpoint::Rest, Call::Regress), at(4), at(6), at(31), true);
        let metrics = SignatureMetrics::default();
        times.count_in(&metrics, 5);
        let ns = |spent: Spent| (spent.count, spent.ns / 1_000_000);
        let [decode, queue, run, encode] = &metrics.stages;
        assert_eq!([decode, queue, run].map(|stage| ns(stage.spent())), [(2, 1 + 2), (2, 9 + 4), (2, 20 + 20)]);
        let whole = |endpoint, call| ns(metrics.whole[endpoint as usize][call as usize].spent());
        assert_eq!(whole(Endpoint::Grpc, Call::Predict), (1, 31));
        assert_eq!((whole(Endpoint::Rest, Call::Regress), ns(metrics.all())), ((1, 27), (2, 31 + 27)));
        assert_eq!((ns(metrics.failed()), encode.spent().count), ((1, 27), 2));
        assert!(metrics.last_ms() > 0);
        let sizes: Vec<_> = metrics.sizes().into_iter().collect();
        let (rows, times) = sizes[0];
        assert_eq!((sizes.len(), rows, times.batches), (1, 5, 1));
        assert_eq!((times.decode_ns / 1_000_000, times.run_ns / 1_000_000), (1 + 2, 20));
        assert_eq!(
            times.encode_ns,
            encode.spent().ns / 2,
            "once for the batch, though each of its requests waits for it"
        );
        BatchTimes::new(Ran { began: at(0), ended: at(0) }).count_in(&metrics, 2);
        assert_eq!(metrics.all().count, 2, "a batch of copies alone counts nothing");
    }
}
