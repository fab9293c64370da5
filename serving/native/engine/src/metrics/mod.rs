//! Every number that is counted, and how Prometheus reads it.

pub mod answers;
pub mod closings;
pub mod gauges;
pub mod histogram;
pub mod prometheus;
pub mod registry;
pub mod running;
pub mod stages;
pub mod tensorflow_serving;
pub mod version;

pub use answers::{Asked, Call, Closing, ENDPOINTS, Endpoint};
pub use closings::{CloseReason, Closings};
pub use gauges::{Gauge, Gauges};
pub use histogram::Spent;
pub use prometheus::{Page, Samples, escape, help_of};
pub use registry::{BACKGROUND_RESTARTS, HungCall, LogMetrics, Metrics, OutletCounts, TelemetryMetrics};
pub use running::{RunningCall, RunningCalls};
pub use stages::{BatchTimes, Ran, SignatureMetrics, SizeTimes};
pub use version::VersionMetrics;
