//! Tidegate's data plane in pure Rust: two endpoints, a serving map, batch queues, shadow and inference log.
//! Python stands behind three traits, `Executor`, `Hooks` and nothing else; the border crate connects them.

#![forbid(unsafe_code)]

mod allowed_sizes;
pub mod answer;
pub mod answers;
pub mod arrays;
pub mod ask;
pub mod batch;
pub mod bisect;
pub mod by_name;
pub mod change;
pub mod column;
pub mod compression;
pub mod control;
pub mod cors;
pub mod crew;
pub mod desk;
pub mod drain;
pub(crate) mod dry;
pub mod dtype;
pub mod embedded;
pub mod example;
pub mod example_input;
pub mod executor;
pub mod file_digest;
pub mod gather;
pub mod gauges;
pub mod grpc;
pub mod grpc_health;
pub mod grpc_methods;
pub mod grpc_reply;
pub mod half;
pub mod head;
pub mod histogram;
pub mod hooks;
pub mod inference_response;
pub mod inflight;
pub mod intake;
pub mod io_thread;
pub mod json_examples;
pub mod json_explain;
pub mod json_number;
pub mod json_request;
pub mod json_response;
pub mod json_scan;
pub mod json_value;
pub mod limits;
pub mod listen;
pub mod log;
pub mod log_block;
pub mod mailbox;
pub mod metadata;
pub mod metric_help;
pub mod metrics;
pub mod model_status;
pub mod multi_inference;
pub mod plane;
pub mod pool;
pub mod predict_request;
pub mod predict_response;
pub mod queue;
pub mod request_id;
pub mod rest;
pub mod rest_path;
pub mod rest_routes;
pub mod serving_map;
pub mod session_run;
pub mod settings;
pub mod shared;
pub mod signature;
pub mod split;
pub mod status;
pub mod sweep;
pub mod tensor_proto;
pub mod tensor_slice;
pub mod unix_authority;
pub mod version;
pub mod wire;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; a panic elsewhere must not take this part down too.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
