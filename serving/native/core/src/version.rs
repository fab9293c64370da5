//! A published version as requests see it: its identity, one queue per signature, and the crew that empties them.
//! The serving map and every request in flight hold it; when the last of them lets go, the plane tells Python.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use bytes::Bytes;
use http::HeaderValue;

use crate::crew::{Crew, Employer};
use crate::executor::{Executor, Station};
use crate::mailbox::Mailbox;
use crate::metadata::Described;
use crate::metrics::VersionMetrics;
use crate::predict_response;
use crate::queue::Queue;
use crate::signature::Signature;
use crate::status::{Code, Status};

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
    /// The only numbers of rows that the model is asked for, ascending; empty for any.
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

/// One signature of a version, with its queue.
#[derive(Debug)]
pub struct ServedSignature {
    /// The model's name.
    pub model: Arc<str>,
    /// The version's number.
    pub number: i64,
    /// What it takes and gives.
    pub signature: Signature,
    /// What waits to be run.
    pub queue: Queue,
    /// Counters of the version.
    pub metrics: Arc<VersionMetrics>,
    /// Wakes the executor threads.
    pub crew: Arc<Crew>,
    /// `model_spec` of its answers, encoded.
    pub model_spec_field: Bytes,
}

/// A version in the map, or held by requests after it left the map.
#[derive(Debug)]
pub struct Version {
    /// The model's name.
    pub model: Arc<str>,
    /// Its number.
    pub number: i64,
    /// One per signature.
    pub served_signatures: Arc<[Arc<ServedSignature>]>,
    /// `x-tidegate-version` of its answers.
    pub header: HeaderValue,
    /// Wakes and stops its executor threads.
    pub crew: Arc<Crew>,
    /// How its model itself describes its signatures, where it does.
    pub described: Option<Described>,
    retired: AtomicBool,
    mailboxes: Arc<[Arc<Mailbox>]>,
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

impl std::fmt::Debug for Remains {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "remains of {} version {}", self.model, self.number)
    }
}

/// What `Version::new` needs beside its identity.
pub struct Parts<E> {
    /// Makes one per signature, all of one crew.
    pub served_signatures: E,
    /// What its threads run.
    pub executor: Arc<dyn Executor>,
    /// Where its finished batches go, by I/O thread.
    pub mailboxes: Arc<[Arc<Mailbox>]>,
    /// How its model itself describes its signatures, where it does.
    pub described: Option<Described>,
}

impl Version {
    /// A version that hires executor threads when requests come, once `tune` allows it some; `released` gets its
    /// remains when the last handle is gone.
    pub fn new<E: FnOnce(&Arc<Crew>) -> Vec<Arc<ServedSignature>>>(
        model: Arc<str>,
        number: i64,
        parts: Parts<E>,
        released: Sender<Remains>,
    ) -> Arc<Version> {
        let Parts { served_signatures, executor, mailboxes, described } = parts;
        let remains = Remains { model: model.clone(), number, threads: Vec::new(), executor, retired: false };
        Arc::new_cyclic(|version: &Weak<Version>| {
            let crew = Arc::new(Crew::new(version.clone()));
            Version {
                header: HeaderValue::from(number),
                model,
                number,
                served_signatures: served_signatures(&crew).into(),
                crew,
                described,
                retired: AtomicBool::new(false),
                mailboxes,
                remains: Some(remains),
                released,
            }
        })
    }

    /// Changes its queues' limits and the number of its executor threads; requests that wait stay where they are.
    pub fn tune(&self, batching: &Batching) {
        let before = self.crew.wanted();
        self.crew.resize(batching.concurrency);
        for served in &*self.served_signatures {
            served.queue.limits().set(batching);
        }
        // A batch that was to wait longer may be due now, and there may be more threads for those that wait.
        if self.served_signatures.iter().any(|served| served.queue.queued_rows() > 0) {
            (before..batching.concurrency.max(before + 1)).for_each(|_| self.crew.wake());
        }
    }

    /// How it was tuned last.
    pub fn batching(&self) -> Option<Batching> {
        let limits = self.served_signatures.first()?.queue.limits();
        Some(Batching {
            max_batch_rows: limits.max_batch_rows(),
            timeout_us: limits.timeout_us(),
            max_queued_rows: limits.max_queued_rows(),
            concurrency: self.crew.wanted(),
            allowed_batch_sizes: limits.allowed_batch_sizes(),
        })
    }

    /// The map has let go of it: its release is to be told.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// The queue of a signature.
    pub fn served(&self, signature: &str) -> Option<&Arc<ServedSignature>> {
        self.served_signatures.iter().find(|served| served.signature.name == signature)
    }
}

impl Employer for Version {
    /// Where no thread can be had at all, whoever waits is told so.
    fn hire(&self) {
        let Some(Remains { executor, .. }) = &self.remains else { return };
        let (executor, mailboxes) = (executor.clone(), self.mailboxes.clone());
        let station =
            Station { crew: self.crew.clone(), served_signatures: self.served_signatures.clone(), executor, mailboxes };
        let hired = station.clone();
        if let Err(why) = self.crew.start(move || hired.run()) {
            let why = format!("model '{}': cannot start an executor thread: {why}", self.model);
            station.turn_away(&Status::new(Code::Unavailable, why));
        }
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        self.crew.dismiss();
        if let Some(mut remains) = self.remains.take() {
            remains.retired = self.retired.load(Ordering::Acquire);
            remains.threads = self.crew.take_threads();
            // Without a receiver the plane itself is gone, and the remains fall here.
            let _ = self.released.send(remains);
        }
    }
}

/// `model_spec` of all answers of one version and signature.
pub fn encode_model_spec(model: &str, number: i64, signature: &str) -> Bytes {
    predict_response::model_spec_field(model, number, signature).into()
}
