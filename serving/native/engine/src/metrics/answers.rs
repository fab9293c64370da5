//! Answers by endpoint and status, and the names that metrics give to endpoints and methods.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_codec::status::{CODES, Code};

/// Where a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// gRPC.
    Grpc = 0,
    /// REST.
    Rest = 1,
    /// No socket: the program that the plane lives in.
    Embedded = 2,
}

/// Why the server closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// There were too many, and it was not needed.
    Evicted = 0,
    /// A request's head, or a frame, did not come in time.
    Header = 1,
    /// No request came for long.
    Idle = 2,
    /// Its peer answered no ping.
    Keepalive = 3,
    /// Its peer took nothing of an answer.
    Write = 4,
    /// Its peer changed its settings all the time.
    Settings = 5,
}

/// Their names in metrics.
pub const CLOSINGS: [&str; 6] = ["evicted", "header", "idle", "keepalive", "write", "settings"];

/// The method of a request, in any protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Any outputs, in any protocol.
    Predict = 0,
    /// Classes of examples.
    Classify = 1,
    /// A number for each example.
    Regress = 2,
    /// Several of these at once.
    MultiInference = 3,
    /// Feeds and fetches.
    SessionRun = 4,
    /// Any outputs, by the Open Inference Protocol.
    ModelInfer = 5,
}

/// Their names in metrics.
pub const CALLS: [&str; 6] = ["Predict", "Classify", "Regress", "MultiInference", "SessionRun", "ModelInfer"];
/// Their names in metrics.
pub const ENDPOINTS: [&str; 3] = ["grpc", "rest", "embedded"];

/// What was asked for, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Where the request came in.
    pub endpoint: Endpoint,
    /// Its method.
    pub call: Call,
}

/// Answers by endpoint and code.
#[derive(Debug)]
pub struct Answers([[AtomicU64; CODES]; ENDPOINTS.len()]);

impl Default for Answers {
    fn default() -> Answers {
        Answers(std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))))
    }
}

impl Answers {
    /// How many there were.
    pub fn by_endpoint(&self) -> [[u64; CODES]; ENDPOINTS.len()] {
        self.0.each_ref().map(|by_code| by_code.each_ref().map(|count| count.load(Ordering::Relaxed)))
    }

    /// One more.
    pub fn count(&self, endpoint: Endpoint, code: Code) {
        self.0[endpoint as usize][code as usize].fetch_add(1, Ordering::Relaxed);
    }
}
