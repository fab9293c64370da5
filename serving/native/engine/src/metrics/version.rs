//! Counters of one version.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_codec::status::{CODES, Code};

use crate::metrics::answers::{Answers, CALLS, Call, ENDPOINTS, Endpoint};
use crate::metrics::histogram::Histogram;
use crate::metrics::running::RunningCalls;
use crate::metrics::stages::SignatureMetrics;
use crate::per_thread::PerThread;
use crate::sync::lock;

/// Says how often a model was entered; 0 once its executor is gone.
pub type EntryCounter = Box<dyn Fn() -> u64 + Send + Sync>;

/// What nearly every request counts.
#[derive(Debug, Default)]
struct Often {
    calls: [AtomicU64; CALLS.len()],
    /// Answers without an error, by endpoint.
    succeeded: [AtomicU64; ENDPOINTS.len()],
    /// Rows that came to wait less those that wait no longer.
    queued_rows: AtomicI64,
}

/// Counters of one version.
#[derive(Default)]
pub struct VersionMetrics {
    often: PerThread<Often>,
    /// Answers with an error.
    failures: Answers,
    /// Executor calls.
    pub batches: AtomicU64,
    /// Rows in them.
    pub rows: AtomicU64,
    /// Rows per executor call.
    pub batch_rows: Histogram,
    /// Copies of rows that filled batches up to an allowed size (TensorFlow Serving's `padding_size`).
    pub padding_rows: AtomicU64,
    /// Batches that raised and were run again in halves.
    pub bisections: AtomicU64,
    /// Requests that wait though the queue was full when they came.
    pub waiting_requests: AtomicU64,
    /// Requests refused because the queue was full.
    pub rejections: AtomicU64,
    /// Requests whose deadline passed in the queue.
    pub deadline_drops: AtomicU64,
    /// Requests whose client went away while they waited.
    pub cancelled: AtomicU64,
    /// Requests copied to this version.
    pub shadow_copied: AtomicU64,
    /// Copies that its full queue refused.
    pub shadow_dropped: AtomicU64,
    /// Copies that do not fit its signature.
    pub shadow_failed: AtomicU64,
    /// Batches that were lost to a fault of the server itself.
    pub panics: AtomicU64,
    /// Messages of its streaming answers.
    pub messages: AtomicU64,
    /// Calls of its model that run now.
    pub running: RunningCalls,
    signatures: Mutex<BTreeMap<String, Arc<SignatureMetrics>>>,
    executor: Mutex<Option<EntryCounter>>,
    settled_entries: AtomicU64,
}

impl std::fmt::Debug for VersionMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VersionMetrics")
    }
}

impl VersionMetrics {
    /// Counts a request that found this version.
    pub fn count_call(&self, call: Call) {
        self.often.mine().calls[call as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an answer.
    pub fn count_answer(&self, endpoint: Endpoint, code: Code) {
        if code != Code::Ok {
            return self.failures.count(endpoint, code);
        }
        self.often.mine().succeeded[endpoint as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts rows that wait from now on, or with a minus those that wait no longer.
    pub(crate) fn count_queued(&self, rows: i64) {
        self.often.mine().queued_rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Requests by what they ask.
    pub fn calls(&self) -> [u64; CALLS.len()] {
        std::array::from_fn(|call| self.often.iter().map(|often| often.calls[call].load(Ordering::Relaxed)).sum())
    }

    /// Answers by endpoint and code.
    pub fn answers(&self) -> [[u64; CODES]; ENDPOINTS.len()] {
        let mut answers = self.failures.by_endpoint();
        for (endpoint, by_code) in answers.iter_mut().enumerate() {
            let succeeded = self.often.iter().map(|often| often.succeeded[endpoint].load(Ordering::Relaxed));
            by_code[Code::Ok as usize] = succeeded.sum();
        }
        answers
    }

    /// How many answers had an error.
    pub fn failures(&self) -> u64 {
        self.failures.by_endpoint().iter().flatten().sum()
    }

    /// Rows that wait in its queues.
    pub fn queued_rows(&self) -> u64 {
        let all: i64 = self.often.iter().map(|often| often.queued_rows.load(Ordering::Relaxed)).sum();
        u64::try_from(all).unwrap_or(0)
    }

    /// Counts one executor call of `size` rows, `rows` of them of requests and the others copies.
    pub fn count_batch(&self, rows: usize, size: usize) {
        self.padding_rows.fetch_add((size - rows) as u64, Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
        self.batch_rows.add(rows as u64);
    }

    /// The times of one signature's requests.
    pub fn signature(&self, name: &str) -> Arc<SignatureMetrics> {
        lock(&self.signatures).entry(name.to_owned()).or_default().clone()
    }

    /// Those of all signatures, by name.
    pub fn signatures(&self) -> Vec<(String, Arc<SignatureMetrics>)> {
        lock(&self.signatures).iter().map(|(name, times)| (name.clone(), times.clone())).collect()
    }

    /// Reports the entries into the model by this from now on.
    pub fn observe(&self, executor: EntryCounter) {
        *lock(&self.executor) = Some(executor);
    }

    /// Entries into the model so far.
    pub fn entries(&self) -> u64 {
        self.settled_entries.load(Ordering::Relaxed) + lock(&self.executor).as_ref().map_or(0, |entries| entries())
    }

    /// Whether its version is gone.
    pub fn is_settled(&self) -> bool {
        lock(&self.executor).is_none()
    }

    /// Keeps the number of entries of an executor that goes.
    pub fn settle(&self, entries: u64) {
        let mut observed = lock(&self.executor);
        self.settled_entries.fetch_add(entries, Ordering::Relaxed);
        *observed = None;
    }
}
