//! Every number that is counted, and how Prometheus reads it.

pub mod answers;
pub mod gauges;
pub mod histogram;
pub mod prometheus;
pub mod registry;
pub mod version;

pub use answers::{Call, Endpoint};
pub use gauges::{Gauge, Gauges};
pub use prometheus::{escape, help_of, render};
pub use registry::Metrics;
pub use version::VersionMetrics;
