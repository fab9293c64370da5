//! The inference log: sampled rows of finished batches, gathered into blocks of columns.

pub mod block;
pub mod buffer;
