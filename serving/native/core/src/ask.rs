//! A predict request as every protocol brings it: who asks and until when, and the inputs still in their own form.
//! The endpoints make it; the desk resolves it and lets it write its inputs into a batch.

use std::sync::Arc;
use std::time::Instant;

use crate::arrays::Arrays;
use crate::example_input::ExampleInput;
use crate::grpc_reply::GrpcReply;
use crate::head::{Head, Method};
use crate::inflight::{Reply, Wanted};
use crate::intake::Intake;
use crate::json_request::JsonRequest;
use crate::metrics::Call;
use crate::predict_request::{self, ModelSpec, PredictRequest};
use crate::queue::Page;
use crate::request_id::RequestId;
use crate::session_run::SessionRunRequest;
use crate::signature::Signature;
use crate::status::{Code, Status};
use crate::version::{ServedSignature, Version};

/// Who asks, and until when.
pub struct Ask<R = Reply> {
    /// The way back.
    pub reply: R,
    /// The request's identity.
    pub id: RequestId,
    /// When its last byte had come.
    pub received: Instant,
    /// When its answer is worth nothing any more.
    pub deadline: Instant,
}

impl From<Ask<GrpcReply>> for Ask {
    fn from(ask: Ask<GrpcReply>) -> Ask {
        let Ask { reply, id, received, deadline } = ask;
        Ask { reply: Reply::Grpc(reply), id, received, deadline }
    }
}

/// A request's inputs in the protocol they came in.
pub enum Payload<'a> {
    /// From gRPC.
    Proto(&'a PredictRequest<'a>),
    /// From REST.
    Json(&'a JsonRequest<'a>),
    /// From an embedding program.
    Arrays(&'a Arrays),
    /// Examples to be classified or regressed, from either.
    Examples(Method, &'a ExampleInput<'a>),
    /// Feeds and fetches, from gRPC.
    Session(&'a SessionRunRequest<'a>),
}

impl Payload<'_> {
    /// Appends the inputs to the open batch.
    pub fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>, max_bytes: usize) -> Result<Intake, Status> {
        match self {
            Payload::Proto(request) => request.read_inputs(signature, page, max_bytes),
            Payload::Json(request) => request.read_inputs(signature, page),
            Payload::Arrays(arrays) => arrays.read_inputs(signature, page),
            Payload::Examples(_, input) => input.read_inputs(signature, page),
            Payload::Session(request) => request.inputs.read_inputs(signature, page, max_bytes),
        }
    }

    /// What is asked.
    pub fn call(&self) -> Call {
        match self {
            Payload::Proto(_) | Payload::Json(_) | Payload::Arrays(_) => Call::Predict,
            Payload::Examples(Method::Classify, _) => Call::Classify,
            Payload::Examples(Method::Regress, _) => Call::Regress,
            Payload::Session(_) => Call::SessionRun,
        }
    }

    /// The signature that the request means.
    pub fn served<'v>(&self, spec: &ModelSpec<'_>, version: &'v Version) -> Result<&'v Arc<ServedSignature>, Status> {
        match self {
            Payload::Session(request) => request.served(version),
            _ => version.served(spec.signature()).ok_or_else(|| self.no_signature(spec.signature())),
        }
    }

    /// The outputs that the client wants.
    pub fn wanted(&self, signature: &Signature) -> Result<Wanted, Status> {
        match self {
            Payload::Proto(request) => {
                let chosen = predict_request::select_outputs(&request.output_filter, signature)?;
                Ok(chosen.map_or(Wanted::All, Wanted::Some))
            }
            Payload::Json(_) | Payload::Arrays(_) => Ok(Wanted::All),
            Payload::Examples(method, _) => Head::of(*method, signature).map(Wanted::Head),
            Payload::Session(request) => Ok(Wanted::Fetches(request.wanted(signature))),
        }
    }

    /// What TensorFlow Serving's endpoints say when the signature is not there.
    fn no_signature(&self, name: &str) -> Status {
        match self {
            Payload::Examples(..) => Status::invalid(format!("No signature was found with the name: {name}")),
            Payload::Proto(_) | Payload::Session(_) | Payload::Arrays(_) => {
                Status::new(Code::FailedPrecondition, format!("Serving signature key \"{name}\" not found."))
            }
            Payload::Json(_) => {
                Status::invalid(format!("Serving signature name: \"{name}\" not found in signature def"))
            }
        }
    }
}
