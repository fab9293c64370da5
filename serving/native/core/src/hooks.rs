//! What the plane calls back: the three things that Python does for it, each on a thread of its own.
//! The border implements it with Python callables, tests with closures.

use crate::log_block::LogBlock;
use crate::status::Status;

/// Callbacks; none is called on an I/O thread.
pub trait Hooks: Send + Sync {
    /// The last handle of a retired version is gone.
    fn released(&self, model: &str, version: i64);

    /// Answers a rare call: full gRPC method path, protobuf in and out.
    fn control(&self, method: &str, request: &[u8]) -> Result<Vec<u8>, Status>;

    /// Takes a block of log rows. False when they are lost.
    fn log_block(&self, block: LogBlock) -> bool;
}
