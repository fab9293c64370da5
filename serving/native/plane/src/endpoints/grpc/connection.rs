//! The gRPC endpoint: HTTP/2 connections and complete unary calls.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
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
use tidegate_engine::request::Tags;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Sleep;

use crate::aside::LARGE;
use crate::connections::lifeline::{CALM_DOWN, LEAVE, LargeMessage, PING, PROTOCOL_ERROR};
use crate::connections::peer::Peer;
use crate::drain::DrainWatch;
use crate::endpoints::body::{Arriving, LESS};
use crate::endpoints::grpc::conversation::{Conversation, Messages};
use crate::endpoints::grpc::head;
use crate::endpoints::grpc::message::WholeCall;
use crate::endpoints::grpc::reply::{FRAME_HEAD, GrpcReply};
use crate::endpoints::grpc::service::GrpcService;
use crate::security::gate;

/// A call whose message has not come in full.
struct Partial {
    head: request::Parts,
    body: RecvStream,
    reply: GrpcReply,
    arriving: Arriving,
    /// While it comes, where it is large.
    large: Option<LargeMessage>,
    deadline: Instant,
}

/// What became of a partial call.
enum Progress {
    Waits(Box<Partial>),
    Done,
}

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
        .max_concurrent_streams(1024)
        .max_header_list_size(head::MOST_READ);
    let handshake = builder.handshake::<_, Bytes>(socket);
    let Ok(Ok(mut connection)) = tokio::time::timeout(peer.limits.header_timeout(), handshake).await else {
        return;
    };
    let pings = connection.ping_pong();
    let memory = peer.limits.memory.of_connection();
    let leaving = false;
    GrpcConnection { connection, pings, service, peer, memory, drain, partial: Vec::new(), timer: None, leaving }.await;
}

struct GrpcConnection<S, T> {
    connection: Connection<T, Bytes>,
    pings: Option<PingPong>,
    service: Arc<S>,
    peer: Peer,
    /// What the messages of this connection may take until they are complete and decoded.
    memory: Arc<Share>,
    drain: DrainWatch,
    partial: Vec<Partial>,
    timer: Option<Pin<Box<Sleep>>>,
    leaving: bool,
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
                    this.read_messages(context);
                    if this.poll_timer(context).is_pending() {
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
            return reply.refuse_http(http::StatusCode::UNSUPPORTED_MEDIA_TYPE);
        }
        if let Err(status) = head::check_size(&head) {
            return reply.fail(&status, Tags::default());
        }
        if let Some(status) = self.peer.refuse(self.service.is_about_health(head.uri.path())) {
            return reply.fail(&status, Tags::default());
        }
        match self.service.admit(head.uri.path(), &head.headers, &self.peer.names) {
            Ok(grant) => gate::note(&mut head.extensions, grant),
            Err(status) => return reply.fail(&status, Tags::default()),
        }
        let patience = self.peer.limits.request_timeout();
        let deadline = match head::timeout(&head, patience) {
            Ok(timeout) => Instant::now() + timeout,
            Err(status) => return reply.fail(&status, Tags::default()),
        };
        let is_conversation = self.service.is_conversation(head.uri.path());
        if (is_conversation || self.service.stays(head.uri.path()))
            && let Err(status) = reply.hold(&head, &self.memory)
        {
            return reply.fail(&status, Tags::default());
        }
        if is_conversation {
            let deadline = head.headers.contains_key("grpc-timeout").then_some(deadline);
            let messages = Messages::new(body, &head.headers, &self.peer, &self.memory);
            return self.service.converse(Conversation { head, messages, deadline, patience, reply });
        }
        self.partial.push(Partial { head, body, reply, arriving: Arriving::default(), large: None, deadline });
    }

    fn read_messages(&mut self, context: &mut Context<'_>) {
        if self.partial.is_empty() {
            return;
        }
        for partial in std::mem::take(&mut self.partial) {
            let progress = partial.advance(context, &self.service, &self.peer, &self.memory);
            if let Progress::Waits(partial) = progress {
                self.partial.push(*partial);
            }
        }
    }

    /// Ready once when a partial call ran out of time and was answered.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(next) = self.partial.iter().map(|partial| partial.deadline).min() else {
            self.timer = None;
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(next.into())));
        if timer.deadline() != next.into() {
            timer.as_mut().reset(next.into());
        }
        ready!(timer.as_mut().poll(context));
        let now = Instant::now();
        for partial in std::mem::take(&mut self.partial) {
            if partial.deadline <= now {
                let late = Status::new(Code::DeadlineExceeded, "the deadline passed before the whole message came");
                partial.reply.fail(&late, Tags::default());
            } else {
                self.partial.push(partial);
            }
        }
        self.timer = None;
        Poll::Ready(())
    }
}

