//! What happens to a request between its decoding and its encoding: it finds a version, joins a batch, is run, answered
//! and logged. Endpoints and models stand behind traits, so that nothing here knows a protocol or Python.

#![forbid(unsafe_code)]

pub mod batching;
pub mod disposal;
pub mod engine;
pub mod limits;
pub mod log;
pub mod memory;
pub mod metrics;
pub mod per_thread;
pub mod request;
pub mod request_id;
pub mod serving_map;
pub mod spare;
pub mod sync;
pub mod telemetry;
pub mod trace_context;
pub mod tracker;
