//! Callbacks from the plane to Python (released, control, log block, traces), each on a thread of its own.

use tidegate_codec::status::Status;
use tidegate_engine::log::LogSink;
use tidegate_engine::telemetry::TraceSink;

/// Callbacks, and where log blocks go; none is called on an I/O thread.
pub trait Hooks: LogSink + TraceSink {
    /// The last handle of a retired version is gone.
    fn released(&self, model: &str, version: i64);

    /// Answers a rare call: full gRPC method path, protobuf in and out.
    fn control(&self, method: &str, request: &[u8]) -> Result<Vec<u8>, Status>;
}
