//! Tidegate's data plane: the endpoints, the I/O threads, start and drain.
//! Python implements the engine's `Executor` and the `Hooks` here, through the border crate.

#![forbid(unsafe_code)]

pub mod aside;
pub mod connections;
pub mod control;
pub mod drain;
pub mod endpoints;
mod fair_turns;
pub mod file_digest;
pub mod freed_memory;
pub mod hooks;
pub mod io;
pub mod linger;
pub mod metrics_page;
pub mod named_thread;
pub mod pages;
pub mod plane;
pub mod security;
pub mod settings;
pub mod shared_memory;
pub mod sockets;
pub mod state;
pub mod supervision;
pub mod system;
pub mod threads;
