//! The Open Inference Protocol in any form: its requests as the engine takes them, and what it tells of models.

use std::marker::PhantomData;
use std::sync::Arc;

use http::HeaderValue;
use tidegate_codec::model_spec::{DEFAULT_SIGNATURE, ModelSpec};
use tidegate_codec::open_inference::answer::InferAnswer;
use tidegate_codec::open_inference::index::{self, IndexEntry};
use tidegate_codec::open_inference::metadata::ModelDescription;
use tidegate_codec::open_inference::request::InferRequest;
use tidegate_codec::signatures::{RequestRows, Signature};
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::Page;
use tidegate_engine::batching::Queue;
use tidegate_engine::engine::Engine;
use tidegate_engine::metrics::Call;
use tidegate_engine::request::{Payload, Reply};
use tidegate_engine::request_id::{IdSource, RequestId};
use tidegate_engine::serving_map::Version;

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

    fn queue<'v>(&self, spec: &ModelSpec<'_>, version: &'v Version) -> Result<&'v Arc<Queue>, Status> {
        queue(spec, version)
    }

    fn select(&self, signature: &Signature, reply: &mut R) -> Result<(), Status> {
        self.request.answer(signature).map(|answer| reply.select_infer(answer))
    }

    fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>, max_bytes: usize) -> Result<RequestRows, Status> {
        self.request.read_inputs(signature, page, max_bytes)
    }
}

/// The queue of the signature that a request names; of the default one, or the only one, where it names none.
fn queue<'v>(spec: &ModelSpec<'_>, version: &'v Version) -> Result<&'v Arc<Queue>, Status> {
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
    let default = version.queue(DEFAULT_SIGNATURE).or_else(|| version.queues.first());
    let queue = default.ok_or_else(|| Status::internal(format!("model '{}' has no signature", spec.name)))?;
    let mut versions: Vec<i64> = engine.map.load().versions_of(spec.name).map(|version| version.number).collect();
    versions.sort_unstable();
    Ok(with(&version, &ModelDescription { name: &version.model, versions, signature: queue.signature() }))
}

/// All models and versions, or those that are ready.
pub fn list(engine: &Engine, ready: bool) -> Vec<IndexEntry> {
    let all = engine.states.all().into_iter();
    index::select(all.map(|(model, state)| IndexEntry { model, state }).collect(), ready)
}

/// Why models are not loaded and unloaded through the ports that clients have.
pub fn no_loading() -> Status {
    let why = "models are loaded and unloaded over the control port: `tidegate push` and `tidegate withdraw` do it";
    Status::new(Code::Unimplemented, why)
}
