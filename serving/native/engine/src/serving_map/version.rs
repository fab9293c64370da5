//! A published version: its identity, one queue per signature, and its executor threads.
//! The map and every request in flight hold it; when the last of them lets go, the plane tells Python.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;

use http::HeaderValue;
use tidegate_codec::model_metadata::{Description, ModelMetadata};
use tidegate_codec::status::{Code, Status};

use crate::batching::{Batching, CompletionsByLane, Executor, ExecutorPool, ExecutorThread, Queue, ThreadStarter};
use crate::per_thread::Apart;

/// A queue as the requests of one lane hold it: who holds it otherwise is counted elsewhere, so that lanes do not wait for
/// each other to count theirs.
pub type HeldQueue = Arc<Apart<Arc<Queue>>>;

/// A version in the map, or held by requests after it left the map.
pub struct Version {
    /// The model's name.
    pub model: Arc<str>,
    /// Its number.
    pub number: i64,
    /// One per signature.
    pub queues: Arc<[Arc<Queue>]>,
    /// The same for each lane that had requests.
    held: Box<[OnceLock<Box<[HeldQueue]>>]>,
    /// Its number as a header's value.
    pub header: HeaderValue,
    /// Wakes and stops its executor threads.
    pub executors: Arc<ExecutorPool>,
    /// How its model itself describes its signatures, where it does.
    pub description: Option<Description>,
    retired: AtomicBool,
    completions: CompletionsByLane,
    remains: Option<Remains>,
    released: Sender<Remains>,
}

/// What is left of a version when its last handle is gone, to be taken apart away from the I/O threads.
pub struct Remains {
    /// The model's name.
    pub model: Arc<str>,
    /// The version's number.
    pub number: i64,
    /// Told to stop; to be joined.
    pub threads: Vec<JoinHandle<()>>,
    /// The model itself, last to go.
    pub executor: Arc<dyn Executor>,
    /// Whether it was retired, as against never published or dropped with the plane.
    pub retired: bool,
}

impl std::fmt::Debug for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "model '{}' version {}", self.model, self.number)
    }
}

/// What `Version::new` needs beside its identity.
pub struct Parts<Q> {
    /// Makes one queue per signature, all of one pool of threads.
    pub queues: Q,
    /// What its threads run.
    pub executor: Arc<dyn Executor>,
    /// Where its finished batches go, by I/O thread.
    pub completions: CompletionsByLane,
    /// How its model itself describes its signatures, where it does.
    pub description: Option<Description>,
}

impl Version {
    /// A version that starts executor threads when requests come, once `tune` allows it some; `released` gets its
    /// remains when the last handle is gone.
    pub fn new<Q: FnOnce(&Arc<ExecutorPool>) -> Vec<Arc<Queue>>>(
        model: Arc<str>,
        number: i64,
        parts: Parts<Q>,
        released: Sender<Remains>,
    ) -> Arc<Version> {
        let Parts { queues, executor, completions, description } = parts;
        let remains = Remains { model: model.clone(), number, threads: Vec::new(), executor, retired: false };
        Arc::new_cyclic(|version: &Weak<Version>| {
            let executors = Arc::new(ExecutorPool::new(version.clone()));
            Version {
                header: HeaderValue::from(number),
                model,
                number,
                queues: queues(&executors).into(),
                held: (0..completions.len()).map(|_| OnceLock::new()).collect(),
                executors,
                description,
                retired: AtomicBool::new(false),
                completions,
                remains: Some(remains),
                released,
            }
        })
    }

    /// Whether requests of a signature of its belong to sequences.
    pub fn has_sequences(&self) -> bool {
        self.queues.iter().any(|queue| queue.signature().sequences)
    }

    /// Changes its queues' limits and the number of its executor threads, of which one of sequences has one; requests that
    /// wait stay where they are.
    pub fn tune(&self, batching: &Batching) {
        let before = self.executors.limit();
        self.executors.resize(if self.has_sequences() { 1 } else { batching.concurrency });
        for queue in &*self.queues {
            queue.tune(batching);
        }
        // A batch that was to wait longer may be due now, and there may be more threads for those that wait.
        if self.queues.iter().any(|queue| queue.queued_rows() > 0) {
            (before..batching.concurrency.max(before + 1)).for_each(|_| self.executors.wake());
        }
    }

    /// It has left the map: Python is to be told when its last handle is gone.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// Its signatures and what its model says about them.
    pub fn metadata(&self) -> ModelMetadata<'_> {
        ModelMetadata {
            model: &self.model,
            version: self.number,
            signatures: self.queues.iter().map(|queue| queue.signature()).collect(),
            description: self.description.as_ref(),
        }
    }

    /// One of its queues, for a request of this lane.
    pub fn hold(&self, queue: &Arc<Queue>, lane: usize) -> HeldQueue {
        let held_here = || self.queues.iter().map(|queue| Arc::new(Apart(queue.clone()))).collect();
        let held = self.held[lane].get_or_init(held_here);
        let held = held.iter().find(|held| Arc::ptr_eq(&held.0, queue));
        held.cloned().unwrap_or_else(|| Arc::new(Apart(queue.clone())))
    }

    /// The queue of a signature.
    pub fn queue(&self, signature: &str) -> Option<&Arc<Queue>> {
        self.queues.iter().find(|queue| queue.signature().name == signature)
    }
}

impl ThreadStarter for Version {
    /// Where no thread can be had at all, whoever waits is told so.
    fn start_thread(&self) {
        let Some(Remains { executor, .. }) = &self.remains else { return };
        let (executor, completions) = (executor.clone(), self.completions.clone());
        let thread =
            ExecutorThread { pool: self.executors.clone(), queues: self.queues.clone(), executor, completions };
        let started = thread.clone();
        if let Err(why) = self.executors.start(move || started.run()) {
            let why = format!("model '{}': cannot start an executor thread: {why}", self.model);
            thread.refuse_waiting(&Status::new(Code::Unavailable, why));
        }
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        self.executors.close();
        if let Some(mut remains) = self.remains.take() {
            remains.retired = self.retired.load(Ordering::Acquire);
            remains.threads = self.executors.take_threads();
            // Without a receiver the plane itself is gone, and the remains fall here.
            let _ = self.released.send(remains);
        }
    }
}
