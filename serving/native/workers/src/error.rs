//! What can go wrong on a line.

use std::io;

use rustix::io::Errno;
use tidegate_codec::status::Status;

/// Why a line is of no use any more.
#[derive(Debug)]
pub enum LineError {
    /// Nobody is there.
    Closed(String),
    /// What came makes no sense.
    NoSense(String),
}

impl From<io::Error> for LineError {
    fn from(error: io::Error) -> LineError {
        LineError::Closed(error.to_string())
    }
}

impl From<Errno> for LineError {
    fn from(error: Errno) -> LineError {
        LineError::Closed(error.to_string())
    }
}

impl From<Status> for LineError {
    fn from(status: Status) -> LineError {
        LineError::NoSense(status.message)
    }
}
