//! The dispatcher of one lane: finds a request's version, decodes it into its queue, and copies it for a shadow.
//! Each I/O thread has one of its own; all threads that predict in process share one.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use http::HeaderMap;
use tidegate_codec::model_spec::ModelSpec;
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::Page;

use crate::batching::taking::Taking;
use crate::batching::{Appended, Entry, Queue, Role, Urgency};
use crate::engine::Engine;
use crate::metrics::Asked;
use crate::request::idle_flush::{IdleFlush, Mixture};
use crate::request::inflight::{Inflight, Pending};
use crate::request::payload::{Payload, RequestContext};
use crate::request::priority::level;
use crate::request::reply::{Reply, Tags, note};
use crate::request::rows::{Rows, no_rows};
use crate::request::sweep_clock::SweepClock;
use crate::serving_map::{KeyValue, Model, Requester, ServingMap, Version};
use crate::sync::lock;
use crate::tracker::Tracker;

/// Requests of one lane: those that come, and those that wait for their answers. No two lanes share a cache line.
#[repr(align(128))]
pub struct Dispatcher<R> {
    /// The number of its lane in every queue.
    pub lane: usize,
    /// What all lanes share.
    pub engine: Arc<Engine>,
    /// Those that wait for their answers.
    pub inflight: Mutex<Inflight<R>>,
    pub(crate) sweep_clock: SweepClock,
    /// None without an I/O thread whose sockets could be idle: batches close when an executor is free.
    idle_flush: Option<IdleFlush>,
    /// Copies of requests that have not been answered and logged.
    pub copies: Arc<Tracker>,
}

/// Where a request goes.
#[derive(Clone, Copy)]
pub struct Route<'a> {
    /// Whose shadow and log share count.
    pub model: &'a Model,
    /// The version that answers.
    pub version: &'a Arc<Version>,
    /// The queue of the signature.
    pub queue: &'a Arc<Queue>,
    /// The place of its priority, 0 for the highest.
    pub level: usize,
}

impl<R: Reply> Dispatcher<R> {
    /// For an I/O thread.
    pub fn new(lane: usize, engine: Arc<Engine>) -> Dispatcher<R> {
        Dispatcher { idle_flush: Some(IdleFlush::default()), ..Dispatcher::without_io(lane, engine) }
    }

    /// For threads that predict in process.
    pub fn without_io(lane: usize, engine: Arc<Engine>) -> Dispatcher<R> {
        Dispatcher {
            lane,
            engine,
            inflight: Mutex::default(),
            sweep_clock: SweepClock::default(),
            idle_flush: None,
            copies: Arc::default(),
        }
    }

    /// Takes over a request; its answer goes through its reply, now or later.
    pub fn dispatch<P: Payload>(
        &self,
        context: RequestContext<P::Reply>,
        spec: &ModelSpec<'_>,
        headers: &HeaderMap,
        payload: &P,
    ) where
        R: From<P::Reply>,
    {
        self.dispatch_in(&self.engine.map.load(), context, spec, KeyValue::In(headers), payload);
    }

    /// The same with a map that the caller holds.
    pub fn dispatch_in<P: Payload>(
        &self,
        map: &ServingMap,
        mut context: RequestContext<P::Reply>,
        spec: &ModelSpec<'_>,
        key: KeyValue<'_>,
        payload: &P,
    ) where
        R: From<P::Reply>,
    {
        let sequence = |version: &Version| self.sequence(spec, version, payload);
        let requester = Requester { id: &context.id, key, sequence: &sequence };
        let (model, version) = match map.resolve(spec.name, spec.choice, Some(&requester)) {
            Ok(found) => found,
            Err(status) => {
                note(&context.reply, |facts| facts.model = Some(spec.name.into()));
                return self.refuse(context, None, &status);
            }
        };
        let found = payload.queue(spec, version);
        let selected = found.and_then(|queue| {
            context.reply.check(queue.signature())?;
            payload.select(queue.signature(), &mut context.reply).map(|()| queue)
        });
        match selected {
            Ok(queue) => {
                queue.served.metrics.count_call(payload.call());
                match level(queue, &requester.key, payload.priority()) {
                    Ok(level) => self.admit(context, &Route { model, version, queue, level }, payload),
                    Err(status) => self.refuse(context, Some(version), &status),
                }
            }
            Err(status) => self.refuse(context, Some(version), &status),
        }
    }

