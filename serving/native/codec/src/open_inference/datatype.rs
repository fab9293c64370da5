//! The protocol's names of element types.

use crate::dtype::{ALL, DType};
use crate::signatures::TensorSpec;
use crate::status::{Code, Status};

/// Of each type, in the order of `ALL`.
const NAMES: [&str; 15] = [
    "BOOL",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "FP16",
    "FP32",
    "FP64",
    "BYTES",
    "COMPLEX64",
    "COMPLEX128",
];
/// How many of them the protocol has. It has no complex numbers, whose names only say what a model has.
const SPOKEN: usize = 13;

/// The protocol's name of bfloat16, which no tensor of ours has; it is taken where floats are asked for.
pub const BFLOAT16: &str = "BF16";

/// The protocol's name of a type.
pub fn name(dtype: DType) -> &'static str {
    NAMES[dtype as usize]
}

/// The type with this name.
pub fn from_name(name: &str) -> Option<DType> {
    NAMES[..SPOKEN].iter().position(|known| *known == name).map(|at| ALL[at])
}

/// Refuses tensors of which the protocol has no type.
pub fn check<'a>(mut specs: impl Iterator<Item = &'a TensorSpec>) -> Result<(), Status> {
    match specs.find(|spec| spec.dtype.is_complex()) {
        Some(spec) => {
            let (name, dtype) = (&spec.name, spec.dtype.name());
            Err(Status::new(
                Code::Unimplemented,
                format!(
                    "'{name}' is {dtype}, and this protocol has no complex numbers: ask by TensorFlow Serving's gRPC, or \
                     for other outputs"
                ),
            ))
        }
        None => Ok(()),
    }
}

/// All names, for a message.
pub fn all() -> String {
    format!("{}, {BFLOAT16}", NAMES[..SPOKEN].join(", "))
}
