//! A predict request as every protocol brings it: who asks and until when, and the inputs still in their own form.
//! The doors make it; the desk resolves it and lets it write its inputs into a batch.

use std::time::Instant;

use crate::arrays::Arrays;
use crate::inflight::Reply;
use crate::json_request::JsonRequest;
use crate::predict_request::{self, PredictRequest};
use crate::queue::Page;
use crate::request_id::RequestId;
use crate::signature::Signature;
use crate::status::{Code, Status};

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

/// A request's inputs in the protocol they came in.
pub enum Payload<'a> {
    /// From gRPC.
    Proto(&'a PredictRequest<'a>),
    /// From REST.
    Json(&'a JsonRequest<'a>),
    /// From an embedding program.
    Arrays(&'a Arrays),
}

impl Payload<'_> {
    /// Appends the inputs to the open batch; returns the number of rows.
    pub fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>, max_bytes: usize) -> Result<usize, Status> {
        match self {
            Payload::Proto(request) => request.read_inputs(signature, page.columns, page.shapes, max_bytes),
            Payload::Json(request) => request.read_inputs(signature, page.columns, page.shapes),
            Payload::Arrays(arrays) => arrays.read_inputs(signature, page),
        }
    }

    /// Positions of the outputs that the client wants; all if none.
    pub fn wanted(&self, signature: &Signature) -> Result<Option<Box<[usize]>>, Status> {
        match self {
            Payload::Proto(request) => predict_request::select_outputs(&request.output_filter, signature),
            Payload::Json(_) | Payload::Arrays(_) => Ok(None),
        }
    }

    /// What TensorFlow Serving's doors say when the signature is not there.
    pub fn no_signature(&self, name: &str) -> Status {
        match self {
            Payload::Proto(_) | Payload::Arrays(_) => {
                Status::new(Code::FailedPrecondition, format!("Serving signature key \"{name}\" not found."))
            }
            Payload::Json(_) => {
                Status::invalid(format!("Serving signature name: \"{name}\" not found in signature def"))
            }
        }
    }
}
