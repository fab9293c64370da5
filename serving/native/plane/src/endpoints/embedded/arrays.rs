//! Inputs as an embedding program gives them: tensors by name, in no protocol at all.

use std::marker::PhantomData;
use std::sync::Arc;

use tidegate_codec::dtype::{DType, tensorflow_type};
use tidegate_codec::model_spec::ModelSpec;
use tidegate_codec::signatures::{InputShape, InputTally, RequestRows, Signature, show_shape};
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::{Column, Page, Tensor};
use tidegate_engine::batching::Queue;
use tidegate_engine::metrics::Call;
use tidegate_engine::request::{Payload, Reply};
use tidegate_engine::serving_map::Version;

/// One input.
#[derive(Debug)]
pub struct NamedArray {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    /// Elements and shape, batch first.
    pub array: Tensor,
}

/// All inputs of one request.
#[derive(Debug, Default)]
pub struct Arrays(pub Vec<NamedArray>);

impl Arrays {
    /// Bytes of all inputs.
    pub fn byte_size(&self) -> usize {
        self.0.iter().map(|input| input.array.column.byte_size()).sum()
    }
}

/// Inputs on their way, answered by an `R`.
#[derive(Debug)]
pub struct Given<'a, R> {
    arrays: &'a Arrays,
    reply: PhantomData<fn() -> R>,
}

impl<'a, R> Given<'a, R> {
    /// Of one request.
    pub fn new(arrays: &'a Arrays) -> Given<'a, R> {
        Given { arrays, reply: PhantomData }
    }
}

impl<R: Reply> Payload for Given<'_, R> {
    type Reply = R;

    fn call(&self) -> Call {
        Call::Predict
    }

    fn queue<'v>(&self, spec: &ModelSpec<'_>, version: &'v Version) -> Result<&'v Arc<Queue>, Status> {
        let name = spec.signature();
        version.queue(name).ok_or_else(|| {
            Status::new(Code::FailedPrecondition, format!("Serving signature key \"{name}\" not found."))
        })
    }

    fn select(&self, _: &Signature, _: &mut R) -> Result<(), Status> {
        Ok(())
    }

    fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>, _: usize) -> Result<RequestRows, Status> {
        let inputs = &self.arrays.0;
        let names = || inputs.iter().map(|input| input.name.clone()).collect();
        if !signature.takes_inputs(inputs.len()) {
            return Err(signature.wrong_names(names()));
        }
        let mut tally = InputTally::new(signature, page.shapes);
        for (position, input) in inputs.iter().enumerate() {
            let Some(index) = signature.input_index(input.name.as_bytes(), position) else {
                return Err(signature.left_out(names()));
            };
            let found = append(input, signature, index, page)?;
            tally.note(index, found, page.shapes)?;
        }
        tally.settle(page)?.ok_or_else(|| signature.left_out(names()))
    }
}

/// Appends one input.
fn append(input: &NamedArray, signature: &Signature, index: usize, page: &mut Page<'_>) -> Result<InputShape, Status> {
    let (spec, Tensor { column, shape }) = (&signature.inputs[index], &input.array);
    if input.dtype != spec.dtype {
        return Err(signature.wrong_dtype(index, tensorflow_type(input.dtype)));
    }
    let Some(found) = InputShape::of_shape(spec, shape) else {
        let (sent, want) = (show_shape(shape), spec.show());
        return Err(Status::invalid(format!(
            "input '{}' has shape {sent}, but the signature expects {want}",
            spec.name
        )));
    };
    page.columns[index].extend(column, 0..found.rows * Column::row_extent(spec.dtype, &found.inner));
    Ok(found)
}
