//! Callbacks from the plane to Python (released, control, log block), each on a thread of its own, and to the allocator.

use tidegate_codec::status::Status;
use tidegate_engine::log::LogSink;

/// Callbacks, and where log blocks go; none is called on an I/O thread.
pub trait Hooks: LogSink {
    /// The last handle of a retired version is gone.
    fn released(&self, model: &str, version: i64);

    /// Answers a rare call: full gRPC method path, protobuf in and out.
    fn control(&self, method: &str, request: &[u8]) -> Result<Vec<u8>, Status>;

    /// Gives freed memory back to the system now and then, until `wait` says that the plane ends. Has a thread to itself.
    fn return_memory(&self, wait: &dyn Fn() -> bool);
}
