//! Finished batches on their way out: each request gets its rows or its error, and the log what became of it.
//! Batches come through the I/O thread's mailbox; answers go through the replies that wait at the desk.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::answer::Rows;
use crate::batch::{Entry, Finished, Part};
use crate::desk::Desk;
use crate::grpc_reply::Tags;
use crate::inflight::{Inflight, Pending};
use crate::lock;
use crate::log_block::{Fate, Record};
use crate::signature::FirstAxis;
use crate::status::Code;

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
                    let logged = entry.logged && code != Code::Cancelled && self.may_log(&finished, part, entry);
                    fates.push(Fate { code, latency_us: latency.as_micros() as i64, logged });
                }
            }
        }
        if fates.iter().any(|fate| fate.logged) {
            self.shared.log.offer(Record::new(finished, fates));
        }
    }

    /// Whether an answer has the rows that its model's log is of; one that has not is counted as dropped.
    fn may_log(&self, finished: &Finished, part: &Part, entry: &Entry) -> bool {
        let fits = !part.whole || finished.served.signature.first_axis == FirstAxis::Free;
        if !fits {
            self.shared.log.leave_out(entry);
        }
        fits
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
        let Pending { reply, id, served, wanted, received, .. } = pending;
        let endpoint = reply.endpoint();
        let tags = Tags { version: Some(&finished.version.header), id: Some(&id) };
        let code = match (error, &part.outputs) {
            (Some(status), _) | (None, Err(status)) => {
                reply.fail(status, tags);
                status.code
            }
            (None, Ok(outputs)) => {
                let first = entry.first_row - part.first_row;
                let (whole, flat) = (part.whole, entry.flat);
                let rows = if whole { 1 } else { entry.rows };
                let rows = Rows { served: &served, outputs, first, rows, examples: entry.rows, flat, whole };
                rows.send(reply, &wanted, tags)
            }
        };
        served.metrics.answers.count(endpoint, code);
        self.shared.metrics.count_latency(endpoint, now.saturating_duration_since(received));
        code
    }
}
