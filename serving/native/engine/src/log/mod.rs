//! The inference log: sampled rows of finished batches, gathered into blocks of columns.

pub mod block;
pub mod buffer;

pub use block::{LogBlock, Outcome, Record};
pub use buffer::{Log, LogLimits, LogSink};
