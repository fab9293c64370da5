//! Runs a batch; when one of several requests makes it fail, runs it again in halves until the bad one is alone.
//! An executor thread hands in the batch with a copy of its inputs; what comes out answers every entry.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::allowed_sizes;
use crate::batch::{Answer, Batch, Entry, Output, Part, Work};
use crate::column::Column;
use crate::executor::Executor;
use crate::pool::Lease;
use crate::signature::{FirstAxis, Signature, show_shape};
use crate::status::Status;
use crate::version::ServedSignature;

/// Runs the batch. `kept` holds a copy of its inputs whenever they may be asked for again; `sizes` are the only numbers
/// of rows that the model is asked for, ascending; empty for any.
pub fn run(
    executor: &dyn Executor,
    served: &Arc<ServedSignature>,
    batch: &mut Batch,
    kept: &[Column],
    sizes: &[usize],
) -> Vec<Part> {
    let columns = std::mem::take(&mut batch.columns);
    let all = 0..batch.entries.len();
    let runner = Runner { executor, served, batch, kept, sizes };
    let ran = runner.execute(columns, all);
    let mut parts = Vec::new();
    runner.again(ran, &mut parts);
    parts
}

/// Whether a batch of one request may have to run again, as an answer to it with copied rows among its own may be wrong.
pub fn may_run_again(signature: &Signature, whole: bool, sizes: &[usize]) -> bool {
    signature.first_axis == FirstAxis::Assumed && !whole && !sizes.is_empty()
}

/// How a run went.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ran {
    /// It has answers, or something wrong that each half would have as well.
    Through,
    /// The model raised.
    Raised,
    /// The answers have no row for each row: they are right for one request only.
    NotByRow,
    /// The same, and they are not even that, as the model was not asked for just the rows of the request.
    NotByOwnRow,
}

/// A batch and what runs it.
struct Runner<'a> {
    executor: &'a dyn Executor,
    served: &'a Arc<ServedSignature>,
    batch: &'a Batch,
    kept: &'a [Column],
    sizes: &'a [usize],
}

impl Runner<'_> {
    /// Keeps a part that ran well or cannot be made smaller, and runs the entries of any other once more.
    fn again(&self, (part, ran): (Part, Ran), parts: &mut Vec<Part>) {
        let range = part.entries.clone();
        let several = range.len() > 1;
        match ran {
            Ran::NotByOwnRow => self.each_alone(range, parts),
            Ran::NotByRow if several => self.each_alone(range, parts),
            Ran::Raised if several => self.halve(range, parts),
            _ => parts.push(part),
        }
    }

    fn each_alone(&self, range: Range<usize>, parts: &mut Vec<Part>) {
        for entry in range {
            let (part, _) = self.execute(self.copy_rows(entry..entry + 1), entry..entry + 1);
            parts.push(part);
        }
    }

    fn halve(&self, range: Range<usize>, parts: &mut Vec<Part>) {
        self.served.metrics.bisections.fetch_add(1, Ordering::Relaxed);
        let middle = range.start + range.len() / 2;
        for half in [range.start..middle, middle..range.end] {
            let ran = self.execute(self.copy_rows(half.clone()), half);
            self.again(ran, parts);
        }
    }

    fn copy_rows(&self, range: Range<usize>) -> Vec<Lease> {
        let mut columns = self.served.queue.lease();
        let entries = &self.batch.entries[range];
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return columns;
        };
        for (index, spec) in self.served.signature.inputs.iter().enumerate() {
            let row = Column::row_extent(spec.dtype, &self.batch.shapes[index]);
            columns[index].extend(&self.kept[index], first.first_row * row..(last.first_row + last.rows) * row);
        }
        columns
    }

    /// Runs some entries once.
    fn execute(&self, columns: Vec<Lease>, range: Range<usize>) -> (Part, Ran) {
        let Runner { served, batch, .. } = *self;
        let entries = &batch.entries[range.clone()];
        let first_row = entries.first().map_or(0, |entry| entry.first_row);
        let rows: usize = entries.iter().map(|entry| entry.rows).sum();
        let ends = entries.iter().map(|entry| entry.first_row - first_row + entry.rows);
        let offsets = std::iter::once(0).chain(ends).collect();
        let (served, shapes, whole) = (served.clone(), batch.shapes.clone(), batch.whole);
        let work = Work { served, columns, shapes, rows, whole, offsets };
        let any_size = self.sizes.is_empty() || whole || self.served.queue.is_kept_apart();
        let (checked, ran) = match any_size {
            true => self.once(work),
            false => allowed_sizes::run(self.sizes, work, |piece| self.once(piece)),
        };
        let whole = whole || ran == Ran::NotByRow;
        let part = match checked {
            Ok((outputs, by_row)) => {
                let errors = by_entry(entries, range.start, first_row, by_row);
                Part { entries: range, first_row, whole, outputs: Ok(outputs), errors }
            }
            Err(status) => Part { entries: range, first_row, whole, outputs: Err(status), errors: Vec::new() },
        };
        (part, ran)
    }

    /// Enters the model.
    fn once(&self, work: Work) -> (Result<Checked, Status>, Ran) {
        let Runner { executor, served, .. } = *self;
        let (rows, whole) = (work.rows, work.whole);
        served.metrics.count_batch(work.offsets.last().copied().unwrap_or(0), rows);
        let answer = catch_unwind(AssertUnwindSafe(|| executor.execute(work)))
            .unwrap_or_else(|_| Err(Status::internal("the executor panicked")));
        let mut ran = if answer.is_err() { Ran::Raised } else { Ran::Through };
        if answer.as_ref().is_ok_and(|answer| not_by_row(&served.signature, answer, rows)) && !whole {
            served.queue.keep_apart();
            ran = Ran::NotByRow;
        }
        let by_row = !whole && ran != Ran::NotByRow;
        let checked = answer.and_then(|answer| check(&served.signature, answer, by_row.then_some(rows)));
        (checked, ran)
    }
}

