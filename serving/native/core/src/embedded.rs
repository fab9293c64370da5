//! The endpoint for programs that the plane lives in: predict without a socket, by the same handles, queues and log.
//! Calling threads come in and wait here; executor threads leave the answers, so that no third thread is between them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::arrays::Arrays;
use crate::ask::{Ask, Payload};
use crate::batch::Output;
use crate::column::Column;
use crate::desk::Desk;
use crate::inflight::Reply;
use crate::lock;
use crate::predict_request::{Choice, ModelSpec};
use crate::request_id::RequestId;
use crate::serving_map::ServingMap;
use crate::signature::Signature;
use crate::split::{Asker, KeyValue};
use crate::status::{Code, Status};
use crate::tensor_slice::Slice;
use crate::version::Version;

/// What a request is answered with: the outputs in the signature's order, or why there are none.
pub type Answered = Result<Vec<Output>, Status>;

/// Where one answer is waited for.
#[derive(Debug, Default)]
struct Letterbox {
    answer: Mutex<Option<Answered>>,
    arrived: Condvar,
    gone: AtomicBool,
}

/// The way back to a calling thread. Dropped unused, it says that the server stopped.
#[derive(Debug)]
pub struct EmbeddedReply(Arc<Letterbox>);

impl EmbeddedReply {
    /// Whether the caller has given up.
    pub fn is_gone(&self) -> bool {
        self.0.gone.load(Ordering::Relaxed)
    }

    /// Answers with one request's rows.
    pub fn succeed<'a>(&self, rows: impl Iterator<Item = Slice<'a>>) {
        let own = |slice: Slice<'a>| {
            let extent = Column::row_extent(slice.dtype, slice.inner);
            let mut column = Column::new(slice.dtype);
            column.extend(slice.column, slice.first * extent..(slice.first + slice.rows) * extent);
            Output { column, shape: slice.dims().collect() }
        };
        self.put(Ok(rows.map(own).collect()));
    }

    /// Answers with an error.
    pub fn fail(&self, status: &Status) {
        self.put(Err(status.clone()));
    }

    fn put(&self, answer: Answered) {
        lock(&self.0.answer).get_or_insert(answer);
        self.0.arrived.notify_one();
    }
}

impl Drop for EmbeddedReply {
    fn drop(&mut self) {
        self.put(Err(Status::new(Code::Unavailable, "the server stopped before the request was answered")));
    }
}

/// Who asks for what.
#[derive(Clone, Copy, Debug, Default)]
pub struct Question<'a> {
    /// The model, its version and its signature.
    pub spec: ModelSpec<'a>,
    /// The request's id, where the caller has one.
    pub request_id: Option<&'a str>,
    /// The value by which a split with a key decides.
    pub key: Option<&'a str>,
}

/// A request that has its version, but not its inputs yet. Holds the map, and so the version.
pub struct Visit {
    map: Arc<ServingMap>,
    version: Arc<Version>,
    signature_name: String,
    id: RequestId,
    received: Instant,
}

impl Visit {
    /// The version that will answer.
    pub fn version(&self) -> i64 {
        self.version.number
    }

    /// What it takes and gives; none where it has no such signature, which the desk will say.
    pub fn signature(&self) -> Option<&Signature> {
        self.version.served(&self.signature_name).map(|served| &served.signature)
    }
}

/// A request under way.
pub struct Waiting {
    desk: Arc<Desk>,
    letterbox: Arc<Letterbox>,
    deadline: Instant,
}

