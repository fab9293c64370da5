//! Requests that run together: the queues where they meet, the threads that run them, and what comes of it.

pub mod allowed_sizes;
pub mod batch;
pub mod bisect;
pub mod executor;
pub mod executor_pool;
pub mod executor_thread;
pub mod finished;
pub mod limits;
pub mod output_check;
pub mod queue;
pub mod served_signature;
