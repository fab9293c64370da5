//! The engine's end of the way to a worker process, whose end is `tidegate_serving.workers.channel`, where the format of
//! a message is described. Nothing here trusts the worker: whatever makes no sense is an error, and memory is read and
//! written by calls that check its bounds.

pub mod error;
pub mod layout;
pub mod line;
pub mod memory;

pub use error::LineError;
pub use layout::{Named, Place};
pub use line::{Line, Message};
