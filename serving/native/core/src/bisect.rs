//! Runs a batch; when one of several requests makes it fail, runs it again in halves until the bad one is alone.
//! An executor thread hands in the batch with a copy of its inputs; what comes out answers every entry.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::batch::{Answer, Batch, Entry, Output, Part, Work};
use crate::column::Column;
use crate::executor::Executor;
use crate::pool::Lease;
use crate::signature::{FirstAxis, Signature, show_shape};
use crate::status::Status;
use crate::version::Endpoint;

/// Runs the batch. `kept` holds a copy of its inputs whenever it has more than one entry.
pub fn run(executor: &dyn Executor, endpoint: &Arc<Endpoint>, batch: &mut Batch, kept: &[Column]) -> Vec<Part> {
    let columns = std::mem::take(&mut batch.columns);
    let all = 0..batch.entries.len();
    let ran = execute(executor, endpoint, batch, columns, all);
    let mut parts = Vec::new();
    again(executor, endpoint, batch, kept, ran, &mut parts);
    parts
}

/// Keeps a part that ran well or cannot be made smaller, and runs the entries of any other once more.
fn again(
    executor: &dyn Executor,
    endpoint: &Arc<Endpoint>,
    batch: &Batch,
    kept: &[Column],
    (part, ran): (Part, Ran),
    parts: &mut Vec<Part>,
) {
    let range = part.entries.clone();
    match ran {
        Ran::NotByRow if range.len() > 1 => {
            for entry in range {
                let columns = copy_rows(endpoint, batch, kept, &batch.entries[entry..=entry]);
                parts.push(execute(executor, endpoint, batch, columns, entry..entry + 1).0);
            }
        }
        Ran::Raised if range.len() > 1 => halve(executor, endpoint, batch, kept, range, parts),
        _ => parts.push(part),
    }
}

fn halve(
    executor: &dyn Executor,
    endpoint: &Arc<Endpoint>,
    batch: &Batch,
    kept: &[Column],
    range: Range<usize>,
    parts: &mut Vec<Part>,
) {
    endpoint.metrics.bisections.fetch_add(1, Ordering::Relaxed);
    let middle = range.start + range.len() / 2;
    for half in [range.start..middle, middle..range.end] {
        let columns = copy_rows(endpoint, batch, kept, &batch.entries[half.clone()]);
        let ran = execute(executor, endpoint, batch, columns, half);
        again(executor, endpoint, batch, kept, ran, parts);
    }
}

fn copy_rows(endpoint: &Endpoint, batch: &Batch, kept: &[Column], entries: &[Entry]) -> Vec<Lease> {
    let mut columns = endpoint.queue.lease();
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
        return columns;
    };
    for (index, spec) in endpoint.signature.inputs.iter().enumerate() {
        let row = Column::row_extent(spec.dtype, &batch.shapes[index]);
        columns[index].extend(&kept[index], first.first_row * row..(last.first_row + last.rows) * row);
    }
    columns
}

/// How a run went.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ran {
    /// It has answers, or something wrong that each half would have as well.
    Through,
    /// The model raised.
    Raised,
    /// The answers have no row for each row: they are right for one request only.
    NotByRow,
}

/// Runs some entries once.
fn execute(
    executor: &dyn Executor,
    endpoint: &Arc<Endpoint>,
    batch: &Batch,
    columns: Vec<Lease>,
    range: Range<usize>,
) -> (Part, Ran) {
    let entries = &batch.entries[range.clone()];
    let first_row = entries.first().map_or(0, |entry| entry.first_row);
    let rows: usize = entries.iter().map(|entry| entry.rows).sum();
    let ends = entries.iter().map(|entry| entry.first_row - first_row + entry.rows);
    let offsets = std::iter::once(0).chain(ends).collect();
    endpoint.metrics.count_batch(rows);
    let work =
        Work { endpoint: endpoint.clone(), columns, shapes: batch.shapes.clone(), rows, whole: batch.whole, offsets };
    let answer = catch_unwind(AssertUnwindSafe(|| executor.execute(work)))
        .unwrap_or_else(|_| Err(Status::internal("the executor panicked")));
    let mut ran = if answer.is_err() { Ran::Raised } else { Ran::Through };
    if answer.as_ref().is_ok_and(|answer| not_by_row(&endpoint.signature, answer, rows)) && !batch.whole {
        endpoint.queue.keep_apart();
        ran = Ran::NotByRow;
    }
    let whole = batch.whole || ran == Ran::NotByRow;
    let checked = answer.and_then(|answer| check(&endpoint.signature, answer, if whole { None } else { Some(rows) }));
    let part = match checked {
        Ok((outputs, by_row)) => {
            let errors = by_entry(entries, range.start, first_row, by_row);
            Part { entries: range, first_row, whole, outputs: Ok(outputs), errors }
        }
        Err(status) => Part { entries: range, first_row, whole, outputs: Err(status), errors: Vec::new() },
    };
    (part, ran)
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
type Checked = (Vec<Output>, Vec<(usize, Status)>);

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
