//! Batching parameters: when a batch closes, how long a queue may grow, how many threads empty it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::sync::lock;

/// When a batch closes and how long its queue may grow.
#[derive(Clone, Debug)]
pub struct Batching {
    /// Closes a batch.
    pub max_batch_rows: usize,
    /// Waits that long for more, if above zero.
    pub timeout_us: u64,
    /// Beyond it a request is refused.
    pub max_queued_rows: usize,
    /// Executor threads, at most; they come with the requests.
    pub concurrency: usize,
    /// The only numbers of rows that the model runs, ascending; empty for any.
    pub allowed_batch_sizes: Arc<[usize]>,
}

impl Batching {
    /// Says which value cannot be.
    pub fn check(&self) -> Result<(), String> {
        let limits = [
            ("max_batch_rows", self.max_batch_rows),
            ("max_queued_rows", self.max_queued_rows),
            ("concurrency", self.concurrency),
        ];
        match limits.iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(format!("{name} is 0: it must be at least 1")),
            None => self.check_sizes(),
        }
    }

    fn check_sizes(&self) -> Result<(), String> {
        let (sizes, most) = (&*self.allowed_batch_sizes, self.max_batch_rows);
        if sizes.first() == Some(&0) || !sizes.is_sorted_by(|left, right| left < right) {
            return Err(format!("allowed_batch_sizes are {sizes:?}: they must be above 0 and ascend"));
        }
        match sizes.last() {
            Some(last) if *last != most => {
                Err(format!("allowed_batch_sizes end at {last}, max_batch_rows is {most}: they must be equal"))
            }
            _ => Ok(()),
        }
    }
}

/// When a batch closes and how long the queue may grow; may change while requests wait.
#[derive(Debug)]
pub struct QueueLimits {
    max_batch_rows: AtomicUsize,
    timeout_us: AtomicU64,
    max_queued_rows: AtomicUsize,
    allowed_batch_sizes: Mutex<Arc<[usize]>>,
}

impl QueueLimits {
    /// Those given.
    pub fn new(batching: &Batching) -> QueueLimits {
        QueueLimits {
            max_batch_rows: AtomicUsize::new(batching.max_batch_rows),
            timeout_us: AtomicU64::new(batching.timeout_us),
            max_queued_rows: AtomicUsize::new(batching.max_queued_rows),
            allowed_batch_sizes: Mutex::new(batching.allowed_batch_sizes.clone()),
        }
    }

    /// Takes over new ones. A batch that is larger already goes as it is.
    pub fn set(&self, batching: &Batching) {
        self.max_batch_rows.store(batching.max_batch_rows, Ordering::Relaxed);
        self.timeout_us.store(batching.timeout_us, Ordering::Relaxed);
        self.max_queued_rows.store(batching.max_queued_rows, Ordering::Relaxed);
        lock(&self.allowed_batch_sizes).clone_from(&batching.allowed_batch_sizes);
    }

    /// Closes a batch.
    pub fn max_batch_rows(&self) -> usize {
        self.max_batch_rows.load(Ordering::Relaxed)
    }

    /// Waits that long for more, if above zero.
    pub fn timeout_us(&self) -> u64 {
        self.timeout_us.load(Ordering::Relaxed)
    }

    /// Beyond it a request is refused.
    pub fn max_queued_rows(&self) -> usize {
        self.max_queued_rows.load(Ordering::Relaxed)
    }

    /// The only numbers of rows that the model runs, ascending; empty for any.
    pub fn allowed_batch_sizes(&self) -> Arc<[usize]> {
        lock(&self.allowed_batch_sizes).clone()
    }
}
