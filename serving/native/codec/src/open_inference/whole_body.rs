//! A request whose body is one tensor and nothing else, Triton's raw binary request: the bytes of the model's only input,
//! from which its shape follows.

use std::borrow::Cow;

use crate::dtype::DType;
use crate::open_inference::datatype;
use crate::open_inference::input::{InferData, InferInput};
use crate::signatures::{Signature, TensorSpec};
use crate::status::Status;

/// The body as the only input that a signature asks for.
pub fn input<'a>(bytes: &'a [u8], signature: &'a Signature) -> Result<InferInput<'a>, Status> {
    let [spec] = signature.asked_inputs()[..] else {
        let names: Vec<&str> = signature.asked_inputs().iter().map(|spec| spec.name.as_str()).collect();
        let names = names.join("', '");
        return Err(Status::invalid(format!(
            "a body without JSON is a model's only input, but this one has '{names}': send JSON that names them"
        )));
    };
    let mut input = InferInput::new(Cow::Borrowed(&spec.name));
    (input.datatype, input.data) = (Cow::Borrowed(datatype::name(spec.dtype)), InferData::Alone(bytes));
    for size in dims(spec, bytes.len())? {
        input.push_dim(size)?;
    }
    Ok(input)
}

/// One string, or as many numbers as there are: in one dimension of any size, behind one row where there are two.
fn dims(spec: &TensorSpec, bytes: usize) -> Result<Vec<i64>, Status> {
    let mut dims = if spec.unknown_rank { vec![-1] } else { spec.shape.clone() };
    let elements = if spec.dtype == DType::String { 1 } else { bytes / spec.dtype.size() };
    let mut open: Vec<usize> = (0..dims.len()).filter(|at| dims[*at] < 0).collect();
    if open.len() == 2 {
        dims[open.remove(0)] = 1;
    }
    let known: i64 = dims.iter().filter(|size| **size >= 0).product();
    match (&open[..], i64::try_from(elements)) {
        ([], Ok(elements)) if elements == known => Ok(dims),
        ([at], Ok(elements)) if known > 0 && elements % known == 0 => {
            dims[*at] = elements / known;
            Ok(dims)
        }
        _ => Err(Status::invalid(format!(
            "a body of {bytes} bytes without JSON does not say the shape of input '{}', which is {} of {}: send JSON that does",
            spec.name,
            spec.show(),
            datatype::name(spec.dtype)
        ))),
    }
}
