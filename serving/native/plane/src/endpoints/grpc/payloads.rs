//! Predict and SessionRun requests as the engine takes them.

use std::sync::Arc;

use tidegate_codec::model_spec::ModelSpec;
use tidegate_codec::protobuf::predict_request::{PredictRequest, select_outputs};
use tidegate_codec::protobuf::session_run::SessionRunRequest;
use tidegate_codec::signatures::{RequestRows, Signature};
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::Page;
use tidegate_engine::batching::Queue;
use tidegate_engine::metrics::Call;
use tidegate_engine::request::Payload;
use tidegate_engine::serving_map::Version;

use crate::endpoints::grpc::prediction::{PredictionReply, Selection};

/// A `PredictRequest`.
pub struct Predict<'a>(pub &'a PredictRequest<'a>);

impl Payload for Predict<'_> {
    type Reply = PredictionReply;

    fn call(&self) -> Call {
        Call::Predict
    }

    fn queue<'v>(&self, spec: &ModelSpec<'_>, version: &'v Version) -> Result<&'v Arc<Queue>, Status> {
        let name = spec.signature();
        version.queue(name).ok_or_else(|| {
            Status::new(Code::FailedPrecondition, format!("Serving signature key \"{name}\" not found."))
        })
    }

    fn select(&self, signature: &Signature, reply: &mut PredictionReply) -> Result<(), Status> {
        if let Some(chosen) = select_outputs(&self.0.output_filter, signature)? {
            reply.selection = Selection::Some(chosen);
        }
        Ok(())
    }

    fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>, max_bytes: usize) -> Result<RequestRows, Status> {
        self.0.read_inputs(signature, page, max_bytes)
    }
}

/// Feeds and fetches.
pub struct SessionRun<'a>(pub &'a SessionRunRequest<'a>);

impl Payload for SessionRun<'_> {
    type Reply = PredictionReply;

    fn call(&self) -> Call {
        Call::SessionRun
    }

    /// The signature whose inputs are the feeds and whose outputs have the fetches: the one asked for, or any.
    fn queue<'v>(&self, spec: &ModelSpec<'_>, version: &'v Version) -> Result<&'v Arc<Queue>, Status> {
        let named = |name: &str| spec.signature_name.is_empty() || name == spec.signature_name;
        let mut able = version.queues.iter().filter(|queue| named(&queue.signature().name) && self.runs(queue));
        let default = version.queue(spec.signature()).filter(|queue| self.runs(queue));
        default.or_else(|| able.next()).ok_or_else(|| {
            let names: Vec<&str> = version.queues.iter().map(|queue| queue.signature().name.as_str()).collect();
            self.0.no_signature(&names)
        })
    }

    fn select(&self, signature: &Signature, reply: &mut PredictionReply) -> Result<(), Status> {
        reply.selection = Selection::Fetches(self.0.fetched(signature));
        Ok(())
    }

    fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>, max_bytes: usize) -> Result<RequestRows, Status> {
        self.0.inputs.read_inputs(signature, page, max_bytes)
    }
}

impl SessionRun<'_> {
    fn runs(&self, queue: &Queue) -> bool {
        self.0.maps_onto(queue.signature())
    }
}
