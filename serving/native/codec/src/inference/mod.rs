//! Classification and regression: which outputs of a signature answer them, and the rows that do.

pub mod outputs;
pub mod rows;

pub use outputs::{InferenceMethod, InferenceOutputs, takes_serialized};
pub use rows::{Inference, float_at, string_at};
