//! `ModelStreamInfer`: requests over one call, each answered before the next is read, with as many messages as its model
//! has for it. What goes wrong with one request is an answer among the others, or ends the call where its metadata asks for
//! that, as Triton has it.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::SendStream;
use http::request;
use tidegate_codec::open_inference::message::{self, ModelInfer};
use tidegate_codec::open_inference::stream_answer;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::batching::stream::Next;
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::request::{Dispatcher, Reply, RequestContext, Tags};
use tidegate_engine::telemetry::Observation;
use tidegate_engine::trace_context::trace_of;
use tokio::time::sleep_until;

use crate::aside::LARGE;
use crate::endpoints::body::held;
use crate::endpoints::grpc::conversation::{Conversation, Messages, send};
use crate::endpoints::grpc::reply::trailers_of;
use crate::endpoints::headers::ID_HEADER;
use crate::endpoints::open_inference::{Infer, choose_id, open_places};
use crate::endpoints::stream::{StreamAnswer, StreamReply};
use crate::security::gate::check_model;
use crate::state::PlaneState;

/// The metadata by which a client asks that an error ends the call with its status.
const ERRORS_END: &str = "triton_grpc_error";

/// One call.
struct InferStream<R> {
    dispatcher: Arc<Dispatcher<R>>,
    state: Arc<PlaneState>,
    head: Arc<request::Parts>,
    deadline: Option<Instant>,
    observation: Observation,
    /// How long a client that takes nothing is waited for.
    patience: Duration,
    errors_end: bool,
    sent: usize,
}

/// A request that is under way.
struct Asked {
    answer: StreamAnswer,
    model: String,
    id: String,
    empty_final: bool,
}

/// Answers every request of a call, until the client has none or leaves, its deadline passes, or the plane drains.
/// Returns the code that the client sees.
pub async fn converse<R: Reply + From<StreamReply>>(
    call: Conversation,
    dispatcher: Arc<Dispatcher<R>>,
    state: Arc<PlaneState>,
) -> Code {
    let Conversation { head, mut messages, deadline, reply, .. } = call;
    let (observation, patience) = (reply.observation.clone(), reply.patience());
    let Some((mut stream, _open)) = reply.begin(Tags::default()) else { return Code::Cancelled };
    messages.allow(state.engine.limits.max_message_bytes());
    let mut readiness = state.watch_readiness();
    let errors_end = head.headers.get(ERRORS_END).is_some_and(|value| value == "true");
    let head = Arc::new(head);
    let mut call = InferStream { dispatcher, state, head, deadline, observation, patience, errors_end, sent: 0 };
    let ending = loop {
        let message = tokio::select! {
            message = next(&mut messages, &mut stream) => message,
            () = over(deadline) => Err(Status::new(Code::DeadlineExceeded, "the deadline of the call passed")),
            _ = readiness.wait_for(|readiness| readiness.draining) => {
                Err(Status::new(Code::Unavailable, "the server is draining"))
            }
        };
        match message {
            Ok(Some(message)) => {
                if let Err(status) = call.answer(message, &mut stream).await {
                    break status;
                }
            }
            Ok(None) => break Status::new(Code::Ok, ""),
            Err(status) => break status,
        }
    };
    call.observation.answered(ending.code, call.sent);
    let _ = stream.send_trailers(trailers_of(&ending));
    ending.code
}

async fn over(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => pending().await,
    }
}

async fn next(messages: &mut Messages, stream: &mut SendStream<Bytes>) -> Result<Option<Bytes>, Status> {
    tokio::select! {
        message = messages.next() => message,
        _ = poll_fn(|context| stream.poll_reset(context)) => Err(gone()),
    }
}

fn gone() -> Status {
    Status::new(Code::Cancelled, "the client has gone")
}

