//! The predict path of one I/O thread: every protocol's requests become entries of batches here, and answers go back.
//! The doors hand in parsed requests; finished batches come through the mailbox; the sweep answers what is too late.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::HeaderValue;
use tokio::sync::Notify;

use crate::batch::{Entry, Finished, Output, Part, Role};
use crate::grpc_reply::Tags;
use crate::inflight::{Inflight, Pending, Reply};
use crate::json_request::JsonRequest;
use crate::json_response;
use crate::lock;
use crate::log_block::{Fate, Record};
use crate::mailbox::Mailbox;
use crate::predict_request::{self, ModelSpec, PredictRequest};
use crate::predict_response;
use crate::queue::{Page, Urgency};
use crate::request_id::RequestId;
use crate::rest;
use crate::serving_map::Model;
use crate::shared::Shared;
use crate::signature::Signature;
use crate::status::{Code, Status};
use crate::tensor_proto::Slice;
use crate::version::{Endpoint, Version};

/// A request's inputs in the protocol they came in.
pub enum Payload<'a> {
    /// From gRPC.
    Proto(&'a PredictRequest<'a>),
    /// From REST.
    Json(&'a JsonRequest<'a>),
}

impl Payload<'_> {
    fn read_inputs(&self, signature: &Signature, page: Page<'_>, max_bytes: usize) -> Result<usize, Status> {
        match self {
            Payload::Proto(request) => request.read_inputs(signature, page.columns, page.shapes, max_bytes),
            Payload::Json(request) => request.read_inputs(signature, page.columns, page.shapes),
        }
    }

    fn wanted(&self, signature: &Signature) -> Result<Option<Box<[usize]>>, Status> {
        match self {
            Payload::Proto(request) => predict_request::select_outputs(&request.output_filter, signature),
            Payload::Json(_) => Ok(None),
        }
    }

    fn no_signature(&self, name: &str) -> Status {
        match self {
            Payload::Proto(_) => {
                Status::new(Code::FailedPrecondition, format!("Serving signature key \"{name}\" not found."))
            }
            Payload::Json(_) => {
                Status::invalid(format!("Serving signature name: \"{name}\" not found in signature def"))
            }
        }
    }
}

/// Who asks, and until when.
pub struct Ask {
    /// The way back.
    pub reply: Reply,
    /// The request's identity.
    pub id: RequestId,
    /// When its last byte had come.
    pub received: Instant,
    /// When its answer is worth nothing any more.
    pub deadline: Instant,
}

/// The sweep looks this often while something waits, and otherwise.
const SWEEP_BUSY: Duration = Duration::from_millis(4);
const SWEEP_IDLE: Duration = Duration::from_millis(50);

/// What one I/O thread works on.
pub struct Desk {
    /// The I/O thread's number, and that of its lane in every queue.
    pub index: usize,
    /// What all I/O threads share.
    pub shared: Arc<Shared>,
    /// Finished batches for this thread.
    pub mailbox: Arc<Mailbox>,
    inflight: Mutex<Inflight>,
    touched: Mutex<Vec<Arc<Endpoint>>>,
    sweep_at: Mutex<Instant>,
    sweep_sooner: Notify,
}

impl Desk {
    /// An empty desk.
    pub fn new(index: usize, shared: Arc<Shared>, mailbox: Arc<Mailbox>) -> Desk {
        Desk {
            index,
            shared,
            mailbox,
            inflight: Mutex::default(),
            touched: Mutex::default(),
            sweep_at: Mutex::new(Instant::now()),
            sweep_sooner: Notify::new(),
        }
    }

