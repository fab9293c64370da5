//! Tidegate's data plane: the endpoints, the threads that serve them, and how all of it starts and drains.
//! Python stands behind the engine's `Executor` and the `Hooks` here; the border crate connects them.

#![forbid(unsafe_code)]

pub mod control;
pub mod drain;
pub mod endpoints;
pub mod file_digest;
pub mod hooks;
pub mod io;
pub mod plane;
pub mod settings;
pub mod state;
