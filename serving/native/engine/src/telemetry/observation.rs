//! What is known of one request while it is under way: noted by whoever comes to know it, told when the last of them has
//! let go of it, however the request ended.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use http::{HeaderValue, Method};
use tidegate_codec::status::Code;

use crate::batching::ServedSignature;
use crate::metrics::{Endpoint, Ran};
use crate::request_id::RequestId;
use crate::sync::lock;
use crate::trace_context::Trace;

/// How a request came.
#[derive(Debug)]
pub struct Came {
    /// Through which endpoint.
    pub endpoint: Endpoint,
    /// From where; none through a socket of a file.
    pub peer: Option<SocketAddr>,
    /// The HTTP method.
    pub method: Method,
    /// The path, cut where it is long.
    pub path: Box<str>,
    /// When its head had come.
    pub at: Instant,
}

/// What is known of a request.
#[derive(Debug)]
pub struct Facts {
    /// How it came.
    pub came: Came,
    /// Its place in a trace.
    pub trace: Trace,
    /// When its last byte had come.
    pub received: Option<Instant>,
    /// Bytes of its body or message, as they were sent.
    pub bytes_in: usize,
    /// Its identity, once it has one.
    pub id: Option<RequestId>,
    /// The model that it names, where there is none that serves it.
    pub model: Option<Box<str>>,
    /// The version that it found.
    pub version: Option<i64>,
    /// The signature that it found, and so model and version.
    pub served: Option<Arc<ServedSignature>>,
    /// Its rows.
    pub rows: Option<usize>,
    /// Whether a model took it, or a node that has one.
    pub reached: bool,
    /// When it was in a batch.
    pub entered: Option<Instant>,
    /// When its batch ran.
    pub ran: Option<Ran>,
    /// What its client sees; none where it has gone.
    pub code: Option<Code>,
    /// The same over REST.
    pub http_status: Option<u16>,
    /// Bytes of its answer's body or message.
    pub bytes_out: usize,
}

/// A request that has ended.
#[derive(Debug)]
pub struct Ended {
    /// What became known of it.
    pub facts: Facts,
    /// When it ended.
    pub at: Instant,
    /// The same by the clock.
    pub clock: SystemTime,
    /// Whether it took longer than it should.
    pub slow: bool,
}

impl Ended {
    /// What its client sees.
    pub fn code(&self) -> Code {
        let by_status = || self.facts.http_status.map(code_of);
        self.facts.code.or_else(by_status).unwrap_or(Code::Cancelled)
    }

    /// From its last byte, or its head where that did not come, to its end.
    pub fn took(&self) -> Duration {
        self.at.saturating_duration_since(self.facts.received.unwrap_or(self.facts.came.at))
    }

    /// The stages that it went through, with their ends: name, beginning, end. As `tidegate_stage_seconds` has them, after
    /// the time in which its body came.
    pub fn stages(&self) -> Vec<(&'static str, Instant, Instant)> {
        let Facts { came, received, entered, ran, .. } = &self.facts;
        let ends = [
            ("read", *received),
            ("decode", *entered),
            ("queue", ran.map(|ran| ran.began)),
            ("run", ran.map(|ran| ran.ended)),
            ("encode", ran.map(|_| self.at)),
        ];
        let mut begin = came.at;
        let known = ends.into_iter().map_while(|(name, end)| end.map(|end| (name, end)));
        known.map(|(name, end)| (name, std::mem::replace(&mut begin, end), end)).collect()
    }

    /// The name of the model.
    pub fn model(&self) -> Option<&str> {
        let served = self.facts.served.as_ref().map(|served| &*served.model);
        served.or(self.facts.model.as_deref())
    }

    /// The number of the version.
    pub fn version(&self) -> Option<i64> {
        self.facts.served.as_ref().map(|served| served.version).or(self.facts.version)
    }

    /// What the clock said at a moment before the end.
    pub fn clock_at(&self, moment: Instant) -> SystemTime {
        self.clock - self.at.saturating_duration_since(moment)
    }
}

/// The canonical code of an HTTP status that was not made of one.
fn code_of(status: u16) -> Code {
    match status {
        0..400 => Code::Ok,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::NotFound,
        413 | 429 => Code::ResourceExhausted,
        415 | 501 => Code::Unimplemented,
        400..=499 => Code::InvalidArgument,
        503 => Code::Unavailable,
        504 => Code::DeadlineExceeded,
        _ => Code::Internal,
    }
}

/// Hears of requests that have ended.
pub trait Ending: std::fmt::Debug + Send + Sync {
    /// Of one, and what became known of it.
    fn ended(&self, facts: Facts);
}

#[derive(Debug)]
struct Observed {
    facts: Mutex<Option<Facts>>,
    traceparent: Option<HeaderValue>,
    observer: Arc<dyn Ending>,
}

impl Drop for Observed {
    fn drop(&mut self) {
        if let Some(facts) = lock(&self.facts).take() {
            self.observer.ended(facts);
        }
    }
}

/// One request that is looked at, or not: then this is empty.
#[derive(Clone, Debug, Default)]
pub struct Observation(Option<Arc<Observed>>);

impl Observation {
    pub(crate) fn new(facts: Facts, observer: Arc<dyn Ending>) -> Observation {
        let traceparent = HeaderValue::from_str(&facts.trace.header()).ok();
        Observation(Some(Arc::new(Observed { facts: Mutex::new(Some(facts)), traceparent, observer })))
    }

    /// Notes something, where the request is looked at.
    #[inline]
    pub fn note(&self, what: impl FnOnce(&mut Facts)) {
        if let Some(observed) = &self.0 {
            lock(&observed.facts).as_mut().map(what);
        }
    }

    /// What its client sees.
    #[inline]
    pub fn answered(&self, code: Code, bytes: usize) {
        self.note(|facts| {
            facts.code = Some(code);
            facts.bytes_out = bytes;
        });
    }

    /// What the answer says of the trace.
    pub fn traceparent(&self) -> Option<&HeaderValue> {
        self.0.as_ref().and_then(|observed| observed.traceparent.as_ref())
    }
}
