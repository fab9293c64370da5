//! Predict requests as the engine takes them.

use std::sync::Arc;

use tidegate_codec::json::predict_request::JsonRequest;
use tidegate_codec::model_spec::ModelSpec;
use tidegate_codec::signatures::{RequestRows, Signature};
use tidegate_codec::status::Status;
use tidegate_codec::tensors::Page;
use tidegate_engine::batching::Queue;
use tidegate_engine::metrics::Call;
use tidegate_engine::request::Payload;
use tidegate_engine::serving_map::Version;

use crate::endpoints::rest::prediction::RestReply;

/// The body of a predict request.
pub struct Predict<'a>(pub &'a JsonRequest<'a>);

impl Payload for Predict<'_> {
    type Reply = RestReply;

    fn call(&self) -> Call {
        Call::Predict
    }

    fn queue<'v>(&self, spec: &ModelSpec<'_>, version: &'v Version) -> Result<&'v Arc<Queue>, Status> {
        let name = spec.signature();
        version
            .queue(name)
            .ok_or_else(|| Status::invalid(format!("Serving signature name: \"{name}\" not found in signature def")))
    }

    fn select(&self, _: &Signature, _: &mut RestReply) -> Result<(), Status> {
        Ok(())
    }

    fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>, _: usize) -> Result<RequestRows, Status> {
        self.0.read_inputs(signature, page)
    }
}
