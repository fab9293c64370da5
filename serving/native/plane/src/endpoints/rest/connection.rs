//! The REST endpoint: HTTP/1.1 connections and complete requests. The service may answer later.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, StatusCode, request};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tidegate_codec::json::text::error_body;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::limits::Limits;
use tidegate_engine::memory::{Reservation, Share};
use tidegate_engine::request::Tags;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

use crate::connections::lifeline::{LEAVE, Lifeline};
use crate::connections::peer::Peer;
use crate::drain::DrainWatch;
use crate::endpoints::body::Arriving;
use crate::endpoints::compression::inflate;
use crate::endpoints::headers::write_tags;
use crate::endpoints::rest::{cors, framing, path};

/// A whole answer.
pub type RestResponse = Response<Full<Bytes>>;

/// A request with its whole body.
pub struct RestCall {
    /// Method, path and headers.
    pub head: request::Parts,
    /// The body.
    pub body: Bytes,
    /// When its last byte had come.
    pub received: Instant,
    /// When its answer is worth nothing any more.
    pub deadline: Instant,
}

/// An answer, now or later.
pub enum RestAnswer {
    /// Now.
    Ready(RestResponse),
    /// Later; a sender that is dropped means that the server is stopping.
    Later(oneshot::Receiver<RestResponse>),
}

/// Answers requests; must return at once.
pub trait RestService: Send + Sync + 'static {
    /// Takes over a request.
    fn call(&self, call: RestCall) -> RestAnswer;

    /// Whether pages of any origin may read the answers.
    fn any_origin(&self) -> bool {
        false
    }
}

/// Serves one connection until the client leaves or the drain is over.
pub async fn serve<S, T>(socket: T, service: Arc<S>, peer: Peer, mut drain: DrainWatch)
where
    S: RestService,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let any_origin = service.any_origin();
    let lifeline = peer.lifeline.clone();
    let memory = peer.limits.memory.of_connection();
    let handler = service_fn(|request: Request<Incoming>| {
        let open = peer.lifeline.begin_call();
        peer.lifeline.note_head();
        let crowded = peer.refuse(request.uri().path().starts_with(path::HEALTH));
        let refused = crowded.or_else(|| framing::check(&request).err());
        let chunks = framing::is_chunked(&request).then(|| peer.lifeline.clone());
        let (service, limits, memory) = (service.clone(), peer.limits.clone(), memory.clone());
        async move {
            let mut response = match refused {
                None => answer(request, service, limits, chunks, memory).await,
                Some(status) => close_after(failure(&status, Tags::default())),
            };
            drop(open);
            if any_origin {
                cors::allow(response.headers_mut());
            }
            Ok::<_, Infallible>(response)
        }
    });
    let mut builder = http1::Builder::new();
    // Whoever tends connections knows how long a head may take, and tells it from a connection that is idle.
    builder.header_read_timeout(None);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(socket), handler));
    let mut leaving = false;
    poll_fn(|context| {
        if !leaving && (drain.poll(context).is_ready() || lifeline.orders() & LEAVE != 0) {
            leaving = true;
            connection.as_mut().graceful_shutdown();
        }
        // An error ends this connection only, and its client has seen it.
        connection.as_mut().poll(context).map(drop)
    })
    .await;
}

async fn answer<S: RestService>(
    request: Request<Incoming>,
    service: Arc<S>,
    limits: Arc<Limits>,
    chunks: Option<Arc<Lifeline>>,
    share: Arc<Share>,
) -> RestResponse {
    let deadline = Instant::now() + limits.request_timeout();
    let (head, body) = request.into_parts();
    let limit = limits.max_message_bytes();
    let whole = match chunks {
        None => read_body(body, &limits, deadline, &share).await,
        Some(lifeline) => unless_announced(&lifeline, limit, read_body(body, &limits, deadline, &share)).await,
    };
    let (body, memory) = match whole.and_then(|(body, memory)| plain(&head, body, memory, &limits, &share)) {
        Ok(body) => body,
        Err(refused) => return *refused,
    };
    let answer = service.call(RestCall { head, body, received: Instant::now(), deadline });
    // The service has decoded the body.
    drop(memory);
    match answer {
        RestAnswer::Ready(response) => response,
        RestAnswer::Later(later) => later.await.unwrap_or_else(|_| {
            failure(
                &Status::new(Code::Unavailable, "the server stopped before the request was answered"),
                Tags::default(),
            )
        }),
    }
}

/// A body, and the memory that it takes.
type CountedBody = (Bytes, Option<Reservation>);

