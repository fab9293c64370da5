//! I/O threads: the addresses that they listen on, what they run, and how finished batches reach them.

pub mod completion_queue;
pub mod host;
pub mod listen;
pub mod listener;
pub mod signals;
pub mod thread;
