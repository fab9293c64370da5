//! The REST endpoint: HTTP/1.1 connections and their requests, one after the other.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use http::Request;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::memory::Share;
use tidegate_engine::request::Tags;
use tidegate_engine::request_id::RequestId;
use tidegate_engine::telemetry::Observation;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::aside::LARGE;
use crate::connections::lifeline::{LEAVE, Lifeline};
use crate::connections::peer::Peer;
use crate::drain::DrainWatch;
use crate::endpoints::headers::{ID_HEADER, TRACEPARENT};
use crate::endpoints::rest::answer_body::RestBody;
use crate::endpoints::rest::body::{self, BodyLimit, Coming, CountedBody, NoBody, WholeRequest};
use crate::endpoints::rest::service::{BodyUse, RestAnswer, RestResponse, RestService, close_after, failure};
use crate::endpoints::rest::{cors, framing, path};
use crate::linger::linger;
use crate::security::{gate, plain_text};

/// Bytes of a request that are read at once, and the largest head.
const MOST_AT_ONCE: usize = 64 << 10;
/// How long a client that was refused may go on sending the body that nobody reads.
const LINGER: Duration = Duration::from_secs(5);
/// How every connection of HTTP/2 begins, and with it each of gRPC.
const HTTP2: &[u8] = b"PRI * HTTP/2.0";
const WHY: &str = "this port speaks HTTP/1.1 alone: use that, or the gRPC port for gRPC";

/// Serves one connection until the client leaves or the drain is over.
pub async fn serve<S, T>(socket: T, service: Arc<S>, peer: Peer, mut drain: DrainWatch)
where
    S: RestService,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let (any_origin, lifeline) = (service.any_origin(), peer.lifeline.clone());
    let memory = lifeline.share(&peer.limits.memory).clone();
    let unread = AtomicBool::new(false);
    let handler = service_fn(|mut request: Request<Incoming>| {
        let open = peer.lifeline.begin_call();
        peer.lifeline.note_head();
        let crowded = peer.refuse(path::is_about_health(request.uri().path()));
        let observation = peer.observe(request.method(), request.uri().path(), request.headers());
        let refused = crowded.or_else(|| framing::check(&request).err());
        let refused = refused.or_else(|| admit(&mut request, &*service, &peer.names).err());
        let used = refused.map_or_else(|| Ok(use_of_body(&request, &*service)), |why| Err(Refused::by_head(&why)));
        let first = peer.lifeline.is_first_of_read();
        let has_body = !request.body().is_end_stream();
        let chunks = framing::is_chunked(&request).then(|| peer.lifeline.clone());
        let (service, peer, memory, unread) = (&service, &peer, &memory, &unread);
        async move {
            let coming = Coming::new(&**service);
            if !first {
                peer.pace.begin_one_more().await;
            }
            let begun = match used {
                Ok(used) => whole(request, peer, memory, used, chunks, &observation).await,
                Err(refused) => Err(refused),
            };
            coming.end(begun.as_ref().err().map(|refused| refused.code));
            let is_unread = begun.as_ref().map_or(has_body, |whole| whole.is_unread);
            unread.store(is_unread, Ordering::Relaxed);
            let mut response = match begun {
                Ok(whole) if is_unread => close_after(answer(whole, service, peer, memory, &observation).await),
                Ok(whole) => answer(whole, service, peer, memory, &observation).await,
                Err(refused) => refused.noted(&observation),
            };
            tell(&observation, &mut response);
            response.body_mut().hold(open);
            if any_origin {
                cors::allow(response.headers_mut());
            }
            Ok::<_, Infallible>(response)
        }
    });
    let mut connection = http1().serve_connection(TokioIo::new(socket), handler);
    let mut leaving = false;
    let ended = poll_fn(|context| {
        if !leaving && (drain.poll(context).is_ready() || lifeline.orders() & LEAVE != 0 || lifeline.is_half_closed()) {
            leaving = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        Pin::new(&mut connection).poll(context)
    })
    .await;
    let parts = connection.into_parts();
    let is_no_request = ended.as_ref().is_err_and(hyper::Error::is_parse);
    let speaks_http2 = is_no_request && parts.read_buf.starts_with(HTTP2);
    if is_no_request && !speaks_http2 {
        service.count_unread(Code::InvalidArgument);
    }
    let sends_on = ended.is_ok() && unread.load(Ordering::Relaxed);
    part(parts.io.into_inner(), speaks_http2, sends_on, drain).await;
}

/// Ends a connection as its client can understand it.
async fn part<T: AsyncRead + AsyncWrite + Unpin>(mut socket: T, speaks_http2: bool, sends_on: bool, drain: DrainWatch) {
    // Any other error ends this connection only, and its client has seen it.
    let _ = match (speaks_http2, sends_on) {
        (true, _) => plain_text::tell(&mut socket, WHY).await,
        (false, true) => linger_until(drain, &mut socket).await,
        (false, false) => Ok(()),
    };
}

fn http1() -> http1::Builder {
    let mut builder = http1::Builder::new();
    // Whoever tends connections knows how long a head may take, and tells it from a connection that is idle.
    builder.header_read_timeout(None);
    builder.max_buf_size(MOST_AT_ONCE);
    builder
}

