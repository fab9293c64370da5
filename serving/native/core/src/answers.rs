//! Finished batches on their way out: each request gets its rows or its error, and the log what became of it.
//! Batches come through the I/O thread's mailbox; answers go through the replies that wait at the desk.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::batch::{Entry, Finished, Output, Part};
use crate::desk::Desk;
use crate::grpc_reply::Tags;
use crate::inflight::{Inflight, Pending, Reply};
use crate::json_response;
use crate::lock;
use crate::log_block::{Fate, Record};
use crate::predict_response;
use crate::rest;
use crate::status::Code;
use crate::tensor_slice::Slice;
use crate::version::Endpoint;

impl Desk {
    /// Answers every request of finished batches, for as long as the runtime lives.
    pub async fn answer_batches(&self) {
        let mut finished = Vec::new();
        loop {
            self.mailbox.take(&mut finished).await;
            for batch in finished.drain(..) {
                // A fault in one batch must not silence all later ones; who was left out is answered by the sweep.
                let _ = catch_unwind(AssertUnwindSafe(|| self.answer_batch(batch)));
            }
        }
    }

    /// Answers every request of a finished batch.
    pub(crate) fn answer_batch(&self, finished: Finished) {
        let now = Instant::now();
        let mut fates = Vec::with_capacity(finished.entries.len());
        {
            let mut inflight = lock(&self.inflight);
            for part in &finished.parts {
                for index in part.entries.clone() {
                    let entry = &finished.entries[index];
                    let code = self.answer_entry(&mut inflight, &finished, part, index, now);
                    let latency = now.saturating_duration_since(entry.received);
                    let logged = entry.logged && code != Code::Cancelled;
                    fates.push(Fate { code, latency_us: latency.as_micros() as i64, logged });
                }
            }
        }
        if fates.iter().any(|fate| fate.logged) {
            self.shared.log.offer(Record::new(finished, fates));
        }
    }

    /// Writes one answer, where somebody still waits. Returns the code that the client sees or saw.
    fn answer_entry(
        &self,
        inflight: &mut Inflight,
        finished: &Finished,
        part: &Part,
        index: usize,
        now: Instant,
    ) -> Code {
        let entry = &finished.entries[index];
        let error = part.error_of(index);
        let Some(slot) = entry.slot else {
            return error.map_or(Code::Ok, |status| status.code);
        };
        let Some(pending) = inflight.take(slot) else {
            return if entry.deadline <= now { Code::DeadlineExceeded } else { Code::Cancelled };
        };
        let Pending { reply, id, endpoint, wanted, received, .. } = pending;
        let door = reply.door();
        let tags = Tags { version: Some(&finished.version.header), id: Some(&id) };
        let code = match (error, &part.outputs) {
            (Some(status), _) | (None, Err(status)) => {
                reply.fail(status, tags);
                status.code
            }
            (None, Ok(outputs)) => {
                send(reply, &rows_of(&endpoint, outputs, part, entry), &endpoint, wanted.as_deref(), tags);
                Code::Ok
            }
        };
        endpoint.metrics.answers.count(door, code);
        self.shared.metrics.count_latency(door, now.saturating_duration_since(received));
        code
    }
}

/// One request's rows of a part's outputs.
struct Rows<'a> {
    endpoint: &'a Endpoint,
    outputs: &'a [Output],
    first: usize,
    rows: usize,
}

fn rows_of<'a>(endpoint: &'a Endpoint, outputs: &'a [Output], part: &Part, entry: &Entry) -> Rows<'a> {
    Rows { endpoint, outputs, first: entry.first_row - part.first_row, rows: entry.rows }
}

impl<'a> Rows<'a> {
    fn named(&self, index: usize) -> (&'a str, Slice<'a>) {
        let (spec, output) = (&self.endpoint.signature.outputs[index], &self.outputs[index]);
        let (column, inner) = (&output.column, &output.shape[1..]);
        (spec.name.as_str(), Slice { dtype: spec.dtype, column, inner, first: self.first, rows: self.rows })
    }
}

/// Encodes one request's rows and sends them.
fn send(reply: Reply, rows: &Rows<'_>, endpoint: &Endpoint, wanted: Option<&[usize]>, tags: Tags<'_>) {
    let count = rows.outputs.len();
    match reply {
        Reply::Grpc(reply) => {
            let field = &endpoint.model_spec_field;
            let frame = match wanted {
                None => predict_response::encode((0..count).map(|index| rows.named(index)), field),
                Some(wanted) => predict_response::encode(wanted.iter().map(|index| rows.named(*index)), field),
            };
            reply.succeed(frame, tags);
        }
        Reply::Rest(sender, form) => {
            let body = match count {
                1 => json_response::encode(&[rows.named(0)], form),
                _ => json_response::encode(&(0..count).map(|index| rows.named(index)).collect::<Vec<_>>(), form),
            };
            let _ = sender.send(rest::with_body(http::StatusCode::OK, body, tags));
        }
        Reply::Embedded(reply) => reply.succeed((0..count).map(|index| rows.named(index).1)),
    }
}
