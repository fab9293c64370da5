//! Predict without a socket, by the same versions, queues and log.
//! Calling threads wait here, or are told; executor threads leave the answers, so that no third thread is between them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tidegate_codec::model_spec::{ModelSpec, VersionChoice};
use tidegate_codec::signatures::Signature;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::batching::stream::Next;
use tidegate_engine::batching::{Completions, FinishedBatch};
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::request::{Dispatcher, Reply, RequestContext};
use tidegate_engine::request_id::RequestId;
use tidegate_engine::serving_map::{KeyValue, Requester, ServingMap, Version};
use tidegate_engine::telemetry::Observation;
use tidegate_engine::trace_context::{Parent, TraceId};

use crate::endpoints::embedded::arrays::{Arrays, Given};
use crate::endpoints::embedded::reply::{AnswerSlot, EmbeddedAnswer, EmbeddedReply, Told};
use crate::endpoints::stream::{StreamAnswer, StreamReply};

/// What a program wants predicted.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmbeddedRequest<'a> {
    /// The model, its version and its signature.
    pub spec: ModelSpec<'a>,
    /// The request's id, where the caller has one.
    pub request_id: Option<&'a str>,
    /// What a `traceparent` header would say, where the caller has a trace.
    pub traceparent: Option<&'a str>,
    /// The value by which a split with a key decides.
    pub key: Option<&'a str>,
}

/// A request that has its version, but not its inputs yet. Holds the map, and so the version.
pub struct RoutedRequest {
    map: Arc<ServingMap>,
    version: Arc<Version>,
    signature_name: String,
    id: RequestId,
    trace: Option<TraceId>,
    received: Instant,
}

impl RoutedRequest {
    /// The version that will answer.
    pub fn version(&self) -> i64 {
        self.version.number
    }

    /// What it takes and gives; none where it has no such signature, which `submit` will say.
    pub fn signature(&self) -> Option<&Signature> {
        self.version.queue(&self.signature_name).map(|queue| queue.signature())
    }
}

/// A request under way.
pub struct PendingAnswer<R: Reply> {
    dispatcher: Arc<Dispatcher<R>>,
    slot: Arc<AnswerSlot>,
    deadline: Instant,
}

impl<R: Reply> PendingAnswer<R> {
    /// Waits for the answer, but not longer than `at_most`; none when it has not come by then.
    pub fn wait(&self, at_most: Duration) -> Option<EmbeddedAnswer> {
        let until = Instant::now() + at_most;
        if Instant::now() < self.deadline {
            let answer = self.slot.wait_until(until.min(self.deadline));
            if answer.is_some() || until < self.deadline {
                return answer;
            }
        }
        // Behind its deadline a request is answered here, or is with an executor that is writing its answer.
        self.dispatcher.sweep_once(Instant::now());
        self.slot.wait_until(until)
    }

    /// The answer, where it is there. Behind the deadline it is, but for one that an executor is just writing.
    pub fn poll(&self) -> Option<EmbeddedAnswer> {
        self.wait(Duration::ZERO)
    }

    /// How long it is until the deadline.
    pub fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

impl<R: Reply> Drop for PendingAnswer<R> {
    /// A caller that gave up is not computed for, where its request still waits.
    fn drop(&mut self) {
        self.slot.abandon();
        if !self.slot.is_filled() && Arc::strong_count(&self.slot) > 1 {
            self.dispatcher.sweep_once(Instant::now());
        }
    }
}

/// A stream under way.
pub struct PendingStream<R: Reply> {
    dispatcher: Arc<Dispatcher<R>>,
    answer: StreamAnswer,
    deadline: Instant,
}

impl<R: Reply> PendingStream<R> {
    /// What comes next, but not waiting longer than `at_most`; none when nothing has come by then.
    pub fn wait(&self, at_most: Duration) -> Option<Next> {
        let until = Instant::now() + at_most;
        let stream = &self.answer.stream;
        let late = stream.deadline().unwrap_or(self.deadline);
        stream.wait_next(until.min(late)).or_else(|| {
            // Behind its deadline a request is answered here.
            self.dispatcher.sweep_once(Instant::now());
            stream.wait_next(until)
        })
    }
}

impl<R: Reply> Drop for PendingStream<R> {
    /// The caller wants no more.
    fn drop(&mut self) {
        self.answer.stream.leave();
        self.dispatcher.sweep_once(Instant::now());
    }
}

/// A context without a caller: it learns of the refusal by the return value.
fn unanswered(id: RequestId, received: Instant) -> RequestContext<EmbeddedReply> {
    RequestContext { reply: EmbeddedReply(Arc::default()), id, trace: None, received, deadline: received, bytes: 0 }
}

/// Answers finished batches on the executor threads that ran them.
struct AnswerAtOnce<R>(Weak<Dispatcher<R>>);

impl<R: Reply> Completions for AnswerAtOnce<R> {
    fn complete(&self, finished: FinishedBatch) {
        if let Some(dispatcher) = self.0.upgrade() {
            // A fault here must not end the executor thread.
            let _ = catch_unwind(AssertUnwindSafe(|| dispatcher.answer_batch(finished)));
        }
    }
}

/// The endpoint.
pub struct Embedded<R> {
    dispatcher: Arc<Dispatcher<R>>,
    closed: AtomicBool,
}

impl<R: Reply + From<EmbeddedReply> + From<StreamReply>> Embedded<R> {
    /// An endpoint with a dispatcher of its own, made without an I/O thread.
    pub fn new(dispatcher: Dispatcher<R>) -> Embedded<R> {
        Embedded { dispatcher: Arc::new(dispatcher), closed: AtomicBool::new(false) }
    }

