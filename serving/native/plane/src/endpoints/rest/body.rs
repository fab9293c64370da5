//! A request's body: read until it is whole, unpacked, and handed with the request to the service, by the I/O thread if
//! it is small and aside if not.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::CONTENT_ENCODING;
use http::{StatusCode, request};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tidegate_codec::json::text::error_body;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::limits::Limits;
use tidegate_engine::memory::{Reservation, Share};
use tidegate_engine::request::Tags;
use tidegate_engine::telemetry::Observation;

use crate::aside::LARGE;
use crate::connections::lifeline::Lifeline;
use crate::connections::peer::Peer;
use crate::endpoints::body::{Arriving, LESS, counted};
use crate::endpoints::compression::{inflate, soon, too_large as too_large_inflated};
use crate::endpoints::rest::service::{BodyUse, RestAnswer, RestCall, RestResponse, RestService, failure, with_body};

/// Whoever has closed its side looks like one that has gone, once its body takes so long to unpack.
const GONE: Duration = Duration::from_secs(1);

/// A body, and the memory that it takes.
pub type CountedBody = (Bytes, Option<Reservation>);

/// Why there is no body.
pub enum NoBody {
    /// It has more bytes than the limit.
    TooLarge {
        /// How many.
        size: String,
        /// Whether so much of it is to come that the connection ends.
        ends: bool,
    },
    /// Anything else.
    Refused(Status),
}

impl From<Status> for NoBody {
    fn from(why: Status) -> NoBody {
        NoBody::Refused(why)
    }
}

/// Most bytes that a body may have.
#[derive(Clone, Copy)]
pub struct BodyLimit {
    bytes: usize,
    /// What a client can do that sends more.
    cure: &'static str,
}

impl BodyLimit {
    /// The limit of all bodies, or what one may have that nobody looks at.
    pub fn new(limits: &Limits, used: BodyUse) -> BodyLimit {
        match limits.max_message_bytes() {
            all if all <= LARGE || used == BodyUse::Read => BodyLimit { bytes: all, cure: LESS },
            _ => BodyLimit { bytes: LARGE, cure: "what is asked for has no use for a body, so send none" },
        }
    }

    /// The answer to whoever sends more.
    pub fn passed(self, size: &str) -> RestResponse {
        let BodyLimit { bytes, cure } = self;
        let message = format!("the request's body of {size} bytes is larger than the limit of {bytes} bytes: {cure}");
        with_body(StatusCode::PAYLOAD_TOO_LARGE, error_body(&message), Tags::default())
    }
}

/// A request whose body is there, as it was sent.
pub struct WholeRequest {
    /// Method, path and headers.
    pub head: request::Parts,
    /// The body.
    pub sent: CountedBody,
    /// Whether that is none of it, and the rest of it is not read.
    pub is_unread: bool,
    /// When its last byte had come.
    pub received: Instant,
    /// When its answer is worth nothing any more.
    pub deadline: Instant,
    /// The connection that it came on.
    pub lifeline: Arc<Lifeline>,
    /// What is noted of it.
    pub observation: Observation,
}

impl WholeRequest {
    /// Unpacks the body, where it is looked at, and has the service answer, at once or when there is a thread for it.
    pub async fn hand_over<S: RestService>(mut self, service: &Arc<S>, peer: &Peer, share: &Arc<Share>) -> RestAnswer {
        if self.encoding().is_some()
            && service.use_of_body(&self.head.method, self.head.uri.path(), &self.head.headers) != BodyUse::Read
        {
            // Few bytes may unpack to very many, at which nobody looks.
            return self.call(CountedBody::default(), &**service);
        }
        let limit = peer.limits.max_message_bytes();
        let here = match service.reads_more(self.head.uri.path()) {
            true => Ok(None),
            false => self.plain(limit.min(LARGE), &mut soon(), share),
        };
        let refused = match here {
            Ok(Some(plain)) => return self.call(plain, &**service),
            here => here.err(),
        };
        let unread = Awaited(Unread::new(service, &self.observation));
        if let Some(why) = refused {
            return unread.0.refuse(&why);
        }
        // What comes out of compressed bytes may be as large as the limit.
        let bytes = if self.encoding().is_some() { limit } else { self.sent.0.len() };
        let (own, share, deadline) = (unread.0.clone(), share.clone(), self.deadline);
        let (lifeline, received) = (self.lifeline.clone(), self.received);
        let work = move |is_unwanted: &mut dyn FnMut() -> bool| {
            let mut has_gone = || is_unwanted() || lifeline.is_half_closed() && received.elapsed() >= GONE;
            match self.plain(limit, &mut has_gone, &share) {
                Ok(Some(plain)) if own.end() => self.call(plain, &*own.service),
                Ok(None) if !has_gone() => {
                    let too_large = too_large_inflated(limit);
                    own.count(too_large.code);
                    RestAnswer::Ready(with_status(StatusCode::PAYLOAD_TOO_LARGE, &too_large))
                }
                Ok(_) => own.refuse(&self.given_up()),
                Err(why) => own.refuse(&why),
            }
        };
        let answer = peer.aside.run_while_awaited(bytes, deadline, work).await;
        answer.unwrap_or_else(|status| unread.0.refuse(&status))
    }

