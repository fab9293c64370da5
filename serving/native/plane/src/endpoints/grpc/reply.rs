//! The answer to one gRPC call: headers, one message and trailers, or trailers alone.

use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Response, request};
use tidegate_codec::status::{Code, Status};
use tidegate_engine::memory::Share;
use tidegate_engine::request::Tags;
use tidegate_engine::telemetry::Observation;
use tokio::time::timeout;

use crate::connections::lifeline::{Lifeline, OpenCall};
use crate::endpoints::body::UNCOUNTED;
use crate::endpoints::headers::{TRACEPARENT, write_tags};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
const ENCODINGS: HeaderValue = HeaderValue::from_static("identity, deflate, gzip");
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
/// Bytes of a frame before its message.
pub const FRAME_HEAD: usize = 5;
/// Longest message in trailers; TensorFlow Serving cuts there as well.
const MAX_MESSAGE: usize = 1024;

/// One call's way back.
#[derive(Debug)]
pub struct GrpcReply {
    respond: SendResponse<Bytes>,
    /// None once it is handed on.
    open: Option<OpenCall>,
    patience: Duration,
    /// What is noted of the call.
    pub observation: Observation,
}

impl GrpcReply {
    /// The way back of a call that counts as open until it is answered; a client that takes nothing of its answer is
    /// waited for with this patience.
    pub fn new(
        respond: SendResponse<Bytes>,
        open: OpenCall,
        patience: Duration,
        observation: Observation,
    ) -> GrpcReply {
        GrpcReply { respond, open: Some(open), patience, observation }
    }

    /// Whether the client has reset the stream or gone.
    pub fn is_gone(&mut self) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        self.respond.poll_reset(&mut context).is_ready()
    }

    /// A number of the connection.
    pub fn connection(&self) -> usize {
        self.open.as_ref().map_or(0, OpenCall::connection)
    }

    /// Its connection, until the call is handed on.
    pub fn lifeline(&self) -> Option<&Arc<Lifeline>> {
        self.open.as_ref().map(OpenCall::lifeline)
    }

    /// Counts what the call takes, because it stays.
    pub fn hold(&mut self, head: &request::Parts, share: &Arc<Share>) -> Result<(), Status> {
        self.open.as_mut().map_or(Ok(()), |open| open.hold(head, share))
    }

    /// Notes whether the answer is due.
    pub fn note_due(&mut self, is_due: bool) {
        if let Some(open) = &mut self.open {
            open.note_due(is_due);
        }
    }

    /// Counts the answer to a call that is counted itself, until the client has taken it; not where it is small.
    pub fn keep(&self, answer: Bytes) -> Result<Bytes, Status> {
        match &self.open {
            Some(open) => keep(open, answer),
            None => Ok(answer),
        }
    }

    /// The call stays no longer than any other.
    pub fn release(&mut self) {
        if let Some(open) = &mut self.open {
            open.release();
        }
    }

    /// How long a client that takes nothing of its answer is waited for.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Waits until the client has reset the stream or gone.
    pub async fn gone(&mut self) {
        let _ = poll_fn(|context| self.respond.poll_reset(context)).await;
    }

    /// Sends headers only, for a stream of messages, during which the call is open. None where the client has gone. Whoever
    /// ends the stream notes with which code.
    pub fn begin(mut self, tags: Tags<'_>) -> Option<(SendStream<Bytes>, OpenCall)> {
        let mut response = Response::new(());
        response.headers_mut().insert(CONTENT_TYPE, GRPC);
        self.tag(tags, response.headers_mut());
        let stream = self.respond.send_response(response, false).ok()?;
        Some((stream, self.open.take()?))
    }

    /// Sends the headers of an answer that was given elsewhere; without anything else where it is over with them, as one
    /// that failed is. Else what comes is sent through the stream, during which the call is open. None where the client has
    /// gone. Whoever ends it notes with which code.
    pub fn pass(mut self, headers: HeaderMap, over: bool) -> Option<(SendStream<Bytes>, OpenCall)> {
        let mut response = Response::new(());
        *response.headers_mut() = headers;
        self.tag(Tags::default(), response.headers_mut());
        let stream = self.respond.send_response(response, over).ok()?;
        Some((stream, self.open.take()?))
    }

    /// Sends a framed message and status OK. A client that has gone is not an error.
    pub fn succeed(mut self, frame: Bytes, tags: Tags<'_>) {
        let mut response = Response::new(());
        response.headers_mut().insert(CONTENT_TYPE, GRPC);
        self.tag(tags, response.headers_mut());
        let Ok(mut stream) = self.respond.send_response(response, false) else {
            return;
        };
        self.observation.answered(Code::Ok, frame.len().saturating_sub(FRAME_HEAD));
        stream.reserve_capacity(frame.len());
        if stream.capacity() >= frame.len() {
            finish(stream, frame);
        } else {
            tokio::spawn(send_slowly(stream, frame, self.open.take(), self.patience));
        }
    }

    /// Sends a status other than OK.
    pub fn fail(mut self, status: &Status, tags: Tags<'_>) {
        self.send(status, tags);
    }

    fn send(&mut self, status: &Status, tags: Tags<'_>) {
        let mut response = Response::new(());
        let headers = response.headers_mut();
        *headers = trailers_alone(status, tags.version);
        self.tag(Tags { version: None, ..tags }, headers);
        self.observation.answered(status.code, 0);
        let _ = self.respond.send_response(response, true);
    }

    /// Adds what every answer carries, and where the call stands in a trace.
    fn tag(&self, tags: Tags<'_>, headers: &mut HeaderMap) {
        write_tags(tags, headers);
        if let Some(parent) = self.observation.traceparent() {
            headers.insert(TRACEPARENT, parent.clone());
            self.observation.note(|facts| facts.id = facts.id.take().or_else(|| tags.id.cloned()));
        }
    }

    /// Refuses something that is not gRPC at all.
    pub fn refuse_http(mut self, code: http::StatusCode) {
        self.observation.note(|facts| facts.http_status = Some(code.as_u16()));
        let mut response = Response::new(());
        *response.status_mut() = code;
        let _ = self.respond.send_response(response, true);
    }
}

