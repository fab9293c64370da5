//! Every number that is counted, and how Prometheus reads it.

pub mod answers;
pub mod gauges;
pub mod histogram;
pub mod prometheus;
pub mod registry;
pub mod version;
