//! Batching: queues, the threads that empty them, and finished batches.

mod admission;
pub mod allowed_sizes;
pub mod append;
pub mod batch;
pub mod bisect;
pub mod executor;
pub mod executor_pool;
pub mod executor_thread;
pub mod fault_search;
pub mod finished;
pub mod kept;
mod lane;
pub mod limits;
pub mod output_check;
pub mod pacing;
pub mod queue;
pub(crate) mod ragged;
pub mod served_signature;
pub mod service_time;
pub mod stream;
mod streaming;
pub(crate) mod taking;
pub mod unanswered;
pub mod waiting;

pub use append::{Appended, Decode, Urgency};
pub use batch::{Entry, Role};
pub use executor::{Executor, Prediction, Work};
pub use executor_pool::{ExecutorPool, ThreadStarter};
pub use executor_thread::ExecutorThread;
pub use finished::{Completions, CompletionsByLane, FinishedBatch, Part};
pub use kept::Kept;
pub use limits::Batching;
pub use queue::Queue;
pub use served_signature::ServedSignature;
pub use unanswered::{Outputs, Unanswered};
pub use waiting::Place;
