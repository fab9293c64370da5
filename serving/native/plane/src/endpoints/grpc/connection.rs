//! The gRPC endpoint: HTTP/2 connections and complete unary calls. The service answers through the call's reply.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::Connection;
use http::header::CONTENT_TYPE;
use http::request;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::limits::Limits;
use tidegate_engine::memory::{Reservation, Share};
use tidegate_engine::request::Tags;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Sleep;

use crate::drain::DrainWatch;
use crate::endpoints::body::Arriving;
use crate::endpoints::compression::inflate;
use crate::endpoints::grpc::reply::GrpcReply;

/// A complete unary call.
pub struct GrpcCall {
    /// Path and metadata.
    pub head: request::Parts,
    /// The message, without its frame.
    pub message: Bytes,
    /// When its last byte had come.
    pub received: Instant,
    /// When its answer is worth nothing any more.
    pub deadline: Instant,
    /// The way back.
    pub reply: GrpcReply,
}

/// Answers calls; must return at once.
pub trait GrpcService: Send + Sync + 'static {
    /// Takes over a call.
    fn call(&self, call: GrpcCall);
}

/// A call whose message has not come in full.
struct Partial {
    head: request::Parts,
    body: RecvStream,
    reply: GrpcReply,
    arriving: Arriving,
    deadline: Instant,
}

/// What became of a partial call.
enum Progress {
    Waits(Box<Partial>),
    Done,
}

/// Serves one connection until the client leaves or the drain is over.
pub async fn serve<S, T>(socket: T, service: Arc<S>, limits: Arc<Limits>, drain: DrainWatch)
where
    S: GrpcService,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .max_concurrent_streams(1024)
        .max_header_list_size(16 << 10);
    let handshake = builder.handshake::<_, Bytes>(socket);
    let Ok(Ok(connection)) = tokio::time::timeout(limits.header_timeout(), handshake).await else {
        return;
    };
    let memory = limits.memory.of_connection();
    GrpcConnection { connection, service, limits, memory, drain, partial: Vec::new(), timer: None, leaving: false }
        .await;
}

struct GrpcConnection<S, T> {
    connection: Connection<T, Bytes>,
    service: Arc<S>,
    limits: Arc<Limits>,
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
            this.leaving = true;
            this.connection.graceful_shutdown();
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

impl<S: GrpcService, T> GrpcConnection<S, T> {
    fn begin(&mut self, request: http::Request<RecvStream>, respond: h2::server::SendResponse<Bytes>) {
        let (head, body) = request.into_parts();
        let reply = GrpcReply(respond);
        let grpc = head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        if !grpc || head.method != http::Method::POST {
            return reply.refuse_http(http::StatusCode::UNSUPPORTED_MEDIA_TYPE);
        }
        let deadline = Instant::now() + timeout(&head, self.limits.request_timeout());
        self.partial.push(Partial { head, body, reply, arriving: Arriving::default(), deadline });
    }

    fn read_messages(&mut self, context: &mut Context<'_>) {
        if self.partial.is_empty() {
            return;
        }
        for partial in std::mem::take(&mut self.partial) {
            if let Progress::Waits(partial) = partial.advance(context, &*self.service, &self.limits, &self.memory) {
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
        service: &S,
        limits: &Limits,
        share: &Arc<Share>,
    ) -> Progress {
        let most = limits.max_message_bytes();
        loop {
            match self.body.poll_data(context) {
                Poll::Pending => return Progress::Waits(Box::new(self)),
                Poll::Ready(Some(Err(_))) => return Progress::Done,
                Poll::Ready(None) => {
                    self.reply.fail(&Status::invalid("the call ended before its message"), Tags::default());
                    return Progress::Done;
                }
                Poll::Ready(Some(Ok(data))) => {
                    let length = data.len();
                    let expected = frame_length(self.arriving.so_far(), most).ok().flatten().map_or(0, |more| more + 5);
                    if let Err(status) = self.arriving.push(data, expected, share) {
                        self.reply.fail(&status, Tags::default());
                        return Progress::Done;
                    }
                    // The client may send more once what it sent is counted.
                    let _ = self.body.flow_control().release_capacity(length);
                }
            }
            match frame_length(self.arriving.so_far(), most) {
                Err(status) => {
                    self.reply.fail(&status, Tags::default());
                    return Progress::Done;
                }
                Ok(Some(length)) if self.arriving.so_far().len() >= 5 + length => {
                    let (whole, memory) = self.arriving.finish();
                    let (message, inflated) = match plain(&self.head, &whole, length, most, share) {
                        Ok(plain) => plain,
                        Err(status) => {
                            self.reply.fail(&status, Tags::default());
                            return Progress::Done;
                        }
                    };
                    service.call(GrpcCall {
                        head: self.head,
                        message,
                        received: Instant::now(),
                        deadline: self.deadline,
                        reply: self.reply,
                    });
                    // The service has decoded the message.
                    drop((memory, inflated));
                    return Progress::Done;
                }
                Ok(length) => {
                    if let Err(status) = self.arriving.wait(length.map_or(0, |length| length + 5), share) {
                        self.reply.fail(&status, Tags::default());
                        return Progress::Done;
                    }
                }
            }
        }
    }
}

/// The length of the message in a frame, once its five bytes are there.
fn frame_length(so_far: &[u8], limit: usize) -> Result<Option<usize>, Status> {
    let Some((head, _)) = so_far.split_first_chunk::<5>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if length > limit {
        return Err(Status::exhausted(format!(
            "the message of {length} bytes is larger than the limit of {limit} bytes"
        )));
    }
    Ok(Some(length))
}

/// The message of a complete frame, decompressed where the frame's first byte says so.
fn plain(
    head: &request::Parts,
    frame: &Bytes,
    length: usize,
    limit: usize,
    share: &Arc<Share>,
) -> Result<(Bytes, Option<Reservation>), Status> {
    if frame[0] == 0 {
        return Ok((frame.slice(5..5 + length), None));
    }
    let encoding = head.headers.get("grpc-encoding").and_then(|value| value.to_str().ok());
    let mut memory = share.reservation();
    let message = inflate(encoding.unwrap_or("of no name"), &frame[5..5 + length], limit, &mut memory)?;
    Ok((message, Some(memory)))
}

/// `grpc-timeout`, where the client sent one that can be read, but never more than an hour.
fn timeout(head: &request::Parts, default: Duration) -> Duration {
    const LONGEST: Duration = Duration::from_secs(3600);
    let sent = head.headers.get("grpc-timeout").and_then(|value| value.to_str().ok());
    let parsed = sent.and_then(|text| {
        let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let count = digits.parse::<u64>().ok()?;
        match unit {
            "H" => Some(Duration::from_secs(count.saturating_mul(3600))),
            "M" => Some(Duration::from_secs(count.saturating_mul(60))),
            "S" => Some(Duration::from_secs(count)),
            "m" => Some(Duration::from_millis(count)),
            "u" => Some(Duration::from_micros(count)),
            "n" => Some(Duration::from_nanos(count)),
            _ => None,
        }
    });
    parsed.unwrap_or(default).min(LONGEST)
}
