//! What the plane calls in Python: executors once per batch, and the hooks.

pub(crate) mod batch;
pub(crate) mod closing;
pub(crate) mod executor;
pub(crate) mod hooks;
pub(crate) mod outputs;
mod raised;
pub(crate) mod traces;
pub(crate) mod worker_executor;
