//! A complete unary call, and who answers it through its reply.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, request};
use tidegate_codec::status::{Code, Status};
use tidegate_engine::memory::Reservation;
use tidegate_engine::request::Tags;

use crate::endpoints::grpc::conversation::Conversation;
use crate::endpoints::grpc::reply::GrpcReply;
use crate::security::access::Grant;

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

/// Answers a call that is not handed over, and counts it.
pub(crate) fn refuse<S: GrpcService>(service: &S, reply: GrpcReply, why: &Status) {
    service.count_unread(why.code);
    reply.fail(why, Tags::default());
}

/// Answers calls, on I/O threads and beside them; must return at once.
pub trait GrpcService: Send + Sync + 'static {
    /// Takes over a call, and what its message takes, where that is counted and to stay so after this returns.
    fn call(&self, call: GrpcCall, memory: &mut Option<Reservation>);

    /// Whether a method's messages are answered one by one.
    fn is_conversation(&self, _path: &str) -> bool {
        false
    }

    /// Takes over a call of such a method.
    fn converse(&self, _call: Conversation) {}

    /// Counts a call that is not handed over, with the code that its client sees.
    fn count_unread(&self, _code: Code) {}

    /// Whether calls of a method stay for long: its answers go on for as long as the client likes, or wait for Python. What
    /// they keep is counted for so long.
    fn stays(&self, _path: &str) -> bool {
        false
    }

    /// What whoever sent these headers, with a certificate of these names, may do by this method; none where everybody may
    /// do everything. The error says why the call is not let in.
    fn admit(&self, _path: &str, _headers: &HeaderMap, _names: &[String]) -> Result<Option<Arc<Grant>>, Status> {
        Ok(None)
    }

    /// Whether a method's messages may stand for more bytes than they have, so that they are read aside.
    fn reads_more(&self, _path: &str) -> bool {
        false
    }

    /// Whether such a message must reach its model after those of its connection that came before it; none for one that is
    /// packed, so that nobody knows whose it is.
    fn keeps_order(&self, _path: &str, _message: Option<&[u8]>) -> bool {
        false
    }

    /// Whether a method asks for the server's health, which is answered also where there are too many connections.
    fn is_about_health(&self, _path: &str) -> bool {
        false
    }
}