/// The body as its sender meant it, where it came compressed.
fn plain(
    head: &request::Parts,
    body: Bytes,
    memory: Option<Reservation>,
    limits: &Limits,
    share: &Arc<Share>,
) -> Result<CountedBody, Box<RestResponse>> {
    let Some(encoding) = head.headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?")) else {
        return Ok((body, memory));
    };
    if encoding == "identity" {
        return Ok((body, memory));
    }
    let (refused, limit) = (limits.memory.refused(), limits.max_message_bytes());
    let mut inflated = share.reservation();
    match inflate(encoding, &body, limit, &mut inflated) {
        Ok(plain) => Ok((plain, Some(inflated))),
        Err(why) => {
            let status = match why.code {
                Code::Unimplemented => StatusCode::UNSUPPORTED_MEDIA_TYPE,
                Code::ResourceExhausted if limits.memory.refused() == refused => StatusCode::PAYLOAD_TOO_LARGE,
                Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
                _ => StatusCode::BAD_REQUEST,
            };
            let mut refused = failure(&why, Tags::default());
            *refused.status_mut() = status;
            Err(Box::new(refused))
        }
    }
}

async fn read_body(
    body: Incoming,
    limits: &Limits,
    deadline: Instant,
    share: &Arc<Share>,
) -> Result<CountedBody, Box<RestResponse>> {
    let limit = limits.max_message_bytes();
    if body.is_end_stream() {
        return Ok((Bytes::new(), None));
    }
    if let Some(declared) = body.size_hint().exact().filter(|declared| *declared > limit as u64) {
        return Err(too_large(&declared.to_string(), limit));
    }
    let expected = body.size_hint().exact().map_or(0, |declared| declared as usize);
    let mut body = pin!(body);
    let collected = async {
        let mut arriving = Arriving::default();
        while let Some(frame) = body.as_mut().frame().await {
            let frame = frame.map_err(|why| bad_body(&why))?;
            let Ok(data) = frame.into_data() else { continue };
            if arriving.so_far().len() + data.len() > limit {
                return Err(too_large(&format!("more than {limit}"), limit));
            }
            let most = if expected == 0 { limit } else { expected };
            let last = arriving.so_far().len() + data.len() == expected;
            let counted = match last {
                true => arriving.push(data, expected, share),
                false => arriving.push(data, most, share).and_then(|()| arriving.wait(most, share)),
            };
            counted.map_err(|why| Box::new(failure(&why, Tags::default())))?;
        }
        Ok(arriving.finish())
    };
    // The first poll finds a small body complete; only then is a timer worth its cost.
    let mut collected = pin!(collected);
    let at_once = poll_fn(|context| Poll::Ready(collected.as_mut().poll(context))).await;
    match at_once {
        Poll::Ready(done) => done,
        Poll::Pending => tokio::time::timeout_at(deadline.into(), collected).await.unwrap_or_else(|_| {
            let late = Status::new(Code::DeadlineExceeded, "the deadline passed before the whole body came");
            Err(Box::new(failure(&late, Tags::default())))
        }),
    }
}

/// A body in chunks, unless one of them is announced to be larger than the limit: its bytes need not be waited for.
async fn unless_announced<T>(
    lifeline: &Lifeline,
    limit: usize,
    body: impl Future<Output = Result<T, Box<RestResponse>>>,
) -> Result<T, Box<RestResponse>> {
    let mut body = pin!(body);
    poll_fn(|context| match body.as_mut().poll(context) {
        Poll::Pending if lifeline.largest_chunk() > limit as u64 => {
            let size = format!("at least {}", lifeline.largest_chunk());
            Poll::Ready(Err(Box::new(close_after(*too_large(&size, limit)))))
        }
        polled => polled,
    })
    .await
}

fn bad_body(why: &hyper::Error) -> Box<RestResponse> {
    Box::new(failure(&Status::invalid(format!("the request's body cannot be read: {why}")), Tags::default()))
}

fn too_large(size: &str, limit: usize) -> Box<RestResponse> {
    let message = format!("the request's body of {size} bytes is larger than the limit of {limit} bytes");
    Box::new(with_body(StatusCode::PAYLOAD_TOO_LARGE, error_body(&message), Tags::default()))
}

/// An answer after which the connection ends.
fn close_after(mut response: RestResponse) -> RestResponse {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A JSON answer.
pub fn with_body(status: StatusCode, body: Vec<u8>, tags: Tags<'_>) -> RestResponse {
    with_bytes(status, body.into(), tags)
}

/// The same of shared bytes.
pub fn with_bytes(status: StatusCode, body: Bytes, tags: Tags<'_>) -> RestResponse {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    write_tags(tags, response.headers_mut());
    response
}

/// A text answer.
pub fn text(status: StatusCode, body: String, kind: &'static str) -> RestResponse {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    debug_assert!(!response.headers().contains_key(CONTENT_LENGTH));
    response
}

/// An error answer with TensorFlow Serving's status mapping.
pub fn failure(status: &Status, tags: Tags<'_>) -> RestResponse {
    let code = StatusCode::from_u16(status.code.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    with_body(code, error_body(&status.message), tags)
}
