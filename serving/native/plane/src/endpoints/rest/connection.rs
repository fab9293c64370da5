//! The REST endpoint: HTTP/1.1 connections and their requests, one after the other.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

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

use crate::connections::lifeline::{LEAVE, Lifeline};
use crate::connections::peer::Peer;
use crate::drain::DrainWatch;
use crate::endpoints::headers::{ID_HEADER, TRACEPARENT};
use crate::endpoints::rest::answer_body::RestBody;
use crate::endpoints::rest::body::{self, WholeRequest};
use crate::endpoints::rest::service::{RestAnswer, RestResponse, RestService, close_after, failure};
use crate::endpoints::rest::{cors, framing, path};
use crate::security::{gate, plain_text};

/// Bytes of a request that are read at once, and the largest head.
const MOST_AT_ONCE: usize = 64 << 10;
/// How every connection of HTTP/2 begins, and with it each of gRPC.
const HTTP2: &[u8] = b"PRI * HTTP/2.0";
const WHY: &str = "this port speaks HTTP/1.1 alone: use that, or the gRPC port for gRPC";

/// Serves one connection until the client leaves or the drain is over.
pub async fn serve<S, T>(socket: T, service: Arc<S>, peer: Peer, mut drain: DrainWatch)
where
    S: RestService,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let any_origin = service.any_origin();
    let lifeline = peer.lifeline.clone();
    let memory = peer.limits.memory.of_connection();
    let handler = service_fn(|mut request: Request<Incoming>| {
        let open = peer.lifeline.begin_call();
        peer.lifeline.note_head();
        let crowded = peer.refuse(path::is_about_health(request.uri().path()));
        let observation = peer.observe(request.method(), request.uri().path(), request.headers());
        let refused = crowded.or_else(|| framing::check(&request).err());
        let refused = refused.or_else(|| admit(&mut request, &*service, &peer.names).err());
        let first = peer.lifeline.is_first_of_read();
        let chunks = framing::is_chunked(&request).then(|| peer.lifeline.clone());
        let (service, peer, memory) = (&service, &peer, &memory);
        async move {
            if !first {
                peer.pace.begin_one_more().await;
            }
            let mut response = match refused {
                None => answer(request, service, peer, memory, chunks, &observation).await,
                Some(status) => {
                    observation.note(|facts| facts.code = Some(status.code));
                    close_after(failure(&status, Tags::default()))
                }
            };
            tell(&observation, &mut response);
            response.body_mut().hold(open);
            if any_origin {
                cors::allow(response.headers_mut());
            }
            Ok::<_, Infallible>(response)
        }
    });
    let mut builder = http1::Builder::new();
    // Whoever tends connections knows how long a head may take, and tells it from a connection that is idle.
    builder.header_read_timeout(None);
    builder.max_buf_size(MOST_AT_ONCE);
    let mut connection = builder.serve_connection(TokioIo::new(socket), handler);
    let mut leaving = false;
    let ended = poll_fn(|context| {
        if !leaving && (drain.poll(context).is_ready() || lifeline.orders() & LEAVE != 0 || lifeline.is_half_closed()) {
            leaving = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        Pin::new(&mut connection).poll(context)
    })
    .await;
    // An error ends this connection only, and its client has seen it, unless it speaks HTTP/2.
    if ended.is_err_and(|why| why.is_parse()) {
        let parts = connection.into_parts();
        if parts.read_buf.starts_with(HTTP2) {
            let _ = plain_text::tell(&mut parts.io.into_inner(), WHY).await;
        }
    }
}

/// Notes what whoever sent a request may do, or says why it is not let in.
fn admit<S: RestService>(request: &mut Request<Incoming>, service: &S, names: &[String]) -> Result<(), Status> {
    let grant = service.admit(request.method(), request.uri().path(), request.headers(), names)?;
    gate::note(request.extensions_mut(), grant);
    Ok(())
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

async fn answer<S: RestService>(
    request: Request<Incoming>,
    service: &Arc<S>,
    peer: &Peer,
    share: &Arc<Share>,
    chunks: Option<Arc<Lifeline>>,
    observation: &Observation,
) -> RestResponse {
    let limits = &peer.limits;
    let deadline = Instant::now() + limits.request_timeout();
    let (head, incoming) = request.into_parts();
    let whole = match chunks {
        None => body::read(incoming, limits, &peer.lifeline, deadline, share).await,
        Some(lifeline) => {
            let read = body::read(incoming, limits, &peer.lifeline, deadline, share);
            body::unless_announced(&lifeline, limits.max_message_bytes(), read).await
        }
    };
    let answer = match whole {
        Ok(sent) => {
            let received = Instant::now();
            observation.note(|facts| {
                facts.received = Some(received);
                facts.bytes_in = sent.0.len();
            });
            peer.lifeline.may_wait();
            let lifeline = peer.lifeline.clone();
            let whole = WholeRequest { head, sent, received, deadline, lifeline, observation: observation.clone() };
            whole.hand_over(service, peer, share).await
        }
        Err(refused) => return *refused,
    };
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
            let status = unanswered(peer);
            observation.note(|facts| facts.code = Some(status.code));
            failure(&status, Tags::default())
        }),
    }
}

/// Why nobody answered.
fn unanswered(peer: &Peer) -> Status {
    match peer.lifeline.is_half_closed() {
        true => Status::new(
            Code::Cancelled,
            "the request was still in the queue when its client closed its side of the connection, which counts as having \
             gone: keep it open until the answer comes",
        ),
        false => Status::new(Code::Unavailable, "the server stopped before the request was answered"),
    }
}
