//! Columns as numpy arrays, and Python values as columns.

#[allow(unsafe_code, reason = "the buffer protocol")]
pub(crate) mod memory;
pub(crate) mod numpy;
pub(crate) mod values;
