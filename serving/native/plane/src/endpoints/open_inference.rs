//! The Open Inference Protocol in any form: its requests as the engine takes them, and what it tells of models.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderValue;
use tidegate_codec::model_spec::{DEFAULT_SIGNATURE, ModelSpec, VersionChoice};
use tidegate_codec::open_inference::answer::InferAnswer;
use tidegate_codec::open_inference::config::ModelConfig;
use tidegate_codec::open_inference::index::{self, IndexEntry};
use tidegate_codec::open_inference::metadata::ModelDescription;
use tidegate_codec::open_inference::request::InferRequest;
use tidegate_codec::open_inference::statistics::{BatchStatistics, DURATIONS, ModelStatistics};
use tidegate_codec::openapi::{self, DescribedModel, DescribedVersion};
use tidegate_codec::signatures::{RequestRows, Signature};
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Page, Room};
use tidegate_engine::batching::Queue;
use tidegate_engine::engine::Engine;
use tidegate_engine::metrics::{Call, SizeTimes, Spent, VersionMetrics};
use tidegate_engine::request::{Payload, Reply};
use tidegate_engine::request_id::{IdSource, RequestId};
use tidegate_engine::serving_map::{ServingMap, Version};

use crate::security::access::Grant;
use crate::state::PlaneState;

/// What the server answers as its own version.
pub const SERVER_VERSION: &str = env!("CARGO_PKG_VERSION");

/// A reply that can be the answer to an infer request.
pub trait InferReply: Reply {
    /// This is the answer.
    fn select_infer(&mut self, answer: InferAnswer);
}

/// An infer request, answered by an `R`.
pub struct Infer<'a, R> {
    request: &'a InferRequest<'a>,
    reply: PhantomData<fn() -> R>,
}

impl<'a, R> Infer<'a, R> {
    /// As it came.
    pub fn new(request: &'a InferRequest<'a>) -> Infer<'a, R> {
        Infer { request, reply: PhantomData }
    }
}

impl<R: InferReply> Payload for Infer<'_, R> {
    type Reply = R;

    fn call(&self) -> Call {
        Call::ModelInfer
    }

    fn priority(&self) -> u64 {
        self.request.priority
    }

    fn queue<'v>(&self, spec: &ModelSpec<'_>, version: &'v Version) -> Result<&'v Arc<Queue>, Status> {
        queue(spec, version)
    }

    fn sequence(&self, signature: &Signature, room: &mut dyn Room, max_bytes: usize) -> Vec<u8> {
        self.request.sequence(signature, room, max_bytes)
    }

    fn select(&self, signature: &Signature, reply: &mut R) -> Result<(), Status> {
        self.request.answer(signature).map(|answer| reply.select_infer(answer))
    }

    fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>, max_bytes: usize) -> Result<RequestRows, Status> {
        self.request.read_inputs(signature, page, max_bytes)
    }
}

/// The queue of the signature that a request names; of the default one, or the only one, where it names none.
pub(crate) fn queue<'v>(spec: &ModelSpec<'_>, version: &'v Version) -> Result<&'v Arc<Queue>, Status> {
    let named = version.queue(spec.signature());
    let only =
        || if spec.signature_name.is_empty() && version.queues.len() == 1 { version.queues.first() } else { None };
    named.or_else(only).ok_or_else(|| {
        let names: Vec<&str> = version.queues.iter().map(|queue| queue.signature().name.as_str()).collect();
        let (wanted, names) = (spec.signature(), names.join(", "));
        Status::invalid(format!(
            "the model has no signature '{wanted}': name one of {names} as parameter signature_name"
        ))
    })
}

/// Finds what a request has in shared memory, and where its answer is to go there.
pub fn open_places(state: &PlaneState, request: &mut InferRequest<'_>) -> Result<(), Status> {
    request.open(|name| state.shared_memory.find(name))
}

/// A request's identity: that of its header, what its client calls it, or a new one.
pub fn choose_id(header: Option<&HeaderValue>, own: Option<&str>, source: &IdSource) -> RequestId {
    match (header, own) {
        (None, Some(own)) => RequestId::from_text(Some(own), source),
        _ => RequestId::choose(header, source),
    }
}

