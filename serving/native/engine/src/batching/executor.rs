//! The executor: the trait that a model implements, its input and its output.

use std::sync::Arc;

use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Lease, Tensor};

use crate::batching::served_signature::ServedSignature;

/// What an executor gets: columns to own, and whose rows they are.
#[derive(Debug)]
pub struct Work {
    /// Names, specs and the version's identity.
    pub served: Arc<ServedSignature>,
    /// One column per input, in the signature's order; goes back to its pool when dropped.
    pub columns: Vec<Lease>,
    /// Inner dimensions of each input.
    pub shapes: Arc<[Vec<usize>]>,
    /// Rows in all, copies that fill it up to an allowed size among them.
    pub rows: usize,
    /// Whether it is one request whose inputs have exactly the shapes given, without an axis for rows.
    pub unbatched: bool,
    /// Request i owns rows `[offsets[i], offsets[i + 1])`; rows after the last are copies.
    pub offsets: Vec<usize>,
}

/// What an executor gives: the declared outputs in the signature's order, and errors by row.
#[derive(Debug, Default)]
pub struct Prediction {
    /// None where the model left one out.
    pub outputs: Vec<Option<Tensor>>,
    /// Row and what went wrong with it.
    pub errors: Vec<(usize, Status)>,
}

/// Runs batches; Python stands behind it.
pub trait Executor: Send + Sync {
    /// Runs one batch. May be called by as many threads at once as the version's `concurrency`.
    fn execute(&self, work: Work) -> Result<Prediction, Status>;

    /// Runs a request of a signature that streams, and hands each message on until there are no more, or `wanted` says
    /// that nobody wants another. What answers once is a stream of one message.
    fn stream(&self, work: Work, wanted: &mut dyn FnMut(Prediction) -> bool) -> Result<(), Status> {
        wanted(self.execute(work)?);
        Ok(())
    }

    /// How often the model was entered so far.
    fn entries(&self) -> u64;

    /// Lets others have what the calling thread keeps of freed memory; called when it had nothing to do for a while.
    fn share_memory(&self) {}

    /// Runs an executor thread, inside of whatever that thread should keep between batches.
    fn host(&self, thread: &mut (dyn FnMut() + Send)) {
        thread();
    }
}
