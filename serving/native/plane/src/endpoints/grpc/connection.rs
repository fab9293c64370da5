//! The gRPC endpoint: HTTP/2 connections and complete unary calls.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::Connection;
use h2::{Ping, PingPong, Reason};
use http::header::CONTENT_TYPE;
use http::request;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::memory::Share;
use tidegate_engine::metrics::Closing;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::connections::lifeline::{CALM_DOWN, LEAVE, PING, PROTOCOL_ERROR};
use crate::connections::peer::Peer;
use crate::drain::DrainWatch;
use crate::endpoints::grpc::conversation::{Conversation, Messages};
use crate::endpoints::grpc::head;
use crate::endpoints::grpc::partial_calls::{Partial, PartialCalls};
use crate::endpoints::grpc::reply::GrpcReply;
use crate::endpoints::grpc::service::{GrpcService, refuse};
use crate::security::gate;

/// Calls that a client may have open. It may give up as many at once, before they were looked at, as one does that ends
/// very many together: how much of that is read between two looks at the sockets is the pace's to say, for any call.
const MOST_CALLS: usize = 1024;

/// Serves one connection until the client leaves or the drain is over.
pub async fn serve<S, T>(socket: T, service: Arc<S>, peer: Peer, drain: DrainWatch)
where
    S: GrpcService,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .max_concurrent_streams(MOST_CALLS as u32)
        .max_pending_accept_reset_streams(MOST_CALLS)
        .max_header_list_size(head::MOST_READ);
    let handshake = builder.handshake::<_, Bytes>(socket);
    let Ok(Ok(mut connection)) = tokio::time::timeout(peer.limits.header_timeout(), handshake).await else {
        return;
    };
    let pings = connection.ping_pong();
    let memory = peer.lifeline.share(&peer.limits.memory).clone();
    let leaving = false;
    GrpcConnection { connection, pings, service, peer, memory, drain, partial: PartialCalls::default(), leaving }.await;
}

struct GrpcConnection<S: GrpcService, T> {
    connection: Connection<T, Bytes>,
    pings: Option<PingPong>,
    service: Arc<S>,
    peer: Peer,
    /// What the messages of this connection may take until they are complete and decoded.
    memory: Arc<Share>,
    drain: DrainWatch,
    partial: PartialCalls,
    leaving: bool,
}

impl<S: GrpcService, T> Drop for GrpcConnection<S, T> {
    /// The client has gone, and its calls that it was sending are over.
    fn drop(&mut self) {
        (0..self.partial.count()).for_each(|_| self.service.count_unread(Code::Cancelled));
    }
}

impl<S: GrpcService, T: AsyncRead + AsyncWrite + Unpin> Future for GrpcConnection<S, T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if !this.leaving && this.drain.poll(context).is_ready() {
            this.leave();
        }
        if this.peer.lifeline.orders() != 0 {
            this.obey(context);
        }
        loop {
            match this.connection.poll_accept(context) {
                Poll::Ready(Some(Ok((request, respond)))) => this.begin(request, respond),
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                Poll::Pending => {
                    this.partial.read(&this.service, &this.peer, &this.memory);
                    if this.partial.poll_timer(context, &*this.service).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}

impl<S: GrpcService, T: AsyncRead + AsyncWrite + Unpin> GrpcConnection<S, T> {
    fn leave(&mut self) {
        if !std::mem::replace(&mut self.leaving, true) {
            self.connection.graceful_shutdown();
        }
    }

    /// Does what whoever tends connections wants of this one.
    fn obey(&mut self, context: &mut Context<'_>) {
        let lifeline = &self.peer.lifeline;
        let orders = lifeline.orders();
        lifeline.carried_out(PING);
        if let Some(pings) = self.pings.as_mut().filter(|_| orders & PING != 0) {
            // A pong that came makes room for the next ping; whatever else comes is as good.
            let _ = pings.poll_pong(context);
            let _ = pings.send_ping(Ping::opaque());
        }
        let fault = match orders {
            _ if orders & PROTOCOL_ERROR != 0 => Some(Reason::PROTOCOL_ERROR),
            _ if orders & CALM_DOWN != 0 => Some(Reason::ENHANCE_YOUR_CALM),
            _ => None,
        };
        if let Some(reason) = fault.filter(|_| !self.leaving) {
            self.leaving = true;
            if reason == Reason::ENHANCE_YOUR_CALM {
                self.peer.connections.count_closed(lifeline.endpoint, Closing::Settings);
            }
            self.connection.abrupt_shutdown(reason);
        } else if orders & LEAVE != 0 {
            self.leave();
        }
    }

    fn begin(&mut self, request: http::Request<RecvStream>, respond: h2::server::SendResponse<Bytes>) {
        let (mut head, body) = request.into_parts();
        let observation = self.peer.observe(&head.method, head.uri.path(), &head.headers);
        let patience = self.peer.connections.patience().write;
        let mut reply = GrpcReply::new(respond, self.peer.lifeline.begin_call(), patience, observation);
        let grpc = head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        if !grpc || head.method != http::Method::POST {
            self.service.count_unread(Code::Unimplemented);
            return reply.refuse_http(http::StatusCode::UNSUPPORTED_MEDIA_TYPE);
        }
        let deadline = match self.let_in(&mut head, &mut reply) {
            Ok(deadline) => deadline,
            Err(status) => return refuse(&*self.service, reply, &status),
        };
        if self.service.is_conversation(head.uri.path()) {
            let patience = self.peer.limits.request_timeout();
            let deadline = head.headers.contains_key("grpc-timeout").then_some(deadline);
            reply.note_due(false);
            let messages = Messages::new(body, &head.headers, &self.peer, &self.memory);
            return self.service.converse(Conversation { head, messages, deadline, patience, reply });
        }
        self.partial.begin(Partial::new(head, body, reply, deadline));
    }

    /// Until when a call is to be answered, or why it is not let in.
    fn let_in(&self, head: &mut request::Parts, reply: &mut GrpcReply) -> Result<Instant, Status> {
        head::check_size(head)?;
        let path = head.uri.path();
        if let Some(status) = self.peer.refuse(self.service.is_about_health(path)) {
            return Err(status);
        }
        let grant = self.service.admit(path, &head.headers, &self.peer.names)?;
        let deadline = Instant::now() + head::timeout(head, self.peer.limits.request_timeout())?;
        if self.service.is_conversation(path) || self.service.stays(path) {
            reply.hold(head, &self.memory)?;
        }
        gate::note(&mut head.extensions, grant);
        Ok(deadline)
    }
}
