//! One type for the replies of all protocols: what waits in the engine.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tidegate_codec::signatures::Signature;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::batching::stream::Stream;
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::request::{Dispatcher, Reply, Rows, Tags};
use tidegate_engine::telemetry::Observation;

use crate::endpoints::embedded::reply::EmbeddedReply;
use crate::endpoints::grpc::fan_in::TaskReply;
use crate::endpoints::grpc::prediction::PredictionReply;
use crate::endpoints::rest::prediction::RestReply;
use crate::endpoints::stream::StreamReply;

/// The path of requests that may come through any endpoint.
pub type PlaneDispatcher = Dispatcher<AnyReply>;

/// Defines `AnyReply` with one variant per kind of reply, and sends each call on to it.
macro_rules! any_reply {
    ($($(#[$doc:meta])* $variant:ident($kind:ty),)*) => {
        /// The way back to a client, in any protocol. An enum, so that waiting costs no memory of its own.
        #[derive(Debug)]
        pub enum AnyReply {
            $($(#[$doc])* $variant($kind),)*
        }

        $(impl From<$kind> for AnyReply {
            fn from(reply: $kind) -> AnyReply {
                AnyReply::$variant(reply)
            }
        })*

        impl Reply for AnyReply {
            fn endpoint(&self) -> Endpoint {
                match self {
                    $(AnyReply::$variant(reply) => reply.endpoint(),)*
                }
            }

            fn connection(&self) -> usize {
                match self {
                    $(AnyReply::$variant(reply) => reply.connection(),)*
                }
            }

            fn rows_under_way(&self) -> Option<&AtomicUsize> {
                match self {
                    $(AnyReply::$variant(reply) => reply.rows_under_way(),)*
                }
            }

            fn observation(&self) -> Option<&Observation> {
                match self {
                    $(AnyReply::$variant(reply) => reply.observation(),)*
                }
            }

            fn stream(&self) -> Option<&Arc<Stream>> {
                match self {
                    $(AnyReply::$variant(reply) => reply.stream(),)*
                }
            }

            fn check(&self, signature: &Signature) -> Result<(), Status> {
                match self {
                    $(AnyReply::$variant(reply) => reply.check(signature),)*
                }
            }

            fn is_gone(&mut self, waits: bool) -> bool {
                match self {
                    $(AnyReply::$variant(reply) => reply.is_gone(waits),)*
                }
            }

            fn succeed(self, rows: &Rows<'_>, tags: Tags<'_>) -> Code {
                match self {
                    $(AnyReply::$variant(reply) => reply.succeed(rows, tags),)*
                }
            }

            fn fail(self, status: &Status, tags: Tags<'_>) {
                match self {
                    $(AnyReply::$variant(reply) => reply.fail(status, tags),)*
                }
            }
        }
    };
}

any_reply! {
    /// Over gRPC.
    Grpc(PredictionReply),
    /// Over gRPC, together with other tasks of the same call.
    Task(TaskReply),
    /// Over REST.
    Rest(RestReply),
    /// To a thread of the program that the plane lives in.
    Embedded(EmbeddedReply),
    /// Message by message, over any of them.
    Stream(StreamReply),
}
