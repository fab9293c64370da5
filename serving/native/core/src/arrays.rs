//! Inputs as an embedding program gives them: whole columns by name, in no protocol at all.
//! The border makes them from numpy arrays; the desk appends them to a batch as it does with decoded requests.

use crate::batch::Output;
use crate::column::Column;
use crate::dtype::DType;
use crate::intake::{Flatness, Intake};
use crate::queue::Page;
use crate::signature::{Signature, show_shape};
use crate::status::Status;

/// One input.
#[derive(Debug)]
pub struct NamedArray {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    /// Elements and shape, batch first.
    pub array: Output,
}

/// All inputs of one request.
#[derive(Debug, Default)]
pub struct Arrays(pub Vec<NamedArray>);

impl Arrays {
    /// Appends the inputs to the open batch.
    pub fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>) -> Result<Intake, Status> {
        let wrong_names = || signature.wrong_names(self.0.iter().map(|input| input.name.clone()).collect());
        if self.0.len() != signature.inputs.len() {
            return Err(wrong_names());
        }
        page.shapes.clear();
        if !signature.fixed {
            page.shapes.resize(page.columns.len(), Vec::new());
        }
        let (mut rows, mut flatness): (Option<(usize, &str)>, _) = (None, Flatness::default());
        for (position, input) in self.0.iter().enumerate() {
            let index = signature.input_index(input.name.as_bytes(), position).ok_or_else(wrong_names)?;
            let found = append(input, signature, index, page)?;
            flatness.note(&signature.inputs[index], input.array.shape.len() == 1);
            match rows {
                Some((first, other)) if first != found => {
                    return Err(Status::invalid(format!(
                        "Batching Run() input tensors must have equal 0th-dimension size: input '{other}' has {first} \
                         rows, input '{}' has {found}",
                        input.name
                    )));
                }
                _ => rows = Some((found, &input.name)),
            }
        }
        let (rows, _) = rows.ok_or_else(wrong_names)?;
        Ok(Intake { rows, flat: flatness.is_flat() })
    }
}

/// Appends one input; returns its number of rows.
fn append<'a>(
    input: &'a NamedArray,
    signature: &Signature,
    index: usize,
    page: &mut Page<'_>,
) -> Result<usize, Status> {
    let (spec, Output { column, shape }) = (&signature.inputs[index], &input.array);
    if input.dtype != spec.dtype {
        let (sent, want) = (input.dtype.name(), spec.dtype.name());
        return Err(Status::invalid(format!(
            "input '{}' has dtype {sent}, but the signature expects {want}",
            spec.name
        )));
    }
    let upright = |inner: &'a [usize]| if inner.is_empty() && spec.may_be_flat() { &[1][..] } else { inner };
    let parts = shape.split_first().map(|(rows, inner)| (*rows, upright(inner)));
    let Some((rows, inner)) = parts.filter(|(_, inner)| spec.admits(inner)) else {
        let (sent, want) = (show_shape(shape), show_shape(&spec.shape));
        return Err(Status::invalid(format!(
            "input '{}' has shape {sent}, but the signature expects {want}",
            spec.name
        )));
    };
    page.columns[index].extend(column, 0..rows * Column::row_extent(spec.dtype, inner));
    if !signature.fixed {
        page.shapes[index] = inner.to_vec();
    }
    Ok(rows)
}