    /// Takes over a predict request; its answer goes through its reply, now or later.
    pub fn predict(&self, ask: Ask, spec: &ModelSpec<'_>, payload: &Payload<'_>) {
        let map = self.shared.map.load();
        let (model, version) = match map.resolve(spec.name, spec.choice) {
            Ok(found) => found,
            Err(status) => return self.refuse(ask, None, &status),
        };
        let name = spec.signature();
        let Some(endpoint) = version.endpoint(name) else {
            return self.refuse(ask, Some(version), &payload.no_signature(name));
        };
        let wanted = match payload.wanted(&endpoint.signature) {
            Ok(wanted) => wanted,
            Err(status) => return self.refuse(ask, Some(version), &status),
        };
        let Ask { reply, id, received, deadline } = ask;
        let entry = Entry {
            first_row: 0,
            rows: 0,
            slot: None,
            id: id.clone(),
            received,
            deadline,
            role: Role::Primary,
            logged: id.sampled(model.logged),
            cancelled: false,
        };
        let pending = Pending { reply, id, received, deadline, endpoint: endpoint.clone(), wanted };
        let slot = lock(&self.inflight).insert(pending);
        let copy = model.tee.as_ref().filter(|tee| {
            !Arc::ptr_eq(&tee.version, version) && entry.id.sampled(tee.share)
        });
        let copy = copy.map(|tee| (&tee.version, Entry { role: Role::Tee, ..entry.clone() }));
        let admitted = self.append(version, endpoint, Entry { slot: Some(slot), ..entry }, payload);
        match admitted {
            Ok(()) => {
                self.mind_deadline(deadline);
                if let Some((target, entry)) = copy {
                    self.tee(target, name, entry, payload);
                }
            }
            Err(status) => {
                if let Some(pending) = lock(&self.inflight).take(slot) {
                    let ask = Ask { reply: pending.reply, id: pending.id, received, deadline };
                    self.refuse(ask, Some(version), &status);
                }
            }
        }
    }

    fn append(
        &self,
        version: &Arc<Version>,
        endpoint: &Arc<Endpoint>,
        entry: Entry,
        payload: &Payload<'_>,
    ) -> Result<(), Status> {
        let limit = self.shared.settings.max_message_bytes;
        let signature = &endpoint.signature;
        let urgency = endpoint.queue.append(signature, version, self.index, entry, |page| {
            payload.read_inputs(signature, page, limit)
        })?;
        match urgency {
            Urgency::Now => endpoint.crew.wake(),
            Urgency::WhenDry => {
                let mut touched = lock(&self.touched);
                if !touched.iter().any(|other| Arc::ptr_eq(other, endpoint)) {
                    touched.push(endpoint.clone());
                }
            }
        }
        Ok(())
    }

