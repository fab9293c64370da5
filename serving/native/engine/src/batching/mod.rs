//! Batching: queues, the threads that empty them, and finished batches.

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
