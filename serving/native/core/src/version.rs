//! A published version as requests see it: its identity, one queue per signature, and the crew that empties them.
//! The serving map and every request in flight hold it; when the last of them lets go, the plane tells Python.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use bytes::Bytes;
use http::HeaderValue;

use crate::crew::Crew;
use crate::executor::Executor;
use crate::metrics::VersionMetrics;
use crate::predict_response;
use crate::queue::Queue;
use crate::signature::Signature;

/// When a batch closes and how long its queue may grow.
#[derive(Clone, Copy, Debug)]
pub struct Batching {
    /// Closes a batch.
    pub max_batch_rows: usize,
    /// Waits that long for more, if above zero.
    pub timeout_us: u64,
    /// Beyond it a request is refused.
    pub max_queued_rows: usize,
    /// Executor threads.
    pub concurrency: usize,
}

/// One signature of a version, with its queue.
#[derive(Debug)]
pub struct Endpoint {
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
    pub endpoints: Vec<Arc<Endpoint>>,
    /// `x-tidegate-version` of its answers.
    pub header: HeaderValue,
    /// Wakes and stops its executor threads.
    pub crew: Arc<Crew>,
    retired: AtomicBool,
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
pub struct Parts {
    /// One per signature, all of one crew.
    pub endpoints: Vec<Arc<Endpoint>>,
    /// Shared by the endpoints.
    pub crew: Arc<Crew>,
    /// Already running.
    pub threads: Vec<JoinHandle<()>>,
    /// What they run.
    pub executor: Arc<dyn Executor>,
}

impl Version {
    /// A version whose executor threads run; `released` gets its remains when the last handle is gone.
    pub fn new(model: Arc<str>, number: i64, parts: Parts, released: Sender<Remains>) -> Arc<Version> {
        let Parts { endpoints, crew, threads, executor } = parts;
        let remains = Some(Remains { model: model.clone(), number, threads, executor, retired: false });
        let (header, retired) = (HeaderValue::from(number), AtomicBool::new(false));
        Arc::new(Version { header, model, number, endpoints, crew, retired, remains, released })
    }

    /// The map has let go of it: its release is to be told.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// The queue of a signature.
    pub fn endpoint(&self, signature: &str) -> Option<&Arc<Endpoint>> {
        self.endpoints.iter().find(|endpoint| endpoint.signature.name == signature)
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        self.crew.dismiss();
        if let Some(mut remains) = self.remains.take() {
            remains.retired = self.retired.load(Ordering::Acquire);
            // Without a receiver the plane itself is gone, and the remains fall here.
            let _ = self.released.send(remains);
        }
    }
}

/// `model_spec` of all answers of one version and signature.
pub fn encode_model_spec(model: &str, number: i64, signature: &str) -> Bytes {
    predict_response::model_spec_field(model, number, signature).into()
}