    /// What a client reads that has only closed its side.
    fn given_up(&self) -> Status {
        let (path, bytes) = (self.head.uri.path(), self.sent.0.len());
        Status::new(
            Code::Cancelled,
            format!(
                "the packed body of {bytes} bytes for {path} was not unpacked yet when its client closed its side of the \
                 connection, which counts as having gone: keep it open until the answer comes"
            ),
        )
    }

    /// How the body is compressed, if it is.
    fn encoding(&self) -> Option<&str> {
        let encoding = self.head.headers.get(CONTENT_ENCODING)?.to_str().unwrap_or("?");
        Some(encoding).filter(|encoding| *encoding != "identity")
    }

    /// The body as its sender meant it, taken out of the request; none where it is larger than `most`, or not there
    /// before somebody `gives_up`.
    fn plain(
        &mut self,
        most: usize,
        gives_up: &mut dyn FnMut() -> bool,
        share: &Arc<Share>,
    ) -> Result<Option<CountedBody>, Status> {
        if self.sent.0.len() > most {
            return Ok(None);
        }
        let Some(encoding) = self.encoding() else {
            return Ok(Some(std::mem::take(&mut self.sent)));
        };
        let mut inflated = share.reservation();
        let plain = inflate(encoding, &self.sent.0, most, gives_up, &mut inflated)?;
        Ok(plain.map(|plain| (plain, Some(inflated))))
    }

    fn call<S: RestService>(self, (body, memory): CountedBody, service: &S) -> RestAnswer {
        let WholeRequest { head, sent, received, deadline, lifeline, observation, .. } = self;
        // Where it came packed, nobody needs that any more.
        drop(sent);
        let (body, mut memory) = match memory {
            Some(memory) if service.keeps(head.uri.path()) => (counted(body, memory), None),
            memory => (body, memory),
        };
        // Once that returns the body is decoded, or else its memory taken over.
        service.call(RestCall { head, body, received, deadline, lifeline, observation }, &mut memory)
    }
}

/// A request whose body is on its way. It is counted once if it never comes.
pub struct Coming<'s, S: RestService> {
    service: &'s S,
    is_over: bool,
}

impl<'s, S: RestService> Coming<'s, S> {
    /// One of which the head has come.
    pub fn new(service: &'s S) -> Coming<'s, S> {
        Coming { service, is_over: false }
    }

    /// Its body is there, or it was refused with this code before that.
    pub fn end(mut self, refused: Option<Code>) {
        self.is_over = true;
        if let Some(code) = refused {
            self.service.count_unread(code);
        }
    }
}

impl<S: RestService> Drop for Coming<'_, S> {
    /// Its client has gone, unless it is over.
    fn drop(&mut self) {
        if !self.is_over {
            self.service.count_unread(Code::Cancelled);
        }
    }
}

/// A request that is not handed over yet. If it never is, it is counted once, with what its client sees.
struct Unread<S> {
    service: Arc<S>,
    observation: Observation,
    is_over: AtomicBool,
}

impl<S: RestService> Unread<S> {
    fn new(service: &Arc<S>, observation: &Observation) -> Arc<Unread<S>> {
        let is_over = AtomicBool::new(false);
        Arc::new(Unread { service: service.clone(), observation: observation.clone(), is_over })
    }