    /// The sequence that a request belongs to as a version reads it, empty for none.
    fn sequence<P: Payload>(&self, spec: &ModelSpec<'_>, version: &Version, payload: &P) -> Vec<u8> {
        let Some(queue) = payload.queue(spec, version).ok().filter(|queue| queue.signature().sequences) else {
            return Vec::new();
        };
        let mut memory = queue.served.memory.reservation();
        let mut room = Taking::new(&mut memory, usize::MAX);
        payload.sequence(queue.signature(), &mut room, self.engine.limits.max_message_bytes())
    }

    /// Enters a request into a batch, and its copy into another.
    pub fn admit<P: Payload>(&self, context: RequestContext<P::Reply>, route: &Route<'_>, payload: &P)
    where
        R: From<P::Reply>,
    {
        let Route { model, version, queue, level } = *route;
        let RequestContext { reply, id, mut trace, received, deadline, bytes } = context;
        note(&reply, |facts| {
            facts.id = Some(id.clone());
            facts.served = Some(queue.served.clone());
            // Where the client named none, one began here.
            trace = Some(facts.trace.trace_id);
        });
        let entry = Entry {
            first_row: 0,
            rows: 0,
            seat: 0,
            refused: false,
            own_shapes: None,
            flat: false,
            asked: Asked { endpoint: reply.endpoint(), call: payload.call() },
            slot: None,
            id: id.clone(),
            trace,
            received,
            entered: received,
            deadline,
            role: Role::Primary,
            level,
            under_way: reply.rows_under_way().map_or(0, |rows| rows.load(Ordering::Relaxed)),
            logged: id.sampled(model.logged),
            token: None,
            stream: reply.stream().cloned(),
            patience: None,
        };
        let shadow = model.shadow.as_ref();
        let shadow = shadow.filter(|shadow| !Arc::ptr_eq(&shadow.version, version) && id.sampled(shadow.share));
        let copy = shadow.map(|shadow| (&shadow.version, self.copy_of(&entry)));
        let held = version.hold(queue, self.lane);
        let pending = Pending { reply: R::from(reply), id, received, deadline, queue: held, place: None };
        let slot = lock(&self.inflight).insert(pending);
        match self.append(version, queue, Entry { slot: Some(slot), ..entry }, bytes, payload) {
            Ok(Appended { request, place: None, .. }) => self.answer_no_rows(slot, request.flat),
            Ok(Appended { place: Some(place), .. }) => {
                lock(&self.inflight).place(slot, place);
                self.sweep_clock.note(deadline);
                if let Some((target, entry)) = copy {
                    self.shadow(target, &queue.signature().name, entry, bytes, payload);
                }
            }
            Err(status) => {
                if let Some(Pending { reply, id, .. }) = lock(&self.inflight).take(slot) {
                    self.refuse(RequestContext { reply, id, trace, received, deadline, bytes }, Some(version), &status);
                }
            }
        }
    }

    fn copy_of(&self, entry: &Entry) -> Entry {
        let token = Some(Arc::new(self.copies.enter()));
        let patience = entry.stream.as_ref().and_then(|stream| stream.patience());
        Entry { role: Role::Shadow, under_way: usize::MAX, token, stream: None, patience, ..entry.clone() }
    }

    /// Answers a request that has no rows, without its model.
    fn answer_no_rows(&self, slot: u64, flat: bool) {
        let Some(Pending { reply, id, queue, received, .. }) = lock(&self.inflight).take(slot) else {
            return;
        };
        let endpoint = reply.endpoint();
        let served = &queue.served;
        let outputs = no_rows(served);
        let rows = Rows { served, outputs: &outputs, first: 0, rows: 0, examples: 0, flat, unbatched: false };
        note(&reply, |facts| facts.rows = Some(0));
        let code = reply.succeed(&rows, Tags { version: Some(&served.version_header), id: Some(&id) });
        served.metrics.count_answer(endpoint, code);
        self.engine.metrics.count_latency(endpoint, received.elapsed());
    }

    /// Decodes a request into a batch.
    fn append(
        &self,
        version: &Arc<Version>,
        queue: &Arc<Queue>,
        entry: Entry,
        bytes: usize,
        payload: &impl Payload,
    ) -> Result<Appended, Status> {
        let limit = self.engine.limits.max_message_bytes();
        let decode = |page: &mut Page<'_>| payload.read_inputs(queue.signature(), page, limit);
        let received = entry.received;
        let appended = queue.append(version, self.lane, entry, bytes, &decode)?;
        match (appended.urgency, &self.idle_flush) {
            (Urgency::Never, _) | (Urgency::Released, None) => {}
            (Urgency::Now, _) => queue.executors.wake(),
            (Urgency::WhenIdle | Urgency::Released, Some(flush)) => {
                if flush.add(queue, received) {
                    queue.release_open(self.lane);
                    queue.executors.wake();
                    // On a core that both share the executor would wait until all that others sent is read.
                    std::thread::yield_now();
                }
            }
            (Urgency::NowAndWhenIdle, Some(flush)) => {
                queue.executors.wake();
                if flush.add(queue, received) {
                    queue.release_open(self.lane);
                }
            }
            (Urgency::WhenIdle | Urgency::NowAndWhenIdle, None) => {
                queue.release_open(self.lane);
                queue.executors.wake();
            }
        }
        Ok(appended)
    }

    /// Copies a request that is already queued; nothing that happens to the copy reaches the client.
    fn shadow(&self, target: &Arc<Version>, signature: &str, entry: Entry, bytes: usize, payload: &impl Payload) {
        let Some(queue) = target.queue(signature) else {
            if let Some(any) = target.queues.first() {
                any.served.metrics.shadow_failed.fetch_add(1, Ordering::Relaxed);
            }
            return;
        };
        let metrics = &queue.served.metrics;
        let counter = match self.append(target, queue, entry, bytes, payload) {
            Ok(_) => &metrics.shadow_copied,
            Err(status) if status.code == Code::ResourceExhausted => &metrics.shadow_dropped,
            Err(_) => &metrics.shadow_failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Answers a request that joined no batch.
    pub fn refuse<Q: Reply>(&self, context: RequestContext<Q>, version: Option<&Arc<Version>>, status: &Status) {
        let metrics = &self.engine.metrics;
        let endpoint = context.reply.endpoint();
        match version.and_then(|version| version.queues.first()) {
            Some(queue) => queue.served.metrics.count_answer(endpoint, status.code),
            None => metrics.unrouted.count(endpoint, status.code),
        }
        metrics.count_latency(endpoint, context.received.elapsed());
        note(&context.reply, |facts| {
            facts.id = Some(context.id.clone());
            if let Some(version) = version {
                facts.model = Some((&*version.model).into());
                facts.version = Some(version.number);
            }
        });
        context.reply.fail(status, Tags { version: version.map(|version| &version.header), id: Some(&context.id) });
    }

    /// Closes open batches whenever the I/O thread's sockets are idle, for as long as the runtime lives.
    pub async fn run_idle_flush(self: Arc<Self>) {
        if let Some(flush) = &self.idle_flush {
            flush.run(self.lane).await;
        }
    }

    /// Whether requests of several queues come beside each other.
    pub fn mixture(&self) -> Mixture {
        self.idle_flush.as_ref().map(|flush| flush.mixture.clone()).unwrap_or_default()
    }

    /// The I/O thread ends: nothing of it may hold a version.
    pub fn close(&self) {
        if let Some(flush) = &self.idle_flush {
            flush.flush(self.lane);
        }
    }

    /// Gives memory back that earlier requests needed, and those that wait do not.
    pub fn shrink(&self) {
        lock(&self.inflight).shrink();
    }

    /// Whether no request waits for its answer.
    pub fn is_empty(&self) -> bool {
        lock(&self.inflight).is_empty()
    }
}
