//! A streaming answer as server-sent events: one `data` event for each message in the form of a whole answer, then one of
//! type `end`, or of type `error` with the body that an error has elsewhere.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response};
use tidegate_codec::json::predict_request::Form;
use tidegate_codec::json::predict_response;
use tidegate_codec::json::text::error_body;
use tidegate_codec::open_inference::{generate, json_answer};
use tidegate_codec::status::Status;
use tidegate_engine::batching::stream::{Message, Next};
use tidegate_engine::request::Tags;
use tidegate_engine::request_id::RequestId;
use tidegate_engine::telemetry::Observation;
use tokio::time::{Sleep, sleep_until};

use crate::connections::lifeline::OpenCall;
use crate::endpoints::body::held;
use crate::endpoints::headers::write_tags;
use crate::endpoints::stream::StreamAnswer;

const EVENTS: &str = "text/event-stream";

/// What readers skip, and what keeps those on the way from taking the connection for a dead one.
const COMMENT: &[u8] = b": keep-alive\n\n";

/// Whether a request asks for events.
pub fn wanted(headers: &HeaderMap) -> bool {
    let kinds = headers.get_all(ACCEPT).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let kind = |kind: &[u8]| kind.split(|byte| *byte == b';').next().unwrap_or_default().to_vec();
    kinds.map(kind).any(|kind| kind.trim_ascii().eq_ignore_ascii_case(EVENTS.as_bytes()))
}

/// The form of each message.
#[derive(Clone, Copy, Debug)]
pub enum EventForm {
    /// As a predict request is answered.
    Predict(Form),
    /// As a plain object.
    Plain,
    /// As an infer request is answered, all in JSON.
    Infer,
    /// As a generate request is answered; the end says nothing, as from Triton.
    Generate,
}

/// An answer whose first message is waited for. Whoever drops it has the model stop.
#[derive(Debug)]
pub struct EventAnswer {
    /// The messages.
    pub answer: StreamAnswer,
    /// Their form.
    pub form: EventForm,
    /// The request's id.
    pub id: RequestId,
    /// What is noted of it.
    pub observation: Observation,
    /// Without a message for so long a comment is sent.
    pub keepalive: Duration,
}

impl EventAnswer {
    /// The answer, once it is known whether there is one, else why not: an error before the first message is answered as
    /// any other.
    pub async fn begin(self) -> Result<Response<Box<Events>>, NoMessages> {
        let EventAnswer { answer, form, id, observation, keepalive } = self;
        let first = poll_fn(|context| answer.stream.poll_next(context)).await;
        let version = match &first {
            Next::Message(message) => Some(message.served.version_header.clone()),
            Next::End(_) => answer.head.version.get().cloned(),
        };
        if let Next::End(Err(status)) = first {
            return Err(NoMessages { status, version, id });
        }
        let events = Events {
            answer,
            form,
            observation,
            first: Some(first),
            sent: 0,
            bytes: 0,
            over: false,
            keepalive,
            quiet: Box::pin(sleep_until((Instant::now() + keepalive).into())),
            open: None,
        };
        let mut response = Response::new(Box::new(events));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENTS));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        // Or nginx keeps all events until the last one.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        write_tags(Tags { version: version.as_ref(), id: Some(&id) }, headers);
        Ok(response)
    }
}

/// Why a request is not answered with messages.
#[derive(Debug)]
pub struct NoMessages {
    /// What went wrong.
    pub status: Status,
    /// The version that was asked, once one was found.
    pub version: Option<HeaderValue>,
    /// The request's id.
    pub id: RequestId,
}

impl NoMessages {
    /// What goes with the error.
    pub fn tags(&self) -> Tags<'_> {
        Tags { version: self.version.as_ref(), id: Some(&self.id) }
    }
}

/// The events. A client that reads slowly has them made slowly.
#[derive(Debug)]
pub struct Events {
    answer: StreamAnswer,
    form: EventForm,
    observation: Observation,
    first: Option<Next>,
    sent: u64,
    bytes: usize,
    over: bool,
    keepalive: Duration,
    /// Until a comment is sent.
    quiet: Pin<Box<Sleep>>,
    /// The connection is in use for as long as they come.
    pub open: Option<OpenCall>,
}

impl Events {
    fn event(&mut self, next: &Next) -> Bytes {
        let body = match next {
            Next::Message(message) => self.encode(message),
            Next::End(end) => {
                self.over = true;
                end.clone().map(|()| format!("{{\"messages\":{}}}", self.sent).into_bytes())
            }
        };
        let (kind, body) = match body {
            Ok(body) => (if self.over { "event: end\ndata: " } else { "data: " }, body),
            Err(status) => {
                self.over = true;
                ("event: error\ndata: ", error_body(&status.message))
            }
        };
        self.sent += 1;
        let event = [kind.as_bytes(), &body, b"\n\n"].concat();
        self.bytes += event.len();
        match next {
            Next::Message(message) => held(event.into(), &message.served.memory),
            Next::End(_) => event.into(),
        }
    }

    /// In one line: JSON has no line breaks but those that are escaped.
    fn encode(&self, message: &Message) -> Result<Vec<u8>, Status> {
        let rows = message.rows();
        let infer = self.answer.head.infer.get();
        match (self.form, infer) {
            (EventForm::Infer, Some(infer)) => {
                let (model, version) = (&message.served.model, message.served.version);
                Ok(json_answer::encode(model, version, infer, |index| rows.named(index))?.bytes)
            }
            (EventForm::Infer, None) => Err(Status::internal("an infer request without a form of its answer")),
            (EventForm::Generate, _) => {
                let (model, version) = (&message.served.model, message.served.version);
                Ok(generate::encode(model, version, &rows.all_named().collect::<Vec<_>>()))
            }
            (EventForm::Plain, _) => predict_response::encode_plain(&rows.all_named().collect::<Vec<_>>()),
            (EventForm::Predict(form), _) => predict_response::encode(&rows.all_named().collect::<Vec<_>>(), form),
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.observation.note(|facts| facts.bytes_out = self.bytes);
    }
}

impl Events {
    /// What is sent next.
    pub(crate) fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.over {
            return Poll::Ready(None);
        }
        let next = match self.first.take() {
            Some(first) => Poll::Ready(first),
            None => self.answer.stream.poll_next(context),
        };
        let event = match next {
            Poll::Ready(Next::End(Ok(()))) if matches!(self.form, EventForm::Generate) => {
                self.over = true;
                return Poll::Ready(None);
            }
            Poll::Ready(next) => self.event(&next),
            Poll::Pending if self.quiet.as_mut().poll(context).is_ready() => {
                self.bytes += COMMENT.len();
                Bytes::from_static(COMMENT)
            }
            Poll::Pending => return Poll::Pending,
        };
        let until = Instant::now() + self.keepalive;
        self.quiet.as_mut().reset(until.into());
        Poll::Ready(Some(event))
    }

    /// Whether all was sent.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }
}
