//! The path of one request: into a batch, and from a finished batch to its reply.

pub mod answering;
pub mod deadline_sweep;
pub mod dispatcher;
pub mod ending;
pub mod idle_flush;
pub mod inflight;
pub mod payload;
pub mod priority;
pub mod reply;
pub mod rows;
pub mod sweep_clock;

pub use answering::{Answering, Turn};
pub use dispatcher::{Dispatcher, Route};
pub use idle_flush::Mixture;
pub use payload::{Payload, RequestContext};
pub use reply::{Reply, Tags};
pub use rows::Rows;
