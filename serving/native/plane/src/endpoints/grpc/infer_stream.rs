//! `ModelStreamInfer`: requests over one call, several of them under way, each with as many messages as its model has for it.
//! What answers once is answered in the order of the requests; the messages of streaming signatures go out as they come.
//! What goes wrong with one request is an answer among the others, or ends the call where its metadata asks for that, as
//! Triton has it.

use std::collections::VecDeque;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::SendStream;
use http::request;
use tidegate_codec::open_inference::message::{self, ModelInfer};
use tidegate_codec::open_inference::stream_answer;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::batching::stream::{Message, Next};
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::request::{Dispatcher, Reply, RequestContext, Tags};
use tidegate_engine::telemetry::Observation;
use tidegate_engine::trace_context::trace_of;
use tokio::time::sleep_until;

use crate::aside::LARGE;
use crate::connections::lifeline::OpenCall;
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

/// Requests of one call that are under way at a time; the client's next one is read after that.
const MOST: usize = 32;

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
    open: OpenCall,
}

/// A request that is under way.
struct Asked {
    /// Its answer, or why it has none.
    answer: Result<StreamAnswer, Status>,
    model: String,
    id: String,
    empty_final: bool,
    /// Whether its messages go out as they come.
    streams: bool,
    /// Whether its only message has gone out.
    answered_once: bool,
    /// What came of it before it was its turn.
    held: VecDeque<Next>,
}

/// What happens next in a call.
enum Event {
    Request(Result<Option<Bytes>, Status>),
    /// Something of the answer to a request.
    Answer(usize, Next),
    /// No more requests are read.
    Over(Status),
    /// Nor are they where the plane drains; a call between two of them has its answers.
    Draining,
    Gone,
}

/// Answers every request of a call, until the client has none or leaves, its deadline passes, or the plane drains. Each
/// request is counted, and an end that is none of theirs: a message that cannot be had, or the deadline.
pub async fn converse<R: Reply + From<StreamReply>>(
    call: Conversation,
    dispatcher: Arc<Dispatcher<R>>,
    state: Arc<PlaneState>,
) {
    let Conversation { head, messages, deadline, reply, .. } = call;
    let (observation, patience) = (reply.observation.clone(), reply.patience());
    let Some((mut stream, open)) = reply.begin(Tags::default()) else {
        state.engine.metrics.unrouted.count(Endpoint::Grpc, Code::Cancelled);
        return;
    };
    let errors_end = head.headers.get(ERRORS_END).is_some_and(|value| value == "true");
    let head = Arc::new(head);
    let mut call = InferStream { dispatcher, state, head, deadline, observation, patience, errors_end, sent: 0, open };
    let ending = call.run(messages, &mut stream).await;
    call.observation.answered(ending.code, call.sent);
    let _ = stream.send_trailers(trailers_of(&ending));
}

async fn over(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => pending().await,
    }
}

fn gone() -> Status {
    Status::new(Code::Cancelled, "the client has gone")
}

/// What comes next of the answers: of the first one whatever it is, of later ones only what a streaming signature sends.
fn poll_answers(under_way: &mut VecDeque<Asked>, context: &mut Context<'_>) -> Poll<(usize, Next)> {
    for (index, asked) in under_way.iter_mut().enumerate() {
        if index == 0
            && let Some(next) = asked.held.pop_front()
        {
            return Poll::Ready((index, next));
        }
        if !asked.held.is_empty() {
            continue;
        }
        let next = match &asked.answer {
            Ok(answer) => answer.stream.poll_next(context),
            Err(status) => Poll::Ready(Next::End(Err(status.clone()))),
        };
        let Poll::Ready(next) = next else { continue };
        if let Next::Message(message) = &next {
            asked.streams = message.served.signature.streaming;
        }
        if index == 0 || asked.streams {
            return Poll::Ready((index, next));
        }
        asked.held.push_back(next);
    }
    Poll::Pending
}

impl<R: Reply + From<StreamReply>> InferStream<R> {
    /// Answers all requests; returns how the call ends.
    async fn run(&mut self, mut messages: Messages, stream: &mut SendStream<Bytes>) -> Status {
        messages.allow(self.state.engine.limits.max_message_bytes());
        let (mut readiness, coming) = (self.state.watch_readiness(), messages.coming());
        let mut under_way = VecDeque::new();
        loop {
            let next = messages.next();
            tokio::pin!(next);
            let ending = loop {
                let (idle, full) = (under_way.is_empty(), under_way.len() == MOST);
                let event = tokio::select! {
                    request = &mut next, if !full => Event::Request(request),
                    (index, next) = poll_fn(|context| poll_answers(&mut under_way, context)), if !idle => {
                        Event::Answer(index, next)
                    }
                    () = over(self.deadline), if idle => {
                        Event::Over(Status::new(Code::DeadlineExceeded, "the deadline of the call passed"))
                    }
                    _ = readiness.wait_for(|readiness| readiness.draining) => {
                        Event::Draining
                    }
                    _ = poll_fn(|context| stream.poll_reset(context)) => Event::Gone,
                };
                match event {
                    Event::Request(Ok(Some(request))) => {
                        self.open.note_due(true);
                        under_way.push_back(self.ask(request).await);
                        break None;
                    }
                    Event::Request(Ok(None)) => break Some(Status::new(Code::Ok, "")),
                    Event::Request(Err(status)) | Event::Over(status) => {
                        // Whoever goes between two messages has its answers.
                        if status.code != Code::Cancelled || coming.is_any() {
                            self.count(status.code);
                        }
                        break Some(status);
                    }
                    Event::Answer(index, next) => {
                        if let Err(status) = self.answer(&mut under_way, index, next, stream).await {
                            return status;
                        }
                    }
                    Event::Draining => {
                        if coming.is_any() {
                            self.count(Code::Unavailable);
                        }
                        break Some(Status::new(Code::Unavailable, "the server is draining"));
                    }
                    Event::Gone => {
                        if coming.is_any() {
                            self.count(Code::Cancelled);
                        }
                        return gone();
                    }
                }
            };
            let Some(ending) = ending else { continue };
            return self.finish(under_way, stream).await.err().unwrap_or(ending);
        }
    }

