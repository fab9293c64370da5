//! Runs rows in batches of allowed sizes only, as TensorFlow Serving's `allowed_batch_sizes` asks, or some at a time where
//! one request has very many. Short batches are filled up with copies of their first row where only some sizes are
//! allowed, long ones run in pieces; answers do not show it.

use std::ops::Range;

use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Column, Lease};

use crate::batching::executor::Work;
use crate::batching::output_check::{CheckedOutputs, RunOutcome};

/// Runs all rows by `once`, one allowed size at a time; the outputs are those of just these rows.
///
/// `sizes` ascend; where there is none, any up to `most` is allowed. A piece that fails fails them all.
pub(crate) fn run(
    (sizes, most): (&[usize], usize),
    mut work: Work,
    lease: impl Fn() -> Vec<Lease>,
    once: impl Fn(Work) -> (Result<CheckedOutputs, Status>, RunOutcome),
) -> (Result<CheckedOutputs, Status>, RunOutcome) {
    let rows = work.rows;
    let mut joined: CheckedOutputs = (Vec::new(), Vec::new());
    for (range, size) in pieces(rows, sizes, most) {
        let mut columns =
            if range.len() == rows { std::mem::take(&mut work.columns) } else { cut(&work, lease(), &range) };
        pad(&work, &mut columns, range.len(), size);
        match once(piece(&work, columns, &range, size)) {
            (Ok(checked), RunOutcome::Through) => {
                if let Err(status) = join(&mut joined, checked, &range) {
                    return (Err(status), RunOutcome::Through);
                }
            }
            (checked, RunOutcome::NotByRow) if size != rows => return (checked, RunOutcome::NotByOwnRow),
            failed => return failed,
        }
    }
    (Ok(joined), RunOutcome::Through)
}

/// Ranges of rows that run together, each with the size that it runs in.
fn pieces(rows: usize, sizes: &[usize], most: usize) -> impl Iterator<Item = (Range<usize>, usize)> {
    let largest = sizes.last().copied().unwrap_or(most);
    (0..rows).step_by(largest).map(move |start| {
        let range = start..rows.min(start + largest);
        let size = sizes.iter().copied().find(|size| *size >= range.len()).unwrap_or(range.len());
        (range, size)
    })
}

fn row_extents(work: &Work) -> impl Iterator<Item = usize> {
    let specs = work.served.signature.inputs.iter();
    specs.zip(work.shapes.iter()).map(|(spec, inner)| Column::row_extent(spec.dtype, inner))
}

fn cut(work: &Work, mut columns: Vec<Lease>, range: &Range<usize>) -> Vec<Lease> {
    for ((column, all), row) in columns.iter_mut().zip(&work.columns).zip(row_extents(work)) {
        column.extend(all, range.start * row..range.end * row);
    }
    columns
}

/// Appends copies of the first row: one that is known to be a row.
fn pad(work: &Work, columns: &mut [Lease], rows: usize, size: usize) {
    if rows == size {
        return;
    }
    for ((column, row), spec) in columns.iter_mut().zip(row_extents(work)).zip(&*work.served.signature.inputs) {
        let mut first = Column::new(spec.dtype);
        first.extend(column, 0..row);
        (rows..size).for_each(|_| column.extend(&first, 0..row));
    }
}

fn piece(work: &Work, columns: Vec<Lease>, range: &Range<usize>, size: usize) -> Work {
    let mut offsets: Vec<usize> =
        work.offsets.iter().map(|row| (*row).clamp(range.start, range.end) - range.start).collect();
    offsets.dedup();
    let (served, shapes) = (work.served.clone(), work.shapes.clone());
    Work { served, columns, shapes, rows: size, unbatched: false, offsets }
}

/// Adds what a piece answered to its own rows.
fn join(joined: &mut CheckedOutputs, (outputs, errors): CheckedOutputs, range: &Range<usize>) -> Result<(), Status> {
    for (index, mut output) in outputs.into_iter().enumerate() {
        let size = output.shape[0];
        let own = output.column.extent() / size * range.len();
        output.column.truncate(own);
        output.shape[0] = range.len();
        let Some(before) = joined.0.get_mut(index) else {
            joined.0.push(output);
            continue;
        };
        if before.shape[1..] != output.shape[1..] {
            let (one, other) = (&before.shape[1..], &output.shape[1..]);
            return Err(Status::internal(format!(
                "the model's rows have shapes {one:?} and {other:?}, so the pieces in which the request ran have no \
                 common answer: send fewer rows at a time"
            )));
        }
        before.column.extend(&output.column, 0..own);
        before.shape[0] += range.len();
    }
    let own_errors = errors.into_iter().filter(|(row, _)| *row < range.len());
    joined.1.extend(own_errors.map(|(row, status)| (range.start + row, status)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_codec::tensors::column::Words;
    use tidegate_codec::tensors::tensor::Tensor;

    fn piece(values: &[u8], shape: &[usize]) -> CheckedOutputs {
        let mut words = Words::default();
        words.push(values);
        (vec![Tensor { column: Column::Raw(words), shape: shape.to_vec() }], Vec::new())
    }

    #[test]
    fn what_is_joined_has_the_rows_of_the_requests_and_no_more() {
        let mut joined = (Vec::new(), Vec::new());
        join(&mut joined, piece(&[1, 2, 3, 4, 1, 2], &[3, 2]), &(0..2)).unwrap();
        assert_eq!((joined.0[0].shape.as_slice(), joined.0[0].column.extent()), (&[2, 2][..], 4));
        join(&mut joined, piece(&[5, 6, 5, 6], &[2, 2]), &(2..3)).unwrap();
        assert_eq!((joined.0[0].shape.as_slice(), joined.0[0].column.extent()), (&[3, 2][..], 6));
        let other = join(&mut joined, piece(&[7, 8, 9], &[1, 3]), &(3..4)).unwrap_err();
        assert!(other.message.contains("shapes [2] and [3]"), "{}", other.message);
    }
}