/// Whether a model whose first axis was taken for the batch answers as if it were not.
fn not_by_row(signature: &Signature, answer: &Answer, rows: usize) -> bool {
    signature.first_axis == FirstAxis::Assumed
        && answer.outputs.iter().flatten().any(|output| output.shape.first() != Some(&rows))
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

/// Outputs in the signature's order, and errors by row.
pub(crate) type Checked = (Vec<Output>, Vec<(usize, Status)>);

/// Every declared output must be there with the right type, rows and shape. Without `rows` the answer is one request's
/// as it is: a shape that its signature only assumed is the model's affair then.
fn check(signature: &Signature, answer: Answer, rows: Option<usize>) -> Result<Checked, Status> {
    let mut outputs = Vec::with_capacity(signature.outputs.len());
    let mut given = answer.outputs.into_iter();
    for spec in &*signature.outputs {
        let name = &spec.name;
        let Some(output) = given.next().flatten() else {
            return Err(Status::internal(format!("the model did not return output '{name}', which its signature has")));
        };
        let got = show_shape(&output.shape);
        if let Some(rows) = rows.filter(|rows| output.shape.first() != Some(rows)) {
            return Err(Status::internal(format!("the model returned output '{name}' of shape {got} for {rows} rows")));
        }
        let whole = rows.is_none();
        let open = signature.first_axis == FirstAxis::Assumed && (whole || spec.unknown_rank);
        if !open && !spec.admits(output.inner(whole)) {
            let want = spec.show();
            return Err(Status::internal(format!(
                "the model returned output '{name}' of shape {got}, but its signature says {want}"
            )));
        }
        if output.column.extent() != Column::row_extent(spec.dtype, &output.shape) {
            let want = spec.dtype.name();
            return Err(Status::internal(format!("the model returned output '{name}' that is not of dtype {want}")));
        }
        outputs.push(output);
    }
    let wrong = rows.and_then(|rows| Some((rows, answer.errors.iter().find(|(row, _)| *row >= rows)?)));
    if let Some((rows, (row, _))) = wrong {
        return Err(Status::internal(format!("the model reported an error for row {row} of a batch of {rows} rows")));
    }
    Ok((outputs, answer.errors))
}
