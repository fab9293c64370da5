//! The inference log: sampled rows of finished batches, gathered into blocks of columns.

pub mod block;
pub mod buffer;
pub mod turns;

pub use block::{LogBlock, Logged, Outcome, Record, RowShapes};
pub use buffer::{Expected, Log, LogLimits, LogSink};
pub use turns::Turns;