impl Partial {
    /// Reads what has come; hands the call over once its message is complete.
    fn advance<S: GrpcService>(
        mut self,
        context: &mut Context<'_>,
        service: &Arc<S>,
        peer: &Peer,
        share: &Arc<Share>,
    ) -> Progress {
        let most = peer.limits.max_message_bytes();
        let mut ended = false;
        loop {
            match self.body.poll_data(context) {
                Poll::Pending => return self.wait(share),
                Poll::Ready(Some(Err(_))) => return Progress::Done,
                Poll::Ready(None) => ended = true,
                Poll::Ready(Some(Ok(data))) => {
                    let length = data.len();
                    let expected =
                        frame_length(self.arriving.so_far(), most).ok().flatten().map_or(0, |more| more + FRAME_HEAD);
                    if let Err(status) = self.arriving.push(data, expected, share) {
                        self.reply.fail(&status, Tags::default());
                        return Progress::Done;
                    }
                    // The client may send more once what it sent is counted.
                    let _ = self.body.flow_control().release_capacity(length);
                }
            }
            ended |= self.body.is_end_stream();
            let so_far = self.arriving.so_far().len();
            match frame_length(self.arriving.so_far(), most) {
                Err(status) => {
                    self.reply.fail(&status, Tags::default());
                    return Progress::Done;
                }
                Ok(Some(length)) if so_far > FRAME_HEAD + length => {
                    let what = "a call of this method has one message, and there is more in it";
                    self.reply.fail(&Status::new(Code::Unimplemented, what), Tags::default());
                    return Progress::Done;
                }
                Ok(Some(length)) if ended && so_far == FRAME_HEAD + length => {
                    self.hand_over(service, peer, share);
                    return Progress::Done;
                }
                Ok(_) if ended => {
                    self.reply.fail(&Status::invalid("the call ended before its message"), Tags::default());
                    return Progress::Done;
                }
                Ok(length) => {
                    if self.large.is_none() && length.unwrap_or(so_far) > LARGE {
                        self.large = Some(peer.lifeline.begin_large());
                    }
                    if let Err(status) = self.arriving.wait(length.map_or(0, |length| length + FRAME_HEAD), share) {
                        self.reply.fail(&status, Tags::default());
                        return Progress::Done;
                    }
                }
            }
        }
    }

    /// What it takes is counted meanwhile.
    fn wait(mut self, share: &Arc<Share>) -> Progress {
        match self.reply.hold(&self.head, share) {
            Ok(()) => Progress::Waits(Box::new(self)),
            Err(status) => {
                self.reply.fail(&status, Tags::default());
                Progress::Done
            }
        }
    }

    /// Its message is complete.
    fn hand_over<S: GrpcService>(self, service: &Arc<S>, peer: &Peer, share: &Arc<Share>) {
        let bytes_in = self.arriving.so_far().len() - FRAME_HEAD;
        let (frame, memory) = self.arriving.finish();
        let Partial { head, mut reply, deadline, .. } = self;
        if !service.stays(head.uri.path()) {
            reply.release();
        }
        let received = Instant::now();
        reply.observation.note(|facts| {
            facts.received = Some(received);
            facts.bytes_in = bytes_in;
        });
        WholeCall { head, frame, memory, received, deadline, reply }.hand_over(service, peer, share);
    }
}

/// The length of the message in a frame, once its five bytes are there.
fn frame_length(so_far: &[u8], limit: usize) -> Result<Option<usize>, Status> {
    let Some((head, _)) = so_far.split_first_chunk::<FRAME_HEAD>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if length > limit {
        return Err(Status::exhausted(format!(
            "the message of {length} bytes is larger than the limit of {limit} bytes: {LESS}"
        )));
    }
    Ok(Some(length))
}
