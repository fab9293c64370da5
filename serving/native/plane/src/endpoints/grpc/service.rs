//! A complete unary call, and who answers it through its reply.

use std::time::Instant;

use bytes::Bytes;
use http::request;

use crate::endpoints::grpc::reply::GrpcReply;

/// A complete unary call.
pub struct GrpcCall {
    /// Path and metadata.
    pub head: request::Parts,
    /// The message, without its frame.
    pub message: Bytes,
    /// When its last byte had come.
    pub received: Instant,
    /// When its answer is worth nothing any more.
    pub deadline: Instant,
    /// The way back.
    pub reply: GrpcReply,
}

/// Answers calls, on I/O threads and beside them; must return at once.
pub trait GrpcService: Send + Sync + 'static {
    /// Takes over a call.
    fn call(&self, call: GrpcCall);

    /// Whether a method asks for the server's health, which is answered also where there are too many connections.
    fn is_about_health(&self, _path: &str) -> bool {
        false
    }
}
