//! The predict path of one I/O thread: every protocol's requests become entries of batches here.
//! The endpoints hand in parsed requests; `answers` and `sweep` take them from the desk again.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use http::HeaderMap;

use crate::answer::{self, Rows};
use crate::ask::{Ask, Payload};
use crate::batch::{Entry, Role};
use crate::drain::Presence;
use crate::dry::Touched;
use crate::gather::Gather;
use crate::grpc_reply::{GrpcReply, Tags};
use crate::inflight::{Inflight, Pending, Reply, Wanted};
use crate::intake::Intake;
use crate::lock;
use crate::mailbox::Mailbox;
use crate::metrics::Call;
use crate::model_status::VersionState;
use crate::multi_inference::MultiInferenceRequest;
use crate::predict_request::ModelSpec;
use crate::queue::{Page, Urgency};
use crate::serving_map::{Model, ServingMap};
use crate::shared::Shared;
use crate::split::{Asker, KeyValue};
use crate::status::{Code, Status};
use crate::sweep::SweepClock;
use crate::version::{ServedSignature, Version};

/// What one I/O thread works on, or all threads that predict in process.
pub struct Desk {
    /// The I/O thread's number, and that of its lane in every queue.
    pub index: usize,
    /// What all I/O threads share.
    pub shared: Arc<Shared>,
    /// Finished batches for this thread.
    pub mailbox: Arc<Mailbox>,
    pub(crate) inflight: Mutex<Inflight>,
    pub(crate) sweep_clock: SweepClock,
    pub(crate) touched: Touched,
    /// Copies of requests that have not been answered and logged.
    pub(crate) copies: Arc<Presence>,
    /// Whether no I/O thread will find its sockets dry: batches close when an executor is free.
    embedded: bool,
}

/// Where a request goes.
struct Route<'a> {
    model: &'a Model,
    version: &'a Arc<Version>,
    served: &'a Arc<ServedSignature>,
    wanted: Wanted,
}

/// Why a request goes nowhere, and the version that refused it, if one was found.
type Lost<'a> = (Status, Option<&'a Arc<Version>>);

fn route<'a>(
    map: &'a ServingMap,
    spec: &ModelSpec<'_>,
    asker: &Asker<'_>,
    payload: &Payload<'_>,
) -> Result<Route<'a>, Lost<'a>> {
    let (model, version) = map.resolve(spec.name, spec.choice, Some(asker)).map_err(|status| (status, None))?;
    let served = payload.served(spec, version).map_err(|status| (status, Some(version)))?;
    let wanted = payload.wanted(&served.signature).map_err(|status| (status, Some(version)))?;
    Ok(Route { model, version, served, wanted })
}

impl Desk {
    /// An empty desk.
    pub fn new(index: usize, shared: Arc<Shared>, mailbox: Arc<Mailbox>) -> Desk {
        Desk {
            index,
            shared,
            mailbox,
            inflight: Mutex::default(),
            sweep_clock: SweepClock::default(),
            touched: Touched::default(),
            copies: Arc::default(),
            embedded: false,
        }
    }

    /// A desk without an I/O thread.
    pub fn embedded(index: usize, shared: Arc<Shared>, mailbox: Arc<Mailbox>) -> Desk {
        Desk { embedded: true, ..Desk::new(index, shared, mailbox) }
    }

    /// Takes over a predict request; its answer goes through its reply, now or later.
    pub fn predict(&self, ask: Ask, spec: &ModelSpec<'_>, headers: &HeaderMap, payload: &Payload<'_>) {
        self.predict_in(&self.shared.map.load(), ask, spec, KeyValue::In(headers), payload);
    }

    /// The same with a map that the caller holds.
    pub fn predict_in(
        &self,
        map: &ServingMap,
        ask: Ask,
        spec: &ModelSpec<'_>,
        key: KeyValue<'_>,
        payload: &Payload<'_>,
    ) {
        let found = route(map, spec, &Asker { id: &ask.id, key }, payload);
        match found {
            Ok(route) => {
                route.served.metrics.count_call(payload.call());
                self.admit(ask, route, payload);
            }
            Err((status, version)) => self.refuse(ask, version, &status),
        }
    }

    /// Takes over several tasks about the same examples: each joins the batch of its signature.
    pub fn infer(&self, ask: Ask<GrpcReply>, headers: &HeaderMap, request: &MultiInferenceRequest<'_>) {
        let map = self.shared.map.load();
        let Ask { reply, id, received, deadline } = ask;
        let refuse = |reply, version, status| {
            let ask = Ask { reply: Reply::Grpc(reply), id: id.clone(), received, deadline };
            self.refuse(ask, version, &status);
        };
        let spec = request.spec();
        let asker = Asker { id: &id, key: KeyValue::In(headers) };
        let (model, version) = match map.resolve(spec.name, spec.choice, Some(&asker)) {
            Ok(found) => found,
            Err(status) => return refuse(reply, None, status),
        };
        let tasks = match request.tasks(version) {
            Ok(tasks) => tasks,
            Err(status) => return refuse(reply, Some(version), status),
        };
        if let Some((served, ..)) = tasks.first() {
            served.metrics.count_call(Call::MultiInference);
        }
        for (part, (served, method, head)) in Gather::parts(reply, tasks.len()).into_iter().zip(tasks) {
            let ask = Ask { reply: Reply::Part(part), id: id.clone(), received, deadline };
            let route = Route { model, version, served, wanted: Wanted::Head(head) };
            self.admit(ask, route, &Payload::Examples(method, &request.input));
        }
    }

