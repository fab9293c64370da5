//! Inputs as an embedding program gives them: whole columns by name, in no protocol at all.
//! The border makes them from numpy arrays; the desk appends them to a batch as it does with decoded requests.

use crate::batch::Output;
use crate::column::Column;
use crate::dtype::DType;
use crate::intake::{Found, Intake, Tally};
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
        let names = || self.0.iter().map(|input| input.name.clone()).collect();
        if !signature.takes_inputs(self.0.len()) {
            return Err(signature.wrong_names(names()));
        }
        let mut tally = Tally::new(signature, page.shapes);
        for (position, input) in self.0.iter().enumerate() {
            let Some(index) = signature.input_index(input.name.as_bytes(), position) else {
                return Err(signature.wrong_names(names()));
            };
            let found = append(input, signature, index, page)?;
            tally.note(index, found, page.shapes)?;
        }
        tally.settle(page)?.ok_or_else(|| signature.left_out(names()))
    }
}

/// Appends one input.
fn append(input: &NamedArray, signature: &Signature, index: usize, page: &mut Page<'_>) -> Result<Found, Status> {
    let (spec, Output { column, shape }) = (&signature.inputs[index], &input.array);
    if input.dtype != spec.dtype {
        let (sent, want) = (input.dtype.name(), spec.dtype.name());
        return Err(Status::invalid(format!(
            "input '{}' has dtype {sent}, but the signature expects {want}",
            spec.name
        )));
    }
    let Some(found) = Found::of_shape(spec, shape) else {
        let (sent, want) = (show_shape(shape), spec.show());
        return Err(Status::invalid(format!(
            "input '{}' has shape {sent}, but the signature expects {want}",
            spec.name
        )));
    };
    page.columns[index].extend(column, 0..found.rows * Column::row_extent(spec.dtype, &found.inner));
    Ok(found)
}