/// Counts an answer of an open call, where it is not small.
pub fn keep(open: &OpenCall, answer: Bytes) -> Result<Bytes, Status> {
    if answer.len() > UNCOUNTED { open.keep_answer(answer) } else { Ok(answer) }
}

impl Drop for GrpcReply {
    /// A fault in the server is no reason for silence.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.send(&Status::internal("the request met a fault of the server"), Tags::default());
        }
    }
}

/// Sends the last of a message, and status OK.
fn finish(mut stream: SendStream<Bytes>, frame: Bytes) {
    let mut trailers = HeaderMap::with_capacity(2);
    trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
    if stream.send_data(frame, false).is_ok() {
        let _ = stream.send_trailers(trailers);
    }
}

/// Sends a message as fast as the client takes it, until it takes nothing for too long.
async fn send_slowly(mut stream: SendStream<Bytes>, mut frame: Bytes, open: Option<OpenCall>, patience: Duration) {
    loop {
        let room = stream.capacity();
        if room >= frame.len() {
            finish(stream, frame);
            break;
        }
        if room > 0 && stream.send_data(frame.split_to(room), false).is_err() {
            break;
        }
        stream.reserve_capacity(frame.len());
        if !matches!(timeout(patience, poll_fn(|context| stream.poll_capacity(context))).await, Ok(Some(Ok(_)))) {
            stream.send_reset(Reason::CANCEL);
            break;
        }
    }
    drop(open);
}

/// A status as it stands in trailers.
pub fn trailers_of(status: &Status) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(GRPC_STATUS, HeaderValue::from(status.code as u16));
    if let Some(message) = encoded(&status.message) {
        headers.insert(GRPC_MESSAGE, message);
    }
    if status.code == Code::Unimplemented {
        // A client whose compression was refused has to hear which is not.
        headers.insert(GRPC_ACCEPT_ENCODING, ENCODINGS);
    }
    headers
}

thread_local! {
    /// The last answer without a message, with the version and the text that it is of: where many requests fail together,
    /// they do so alike, and to put together the headers of each would take a good part of the time of its answer.
    static LAST: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

struct Failure {
    code: Code,
    message: String,
    version: Option<HeaderValue>,
    headers: HeaderMap,
}

/// The headers of an answer that has no message, but for the request's own.
fn trailers_alone(status: &Status, version: Option<&HeaderValue>) -> HeaderMap {
    LAST.with_borrow_mut(|last| {
        let same = |last: &&mut Failure| {
            last.code == status.code && last.version.as_ref() == version && last.message == status.message
        };
        if let Some(last) = last.as_mut().filter(same) {
            return last.headers.clone();
        }
        let mut headers = trailers_of(status);
        headers.insert(CONTENT_TYPE, GRPC);
        write_tags(Tags { version, id: None }, &mut headers);
        headers.reserve(1);
        let failure = Failure {
            code: status.code,
            message: status.message.clone(),
            version: version.cloned(),
            headers: headers.clone(),
        };
        *last = Some(failure);
        headers
    })
}

fn encoded(message: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&percent_encode(&cut(message))).ok()
}

fn cut(message: &str) -> std::borrow::Cow<'_, str> {
    if message.len() <= MAX_MESSAGE {
        return message.into();
    }
    let mut end = MAX_MESSAGE;
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...TRUNCATED", &message[..end]).into()
}

/// gRPC's encoding of `grpc-message`: visible ASCII except `%` stays.
fn percent_encode(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    for byte in message.bytes() {
        if (0x20..0x7f).contains(&byte) && byte != b'%' {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_requests_fail_with_is_encoded_once() {
        let (full, version) = (Status::exhausted("100 % full"), HeaderValue::from_static("7"));
        let headers = trailers_alone(&full, Some(&version));
        assert_eq!(
            (&headers["grpc-message"], &headers["x-tidegate-version"]),
            (&"100 %25 full".parse().unwrap(), &version)
        );
        let again = trailers_alone(&full, Some(&version));
        let text = |headers: &HeaderMap| headers["grpc-message"].as_bytes().as_ptr();
        assert_eq!((&again, text(&again)), (&headers, text(&headers)), "it was encoded again");
        assert!(!trailers_alone(&full, None).contains_key("x-tidegate-version"));
        assert_eq!(trailers_alone(&Status::invalid("100 % full"), None)["grpc-status"], "3");
        assert_eq!(trailers_alone(&Status::exhausted("another"), None)["grpc-message"], "another");
    }
}
