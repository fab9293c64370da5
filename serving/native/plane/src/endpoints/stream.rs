//! The way back of a streaming answer, in any protocol: the reply that waits in the engine, and what its reader needs.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::HeaderValue;
use tidegate_codec::open_inference::answer::InferAnswer;
use tidegate_codec::signatures::Signature;
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::Tensor;
use tidegate_engine::batching::stream::{Message, Stream};
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::request::{Reply, Rows, Tags};
use tidegate_engine::telemetry::Observation;

use crate::connections::lifeline::Lifeline;
use crate::endpoints::open_inference::InferReply;

/// What a request's answer says beside its messages, once that is known.
#[derive(Debug, Default)]
pub struct Head {
    /// The form of the messages, where the request is an infer request.
    pub infer: OnceLock<InferAnswer>,
    /// The version that answers.
    pub version: OnceLock<HeaderValue>,
}

/// The reader's end. The model is told to stop once it is dropped.
#[derive(Debug)]
pub struct StreamAnswer {
    /// The messages.
    pub stream: Arc<Stream>,
    /// What goes with them.
    pub head: Arc<Head>,
}

impl Drop for StreamAnswer {
    fn drop(&mut self) {
        self.stream.leave();
    }
}

/// A streaming answer's way back.
#[derive(Debug)]
pub struct StreamReply {
    stream: Arc<Stream>,
    head: Arc<Head>,
    endpoint: Endpoint,
    /// Whether a signature that answers once may be asked, too.
    takes_single: bool,
    observation: Observation,
    /// Whose rows its request's are, where a connection may have several under way.
    lifeline: Option<Arc<Lifeline>>,
}

impl StreamReply {
    /// A reply, and what will come through it. With a patience, which is for each message, there is no deadline for all.
    pub fn open(
        endpoint: Endpoint,
        patience: Option<Duration>,
        takes_single: bool,
        observation: &Observation,
    ) -> (StreamReply, StreamAnswer) {
        let (stream, head) = (Stream::new(patience), Arc::<Head>::default());
        let answer = StreamAnswer { stream: stream.clone(), head: head.clone() };
        let (observation, lifeline) = (observation.clone(), None);
        (StreamReply { stream, head, endpoint, takes_single, observation, lifeline }, answer)
    }

    /// The same over a connection that may have several requests under way.
    pub fn over(mut self, lifeline: &Arc<Lifeline>) -> StreamReply {
        self.lifeline = Some(lifeline.clone());
        self
    }

    fn end(&self, end: Result<(), Status>, tags: Tags<'_>) {
        if let Some(version) = tags.version {
            self.head.version.get_or_init(|| version.clone());
        }
        let code = end.as_ref().err().map_or(Code::Ok, |status| status.code);
        self.observation.note(|facts| facts.code = Some(code));
        self.stream.end(end);
    }
}

impl InferReply for StreamReply {
    fn select_infer(&mut self, answer: InferAnswer) {
        self.head.infer.get_or_init(|| answer);
    }
}

impl Reply for StreamReply {
    fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    fn rows_under_way(&self) -> Option<&AtomicUsize> {
        self.lifeline.as_ref().map(|lifeline| &lifeline.rows_under_way)
    }

    fn observation(&self) -> Option<&Observation> {
        Some(&self.observation)
    }

    fn stream(&self) -> Option<&Arc<Stream>> {
        Some(&self.stream)
    }

    fn check(&self, signature: &Signature) -> Result<(), Status> {
        if signature.streaming || self.takes_single {
            return Ok(());
        }
        let name = &signature.name;
        Err(Status::invalid(format!(
            "signature '{name}' answers once and has no stream of messages: ask for it without header 'Accept: \
             text/event-stream', or in process with Engine.predict"
        )))
    }

    fn is_gone(&mut self, _: bool) -> bool {
        self.stream.is_left()
    }

    /// The end of the messages; what answers once has its only message here.
    fn succeed(self, rows: &Rows<'_>, tags: Tags<'_>) -> Code {
        if !rows.served.signature.streaming {
            match Message::new(rows.served.clone(), whole(rows)) {
                Ok(message) => drop(self.stream.send(message)),
                Err(status) => {
                    self.end(Err(status.clone()), tags);
                    return status.code;
                }
            }
        }
        self.end(Ok(()), tags);
        Code::Ok
    }

    fn fail(self, status: &Status, tags: Tags<'_>) {
        self.end(Err(status.clone()), tags);
    }
}

impl Drop for StreamReply {
    fn drop(&mut self) {
        let why = "the server stopped before the stream had ended";
        self.stream.end(Err(Status::new(Code::Unavailable, why)));
    }
}

/// One request's rows as tensors of their own.
pub fn whole(rows: &Rows<'_>) -> Vec<Tensor> {
    (0..rows.outputs.len()).map(|index| rows.slice(index).to_tensor()).collect()
}