    /// Answers what is under way when no more requests come.
    async fn finish(&mut self, mut under_way: VecDeque<Asked>, stream: &mut SendStream<Bytes>) -> Result<(), Status> {
        while !under_way.is_empty() {
            let (index, next) = tokio::select! {
                next = poll_fn(|context| poll_answers(&mut under_way, context)) => next,
                _ = poll_fn(|context| stream.poll_reset(context)) => return Err(gone()),
            };
            self.answer(&mut under_way, index, next, stream).await?;
        }
        Ok(())
    }

    /// Sends what came of a request's answer. The error ends the call.
    async fn answer(
        &mut self,
        under_way: &mut VecDeque<Asked>,
        index: usize,
        next: Next,
        stream: &mut SendStream<Bytes>,
    ) -> Result<(), Status> {
        let asked = &mut under_way[index];
        let end = match next {
            Next::Message(message) => match asked.encode(&message) {
                Ok(frame) => return self.send(frame, stream).await,
                Err(status) => Err(status),
            },
            Next::End(end) => end,
        };
        let Some(asked) = under_way.remove(index) else { return Ok(()) };
        let sent = match end {
            Err(status) => self.fail(status, &asked.id, stream).await,
            Ok(()) => match asked.last() {
                Some(last) => self.send(last, stream).await,
                None => Ok(()),
            },
        };
        self.open.note_due(!under_way.is_empty());
        sent
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
    async fn ask(&self, message: Bytes) -> Asked {
        let received = Instant::now();
        self.observation.note(|facts| {
            facts.received.get_or_insert(received);
            facts.bytes_in += message.len();
        });
        let limit = self.state.engine.limits.request_timeout();
        let deadline = self.deadline.unwrap_or(received + limit);
        let patience = self.deadline.is_none().then_some(limit);
        let (dispatcher, state, head) = (self.dispatcher.clone(), self.state.clone(), self.head.clone());
        let (observation, lifeline) = (self.observation.clone(), self.open.lifeline().clone());
        let bytes = message.len();
        let work = move || {
            let mut infer = match message::parse(&message) {
                Ok(infer) => infer,
                Err(status) => return Asked::refused(status),
            };
            let (model, own) = (infer.name.to_owned(), infer.request.id.to_string());
            let empty_final = infer.request.empty_final;
            let checked = check_model(&head, infer.name).and_then(|()| open_places(&state, &mut infer.request));
            let answer = checked.map(|()| {
                let ModelInfer { name, choice, ref request } = infer;
                let patience = request.patience(patience);
                let (reply, answer) = StreamReply::open(Endpoint::Grpc, patience, true, &observation);
                let reply = reply.over(&lifeline);
                let id = choose_id(head.headers.get(ID_HEADER), Some(request.id.as_ref()), &state.engine.ids);
                let trace = trace_of(&head.headers);
                let deadline = request.deadline(received, deadline);
                let context = RequestContext { reply, id, trace, received, deadline, bytes };
                dispatcher.dispatch(context, &request.spec(name, choice), &head.headers, &Infer::new(request));
                answer
            });
            Asked { model, id: own, empty_final, ..Asked::new(answer) }
        };
        let asked = match bytes > LARGE || !self.state.shared_memory.is_empty() {
            true => self.state.aside.run(bytes, deadline, work).await.unwrap_or_else(Asked::refused),
            false => work(),
        };
        if let Err(status) = &asked.answer {
            self.count(status.code);
        }
        asked
    }

    /// Counts what no model counts.
    fn count(&self, code: Code) {
        self.state.engine.metrics.unrouted.count(Endpoint::Grpc, code);
    }
}

impl Asked {
    /// Nothing is known yet of the request but what comes of it.
    fn new(answer: Result<StreamAnswer, Status>) -> Asked {
        let (model, id, held) = (String::new(), String::new(), VecDeque::new());
        Asked { answer, model, id, empty_final: false, streams: false, answered_once: false, held }
    }

    /// A request of which not even its id could be read.
    fn refused(status: Status) -> Asked {
        Asked::new(Err(status))
    }

    /// A message as it is sent. What answers once says in it that it is the last, as in Triton.
    fn encode(&mut self, message: &Message) -> Result<Bytes, Status> {
        let infer = self.answer.as_ref().ok().and_then(|answer| answer.head.infer.get());
        let infer = infer.ok_or_else(|| Status::internal("an infer request without a form of its answer"))?;
        let (rows, served) = (message.rows(), &message.served);
        let frame = message::encode(&served.model, served.version, infer, |index| rows.named(index))?;
        self.answered_once = !served.signature.streaming;
        Ok(held(stream_answer::message(&frame, self.answered_once), &served.memory))
    }

    /// The message that says that no more come, where the client wants it and has not been told.
    fn last(&self) -> Option<Bytes> {
        if !self.empty_final || self.answered_once {
            return None;
        }
        let version = self.answer.as_ref().ok().and_then(|answer| answer.head.version.get());
        let version = version.and_then(|version| version.to_str().ok()).unwrap_or_default();
        Some(stream_answer::empty_final(&self.model, version, &self.id))
    }
}
