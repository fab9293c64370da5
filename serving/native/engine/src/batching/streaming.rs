//! Runs one request of a signature that streams: each message goes to its reader as soon as the model has made it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::Tensor;

use crate::batching::batch::{Batch, Entry};
use crate::batching::executor::{Executor, Prediction, Work};
use crate::batching::finished::Part;
use crate::batching::output_check::check;
use crate::batching::served_signature::ServedSignature;
use crate::batching::stream::Message;

/// Runs the batch's only request until it has no more messages, or nobody wants any. What the log gets as its outputs is
/// its last message.
pub(super) fn run(executor: &dyn Executor, served: &Arc<ServedSignature>, batch: &mut Batch) -> Part {
    let columns = std::mem::take(&mut batch.columns);
    let (shapes, rows) = (batch.shapes.clone(), batch.rows);
    let work = Work { served: served.clone(), columns, shapes, rows, unbatched: true, offsets: vec![0, rows] };
    served.metrics.count_batch(rows, rows);
    let entry = batch.entries.first();
    let _running = entry.map(|entry| served.metrics.running.begin(&served.signature.name, rows, &entry.id));
    let (mut last, mut stopped) = (Vec::new(), None);
    let mut deadline = entry.map(|entry| entry.deadline);
    let mut wanted = |prediction| match hand_on(served, entry, prediction, (&mut last, &mut deadline)) {
        Ok(()) => true,
        Err(status) => {
            stopped = Some(status);
            false
        }
    };
    let ran = catch_unwind(AssertUnwindSafe(|| executor.stream(work, &mut wanted)))
        .unwrap_or_else(|_| Err(Status::internal("the executor panicked")));
    let outputs = stopped.map_or(ran, Err).map(|()| last);
    Part { entries: 0..batch.entries.len(), first_row: 0, unbatched: true, outputs, errors: Vec::new() }
}

/// Hands one message on, or says why there must be no more. It is kept where the log wants it.
fn hand_on(
    served: &Arc<ServedSignature>,
    entry: Option<&Entry>,
    prediction: Prediction,
    (last, deadline): (&mut Vec<Tensor>, &mut Option<Instant>),
) -> Result<(), Status> {
    let gone = || Status::new(Code::Cancelled, "nobody reads the stream any more");
    let (outputs, errors) = check(&served.signature, prediction, None)?;
    if let Some((_, status)) = errors.into_iter().next() {
        return Err(status);
    }
    served.metrics.messages.fetch_add(1, Ordering::Relaxed);
    let entry = entry.ok_or_else(gone)?;
    if entry.logged {
        last.clone_from(&outputs);
    }
    match &entry.stream {
        Some(stream) if stream.send(Message::new(served.clone(), outputs)?) => Ok(()),
        Some(_) => Err(gone()),
        // Copies for a shadow have no reader who could leave, and no stream that would move their deadline on.
        None => {
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Err(Status::new(Code::DeadlineExceeded, "the deadline passed while the request ran"));
            }
            if let Some(patience) = entry.patience {
                *deadline = Some(now + patience);
            }
            Ok(())
        }
    }
}
