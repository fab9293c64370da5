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
use crate::signature::{Signature, show_shape};
use crate::status::Status;
use crate::version::Endpoint;

/// Runs the batch. `kept` holds a copy of its inputs whenever it has more than one entry.
pub fn run(executor: &dyn Executor, endpoint: &Arc<Endpoint>, batch: &mut Batch, kept: &[Column]) -> Vec<Part> {
    let columns = std::mem::take(&mut batch.columns);
    let all = 0..batch.entries.len();
    let (first, raised) = execute(executor, endpoint, batch, columns, all.clone());
    if !raised || all.len() == 1 {
        return vec![first];
    }
    let mut parts = Vec::new();
    halve(executor, endpoint, batch, kept, all, &mut parts);
    parts
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
        let (part, raised) = execute(executor, endpoint, batch, columns, half.clone());
        if raised && half.len() > 1 {
            halve(executor, endpoint, batch, kept, half, parts);
        } else {
            parts.push(part);
        }
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

/// Runs some entries once. The flag says whether the model raised, as against returned something wrong, which it would
/// do for each half as well.
fn execute(
    executor: &dyn Executor,
    endpoint: &Arc<Endpoint>,
    batch: &Batch,
    columns: Vec<Lease>,
    range: Range<usize>,
) -> (Part, bool) {
    let entries = &batch.entries[range.clone()];
    let first_row = entries.first().map_or(0, |entry| entry.first_row);
    let rows: usize = entries.iter().map(|entry| entry.rows).sum();
    let ends = entries.iter().map(|entry| entry.first_row - first_row + entry.rows);
    let offsets = std::iter::once(0).chain(ends).collect();
    endpoint.metrics.count_batch(rows);
    let work = Work { endpoint: endpoint.clone(), columns, shapes: batch.shapes.clone(), rows, offsets };
    let answer = catch_unwind(AssertUnwindSafe(|| executor.execute(work)))
        .unwrap_or_else(|_| Err(Status::internal("the executor panicked")));
    let raised = answer.is_err();
    let part = match answer.and_then(|answer| check(&endpoint.signature, answer, rows)) {
        Ok((outputs, by_row)) => {
            let errors = by_entry(entries, range.start, first_row, by_row);
            Part { entries: range, first_row, outputs: Ok(outputs), errors }
        }
        Err(status) => Part { entries: range, first_row, outputs: Err(status), errors: Vec::new() },
    };
    (part, raised)
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
        let at = first_entry + at;
        if !errors.iter().any(|(other, _)| *other == at) {
            errors.push((at, status));
        }
    }
    errors
}

/// Outputs in the signature's order, and errors by row.
type Checked = (Vec<Output>, Vec<(usize, Status)>);

/// Every declared output must be there with the right type, rows and shape.
fn check(signature: &Signature, answer: Answer, rows: usize) -> Result<Checked, Status> {
    let mut outputs = Vec::with_capacity(signature.outputs.len());
    let mut given = answer.outputs.into_iter();
    for spec in &*signature.outputs {
        let name = &spec.name;
        let Some(output) = given.next().flatten() else {
            return Err(Status::internal(format!("the model did not return output '{name}', which its signature has")));
        };
        let got = show_shape(&output.shape);
        if output.shape.first() != Some(&rows) {
            return Err(Status::internal(format!("the model returned output '{name}' of shape {got} for {rows} rows")));
        }
        if !spec.admits(&output.shape[1..]) {
            let want = show_shape(&spec.shape);
            return Err(Status::internal(format!(
                "the model returned output '{name}' of shape {got}, but its signature says {want}"
            )));
        }
        if output.column.extent() != rows * Column::row_extent(spec.dtype, &output.shape[1..]) {
            let want = spec.dtype.name();
            return Err(Status::internal(format!("the model returned output '{name}' that is not of dtype {want}")));
        }
        outputs.push(output);
    }
    if let Some((row, _)) = answer.errors.iter().find(|(row, _)| *row >= rows) {
        return Err(Status::internal(format!("the model reported an error for row {row} of a batch of {rows} rows")));
    }
    Ok((outputs, answer.errors))
}
