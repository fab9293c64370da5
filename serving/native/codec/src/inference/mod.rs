//! Classification and regression: which outputs of a signature answer them, and the rows that do.

pub mod outputs;
pub mod rows;
