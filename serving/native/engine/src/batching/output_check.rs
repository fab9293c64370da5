//! Checks a model's outputs against its signature: names, rows, shapes and types.

use tidegate_codec::signatures::{FirstAxis, Signature, show_shape};
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Column, Tensor};

use crate::batching::executor::Prediction;

/// Outputs in the signature's order, and errors by row.
pub type CheckedOutputs = (Vec<Tensor>, Vec<(usize, Status)>);

/// Every declared output must be there with the right type, rows and shape. Without `rows` the answer is one request's
/// as it is: a shape that its signature only assumed is the model's affair then.
pub fn check(signature: &Signature, prediction: Prediction, rows: Option<usize>) -> Result<CheckedOutputs, Status> {
    let mut outputs = Vec::with_capacity(signature.outputs.len());
    let mut given = prediction.outputs.into_iter();
    for spec in &*signature.outputs {
        let name = &spec.name;
        let Some(output) = given.next().flatten() else {
            return Err(Status::internal(format!("the model did not return output '{name}', which its signature has")));
        };
        let got = || show_shape(&output.shape);
        if let Some(rows) = rows.filter(|rows| output.shape.first() != Some(rows)) {
            return Err(Status::internal(format!(
                "the model returned output '{name}' of shape {} for {rows} rows",
                got()
            )));
        }
        let unbatched = rows.is_none();
        let open = signature.first_axis == FirstAxis::Assumed && (unbatched || spec.unknown_rank);
        if !open && !spec.admits(output.inner(unbatched)) {
            let want = spec.show();
            return Err(Status::internal(format!(
                "the model returned output '{name}' of shape {}, but its signature says {want}",
                got()
            )));
        }
        if output.column.extent() != Column::row_extent(spec.dtype, &output.shape) {
            let want = spec.dtype.name();
            return Err(Status::internal(format!("the model returned output '{name}' that is not of dtype {want}")));
        }
        outputs.push(output);
    }
    let wrong = rows.and_then(|rows| Some((rows, prediction.errors.iter().find(|(row, _)| *row >= rows)?)));
    if let Some((rows, (row, _))) = wrong {
        return Err(Status::internal(format!("the model reported an error for row {row} of a batch of {rows} rows")));
    }
    Ok((outputs, prediction.errors))
}

/// How a run went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// It has answers, or something wrong that each half would have as well.
    Through,
    /// The model raised.
    Raised,
    /// The answers have no row for each row: they are right for one request only.
    NotByRow,
    /// The same, and not even for that one, as its rows ran together with copies.
    NotByOwnRow,
}

/// Whether a model whose first axis was taken for the batch answers as if it were not.
pub fn not_by_row(signature: &Signature, prediction: &Prediction, rows: usize) -> bool {
    signature.first_axis == FirstAxis::Assumed
        && prediction.outputs.iter().flatten().any(|output| output.shape.first() != Some(&rows))
}
