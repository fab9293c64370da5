//! Answers the requests of a finished batch, all or some at a time: each gets its rows or its error, and the log a record.

use std::sync::atomic::Ordering;
use std::time::Instant;
use std::vec;

use tidegate_codec::signatures::FirstAxis;
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::Tensor;

use crate::batching::{Entry, FinishedBatch, Part, ServedSignature};
use crate::log::{Expected, Outcome, Record};
use crate::metrics::BatchTimes;
use crate::request::dispatcher::Dispatcher;
use crate::request::inflight::Pending;
use crate::request::reply::{Reply, Tags, note};
use crate::request::rows::Rows;
use crate::sync::lock;

/// So many of those who wait are taken out at once.
const TAKEN: usize = 64;

/// How many requests are answered before others have their turn, and what was written for them goes out.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// After so many, only those that go to the same connection as the last.
    pub enough: usize,
    /// At most.
    pub most: usize,
}

impl Turn {
    /// All at once.
    pub const ALL: Turn = Turn { enough: usize::MAX, most: usize::MAX };
}

/// A finished batch whose requests are being answered.
#[derive(Debug)]
pub struct Answering {
    finished: FinishedBatch,
    /// Of those that are answered, in the order of the parts.
    outcomes: Vec<Outcome>,
    /// The part that is next, and how many of its requests are answered.
    next: (usize, usize),
    times: Option<BatchTimes>,
    /// Has the log stay open for the batch's record.
    expected: Option<Expected>,
}

impl Answering {
    /// Nobody is answered yet.
    pub fn new(mut finished: FinishedBatch) -> Answering {
        // The model is through with its inputs: their memory is there for the answers.
        drop(finished.memory.take());
        let (outcomes, times) = (Vec::with_capacity(finished.entries.len()), finished.ran.map(BatchTimes::new));
        Answering { finished, outcomes, next: (0, 0), times, expected: None }
    }

    /// How many requests are to be answered yet.
    pub fn left(&self) -> usize {
        self.finished.entries.len() - self.outcomes.len()
    }
}

impl<R: Reply> Dispatcher<R> {
    /// Answers every request of a finished batch.
    pub fn answer_batch(&self, finished: FinishedBatch) {
        let mut answering = Answering::new(finished);
        self.answer_some(&mut answering, Turn::ALL);
        self.end_answers(answering);
    }

    /// Answers the next requests of a batch, as many as a turn has. Returns how many there were.
    pub fn answer_some(&self, answering: &mut Answering, turn: Turn) -> usize {
        let now = Instant::now();
        let Answering { finished, outcomes, next: (at, done), times, expected } = answering;
        // Whoever has an answer may end the plane at once.
        expected.get_or_insert_with(|| self.engine.log.expect());
        let before = outcomes.len();
        let mut connection = None;
        let mut pending = Vec::new().into_iter();
        while let Some(part) = finished.parts.get(*at) {
            for index in part.entries.clone().skip(*done) {
                let answered = outcomes.len() - before;
                let entry = &finished.entries[index];
                if answered == turn.most {
                    return answered;
                }
                if answered + 1 >= turn.enough {
                    let next = entry.slot.and_then(|slot| lock(&self.inflight).connection_of(slot));
                    if answered >= turn.enough && next != connection {
                        return answered;
                    }
                    connection = next;
                }
                if pending.len() == 0 {
                    let more = turn.enough.saturating_sub(answered + 1).min(turn.most - answered).clamp(1, TAKEN);
                    pending = self.take_pending(&finished.entries[index..part.entries.end.min(index + more)]);
                }
                let code = self.answer_entry(finished, part, (index, pending.next().flatten()), now);
                if let Some(times) = times.as_mut().filter(|_| entry.slot.is_some()) {
                    times.add(entry.asked, entry.received, entry.entered, now, code != Code::Ok);
                }
                let latency = now.saturating_duration_since(entry.received);
                let logged = entry.logged && code != Code::Cancelled && self.may_log(finished, part, entry);
                outcomes.push(Outcome { code, latency_us: latency.as_micros() as i64, logged });
                *done += 1;
            }
            (*at, *done) = (*at + 1, 0);
        }
        outcomes.len() - before
    }

    /// All requests of a batch are answered: they are counted, and the log gets its record.
    pub fn end_answers(&self, answering: Answering) {
        let Answering { finished, outcomes, times, expected, .. } = answering;
        if let Some(times) = times {
            let rows = finished.entries.iter().map(|entry| entry.rows).sum();
            times.count_in(&finished.served.times, rows);
        }
        if outcomes.iter().any(|outcome| outcome.logged) {
            self.engine.log.offer(Record::new(finished, outcomes));
        }
        drop(expected);
    }

    /// Whether an answer has the rows that its model's log is of, as a stream without messages has not, and its inputs were copied; one that has not is counted
    /// as dropped.
    fn may_log(&self, finished: &FinishedBatch, part: &Part, entry: &Entry) -> bool {
        let signature = &finished.served.signature;
        let fits = (!part.unbatched || signature.first_axis == FirstAxis::Free)
            && finished.inputs.len() == signature.inputs.len()
            && !part.outputs.as_ref().is_ok_and(Vec::is_empty);
        if !fits {
            self.engine.log.leave_out(entry);
        }
        fits
    }

    /// Takes out those who wait for the next answers; others come and go while these are written.
    fn take_pending(&self, entries: &[Entry]) -> vec::IntoIter<Option<Pending<R>>> {
        let mut inflight = lock(&self.inflight);
        let pending: Vec<_> = entries.iter().map(|entry| entry.slot.and_then(|slot| inflight.take(slot))).collect();
        pending.into_iter()
    }

    /// Writes one answer, where somebody still waits. Returns the code that the client sees or saw.
    fn answer_entry(
        &self,
        finished: &FinishedBatch,
        part: &Part,
        (index, pending): (usize, Option<Pending<R>>),
        now: Instant,
    ) -> Code {
        let entry = &finished.entries[index];
        let error = part.error_of(index);
        if entry.slot.is_none() {
            return error.map_or(Code::Ok, |status| status.code);
        }
        let Some(pending) = pending else {
            let late = match &entry.stream {
                Some(stream) if stream.is_left() => stream.is_late(),
                Some(stream) => stream.deadline().unwrap_or(entry.deadline) <= now,
                None => entry.deadline <= now,
            };
            return if late { Code::DeadlineExceeded } else { Code::Cancelled };
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
        note(&reply, |facts| {
            facts.rows = Some(entry.rows);
            facts.reached = true;
            facts.entered = Some(entry.entered);
            facts.ran = finished.ran;
        });
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
        served.metrics.count_answer(endpoint, code);
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