    /// Enters a request into a batch, and its copy into another.
    fn admit(&self, ask: Ask, route: Route<'_>, payload: &Payload<'_>) {
        let Route { model, version, served, wanted } = route;
        let Ask { reply, id, received, deadline } = ask;
        let entry = Entry {
            first_row: 0,
            rows: 0,
            flat: false,
            slot: None,
            id: id.clone(),
            received,
            deadline,
            role: Role::Primary,
            logged: id.sampled(model.logged),
            cancelled: false,
            guest: None,
        };
        let shadow = model.shadow.as_ref();
        let shadow = shadow.filter(|shadow| !Arc::ptr_eq(&shadow.version, version) && id.sampled(shadow.share));
        let copy = shadow.map(|shadow| (&shadow.version, self.copy_of(&entry)));
        let pending = Pending { reply, id, received, deadline, served: served.clone(), wanted };
        let slot = lock(&self.inflight).insert(pending);
        match self.append(version, served, Entry { slot: Some(slot), ..entry }, payload) {
            Ok(Intake { rows: 0, flat, .. }) => self.answer_no_rows(slot, version, flat),
            Ok(_) => {
                self.sweep_clock.mind(deadline);
                if let Some((target, entry)) = copy {
                    self.shadow(target, &served.signature.name, entry, payload);
                }
            }
            Err(status) => {
                if let Some(Pending { reply, id, .. }) = lock(&self.inflight).take(slot) {
                    self.refuse(Ask { reply, id, received, deadline }, Some(version), &status);
                }
            }
        }
    }

    fn copy_of(&self, entry: &Entry) -> Entry {
        Entry { role: Role::Shadow, guest: Some(Arc::new(self.copies.enter())), ..entry.clone() }
    }

    /// Answers a request that has no rows; no model is asked.
    fn answer_no_rows(&self, slot: u64, version: &Version, flat: bool) {
        let Some(Pending { reply, id, served, wanted, received, .. }) = lock(&self.inflight).take(slot) else {
            return;
        };
        let endpoint = reply.endpoint();
        let outputs = answer::no_rows(&served);
        let rows = Rows { served: &served, outputs: &outputs, first: 0, rows: 0, examples: 0, flat, whole: false };
        let code = rows.send(reply, &wanted, Tags { version: Some(&version.header), id: Some(&id) });
        served.metrics.answers.count(endpoint, code);
        self.shared.metrics.count_latency(endpoint, received.elapsed());
    }

    /// Decodes a request into the open batch.
    fn append(
        &self,
        version: &Arc<Version>,
        served: &Arc<ServedSignature>,
        entry: Entry,
        payload: &Payload<'_>,
    ) -> Result<Intake, Status> {
        let limit = self.shared.limits.max_message_bytes();
        let signature = &served.signature;
        let decode = |page: &mut Page<'_>| payload.read_inputs(signature, page, limit);
        let (intake, urgency) = served.queue.append(signature, version, self.index, entry, decode)?;
        match urgency {
            Urgency::Never => {}
            Urgency::Now => served.crew.wake(),
            Urgency::WhenDry | Urgency::NowAndWhenDry if self.embedded => {
                served.queue.ripen(self.index);
                served.crew.wake();
            }
            Urgency::WhenDry => self.touched.add(served),
            Urgency::NowAndWhenDry => {
                served.crew.wake();
                self.touched.add(served);
            }
        }
        Ok(intake)
    }

    /// Copies a request that is already queued; nothing that happens to the copy reaches the client.
    fn shadow(&self, target: &Arc<Version>, signature: &str, entry: Entry, payload: &Payload<'_>) {
        let Some(served) = target.served(signature) else {
            if let Some(any) = target.served_signatures.first() {
                any.metrics.shadow_failed.fetch_add(1, Ordering::Relaxed);
            }
            return;
        };
        let metrics = &served.metrics;
        let counter = match self.append(target, served, entry, payload) {
            Ok(_) => &metrics.shadow_copied,
            Err(status) if status.code == Code::ResourceExhausted => &metrics.shadow_dropped,
            Err(_) => &metrics.shadow_failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Answers a request that joined no batch.
    pub fn refuse(&self, ask: Ask, version: Option<&Arc<Version>>, status: &Status) {
        let metrics = &self.shared.metrics;
        let endpoint = ask.reply.endpoint();
        match version.and_then(|version| version.served_signatures.first()) {
            Some(served) => served.metrics.answers.count(endpoint, status.code),
            None => metrics.unrouted.count(endpoint, status.code),
        }
        metrics.count_latency(endpoint, ask.received.elapsed());
        ask.reply.fail(status, Tags { version: version.map(|version| &version.header), id: Some(&ask.id) });
    }

    /// The I/O thread ends: nobody can be answered any more, and nothing of it may hold a version.
    pub fn leave(&self) {
        self.mailbox.close();
        self.touched.close(self.index);
    }

    /// The states of the versions that a request means.
    pub fn model_states(&self, spec: &ModelSpec<'_>) -> Result<Vec<VersionState>, Status> {
        self.shared.states.find(spec, &self.shared.map.load())
    }

    /// The version that a request means, for answers that need no batch.
    pub fn model_version(&self, spec: &ModelSpec<'_>) -> Result<Arc<Version>, Status> {
        let map = self.shared.map.load();
        map.resolve(spec.name, spec.choice, None).map(|(_, version)| version.clone())
    }
}