/// Reads on after the last answer until the client ends, too, the plane drains, or that takes too long.
async fn linger_until<T: AsyncRead + Unpin>(mut drain: DrainWatch, socket: &mut T) -> io::Result<()> {
    let mut lingering = pin!(linger(socket, LINGER));
    poll_fn(|context| match drain.poll(context) {
        Poll::Ready(()) => Poll::Ready(Ok(())),
        Poll::Pending => lingering.as_mut().poll(context),
    })
    .await
}

/// Notes what whoever sent a request may do, or says why it is not let in.
fn admit<S: RestService>(request: &mut Request<Incoming>, service: &S, names: &[String]) -> Result<(), Status> {
    let grant = service.admit(request.method(), request.uri().path(), request.headers(), names)?;
    gate::note(request.extensions_mut(), grant);
    Ok(())
}

/// What a request's body is for; a small one is read anyway.
fn use_of_body<S: RestService>(request: &Request<Incoming>, service: &S) -> BodyUse {
    let body = request.body();
    match body.is_end_stream() || body.size_hint().exact().is_some_and(|bytes| bytes <= LARGE as u64) {
        true => BodyUse::Read,
        false => service.use_of_body(request.method(), request.uri().path(), request.headers()),
    }
}

/// Why a request is refused before its body is there.
struct Refused {
    code: Code,
    response: Box<RestResponse>,
}

impl Refused {
    /// Its body is not read, and the connection ends.
    fn by_head(why: &Status) -> Refused {
        Refused { code: why.code, response: Box::new(close_after(failure(why, Tags::default()))) }
    }

    /// The answer, whose code is noted.
    fn noted(self, observation: &Observation) -> RestResponse {
        observation.note(|facts| facts.code = Some(self.code));
        *self.response
    }
}

/// Notes what a request is answered with, and says in the answer where it stands in a trace.
fn tell(observation: &Observation, response: &mut RestResponse) {
    let Some(parent) = observation.traceparent() else { return };
    response.headers_mut().insert(TRACEPARENT, parent.clone());
    observation.note(|facts| {
        facts.http_status = Some(response.status().as_u16());
        facts.bytes_out = response.body().size_hint().exact().unwrap_or(0) as usize;
        facts.id = facts.id.take().or_else(|| response.headers().get(ID_HEADER).and_then(RequestId::sent));
    });
}

/// A request once its body is there, or why it is refused before.
async fn whole(
    request: Request<Incoming>,
    peer: &Peer,
    share: &Arc<Share>,
    used: BodyUse,
    chunks: Option<Arc<Lifeline>>,
    observation: &Observation,
) -> Result<WholeRequest, Refused> {
    let limits = &peer.limits;
    let deadline = Instant::now() + limits.request_timeout();
    let (head, incoming) = request.into_parts();
    let limit = BodyLimit::new(limits, used);
    let read = body::read(incoming, limit, &peer.lifeline, deadline, share);
    let read = match chunks {
        None => read.await,
        Some(lifeline) => body::unless_announced(&lifeline, limit, read).await,
    };
    let (sent, is_unread) = match read {
        Ok(sent) => (sent, false),
        // Where nothing is asked for that there is, that is the answer, whatever the body.
        Err(NoBody::TooLarge { .. }) if used == BodyUse::LeadsNowhere => (CountedBody::default(), true),
        Err(NoBody::TooLarge { size, ends }) => {
            let response = limit.passed(&size);
            let response = Box::new(if ends { close_after(response) } else { response });
            return Err(Refused { code: Code::ResourceExhausted, response });
        }
        Err(NoBody::Refused(why)) => {
            return Err(Refused { code: why.code, response: Box::new(failure(&why, Tags::default())) });
        }
    };
    let received = Instant::now();
    observation.note(|facts| {
        facts.received = Some(received);
        facts.bytes_in = sent.0.len();
    });
    let lifeline = peer.lifeline.clone();
    Ok(WholeRequest { head, sent, is_unread, received, deadline, lifeline, observation: observation.clone() })
}

async fn answer<S: RestService>(
    whole: WholeRequest,
    service: &Arc<S>,
    peer: &Peer,
    share: &Arc<Share>,
    observation: &Observation,
) -> RestResponse {
    peer.lifeline.may_wait();
    let answer = whole.hand_over(service, peer, share).await;
    if matches!(answer, RestAnswer::Coming(_) | RestAnswer::Events(_)) {
        peer.lifeline.may_not_wait();
        if peer.lifeline.is_half_closed() {
            // The connection looks again, and ends.
            tokio::task::yield_now().await;
        }
    }
    match answer {
        RestAnswer::Ready(response) => response,
        RestAnswer::Coming(coming) => coming.await,
        RestAnswer::Events(events) => {
            let begun = events.begin().await;
            begun.map_or_else(
                |refused| failure(&refused.status, refused.tags()),
                |response| response.map(RestBody::Events),
            )
        }
        RestAnswer::Later(later) => later.await.unwrap_or_else(|_| {
            let status = Status::new(Code::Unavailable, "the server stopped before the request was answered");
            observation.note(|facts| facts.code = Some(status.code));
            failure(&status, Tags::default())
        }),
    }
}