    /// Copies a request that is already queued; nothing that happens to the copy reaches the client.
    fn tee(&self, target: &Arc<Version>, signature: &str, entry: Entry, payload: &Payload<'_>) {
        let Some(endpoint) = target.endpoint(signature) else {
            if let Some(any) = target.endpoints.first() {
                any.metrics.tee_failed.fetch_add(1, Ordering::Relaxed);
            }
            return;
        };
        let metrics = &endpoint.metrics;
        let counter = match self.append(target, endpoint, entry, payload) {
            Ok(()) => &metrics.tee_copied,
            Err(status) if status.code == Code::ResourceExhausted => &metrics.tee_dropped,
            Err(_) => &metrics.tee_failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Answers a request that joined no batch.
    pub fn refuse(&self, ask: Ask, version: Option<&Arc<Version>>, status: &Status) {
        let metrics = &self.shared.metrics;
        let door = ask.reply.door();
        match version.and_then(|version| version.endpoints.first()) {
            Some(endpoint) => endpoint.metrics.answers.count(door, status.code),
            None => metrics.unrouted.count(door, status.code),
        }
        metrics.count_latency(door, ask.received.elapsed());
        ask.reply.fail(status, Tags { version: version.map(|version| &version.header), id: Some(&ask.id) });
    }

    /// The sockets ran dry: what waits in this thread's open batches may go.
    pub fn release(&self) {
        for endpoint in lock(&self.touched).drain(..) {
            endpoint.queue.ripen(self.index);
            endpoint.crew.wake();
        }
    }

    /// Answers every request of finished batches, for as long as the runtime lives.
    pub async fn answer_batches(&self) {
        let mut finished = Vec::new();
        loop {
            self.mailbox.take(&mut finished).await;
            for batch in finished.drain(..) {
                self.answer_batch(batch);
            }
        }
    }

    fn answer_batch(&self, finished: Finished) {
        let now = Instant::now();
        let mut fates = Vec::with_capacity(finished.entries.len());
        {
            let mut inflight = lock(&self.inflight);
            for part in &finished.parts {
                for index in part.entries.clone() {
                    let entry = &finished.entries[index];
                    let waited = entry.slot.map(|slot| inflight.take(slot));
                    let error = part.error_of(index);
                    let code = match waited {
                        None => error.map_or(Code::Ok, |status| status.code),
                        Some(Some(pending)) => self.answer(pending, &finished.version.header, part, entry, error, now),
                        Some(None) if entry.deadline <= now => Code::DeadlineExceeded,
                        Some(None) => Code::Cancelled,
                    };
                    let latency = now.saturating_duration_since(entry.received);
                    let logged = entry.logged && code != Code::Cancelled;
                    fates.push(Fate { code, latency_us: latency.as_micros() as i64, logged });
                }
            }
        }
        if fates.iter().any(|fate| fate.logged) {
            self.shared.log.offer(Record::new(finished, fates));
        }
    }

    /// Writes one answer. Returns the code that the client sees.
    fn answer(
        &self,
        pending: Pending,
        version: &HeaderValue,
        part: &Part,
        entry: &Entry,
        error: Option<&Status>,
        now: Instant,
    ) -> Code {
        let door = pending.reply.door();
        let tags = Tags { version: Some(version), id: Some(&pending.id) };
        let code = match (error, &part.outputs) {
            (Some(status), _) | (None, Err(status)) => {
                pending.reply.fail(status, tags);
                status.code
            }
            (None, Ok(outputs)) => {
                let rows = (entry.first_row - part.first_row, entry.rows);
                send(pending.reply, &pending.endpoint, pending.wanted.as_deref(), outputs, rows, tags);
                Code::Ok
            }
        };
        pending.endpoint.metrics.answers.count(door, code);
        self.shared.metrics.count_latency(door, now.saturating_duration_since(pending.received));
        code
    }

    /// Wakes the sweep when it would come too late for this deadline.
    fn mind_deadline(&self, deadline: Instant) {
        let mut sweep_at = lock(&self.sweep_at);
        if deadline < *sweep_at {
            *sweep_at = deadline;
            self.sweep_sooner.notify_one();
        }
    }

    /// Answers what is too late and forgets what nobody waits for, for as long as the runtime lives.
    pub async fn sweep(&self) {
        loop {
            let pause = if lock(&self.inflight).is_empty() { SWEEP_IDLE } else { SWEEP_BUSY };
            let next = Instant::now() + pause;
            *lock(&self.sweep_at) = next;
            tokio::select! {
                () = tokio::time::sleep_until(next.into()) => {}
                () = self.sweep_sooner.notified() => {
                    let sooner = *lock(&self.sweep_at);
                    tokio::time::sleep_until(sooner.into()).await;
                }
            }
            self.sweep_once(Instant::now());
        }
    }

    fn sweep_once(&self, now: Instant) {
        let swept = lock(&self.inflight).sweep(now);
        for (slot, pending) in swept.late {
            let waiting = pending.endpoint.queue.waits(self.index, slot);
            let place = if waiting { "waited in the batch queue" } else { "ran" };
            let late = Status::new(Code::DeadlineExceeded, format!("the deadline passed while the request {place}"));
            let door = pending.reply.door();
            pending.endpoint.metrics.answers.count(door, late.code);
            self.shared.metrics.count_latency(door, now.saturating_duration_since(pending.received));
            let version = pending.version_header();
            pending.reply.fail(&late, Tags { version: Some(&version), id: Some(&pending.id) });
        }
        for (slot, pending) in swept.gone {
            pending.endpoint.queue.cancel(self.index, slot);
            pending.endpoint.metrics.answers.count(pending.reply.door(), Code::Cancelled);
        }
    }

    /// The model that a request means, for answers that need no batch.
    pub fn model_version(&self, spec: &ModelSpec<'_>) -> Result<Arc<Version>, Status> {
        let map = self.shared.map.load();
        let found: (&Model, &Arc<Version>) = map.resolve(spec.name, spec.choice)?;
        Ok(found.1.clone())
    }
}

/// Encodes one request's rows and sends them.
fn send(
    reply: Reply,
    endpoint: &Endpoint,
    wanted: Option<&[usize]>,
    outputs: &[Output],
    rows: (usize, usize),
    tags: Tags<'_>,
) {
    let specs = &endpoint.signature.outputs;
    let named = |index: usize| {
        let (spec, output) = (&specs[index], &outputs[index]);
        let slice = Slice {
            dtype: spec.dtype,
            column: &output.column,
            inner: &output.shape[1..],
            first: rows.0,
            rows: rows.1,
        };
        (spec.name.as_str(), slice)
    };
    match reply {
        Reply::Grpc(reply) => {
            let frame = match wanted {
                None => predict_response::encode((0..specs.len()).map(named), &endpoint.model_spec_field),
                Some(wanted) => predict_response::encode(wanted.iter().copied().map(named), &endpoint.model_spec_field),
            };
            reply.succeed(frame, tags);
        }
        Reply::Rest(sender, form) => {
            let body = match specs.len() {
                1 => json_response::encode(&[named(0)], form),
                count => json_response::encode(&(0..count).map(named).collect::<Vec<_>>(), form),
            };
            let _ = sender.send(rest::with_body(http::StatusCode::OK, body, tags));
        }
    }
}
