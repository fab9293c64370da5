//! The trait of a decoded request, which each protocol implements, and what goes with it.

use std::sync::Arc;
use std::time::Instant;

use tidegate_codec::model_spec::ModelSpec;
use tidegate_codec::signatures::{RequestRows, Signature};
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Page, Room};

use crate::batching::Queue;
use crate::metrics::Call;
use crate::request::reply::{Reply, SILENT};
use crate::request_id::RequestId;
use crate::serving_map::Version;
use crate::trace_context::TraceId;

/// Where a request came from, and until when it may be answered.
pub struct RequestContext<R> {
    /// The way back.
    pub reply: R,
    /// The request's identity.
    pub id: RequestId,
    /// The trace that its client says it belongs to.
    pub trace: Option<TraceId>,
    /// When its last byte had come.
    pub received: Instant,
    /// When its answer is worth nothing any more.
    pub deadline: Instant,
    /// Bytes of its message.
    pub bytes: usize,
}

impl<R: Reply> RequestContext<R> {
    /// Whether its client has gone while it waits for a thread that reads it.
    pub fn is_gone(&mut self) -> bool {
        self.reply.is_gone(self.received.elapsed() >= SILENT)
    }
}

/// A request's inputs in the protocol they came in.
pub trait Payload {
    /// How requests of this kind are answered.
    type Reply: Reply;

    /// The method, for the counters.
    fn call(&self) -> Call;

    /// The priority that its message asks for, 0 where it asks for none.
    fn priority(&self) -> u64 {
        0
    }

    /// The sequence that it belongs to by a signature of sequences, empty where it says none or cannot be read.
    fn sequence(&self, _signature: &Signature, _room: &mut dyn Room, _max_bytes: usize) -> Vec<u8> {
        Vec::new()
    }

    /// The queue of the signature that the request means, or why the version has none.
    fn queue<'v>(&self, spec: &ModelSpec<'_>, version: &'v Version) -> Result<&'v Arc<Queue>, Status>;

    /// Notes in the reply which outputs the client wants, or says which of them the signature does not have.
    fn select(&self, signature: &Signature, reply: &mut Self::Reply) -> Result<(), Status>;

    /// Appends the inputs to a batch, perhaps twice: to another one where they turn out to be large. On error columns may hold a part: the caller truncates them.
    fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>, max_bytes: usize) -> Result<RequestRows, Status>;
}
