//! Answers the requests of a finished batch: each gets its rows or its error, and the log a record.

use std::sync::atomic::Ordering;
use std::time::Instant;

use tidegate_codec::signatures::FirstAxis;
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::Tensor;

use crate::batching::{Entry, FinishedBatch, Part, ServedSignature};
use crate::log::{Outcome, Record};
use crate::request::dispatcher::Dispatcher;
use crate::request::inflight::Pending;
use crate::request::reply::{Reply, Tags};
use crate::request::rows::Rows;
use crate::sync::lock;

impl<R: Reply> Dispatcher<R> {
    /// Answers every request of a finished batch.
    pub fn answer_batch(&self, mut finished: FinishedBatch) {
        let now = Instant::now();
        // The model is through with its inputs: their memory is there for the answers.
        drop(finished.memory.take());
        let mut outcomes = Vec::with_capacity(finished.entries.len());
        for part in &finished.parts {
            for index in part.entries.clone() {
                let entry = &finished.entries[index];
                let code = self.answer_entry(&finished, part, index, now);
                let latency = now.saturating_duration_since(entry.received);
                let logged = entry.logged && code != Code::Cancelled && self.may_log(&finished, part, entry);
                outcomes.push(Outcome { code, latency_us: latency.as_micros() as i64, logged });
            }
        }
        if outcomes.iter().any(|outcome| outcome.logged) {
            self.engine.log.offer(Record::new(finished, outcomes));
        }
    }

    /// Whether an answer has the rows that its model's log is of, and its inputs were copied; one that has not is counted
    /// as dropped.
    fn may_log(&self, finished: &FinishedBatch, part: &Part, entry: &Entry) -> bool {
        let signature = &finished.served.signature;
        let fits = (!part.unbatched || signature.first_axis == FirstAxis::Free)
            && finished.inputs.len() == signature.inputs.len();
        if !fits {
            self.engine.log.leave_out(entry);
        }
        fits
    }

    /// Writes one answer, where somebody still waits. Returns the code that the client sees or saw.
    fn answer_entry(&self, finished: &FinishedBatch, part: &Part, index: usize, now: Instant) -> Code {
        let entry = &finished.entries[index];
        let error = part.error_of(index);
        let Some(slot) = entry.slot else {
            return error.map_or(Code::Ok, |status| status.code);
        };
        // Others come and go while this answer is written.
        let pending = lock(&self.inflight).take(slot);
        let Some(pending) = pending else {
            return if entry.deadline <= now { Code::DeadlineExceeded } else { Code::Cancelled };
        };
        let Pending { reply, id, queue, received, place, .. } = pending;
        let served = &queue.served;
        if finished.refused {
            served.metrics.rejections.fetch_add(1, Ordering::Relaxed);
            if let Some(place) = &place {
                queue.abandon(place, None);
            }
        }
        let endpoint = reply.endpoint();
        let tags = Tags { version: Some(&served.version_header), id: Some(&id) };
        let no_room = match &part.outputs {
            Ok(outputs) if error.is_none() => room_for(served, part, entry, outputs).err(),
            _ => None,
        };
        let code = match (no_room.as_ref().or(error), &part.outputs) {
            (Some(status), _) | (None, Err(status)) => {
                reply.fail(status, tags);
                status.code
            }
            (None, Ok(outputs)) => {
                let first = entry.first_row - part.first_row;
                let (unbatched, flat) = (part.unbatched, entry.flat);
                let rows = if unbatched { 1 } else { entry.rows };
                let rows = Rows { served, outputs, first, rows, examples: entry.rows, flat, unbatched };
                reply.succeed(&rows, tags)
            }
        };
        served.metrics.answers.count(endpoint, code);
        self.engine.metrics.count_latency(endpoint, now.saturating_duration_since(received));
        code
    }
}

/// An answer of more bytes must find memory before it is written.
const LARGE_ANSWER: usize = 4 << 10;

/// Whether there is memory for a request's share of the outputs once more, as its answer.
fn room_for(served: &ServedSignature, part: &Part, entry: &Entry, outputs: &[Tensor]) -> Result<(), Status> {
    let all: usize = outputs.iter().map(|output| output.column.byte_size()).sum();
    if all <= LARGE_ANSWER {
        return Ok(());
    }
    let rows = outputs.first().and_then(|output| output.shape.first().copied()).unwrap_or(1).max(1);
    let own = if part.unbatched { all } else { all / rows * entry.rows };
    if own <= LARGE_ANSWER { Ok(()) } else { served.memory.reservation().grow(own, own) }
}
