//! Runs a batch; when one of several requests makes it fail, runs it again in parts until the bad one is alone, or until
//! it is clear that all are. Where each failure ends a model's process, as few as can be are run that fail: request by
//! request.

use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidegate_codec::signatures::{FirstAxis, Signature};
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::{Column, Lease, Tensor};

use crate::batching::allowed_sizes;
use crate::batching::batch::{Batch, Entry};
use crate::batching::executor::{Executor, Work};
use crate::batching::fault_search::FaultSearch;
use crate::batching::finished::Part;
use crate::batching::kept::Kept;
use crate::batching::output_check::{CheckedOutputs, RunOutcome, check, not_by_row};
use crate::batching::queue::Queue;

/// Requests that ended a model's process each, one after the other, before the others are not run any more.
const MOST_ENDED: usize = 8;

/// How a batch is run.
pub struct Conduct<'a> {
    /// Its inputs as they came, where they may have to run again and there was memory for it.
    pub kept: Option<&'a [Kept]>,
    /// The only numbers of rows that the model runs, ascending; empty for any.
    pub sizes: &'a [usize],
    /// Rows that a request runs at a time which has more of them than its queue holds.
    pub max_batch_rows: usize,
    /// Called between two runs of such a request.
    pub give_turns: &'a dyn Fn(),
}

/// Runs the batch, and learns from the first run how long it takes.
pub fn run(executor: &dyn Executor, queue: &Queue, batch: &mut Batch, conduct: &Conduct<'_>) -> Vec<Part> {
    let began = Instant::now();
    let columns = std::mem::take(&mut batch.columns);
    let all = 0..batch.entries.len();
    let runner = Runner { executor, queue, batch, conduct, given_away: Cell::default() };
    let ran = runner.execute(columns, all);
    queue.service.count(runner.batch.rows, began.elapsed().saturating_sub(runner.given_away.get()));
    let mut parts = Vec::new();
    runner.again(ran, &mut parts);
    parts.sort_unstable_by_key(|part| part.entries.start);
    parts
}

/// Whether a batch of one request may have to run again, as an answer to it with copied rows among its own may be wrong.
pub fn may_run_again(signature: &Signature, unbatched: bool, sizes: &[usize]) -> bool {
    signature.first_axis == FirstAxis::Assumed && !unbatched && !sizes.is_empty()
}

/// A batch and what runs it.
struct Runner<'a> {
    executor: &'a dyn Executor,
    queue: &'a Queue,
    batch: &'a Batch,
    conduct: &'a Conduct<'a>,
    /// Time that others ran.
    given_away: Cell<Duration>,
}

