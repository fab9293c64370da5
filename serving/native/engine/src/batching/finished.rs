//! A batch that ran: its outputs or errors, part by part, and the trait that takes it.

use std::ops::Range;
use std::sync::Arc;

use tidegate_codec::status::Status;
use tidegate_codec::tensors::Tensor;

use crate::batching::batch::{Entry, KeepAlive};
use crate::batching::kept::Kept;
use crate::batching::served_signature::ServedSignature;
use crate::batching::unanswered::Outputs;
use crate::memory::Reservation;
use crate::metrics::Ran;

/// A run of requests that one executor call answered.
#[derive(Debug)]
pub struct Part {
    /// Positions of its entries in the batch.
    pub entries: Range<usize>,
    /// The batch row that is row 0 of its outputs.
    pub first_row: usize,
    /// Whether its outputs are one request's as they are, without an axis for rows.
    pub unbatched: bool,
    /// Outputs with their inner dimensions, or why there are none.
    pub outputs: Result<Vec<Tensor>, Status>,
    /// Position of an entry and its own error.
    pub errors: Vec<(usize, Status)>,
}

impl Part {
    /// Bytes of its outputs.
    pub fn byte_size(&self) -> usize {
        self.outputs.iter().flatten().map(|output| output.column.byte_size()).sum()
    }

    /// Why this entry failed, if it did.
    pub fn error_of(&self, entry: usize) -> Option<&Status> {
        match &self.outputs {
            Err(status) => Some(status),
            Ok(_) => self.errors.iter().find(|(at, _)| *at == entry).map(|(_, status)| status),
        }
    }
}

/// A batch that ran, on its way back to the clients and the log.
#[derive(Debug)]
pub struct FinishedBatch {
    /// Keeps the version alive until the answers are written.
    pub version: KeepAlive,
    /// What its inputs took, until the answers are to be written.
    pub memory: Option<Reservation>,
    /// What its outputs take until they are written as answers; none where it did not run.
    pub unanswered: Option<Outputs>,
    /// Whose signature was run.
    pub served: Arc<ServedSignature>,
    /// Its requests.
    pub entries: Vec<Entry>,
    /// When the model ran; none where it did not.
    pub ran: Option<Ran>,
    /// Whether they are refused where they wait, so that they still count against their queue.
    pub refused: bool,
    /// The inputs as they came, where something is logged and there was memory for it.
    pub inputs: Vec<Kept>,
    /// Inner dimensions of each input.
    pub shapes: Arc<[Vec<usize>]>,
    /// The answers, in the order of the entries.
    pub parts: Vec<Part>,
}

/// Where the finished batches of one lane go. Executor threads call it, and must not be kept waiting.
pub trait Completions: Send + Sync {
    /// Takes a batch whose requests are to be answered.
    fn complete(&self, finished: FinishedBatch);
}

/// One for each lane of the queues.
pub type CompletionsByLane = Arc<[Arc<dyn Completions>]>;
