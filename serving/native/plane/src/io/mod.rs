//! I/O threads: the addresses that they listen on, what they run, how finished batches reach them, and what they leave
//! to others.

pub mod aside;
pub mod completion_queue;
pub mod listen;
pub mod thread;
