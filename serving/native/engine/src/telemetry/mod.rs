//! What is told of single requests: lines of the access log, and spans of traces. Where nobody wants them this costs a
//! request one branch at each step.

pub mod access_file;
pub mod access_line;
pub mod observation;
pub mod observer;
pub mod outlet;
mod refused_lines;

pub use observation::{Came, Ended, Facts, Observation};
pub use observer::{AccessLogOptions, Observer, TelemetryOptions, TraceSink};