impl<R: Reply + From<StreamReply>> InferStream<R> {
    /// Answers one request. The error ends the call.
    async fn answer(&mut self, message: Bytes, stream: &mut SendStream<Bytes>) -> Result<(), Status> {
        let asked = match self.ask(message).await {
            Ok(asked) => asked,
            Err(status) => return self.fail(status, "", stream).await,
        };
        // What answers once says in its only message that it is the last, as in Triton.
        let mut answered_once = false;
        loop {
            let next = tokio::select! {
                next = poll_fn(|context| asked.answer.stream.poll_next(context)) => next,
                _ = poll_fn(|context| stream.poll_reset(context)) => return Err(gone()),
            };
            let frame = match next {
                Next::Message(message) => {
                    let rows = message.rows();
                    let Some(infer) = asked.answer.head.infer.get() else {
                        return Err(Status::internal("an infer request without a form of its answer"));
                    };
                    let served = &message.served;
                    let encoded = message::encode(&served.model, served.version, infer, |index| rows.named(index));
                    let frame = match encoded {
                        Ok(frame) => frame,
                        Err(status) => return self.fail(status, &asked.id, stream).await,
                    };
                    answered_once = !served.signature.streaming;
                    held(stream_answer::message(&frame, answered_once), &served.memory)
                }
                Next::End(Err(status)) => return self.fail(status, &asked.id, stream).await,
                Next::End(Ok(())) if asked.empty_final && !answered_once => {
                    let version = asked.answer.head.version.get().and_then(|version| version.to_str().ok());
                    let last = stream_answer::empty_final(&asked.model, version.unwrap_or_default(), &asked.id);
                    return self.send(last, stream).await;
                }
                Next::End(Ok(())) => return Ok(()),
            };
            self.send(frame, stream).await?;
        }
    }

    /// Says why a request of this id has no answer, or no more of them.
    async fn fail(&mut self, status: Status, id: &str, stream: &mut SendStream<Bytes>) -> Result<(), Status> {
        if self.errors_end {
            return Err(status);
        }
        self.send(stream_answer::error(&status.message, id), stream).await
    }

    async fn send(&mut self, frame: Bytes, stream: &mut SendStream<Bytes>) -> Result<(), Status> {
        self.sent += frame.len();
        match send(stream, frame, self.patience).await {
            true => Ok(()),
            false => Err(Status::new(Code::Cancelled, "the client takes nothing")),
        }
    }

    /// Reads a request and has it run; one that is large, or may be so in shared memory, is read aside.
    async fn ask(&self, message: Bytes) -> Result<Asked, Status> {
        let received = Instant::now();
        self.observation.note(|facts| {
            facts.received.get_or_insert(received);
            facts.bytes_in += message.len();
        });
        let wait = self.state.engine.limits.request_timeout();
        let deadline = self.deadline.unwrap_or(received + wait);
        let patience = self.deadline.is_none().then_some(wait);
        let (reply, answer) = StreamReply::open(Endpoint::Grpc, patience, true, &self.observation);
        let (dispatcher, state, head) = (self.dispatcher.clone(), self.state.clone(), self.head.clone());
        let bytes = message.len();
        let work = move || {
            let mut infer = message::parse(&message)?;
            check_model(&head, infer.name)?;
            open_places(&state, &mut infer.request)?;
            let ModelInfer { name, choice, ref request } = infer;
            let id = choose_id(head.headers.get(ID_HEADER), Some(request.id.as_ref()), &state.engine.ids);
            let trace = trace_of(&head.headers);
            let deadline = request.deadline(received, deadline);
            let context = RequestContext { reply, id, trace, received, deadline, bytes };
            dispatcher.dispatch(context, &request.spec(name, choice), &head.headers, &Infer::new(request));
            Ok((name.to_owned(), request.id.to_string(), request.empty_final))
        };
        let asked = match bytes > LARGE || !self.state.shared_memory.is_empty() {
            true => self.state.aside.run(bytes, deadline, work).await.and_then(|asked| asked),
            false => work(),
        };
        let (model, id, empty_final) = asked.inspect_err(|status| {
            self.state.engine.metrics.unrouted.count(Endpoint::Grpc, status.code);
        })?;
        Ok(Asked { answer, model, id, empty_final })
    }
}