    /// Where finished batches of its lane go.
    pub fn completions(&self) -> Arc<dyn Completions> {
        Arc::new(AnswerAtOnce(Arc::downgrade(&self.dispatcher)))
    }

    /// Finds the version that a request goes to, or refuses and counts it. `sequence` reads which sequence it belongs to by a
    /// signature of sequences, where a split asks.
    pub fn route(
        &self,
        request: &EmbeddedRequest<'_>,
        sequence: impl Fn(&Signature) -> Vec<u8>,
    ) -> Result<RoutedRequest, Status> {
        let received = Instant::now();
        let engine = &self.dispatcher.engine;
        let id = RequestId::from_text(request.request_id, &engine.ids);
        let map = engine.map.load_full();
        let spec = &request.spec;
        let sequence = |version: &Version| {
            let signature = version.queue(spec.signature()).map(|queue| queue.signature());
            signature.filter(|signature| signature.sequences).map(&sequence).unwrap_or_default()
        };
        let requester = Requester { id: &id, key: KeyValue::Is(request.key), sequence: &sequence };
        let found = match self.closed.load(Ordering::Acquire) {
            true => Err(Status::new(Code::Unavailable, "the server is draining")),
            false => map.resolve(spec.name, spec.choice, Some(&requester)).map(|(_, found)| found.clone()),
        };
        match found {
            Ok(version) => {
                let signature_name = spec.signature().to_owned();
                let parent = request.traceparent.and_then(|text| Parent::parse(text.as_bytes()));
                let trace = parent.map(|parent| parent.trace_id);
                Ok(RoutedRequest { map, version, signature_name, id, trace, received })
            }
            Err(status) => {
                self.dispatcher.refuse(unanswered(id, received), None, &status);
                Err(status)
            }
        }
    }

    /// Counts a request whose inputs cannot be read.
    pub fn refuse(&self, routed: RoutedRequest, status: &Status) {
        let RoutedRequest { version, id, received, .. } = routed;
        self.dispatcher.refuse(unanswered(id, received), Some(&version), status);
    }

    /// Puts a request into its version's queue; `told` learns that its answer is there.
    pub fn submit(
        &self,
        routed: RoutedRequest,
        inputs: &Arrays,
        timeout: Option<Duration>,
        told: Option<Told>,
    ) -> PendingAnswer<R> {
        let slot = Arc::new(told.map_or_else(AnswerSlot::default, AnswerSlot::telling));
        let deadline = self.dispatch(routed, inputs, timeout, EmbeddedReply(slot.clone()));
        PendingAnswer { dispatcher: self.dispatcher.clone(), slot, deadline }
    }

    /// The same, answered message by message. Without a timeout each of them is waited for as long as an answer is.
    pub fn stream(&self, routed: RoutedRequest, inputs: &Arrays, timeout: Option<Duration>) -> PendingStream<R> {
        let patience = timeout.is_none().then(|| self.dispatcher.engine.limits.request_timeout());
        let (reply, answer) = StreamReply::open(Endpoint::Embedded, patience, false, &Observation::default());
        let deadline = self.dispatch(routed, inputs, timeout, reply);
        PendingStream { dispatcher: self.dispatcher.clone(), answer, deadline }
    }

    /// Hands a request on; when it is too late.
    fn dispatch<Q: Reply>(&self, routed: RoutedRequest, inputs: &Arrays, timeout: Option<Duration>, reply: Q) -> Instant
    where
        R: From<Q>,
    {
        let RoutedRequest { map, version, signature_name, id, trace, received } = routed;
        let deadline = received + timeout.unwrap_or_else(|| self.dispatcher.engine.limits.request_timeout());
        let choice = VersionChoice::Version(version.number);
        let spec = ModelSpec { name: &version.model, choice, signature_name: &signature_name };
        let context = RequestContext { reply, id, trace, received, deadline, bytes: inputs.byte_size() };
        self.dispatcher.dispatch_in(&map, context, &spec, KeyValue::Is(None), &Given::new(inputs));
        deadline
    }

    /// Refuses new requests, and waits for those under way and for copies. True if all were answered by then.
    pub fn drain(&self, until: Instant) -> bool {
        const LOOK: Duration = Duration::from_millis(1);
        self.closed.store(true, Ordering::Release);
        while !self.dispatcher.is_empty() {
            if Instant::now() >= until {
                self.dispatcher.refuse_waiting();
                return false;
            }
            std::thread::sleep(LOOK);
        }
        while !self.dispatcher.copies.is_empty() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        true
    }
}
