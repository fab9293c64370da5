//! The outcome of a request that did not succeed: a canonical gRPC code and one sentence.

use std::fmt;

/// Canonical gRPC codes; the number is the one on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Code {
    /// Success.
    Ok = 0,
    /// The client went away.
    Cancelled = 1,
    /// Unknown.
    Unknown = 2,
    /// The request itself is wrong.
    InvalidArgument = 3,
    /// Too late.
    DeadlineExceeded = 4,
    /// No such model, version or label.
    NotFound = 5,
    /// Already there.
    AlreadyExists = 6,
    /// Not allowed.
    PermissionDenied = 7,
    /// A bound was reached.
    ResourceExhausted = 8,
    /// Wrong state for this.
    FailedPrecondition = 9,
    /// Aborted.
    Aborted = 10,
    /// Out of range.
    OutOfRange = 11,
    /// No such method.
    Unimplemented = 12,
    /// A fault of the server or the model.
    Internal = 13,
    /// Not now.
    Unavailable = 14,
    /// Lost data.
    DataLoss = 15,
    /// No credentials.
    Unauthenticated = 16,
}

/// How many codes there are.
pub const CODES: usize = 17;

const TABLE: [(Code, &str, u16); CODES] = [
    (Code::Ok, "OK", 200),
    (Code::Cancelled, "CANCELLED", 499),
    (Code::Unknown, "UNKNOWN", 500),
    (Code::InvalidArgument, "INVALID_ARGUMENT", 400),
    (Code::DeadlineExceeded, "DEADLINE_EXCEEDED", 504),
    (Code::NotFound, "NOT_FOUND", 404),
    (Code::AlreadyExists, "ALREADY_EXISTS", 409),
    (Code::PermissionDenied, "PERMISSION_DENIED", 403),
    (Code::ResourceExhausted, "RESOURCE_EXHAUSTED", 429),
    (Code::FailedPrecondition, "FAILED_PRECONDITION", 400),
    (Code::Aborted, "ABORTED", 409),
    (Code::OutOfRange, "OUT_OF_RANGE", 400),
    (Code::Unimplemented, "UNIMPLEMENTED", 501),
    (Code::Internal, "INTERNAL", 500),
    (Code::Unavailable, "UNAVAILABLE", 503),
    (Code::DataLoss, "DATA_LOSS", 500),
    (Code::Unauthenticated, "UNAUTHENTICATED", 401),
];

impl Code {
    /// The code with this number; anything unknown is `Unknown`, as gRPC asks of clients.
    pub fn from_number(number: i64) -> Code {
        usize::try_from(number).ok().and_then(|at| TABLE.get(at)).map_or(Code::Unknown, |row| row.0)
    }

    /// Upper-case name, such as `NOT_FOUND`.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// The HTTP status that TensorFlow Serving's REST endpoint uses for this code.
    pub fn http(self) -> u16 {
        TABLE[self as usize].2
    }
}

/// A code other than OK, and one sentence that names the thing, the value and the cure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// What kind of failure.
    pub code: Code,
    /// For people.
    pub message: String,
    /// For programs, where there is more to say: a list of errors in JSON.
    pub details: Option<Box<str>>,
    /// Whether a model's process has ended on what failed, so that trying it again costs the start of another.
    pub ended_process: bool,
}

impl Status {
    /// A status with any code.
    pub fn new(code: Code, message: impl Into<String>) -> Status {
        Status { code, message: message.into(), details: None, ended_process: false }
    }

    /// The same with a list of errors in JSON.
    pub fn with_details(self, details: impl Into<Box<str>>) -> Status {
        Status { details: Some(details.into()), ..self }
    }

    /// The request itself is wrong.
    pub fn invalid(message: impl Into<String>) -> Status {
        Status::new(Code::InvalidArgument, message)
    }

    /// A fault of the server or the model.
    pub fn internal(message: impl Into<String>) -> Status {
        Status::new(Code::Internal, message)
    }

    /// No such thing.
    pub fn not_found(message: impl Into<String>) -> Status {
        Status::new(Code::NotFound, message)
    }

    /// A bound was reached.
    pub fn exhausted(message: impl Into<String>) -> Status {
        Status::new(Code::ResourceExhausted, message)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.message)
    }
}
