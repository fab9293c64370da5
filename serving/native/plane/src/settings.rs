//! Settings: how a plane listens and what it bounds.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_codec::protobuf::tensor::Numbers;
use tidegate_engine::limits::Limits;
use tidegate_engine::log::LogLimits;
use tidegate_engine::telemetry::TelemetryOptions;

use crate::security::access::Access;
use crate::security::tls::Pem;

/// How long connections are waited for.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// A request's head, or the beginning of an HTTP/2 connection, must be complete within this time.
    pub header: Duration,
    /// A connection without a request for so long is closed.
    pub idle: Duration,
    /// A gRPC connection that is silent for so long is asked whether it is there.
    pub keepalive: Duration,
    /// A client that takes nothing of its answer for so long is given up.
    pub write: Duration,
}

/// Who may ask on the data ports, and what the server shows; both may be replaced while the plane runs.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// Certificates and a key; none for plain text.
    pub tls: Option<Pem>,
    /// Who may ask; none for everybody.
    pub access: Option<Arc<Access>>,
}

/// Frozen settings of a plane.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `host:port` of the gRPC endpoint, port 0 for any, if there is one.
    pub grpc_address: Option<String>,
    /// A Unix socket that leads through the gRPC endpoint too, if there is one.
    pub grpc_socket_path: Option<PathBuf>,
    /// `host:port` of the REST endpoint, if there is one.
    pub rest_address: Option<String>,
    /// One more path at which the REST endpoint answers with metrics, if there is one.
    pub metrics_path: Option<String>,
    /// Whether a model that is not there is UNAVAILABLE until the plane is told that the server has started, since it may
    /// load: clients and proxies ask again then.
    pub starting: bool,
    /// Whether the REST endpoint lets pages of any origin read its answers.
    pub rest_cors: bool,
    /// How numbers are written in answers to Predict over gRPC.
    pub numbers: Numbers,
    /// Whether clients may register shared memory of this machine.
    pub shared_memory: bool,
    /// Who may ask.
    pub security: Security,
    /// What is told of single requests.
    pub telemetry: TelemetryOptions,
    /// I/O threads.
    pub io_threads: usize,
    /// Largest request body or message, in bytes.
    pub max_message_bytes: usize,
    /// Bytes that all requests may hold, from their bodies to their answers.
    pub request_memory_bytes: usize,
    /// Most open connections over both endpoints.
    pub max_connections: usize,
    /// How long connections are waited for.
    pub patience: Patience,
    /// Deadline of requests that bring none.
    pub request_timeout: Duration,
    /// A stream of events without a message for so long sends a comment.
    pub event_keepalive: Duration,
    /// Rows of a full log block.
    pub log_block_rows: usize,
    /// A block that is not full is handed over after this time.
    pub log_block_interval: Duration,
    /// Bytes that may wait for the log.
    pub log_buffer_bytes: usize,
}

impl Settings {
    /// What can change while the plane runs.
    pub fn limits(&self) -> Limits {
        Limits::new(
            self.max_message_bytes,
            self.max_connections,
            self.request_timeout,
            self.patience.header,
            self.request_memory_bytes,
        )
    }

    /// What the inference log may hold.
    pub fn log_limits(&self) -> LogLimits {
        LogLimits {
            block_rows: self.log_block_rows,
            interval: self.log_block_interval,
            buffer_bytes: self.log_buffer_bytes,
        }
    }

    /// Says which value cannot be.
    pub fn check(&self) -> Result<(), String> {
        let positive = [
            ("io_threads", self.io_threads),
            ("max_message_bytes", self.max_message_bytes),
            ("request_memory_bytes", self.request_memory_bytes),
            ("max_connections", self.max_connections),
            ("log_block_rows", self.log_block_rows),
            ("header_timeout_ms", self.patience.header.as_millis() as usize),
            ("idle_timeout_ms", self.patience.idle.as_millis() as usize),
            ("keepalive_ms", self.patience.keepalive.as_millis() as usize),
            ("write_timeout_ms", self.patience.write.as_millis() as usize),
            ("request_timeout_ms", self.request_timeout.as_millis() as usize),
            ("event_keepalive_ms", self.event_keepalive.as_millis() as usize),
            ("log_block_interval_ms", self.log_block_interval.as_millis() as usize),
        ];
        match positive.iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(format!("{name} is 0: it must be at least 1")),
            None if self.io_threads > 256 => Err(format!("io_threads is {}: use at most 256", self.io_threads)),
            None => Ok(()),
        }
    }
}