/// Hands on what describes a model: its versions that serve, and how the one that is meant is called by default.
pub fn describe<T>(
    engine: &Engine,
    spec: &ModelSpec<'_>,
    with: impl FnOnce(&Version, &ModelDescription<'_>) -> T,
) -> Result<T, Status> {
    let version = engine.version(spec)?;
    let queue = default_queue(&version)?;
    let mut versions: Vec<i64> = engine.map.load().versions_of(spec.name).map(|version| version.number).collect();
    versions.sort_unstable();
    Ok(with(&version, &ModelDescription { name: &version.model, versions, signature: queue.signature() }))
}

/// Hands on how the version that is meant is called by default, as Triton's clients want it.
pub fn configure<T>(
    engine: &Engine,
    spec: &ModelSpec<'_>,
    with: impl FnOnce(&Version, &ModelConfig<'_>) -> T,
) -> Result<T, Status> {
    let version = engine.version(spec)?;
    let queue = default_queue(&version)?;
    let config = ModelConfig::new(&version.model, queue.batching().max_batch_rows, queue.signature());
    Ok(with(&version, &config))
}

fn default_queue(version: &Version) -> Result<&Arc<Queue>, Status> {
    let default = version.queue(DEFAULT_SIGNATURE).or_else(|| version.queues.first());
    default.ok_or_else(|| Status::internal(format!("model '{}' has no signature", version.model)))
}

/// All models and versions, or those that are ready; of these, those that somebody may know.
pub fn list(engine: &Engine, grant: Option<&Grant>, ready: bool) -> Vec<IndexEntry> {
    let all = engine.states.all().into_iter().filter(|(model, _)| grant.is_none_or(|grant| grant.sees(model)));
    index::select(all.map(|(model, state)| IndexEntry { model, state }).collect(), ready)
}

/// The REST endpoint as an OpenAPI document: models that answer, with their versions and labels.
pub fn openapi(engine: &Engine, grant: Option<&Grant>, secured: bool) -> Vec<u8> {
    let map = engine.map.load();
    let names: BTreeSet<&str> = map.versions().map(|version| &*version.model).collect();
    let seen = names.into_iter().filter(|name| grant.is_none_or(|grant| grant.sees(name)));
    let described = seen.map(|name| describe_model(&map, name));
    openapi::to_json(SERVER_VERSION, &described.collect::<Vec<_>>(), secured)
}

fn describe_model<'m>(map: &'m ServingMap, name: &'m str) -> DescribedModel<'m> {
    let answers = |choice| map.resolve(name, choice, None).ok().map(|(_, version)| version.number);
    let described = |version: &'m Arc<Version>| DescribedVersion {
        number: version.number,
        labels: map.labels_of(version).collect(),
        signatures: version.queues.iter().map(|queue| queue.signature()).collect(),
    };
    let versions = map.versions_of(name).filter(|version| answers(VersionChoice::Version(version.number)).is_some());
    DescribedModel { name, default: answers(VersionChoice::Any), versions: versions.map(described).collect() }
}

/// What the versions were asked that a request means, or of every model that somebody may know where it names none.
pub fn statistics(
    engine: &Engine,
    grant: Option<&Grant>,
    spec: &ModelSpec<'_>,
) -> Result<Vec<ModelStatistics>, Status> {
    if spec.name.is_empty() {
        let all = engine.metrics.of(None, None).into_iter();
        return Ok(all.filter(|((model, _), _)| grant.is_none_or(|grant| grant.sees(model))).map(of_version).collect());
    }
    let number = match spec.choice {
        VersionChoice::Any => None,
        _ => Some(engine.version(spec)?.number),
    };
    let found = engine.metrics.of(Some(spec.name), number);
    if found.is_empty() {
        // Says in which way it is not there.
        engine.version(spec)?;
    }
    Ok(found.into_iter().map(of_version).collect())
}

/// Requests that failed before they ran count as failures that took no time.
fn of_version(((name, version), metrics): ((String, i64), Arc<VersionMetrics>)) -> ModelStatistics {
    let mut durations = [(0, 0); DURATIONS.len()];
    let (mut all, mut failed) = (Spent::default(), Spent::default());
    let mut last_inference = 0;
    let mut sizes: BTreeMap<usize, SizeTimes> = BTreeMap::new();
    for (_, times) in metrics.signatures() {
        let add = |sum: &mut Spent, more: Spent| *sum = Spent { count: sum.count + more.count, ns: sum.ns + more.ns };
        add(&mut all, times.all());
        add(&mut failed, times.failed());
        last_inference = last_inference.max(times.last_ms());
        times.sizes().iter().for_each(|(rows, more)| sizes.entry(*rows).or_default().add(more));
        for (at, stage) in [(3, 0), (2, 1), (4, 2), (5, 3)] {
            let Spent { count, ns } = times.stages[stage].spent();
            durations[at] = (durations[at].0 + count, durations[at].1 + ns);
        }
    }
    durations[0] = (all.count.saturating_sub(failed.count), all.ns.saturating_sub(failed.ns));
    durations[1] = (metrics.failures(), failed.ns);
    let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
    let (inferences, executions) = (load(&metrics.rows), load(&metrics.batches));
    let batches = sizes.iter().map(|(rows, times)| of_size(*rows, times)).collect();
    ModelStatistics { name, version, last_inference, inferences, executions, durations, batches }
}

fn of_size(rows: usize, times: &SizeTimes) -> BatchStatistics {
    let SizeTimes { batches, decode_ns, run_ns, encode_ns } = *times;
    BatchStatistics { rows: rows as u64, durations: [decode_ns, run_ns, encode_ns].map(|ns| (batches, ns)) }
}
