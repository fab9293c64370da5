//! Fake nodes with real sockets, a router in front of them, and the plane's small clients.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tidegate_codec::protobuf::wire::put_bytes;
use tidegate_router::node::Addresses;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

pub use self::running::{Running, placed, settings};

/// What is waited for takes milliseconds; a machine that is busy with something else may need much longer.
pub const LONG: Duration = Duration::from_secs(60);

#[path = "../../plane/tests/support/grpc.rs"]
pub mod grpc;
#[path = "../../plane/tests/support/process.rs"]
pub mod process;
#[path = "../../plane/tests/support/rest.rs"]
pub mod rest;
mod running;

/// Waits until something holds; fails where that takes too long.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < until, "not within {LONG:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A node takes so many calls at a time over one connection.
pub const MOST_CALLS: usize = 100;

/// The kinds of connections.
pub const GRPC: usize = 0;
pub const REST: usize = 1;

/// How a node answers.
#[derive(Clone)]
pub enum Mood {
    /// With its name, a slash, and the message that it got.
    Echo,
    /// With this status.
    Fail(u16),
    /// With this head, and no message or a short body.
    Head(u16, &'static [(&'static str, &'static str)]),
    /// As `Echo` over gRPC, with this as the status.
    Status(&'static str),
    /// Not until this is told; then as `Echo`.
    Wait(Arc<Notify>),
    /// As `Echo`, but every so many calls so late.
    Hiccup(usize, Duration),
    /// The call is reset, or the connection is closed.
    Break,
    /// The connection is ended as one on which too much is given up; then as `Echo`.
    Calm,
    /// With so many bytes of sevens.
    Large(usize),
    /// With a head and a part of the message, and then nothing more.
    Half,
    /// The second message of a call stops the whole node for as long as somebody else has the lock.
    Freeze(Arc<Mutex<()>>),
}

/// What a node was asked.
#[derive(Clone, Debug)]
pub struct Seen {
    pub path: String,
    pub headers: HeaderMap,
    pub message: Vec<u8>,
    /// Over gRPC, from which port.
    pub port: u16,
}

/// A small server for both protocols.
pub struct Node {
    pub name: &'static str,
    pub mood: Arc<Mutex<Mood>>,
    pub seen: Arc<Mutex<Vec<Seen>>>,
    /// Calls whose client gave them up.
    pub cancelled: Arc<AtomicUsize>,
    /// Bytes of answers over gRPC that it could send.
    pub sent: Arc<AtomicUsize>,
    /// Connections that are open, for gRPC and for REST.
    pub connections: Arc<[AtomicUsize; 2]>,
    pub addresses: Addresses,
    runtime: Option<Runtime>,
}

impl Node {
    pub fn start(name: &'static str) -> Node {
        let any = || "127.0.0.1:0".to_owned();
        Node::start_at(name, &Addresses { grpc: any(), rest: any() })
    }

    fn start_at(name: &'static str, wanted: &Addresses) -> Node {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let bind = |address: &str| runtime.block_on(TcpListener::bind(address)).unwrap();
        let (grpc, rest) = (bind(&wanted.grpc), bind(&wanted.rest));
        let address = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
        let addresses = Addresses { grpc: address(&grpc), rest: address(&rest) };
        let (mood, seen) = (Arc::new(Mutex::new(Mood::Echo)), Arc::<Mutex<Vec<Seen>>>::default());
        let own = Handler {
            name,
            mood,
            seen,
            cancelled: Arc::default(),
            sent: Arc::default(),
            connections: Arc::default(),
            port: 0,
        };
        let Handler { name, mood, seen, cancelled, sent, connections, .. } = own.clone();
        runtime.spawn(serve_grpc(grpc, own.clone()));
        runtime.spawn(serve_rest(rest, own));
        Node { name, mood, seen, cancelled, sent, connections, addresses, runtime: Some(runtime) }
    }

    pub fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    /// How many connections of a kind are open.
    pub fn open(&self, of: usize) -> usize {
        self.connections[of].load(Ordering::SeqCst)
    }

    pub fn asked(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    pub fn last(&self) -> Seen {
        self.seen.lock().unwrap().last().unwrap().clone()
    }

    /// Ends it at once, with all its connections.
    pub fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(LONG);
        }
    }

    /// Ends it with all its connections, and begins anew at the same addresses.
    pub fn restart(&mut self) {
        self.kill();
        *self = Node::start_at(self.name, &self.addresses.clone());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

#[derive(Clone)]
struct Handler {
    name: &'static str,
    mood: Arc<Mutex<Mood>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    cancelled: Arc<AtomicUsize>,
    sent: Arc<AtomicUsize>,
    connections: Arc<[AtomicUsize; 2]>,
    /// Where the connection comes from.
    port: u16,
}

/// Counts a connection while it is open.
struct Open(Arc<[AtomicUsize; 2]>, usize);

impl Open {
    fn new(count: &Arc<[AtomicUsize; 2]>, of: usize) -> Open {
        count[of].fetch_add(1, Ordering::SeqCst);
        Open(count.clone(), of)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0[self.1].fetch_sub(1, Ordering::SeqCst);
    }
}

/// Counts a call that is dropped before it is answered.
struct Given(Option<Arc<AtomicUsize>>);

impl Drop for Given {
    fn drop(&mut self) {
        if let Some(count) = self.0.take() {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Handler {
    fn note(&self, path: &str, headers: &HeaderMap, message: &[u8]) -> Mood {
        let (path, headers, message) = (path.to_owned(), headers.clone(), message.to_vec());
        let seen = Seen { path, headers, message, port: self.port };
        self.seen.lock().unwrap().push(seen);
        self.mood()
    }

    fn mood(&self) -> Mood {
        self.mood.lock().unwrap().clone()
    }

    /// Waits where this is one of the calls that take long.
    async fn hiccup(&self, mood: &Mood) {
        if let Mood::Hiccup(every, late) = mood {
            let asked = self.seen.lock().unwrap().len();
            if asked.is_multiple_of(*every) {
                tokio::time::sleep(*late).await;
            }
        }
    }

    fn echo(&self, message: &[u8]) -> Vec<u8> {
        [self.name.as_bytes(), b"/", message].concat()
    }
}

async fn serve_grpc(listener: TcpListener, handler: Handler) {
    loop {
        let Ok((socket, from)) = listener.accept().await else { return };
        let handler = Handler { port: from.port(), ..handler.clone() };
        tokio::spawn(async move {
            let mut builder = h2::server::Builder::new();
            let begun = builder.max_concurrent_streams(MOST_CALLS as u32).handshake(socket).await;
            let Ok(mut connection) = begun else { return };
            let _open = Open::new(&handler.connections, GRPC);
            let mut unanswered = Vec::new();
            while let Some(Ok((request, respond))) = connection.accept().await {
                if matches!(handler.mood(), Mood::Calm) {
                    *handler.mood.lock().unwrap() = Mood::Echo;
                    connection.abrupt_shutdown(h2::Reason::ENHANCE_YOUR_CALM);
                    unanswered.push((request, respond));
                    continue;
                }
                tokio::spawn(answer_grpc(handler.clone(), request, respond));
            }
        });
    }
}

async fn answer_grpc(handler: Handler, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let (head, mut body) = request.into_parts();
    let mut framed = Vec::new();
    // A call of many messages gets an answer to its first one, and is over once the client has sent all.
    while framed.len() < 5 || framed.len() < 5 + u32::from_be_bytes(framed[1..5].try_into().unwrap()) as usize {
        let Some(Ok(data)) = body.data().await else { return };
        let _ = body.flow_control().release_capacity(data.len());
        framed.extend_from_slice(&data);
    }
    let mut given = Given(Some(handler.cancelled.clone()));
    let mut mood = handler.note(head.uri.path(), &head.headers, &framed[5..]);
    handler.hiccup(&mood).await;
    if let Mood::Wait(told) = &mood {
        tokio::select! {
            () = told.notified() => {}
            _ = std::future::poll_fn(|context| respond.poll_reset(context)) => return,
        }
        mood = Mood::Echo;
    }
    if answer_by_head(&handler, &mood, &mut respond) {
        given.0 = None;
        return;
    }
    let message = match mood {
        Mood::Break => {
            given.0 = None;
            return respond.send_reset(h2::Reason::INTERNAL_ERROR);
        }
        Mood::Large(bytes) => vec![7; bytes],
        _ => handler.echo(&framed[5..]),
    };
    let response = Response::builder().header("content-type", "application/grpc").header("x-node", handler.name);
    let Ok(mut stream) = respond.send_response(response.body(()).unwrap(), false) else { return };
    let mut frame = Bytes::from(grpc::frame(&message));
    if matches!(handler.mood(), Mood::Half) {
        let _ = stream.send_data(frame.split_to(7), false);
        let _ = std::future::poll_fn(|context| stream.poll_reset(context)).await;
        return;
    }
    if !send_all(&mut stream, frame, &handler.sent).await {
        return;
    }
    while let Some(Ok(data)) = body.data().await {
        let _ = body.flow_control().release_capacity(data.len());
        if let Mood::Freeze(lock) = handler.mood() {
            drop(lock.lock().unwrap());
        }
        if let Some(message) = data.get(5..) {
            let _ = stream.send_data(grpc::frame(&handler.echo(message)).into(), false);
        }
    }
    let mut trailers = HeaderMap::new();
    let status = if let Mood::Status(status) = handler.mood() { status } else { "0" };
    trailers.insert("grpc-status", status.parse().unwrap());
    trailers.insert("x-trailer", "passes".parse().unwrap());
    if stream.send_trailers(trailers).is_ok() {
        given.0 = None;
    }
}

/// Answers a call by a head alone, where the mood is such.
fn answer_by_head(handler: &Handler, mood: &Mood, respond: &mut SendResponse<Bytes>) -> bool {
    let head = match mood {
        Mood::Fail(status) => head_of(200, &[("content-type", "application/grpc")])
            .header("grpc-status", *status)
            .header("grpc-message", handler.name),
        Mood::Head(status, headers) => head_of(*status, headers),
        _ => return false,
    };
    let _ = respond.send_response(head.body(()).unwrap(), true);
    true
}

fn head_of(status: u16, headers: &[(&str, &str)]) -> http::response::Builder {
    headers.iter().fold(Response::builder().status(status), |head, (name, value)| head.header(*name, *value))
}

/// Sends as fast as the client takes it; false where it has gone.
async fn send_all(stream: &mut SendStream<Bytes>, mut frame: Bytes, sent: &AtomicUsize) -> bool {
    while !frame.is_empty() {
        stream.reserve_capacity(frame.len());
        if !matches!(std::future::poll_fn(|context| stream.poll_capacity(context)).await, Some(Ok(_))) {
            return false;
        }
        let room = stream.capacity().min(frame.len());
        if room > 0 && stream.send_data(frame.split_to(room), false).is_err() {
            return false;
        }
        sent.fetch_add(room, Ordering::SeqCst);
    }
    true
}

async fn serve_rest(listener: TcpListener, handler: Handler) {
    loop {
        let Ok((socket, _)) = listener.accept().await else { return };
        let handler = handler.clone();
        tokio::spawn(async move {
            let _open = Open::new(&handler.connections, REST);
            let service = service_fn(|request: Request<Incoming>| answer_rest(handler.clone(), request));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

async fn answer_rest(handler: Handler, request: Request<Incoming>) -> Result<Response<RestBody>, std::io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let mut given = Given(Some(handler.cancelled.clone()));
    let path = head.uri.path_and_query().unwrap().as_str();
    let mut mood = handler.note(path, &head.headers, &body);
    handler.hiccup(&mood).await;
    if let Mood::Wait(told) = &mood {
        told.notified().await;
        mood = Mood::Echo;
    }
    given.0 = None;
    let half = matches!(mood, Mood::Half);
    let (status, body) = match mood {
        Mood::Fail(status) => (status, handler.name.as_bytes().to_vec()),
        Mood::Head(status, headers) => {
            return Ok(head_of(status, headers).body(Full::new("x".into()).boxed_unsync()).unwrap());
        }
        Mood::Break => return Err(std::io::Error::other("broken")),
        Mood::Large(bytes) => (200, vec![b'7'; bytes]),
        _ => (200, handler.echo(&body)),
    };
    let response = Response::builder().status(status).header("x-node", handler.name).header("keep-alive", "timeout=5");
    let body = if half { Half(Some(body.into())).boxed_unsync() } else { Full::new(body.into()).boxed_unsync() };
    Ok(response.body(body).unwrap())
}

type RestBody = UnsyncBoxBody<Bytes, Infallible>;

/// A body of which nothing more comes after its first part.
struct Half(Option<Bytes>);

impl Body for Half {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |part| Poll::Ready(Some(Ok(Frame::data(part)))))
    }
}

/// A `PredictRequest` for a model, with something in it that is told apart.
pub fn predict(model: &str, content: &str) -> Vec<u8> {
    let (mut spec, mut request) = (Vec::new(), Vec::new());
    put_bytes(&mut spec, 1, model.as_bytes());
    put_bytes(&mut request, 1, &spec);
    put_bytes(&mut request, 9, content.as_bytes());
    request
}

/// The same by the Open Inference Protocol.
pub fn infer(model: &str, content: &str) -> Vec<u8> {
    let mut request = Vec::new();
    put_bytes(&mut request, 1, model.as_bytes());
    put_bytes(&mut request, 9, content.as_bytes());
    request
}
