//! Signatures: what a version takes and gives, and how one request's inputs are checked against it.

pub mod inputs;
pub mod sequences;
pub mod signature;
pub mod spec;

pub use inputs::{InputShape, InputTally, RequestRows};
pub use signature::{DocumentSchema, Signature};
pub use spec::{FirstAxis, TensorSpec, show_shape};