    /// It is handed over, or answered. False where it was before.
    fn end(&self) -> bool {
        !self.is_over.swap(true, Ordering::AcqRel)
    }

    fn refuse(&self, why: &Status) -> RestAnswer {
        self.count(why.code);
        RestAnswer::Ready(match why.code {
            Code::Unimplemented => with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, why),
            _ => failure(why, Tags::default()),
        })
    }

    fn count(&self, code: Code) {
        if self.end() {
            self.observation.note(|facts| facts.code = Some(code));
            self.service.count_unread(code);
        }
    }
}

/// Held by whoever waits for its answer.
struct Awaited<S: RestService>(Arc<Unread<S>>);

impl<S: RestService> Drop for Awaited<S> {
    /// Its client has gone, unless it is over.
    fn drop(&mut self) {
        self.0.count(Code::Cancelled);
    }
}

/// An error with a status that is not its code's.
fn with_status(status: StatusCode, why: &Status) -> RestResponse {
    with_body(status, error_body(&why.message), Tags::default())
}

/// The whole body, or why it cannot be had.
pub async fn read(
    body: Incoming,
    limit: BodyLimit,
    lifeline: &Arc<Lifeline>,
    deadline: Instant,
    share: &Arc<Share>,
) -> Result<CountedBody, NoBody> {
    if body.is_end_stream() {
        return Ok((Bytes::new(), None));
    }
    if let Some(declared) = body.size_hint().exact().filter(|declared| *declared > limit.bytes as u64) {
        return Err(NoBody::TooLarge { size: declared.to_string(), ends: declared > LARGE as u64 });
    }
    let expected = body.size_hint().exact().map_or(0, |declared| declared as usize);
    let mut body = pin!(body);
    let collected = async {
        let mut arriving = Arriving::default();
        let mut large = (expected > LARGE).then(|| lifeline.begin_large());
        while let Some(frame) = body.as_mut().frame().await {
            let frame = frame.map_err(|why| bad_body(&why))?;
            let Ok(data) = frame.into_data() else { continue };
            lifeline.note_came(data.len());
            let so_far = arriving.so_far().len() + data.len();
            if so_far > limit.bytes {
                let size = format!("more than {}", limit.bytes);
                return Err(NoBody::TooLarge { size, ends: so_far > LARGE });
            }
            if large.is_none() && so_far > LARGE {
                large = Some(lifeline.begin_large());
            }
            let most = if expected == 0 { limit.bytes } else { expected };
            let counted = match so_far == expected {
                true => arriving.push(data, expected, share),
                false => arriving.push(data, most, share).and_then(|()| arriving.wait(most, share)),
            };
            counted?;
        }
        drop(large);
        Ok(arriving.finish())
    };
    // The first poll finds a small body complete; only then is a timer worth its cost.
    let mut collected = pin!(collected);
    let at_once = poll_fn(|context| Poll::Ready(collected.as_mut().poll(context))).await;
    match at_once {
        Poll::Ready(done) => done,
        Poll::Pending => tokio::time::timeout_at(deadline.into(), collected).await.unwrap_or_else(|_| {
            Err(Status::new(Code::DeadlineExceeded, "the deadline passed before the whole body came").into())
        }),
    }
}

/// A body in chunks, unless one of them is announced to be larger than the limit: its bytes need not be waited for.
pub async fn unless_announced<T>(
    lifeline: &Lifeline,
    limit: BodyLimit,
    body: impl Future<Output = Result<T, NoBody>>,
) -> Result<T, NoBody> {
    let mut body = pin!(body);
    poll_fn(|context| match body.as_mut().poll(context) {
        Poll::Pending if lifeline.largest_chunk() > limit.bytes as u64 => {
            let size = format!("at least {}", lifeline.largest_chunk());
            Poll::Ready(Err(NoBody::TooLarge { size, ends: true }))
        }
        polled => polled,
    })
    .await
}

fn bad_body(why: &hyper::Error) -> Status {
    let cause = why.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    match cause.map(io::Error::kind) {
        Some(ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe) => {
            Status::new(Code::Cancelled, "the client went before the whole body came")
        }
        _ => Status::invalid(format!("the request's body cannot be read: {why}")),
    }
}
