//! What a version takes and gives, and how the inputs of one request are held against it.

pub mod inputs;
pub mod signature;
pub mod spec;