impl Waiting {
    /// Waits for the answer, but not longer than `at_most`; none when it has not come by then.
    pub fn wait(&self, at_most: Duration) -> Option<Answered> {
        let until = Instant::now() + at_most;
        loop {
            let now = Instant::now();
            if now >= self.deadline {
                self.desk.sweep_once(now);
            }
            let mut answer = lock(&self.letterbox.answer);
            if answer.is_some() || now >= until {
                return answer.take();
            }
            // Behind its deadline the request is with an executor that is writing its answer.
            let next = if now < self.deadline { until.min(self.deadline) } else { until };
            let waited = self.letterbox.arrived.wait_timeout(answer, next - now);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl Drop for Waiting {
    /// A caller that gave up is not computed for, where its request still waits.
    fn drop(&mut self) {
        self.letterbox.gone.store(true, Ordering::Relaxed);
        if lock(&self.letterbox.answer).is_none() && Arc::strong_count(&self.letterbox) > 1 {
            self.desk.sweep_once(Instant::now());
        }
    }
}

/// A request whose caller hears of its refusal otherwise.
fn unheard(id: RequestId, received: Instant) -> Ask {
    Ask { reply: Reply::Embedded(EmbeddedReply(Arc::default())), id, received, deadline: received }
}

/// The endpoint.
pub struct Embedded {
    desk: Arc<Desk>,
    closed: AtomicBool,
}

impl Embedded {
    /// An endpoint with a desk of its own, whose finished batches executor threads hand out themselves.
    pub fn new(desk: Arc<Desk>) -> Embedded {
        desk.mailbox.hand_out_at_once(&desk);
        Embedded { desk, closed: AtomicBool::new(false) }
    }

    /// Finds the version that a request goes to, or refuses and counts it.
    pub fn enter(&self, question: &Question<'_>) -> Result<Visit, Status> {
        let received = Instant::now();
        let shared = &self.desk.shared;
        let id = RequestId::from_text(question.request_id, &shared.ids);
        let map = shared.map.load_full();
        let asker = Asker { id: &id, key: KeyValue::Is(question.key) };
        let found = match self.closed.load(Ordering::Acquire) {
            true => Err(Status::new(Code::Unavailable, "the server is draining")),
            false => {
                map.resolve(question.spec.name, question.spec.choice, Some(&asker)).map(|(_, found)| found.clone())
            }
        };
        match found {
            Ok(version) => {
                let signature_name = question.spec.signature().to_owned();
                Ok(Visit { map, version, signature_name, id, received })
            }
            Err(status) => {
                self.desk.refuse(unheard(id, received), None, &status);
                Err(status)
            }
        }
    }

    /// Counts a request whose inputs cannot be read.
    pub fn refuse(&self, visit: Visit, status: &Status) {
        let Visit { version, id, received, .. } = visit;
        self.desk.refuse(unheard(id, received), Some(&version), status);
    }

    /// Puts a request into its version's queue.
    pub fn ask(&self, visit: Visit, inputs: &Arrays, timeout: Option<Duration>) -> Waiting {
        let Visit { map, version, signature_name, id, received } = visit;
        let letterbox = Arc::<Letterbox>::default();
        let deadline = received + timeout.unwrap_or_else(|| self.desk.shared.limits.request_timeout());
        let choice = Choice::Version(version.number);
        let spec = ModelSpec { name: &version.model, choice, signature_name: &signature_name };
        let ask = Ask { reply: Reply::Embedded(EmbeddedReply(letterbox.clone())), id, received, deadline };
        self.desk.predict_in(&map, ask, &spec, KeyValue::Is(None), &Payload::Arrays(inputs));
        Waiting { desk: self.desk.clone(), letterbox, deadline }
    }

    /// Lets nobody in any more, and waits for those who are in, and for copies. True if all were answered by then.
    pub fn drain(&self, until: Instant) -> bool {
        const LOOK: Duration = Duration::from_millis(1);
        self.closed.store(true, Ordering::Release);
        while !lock(&self.desk.inflight).is_empty() {
            if Instant::now() >= until {
                // Whoever waits is told by the drop of its reply.
                drop(std::mem::take(&mut *lock(&self.desk.inflight)));
                return false;
            }
            std::thread::sleep(LOOK);
        }
        while !self.desk.copies.is_empty() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        true
    }
}
