//! The protocol's names of element types.

use crate::dtype::{ALL, DType};

/// Of each type, in the order of `ALL`.
const NAMES: [&str; 13] =
    ["BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FP16", "FP32", "FP64", "BYTES"];

/// The protocol's name of bfloat16, which no tensor of ours has; it is taken where floats are asked for.
pub const BFLOAT16: &str = "BF16";

/// The protocol's name of a type.
pub fn name(dtype: DType) -> &'static str {
    NAMES[dtype as usize]
}

/// The type with this name.
pub fn from_name(name: &str) -> Option<DType> {
    NAMES.iter().position(|known| *known == name).map(|at| ALL[at])
}

/// All names, for a message.
pub fn all() -> String {
    format!("{}, {BFLOAT16}", NAMES.join(", "))
}
