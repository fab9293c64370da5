//! Connections to nodes: opened when they are needed, kept for a while, closed when nobody uses them.

pub mod connect;
pub mod http1;
pub mod http2;
pub mod tls;