impl Runner<'_> {
    /// Keeps a part that ran well or cannot be made smaller, and runs the entries of any other once more.
    fn again(&self, (part, ran): (Part, RunOutcome), parts: &mut Vec<Part>) {
        let several = part.entries.len() > 1;
        match (ran, self.conduct.kept) {
            (RunOutcome::NotByOwnRow, Some(kept)) => self.each_alone(part.entries, kept, parts),
            (RunOutcome::NotByRow, Some(kept)) if several => self.each_alone(part.entries, kept, parts),
            (RunOutcome::NotByOwnRow, None) => parts.push(self.not_again(part.entries)),
            (RunOutcome::NotByRow, None) if several => parts.push(self.not_again(part.entries)),
            (RunOutcome::Raised, Some(kept)) if several && ended_process(&part) => self.one_by_one(part, kept, parts),
            (RunOutcome::Raised, Some(kept)) if several => self.search(part, kept, parts),
            _ => parts.push(part),
        }
    }

    fn each_alone(&self, range: Range<usize>, kept: &[Kept], parts: &mut Vec<Part>) {
        for entry in range {
            match self.too_late(entry..entry + 1) {
                Some(late) => parts.push(late),
                None => parts.push(self.execute(self.copy_rows(kept, entry..entry + 1), entry..entry + 1).0),
            }
        }
    }

    /// Runs each request of a failed part alone, from both ends, so that each bad one ends one process: halves would do
    /// so with each part that it is in. Where none is answered, the last ones fail as those before them.
    fn one_by_one(&self, failed: Part, kept: &[Kept], parts: &mut Vec<Part>) {
        self.queue.served.metrics.bisections.fetch_add(1, Ordering::Relaxed);
        let (mut why, mut ended) = (failed.outputs, 0);
        let mut left = failed.entries;
        while ended < MOST_ENDED
            && let Some(entry) = if ended % 2 == 0 { left.next() } else { left.next_back() }
        {
            let range = entry..entry + 1;
            let part = match self.too_late(range.clone()) {
                Some(late) => late,
                None => self.execute(self.copy_rows(kept, range.clone()), range).0,
            };
            if ended_process(&part) {
                ended += 1;
                why = part.outputs.clone();
            } else if part.outputs.is_ok() {
                ended = 0;
            }
            parts.push(part);
        }
        if !left.is_empty() {
            parts.push(self.not_run(left, why));
        }
    }

    /// Runs parts of a failed part until the bad requests are alone; where that is hopeless, the others fail as the last
    /// one did.
    fn search(&self, failed: Part, kept: &[Kept], parts: &mut Vec<Part>) {
        let bisections = &self.queue.served.metrics.bisections;
        bisections.fetch_add(1, Ordering::Relaxed);
        let mut search = FaultSearch::new(failed.entries);
        let mut why = failed.outputs;
        while let Some(range) = search.next_part() {
            if let Some(late) = self.too_late(range.clone()) {
                parts.push(late);
                continue;
            }
            let (part, ran) = self.execute(self.copy_rows(kept, range.clone()), range.clone());
            if ran != RunOutcome::Raised {
                search.succeeded();
                self.again((part, ran), parts);
            } else if range.len() > 1 {
                bisections.fetch_add(1, Ordering::Relaxed);
                search.failed(range);
                why = part.outputs;
            } else {
                search.failed(range);
                why = part.outputs.clone();
                parts.push(part);
            }
        }
        parts.extend(search.hopeless().into_iter().map(|entries| self.not_run(entries, why.clone())));
    }

    /// The part of entries that are not run, and are answered so.
    fn not_run(&self, entries: Range<usize>, outputs: Result<Vec<Tensor>, Status>) -> Part {
        Part { entries, first_row: 0, unbatched: self.batch.unbatched, outputs, errors: Vec::new() }
    }

    /// The answer to requests that would have to run once more, but for which there is no copy.
    fn not_again(&self, entries: Range<usize>) -> Part {
        let why = "the model's answers are not row by row, and there was no memory to run the requests once more alone";
        self.not_run(entries, Err(Status::exhausted(why.to_owned())))
    }

    /// The answer to entries that nobody waits for any more; none where one of them may still be answered in time.
    fn too_late(&self, entries: Range<usize>) -> Option<Part> {
        let now = Instant::now();
        if self.batch.entries[entries.clone()].iter().any(|entry| entry.deadline > now) {
            return None;
        }
        let late = Status::new(Code::DeadlineExceeded, "the deadline passed before the request was run again");
        Some(self.not_run(entries, Err(late)))
    }

    fn copy_rows(&self, kept: &[Kept], range: Range<usize>) -> Vec<Lease> {
        let mut columns = self.queue.lease();
        let entries = &self.batch.entries[range];
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return columns;
        };
        for (index, spec) in self.queue.signature().inputs.iter().enumerate() {
            let row = Column::row_extent(spec.dtype, &self.batch.shapes[index]);
            kept[index].extend(&mut columns[index], first.first_row * row..(last.first_row + last.rows) * row);
        }
        columns
    }

    /// Runs some entries once.
    fn execute(&self, columns: Vec<Lease>, range: Range<usize>) -> (Part, RunOutcome) {
        let Runner { queue, batch, .. } = *self;
        let entries = &batch.entries[range.clone()];
        let first_row = entries.first().map_or(0, |entry| entry.first_row);
        let rows: usize = entries.iter().map(|entry| entry.rows).sum();
        let ends = entries.iter().map(|entry| entry.first_row - first_row + entry.rows);
        let offsets = std::iter::once(0).chain(ends).collect();
        let (served, shapes, unbatched) = (queue.served.clone(), batch.shapes.clone(), batch.unbatched);
        let work = Work { served: served.clone(), columns, shapes, rows, unbatched, offsets };
        let first = entries.first();
        let _running = first.map(|entry| served.metrics.running.begin(&served.signature.name, rows, &entry.id));
        let Conduct { sizes, max_batch_rows, .. } = *self.conduct;
        // Where rows only seem to be rows, nobody knows whether they may run apart.
        let cut = batch.oversized && served.signature.first_axis == FirstAxis::Batch;
        let whole = (sizes.is_empty() && !cut) || unbatched || queue.is_kept_apart();
        let (checked, ran) = match whole {
            true => self.once(work),
            false => allowed_sizes::run((sizes, max_batch_rows), work, || queue.lease(), |piece| self.piece(piece)),
        };
        let unbatched = unbatched || ran == RunOutcome::NotByRow;
        let part = match checked {
            Ok((outputs, by_row)) => {
                let errors = by_entry(entries, range.start, first_row, by_row);
                Part { entries: range, first_row, unbatched, outputs: Ok(outputs), errors }
            }
            Err(status) => Part { entries: range, first_row, unbatched, outputs: Err(status), errors: Vec::new() },
        };
        (part, ran)
    }

    /// Runs some rows of a request, unless nobody waits for its answer any more.
    fn piece(&self, work: Work) -> (Result<CheckedOutputs, Status>, RunOutcome) {
        let [entry] = &*self.batch.entries else { return self.once(work) };
        if entry.deadline <= Instant::now() {
            let late = "the deadline passed while the request ran, some rows at a time";
            return (Err(Status::new(Code::DeadlineExceeded, late)), RunOutcome::Through);
        }
        if entry.slot.is_some_and(|slot| self.batch.waiting.cancelled().contains(&slot)) {
            return (Err(Status::new(Code::Cancelled, "the client has gone")), RunOutcome::Through);
        }
        let ran = self.once(work);
        if self.batch.oversized {
            let began = Instant::now();
            (self.conduct.give_turns)();
            self.given_away.set(self.given_away.get() + began.elapsed());
        }
        ran
    }

    /// Enters the model.
    fn once(&self, work: Work) -> (Result<CheckedOutputs, Status>, RunOutcome) {
        let Runner { executor, queue, .. } = *self;
        let served = &queue.served;
        let (rows, unbatched) = (work.rows, work.unbatched);
        served.metrics.count_batch(work.offsets.last().copied().unwrap_or(0), rows);
        let prediction = catch_unwind(AssertUnwindSafe(|| executor.execute(work)))
            .unwrap_or_else(|_| Err(Status::internal("the executor panicked")));
        let mut ran = if prediction.is_err() { RunOutcome::Raised } else { RunOutcome::Through };
        if prediction.as_ref().is_ok_and(|prediction| not_by_row(&served.signature, prediction, rows)) && !unbatched {
            queue.keep_apart();
            ran = RunOutcome::NotByRow;
        }
        let by_row = !unbatched && ran != RunOutcome::NotByRow;
        let checked = prediction.and_then(|prediction| check(&served.signature, prediction, by_row.then_some(rows)));
        (checked, ran)
    }
}

fn ended_process(part: &Part) -> bool {
    part.outputs.as_ref().is_err_and(|status| status.ended_process)
}

fn by_entry(
    entries: &[Entry],
    first_entry: usize,
    first_row: usize,
    by_row: Vec<(usize, Status)>,
) -> Vec<(usize, Status)> {
    let mut errors: Vec<(usize, Status)> = Vec::new();
    for (row, status) in by_row {
        let row = first_row + row;
        let at = entries.partition_point(|entry| entry.first_row + entry.rows <= row);
        // An error of a whole request may name any row.
        let at = first_entry + at.min(entries.len() - 1);
        if !errors.iter().any(|(other, _)| *other == at) {
            errors.push((at, status));
        }
    }
    errors
}
