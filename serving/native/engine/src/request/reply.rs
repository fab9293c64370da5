//! The trait of the way back to a client, which each protocol implements.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use http::HeaderValue;
use tidegate_codec::signatures::Signature;
use tidegate_codec::status::{Code, Status};

use crate::batching::stream::Stream;
use crate::metrics::Endpoint;
use crate::request::rows::Rows;
use crate::request_id::RequestId;
use crate::telemetry::{Facts, Observation};

/// A request whose client may have gone, or wait without a word, runs by then unless there is much before it.
pub const SILENT: Duration = Duration::from_millis(100);

/// What every answer carries beside its content.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tags<'a> {
    /// The version that answered, once one was found.
    pub version: Option<&'a HeaderValue>,
    /// The request's id.
    pub id: Option<&'a RequestId>,
}

/// Answers one request, in its protocol. It is used once; dropped unused, it says that the server stopped.
pub trait Reply: Send + 'static {
    /// Which endpoint it leads through.
    fn endpoint(&self) -> Endpoint;

    /// A number of the connection that it leads through: answers that follow each other there go out in one write.
    fn connection(&self) -> usize {
        0
    }

    /// Rows of that connection that are under way, where more than one of its requests may be.
    fn rows_under_way(&self) -> Option<&AtomicUsize> {
        None
    }

    /// What is noted of the request; none where nobody is told of it.
    fn observation(&self) -> Option<&Observation> {
        None
    }

    /// Where messages go before the answer; none where there is one answer and nothing before it.
    fn stream(&self) -> Option<&Arc<Stream>> {
        None
    }

    /// Whether it can be the answer of this signature, or what its client should ask for instead.
    fn check(&self, signature: &Signature) -> Result<(), Status> {
        if signature.streaming { Err(no_single_answer(signature)) } else { Ok(()) }
    }

    /// Whether the client has gone. One that may have gone, or not, counts as gone where its request `waits` for an executor,
    /// and has done so for long; one that runs is answered.
    fn is_gone(&mut self, waits: bool) -> bool;

    /// Encodes the rows and sends them, or says why they cannot be encoded. Returns the code that the client sees.
    fn succeed(self, rows: &Rows<'_>, tags: Tags<'_>) -> Code;

    /// Answers with an error.
    fn fail(self, status: &Status, tags: Tags<'_>);
}

/// What a client reads that closed its side while its request waited for this version.
pub(crate) fn given_up(model: &str, version: i64) -> Status {
    Status::new(
        Code::Cancelled,
        format!(
            "the request still waited in the batch queue of model '{model}' version {version} when its client closed its side \
             of the connection, which counts as having gone: keep it open until the answer comes"
        ),
    )
}

#[cold]
fn no_single_answer(signature: &Signature) -> Status {
    let name = &signature.name;
    Status::invalid(format!(
        "signature '{name}' answers with a stream of messages: ask for it with header 'Accept: text/event-stream', by \
         ModelStreamInfer, or in process with Engine.stream"
    ))
}

/// Notes something of a request, where somebody is told of it.
#[inline]
pub(crate) fn note(reply: &impl Reply, what: impl FnOnce(&mut Facts)) {
    if let Some(observation) = reply.observation() {
        observation.note(what);
    }
}
