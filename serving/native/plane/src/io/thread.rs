//! One I/O thread: a current-thread runtime that accepts connections for both endpoints and answers on them.

use std::future::Future;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidegate_engine::engine::Engine;
use tidegate_engine::metrics::{Endpoint, Metrics};
use tidegate_engine::tracker::{Tracker, TrackerToken};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;

use crate::drain::DrainWatch;
use crate::endpoints::grpc::connection as grpc_connection;
use crate::endpoints::grpc::methods::GrpcMethods;
use crate::endpoints::grpc::unix_authority::UnixAuthority;
use crate::endpoints::reply::{AnyReply, PlaneDispatcher};
use crate::endpoints::rest::connection as rest_connection;
use crate::endpoints::rest::routes::RestRoutes;
use crate::io::completion_queue::CompletionQueue;
use crate::state::PlaneState;

/// How an I/O thread is to end.
#[derive(Clone)]
pub struct Signals {
    /// Turns true when the drain begins.
    pub draining: watch::Sender<bool>,
    /// When the drain must be over; set before `draining`.
    pub until: watch::Sender<Option<Instant>>,
    /// Open connections of all I/O threads.
    pub connections: Arc<AtomicUsize>,
}

impl Default for Signals {
    fn default() -> Signals {
        let (draining, until) = (watch::channel(false).0, watch::channel(None).0);
        Signals { draining, until, connections: Arc::default() }
    }
}

/// What one I/O thread works on.
#[derive(Clone)]
pub struct IoLane {
    /// The path of its requests.
    pub dispatcher: Arc<PlaneDispatcher>,
    /// Its finished batches.
    pub completions: Arc<CompletionQueue>,
    /// What all share.
    pub state: Arc<PlaneState>,
}

/// The endpoints' listeners of one I/O thread.
pub struct Listeners {
    /// For gRPC, if that endpoint is there.
    pub grpc: Option<TcpListener>,
    /// For gRPC over a Unix socket, if it is there.
    pub unix: Option<UnixListener>,
    /// For REST, if that endpoint is there.
    pub rest: Option<TcpListener>,
}

/// Runs until the drain is over. True if all connections were closed in time; copies for shadows are waited for as long,
/// but do not count.
pub fn run(lane: &IoLane, listeners: Listeners, signals: &Signals) -> std::io::Result<bool> {
    // Sockets are looked at when the tasks are done, not in between: batches grow, and calls to the poller are few.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().event_interval(1009).build()?;
    let complete = runtime.block_on(serve(lane.clone(), listeners, signals.clone()));
    drop(runtime);
    lane.completions.close();
    lane.dispatcher.close();
    Ok(complete)
}

async fn serve(lane: IoLane, listeners: Listeners, signals: Signals) -> bool {
    let tracker = Arc::new(Tracker::default());
    let IoLane { dispatcher, completions, state } = lane;
    tokio::spawn(answer_batches(dispatcher.clone(), completions));
    let flushing = dispatcher.clone();
    tokio::spawn(async move { flushing.run_idle_flush().await });
    let sweeping = dispatcher.clone();
    tokio::spawn(async move { sweeping.run_sweep().await });
    let copies = dispatcher.copies.clone();
    let engine = state.engine.clone();
    let grpc = Arc::new(GrpcMethods { dispatcher: dispatcher.clone(), state: state.clone() });
    let rest = Arc::new(RestRoutes { dispatcher, state });
    let host = Host { engine, grpc, rest, tracker: tracker.clone(), signals: signals.clone() };
    let Listeners { grpc, unix, rest } = listeners;
    let all = [
        (Endpoint::Grpc, grpc.and_then(|listener| tokio::net::TcpListener::from_std(listener).ok()).map(Listener::Tcp)),
        (
            Endpoint::Grpc,
            unix.and_then(|listener| tokio::net::UnixListener::from_std(listener).ok()).map(Listener::Unix),
        ),
        (Endpoint::Rest, rest.and_then(|listener| tokio::net::TcpListener::from_std(listener).ok()).map(Listener::Tcp)),
    ];
    let open = all.into_iter().filter_map(|(endpoint, listener)| Some((endpoint, listener?)));
    let endpoints: Vec<_> =
        open.map(|(endpoint, listener)| tokio::spawn(host.clone().accept(endpoint, listener))).collect();
    for endpoint in endpoints {
        let _ = endpoint.await;
    }
    let _ = signals.draining.subscribe().wait_for(|draining| *draining).await;
    let until = signals.until.borrow().unwrap_or_else(Instant::now);
    let complete = tokio::time::timeout_at(until.into(), tracker.empty()).await.is_ok();
    let _ = tokio::time::timeout_at(until.into(), copies.empty()).await;
    complete
}

/// Answers every request of finished batches, for as long as the runtime lives.
async fn answer_batches(dispatcher: Arc<PlaneDispatcher>, completions: Arc<CompletionQueue>) {
    let mut finished = Vec::new();
    loop {
        completions.take(&mut finished).await;
        for batch in finished.drain(..) {
            // A fault in one batch must not silence all later ones; the deadline sweep answers what was left out.
            let _ = catch_unwind(AssertUnwindSafe(|| dispatcher.answer_batch(batch)));
        }
    }
}

/// A listening socket.
enum Listener {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

/// A socket that was accepted.
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    async fn accept(&self) -> std::io::Result<Socket> {
        match self {
            Listener::Tcp(listener) => listener.accept().await.map(|(socket, _)| Socket::Tcp(socket)),
            Listener::Unix(listener) => listener.accept().await.map(|(socket, _)| Socket::Unix(socket)),
        }
    }
}

#[derive(Clone)]
struct Host {
    engine: Arc<Engine>,
    grpc: Arc<GrpcMethods<AnyReply>>,
    rest: Arc<RestRoutes<AnyReply>>,
    tracker: Arc<Tracker>,
    signals: Signals,
}

impl Host {
    /// Accepts connections of one endpoint until the drain begins, and those that were made before it.
    async fn accept(self, endpoint: Endpoint, listener: Listener) {
        let mut draining = self.signals.draining.subscribe();
        loop {
            let accepted = tokio::select! {
                biased;
                accepted = listener.accept() => accepted,
                _ = draining.wait_for(|draining| *draining) => return,
            };
            match accepted {
                Ok(Socket::Tcp(socket)) => {
                    let _ = socket.set_nodelay(true);
                    self.receive(endpoint, socket);
                }
                Ok(Socket::Unix(socket)) => self.receive(endpoint, UnixAuthority::new(socket)),
                // Out of file descriptors, as a rule; some will come free.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    fn receive<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(&self, endpoint: Endpoint, socket: T) {
        let Some(open) = self.admit(endpoint) else { return };
        let drain = DrainWatch::new(self.signals.draining.subscribe());
        let limits = self.engine.limits.clone();
        if endpoint == Endpoint::Rest {
            self.spawn(open, rest_connection::serve(socket, self.rest.clone(), limits, drain));
        } else {
            self.spawn(open, grpc_connection::serve(socket, self.grpc.clone(), limits, drain));
        }
    }

    fn spawn(&self, open: OpenConnection, connection: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(async move {
            connection.await;
            drop(open);
        });
    }

    /// Counts a connection in, or refuses it when there are too many.
    fn admit(&self, endpoint: Endpoint) -> Option<OpenConnection> {
        let metrics = self.engine.metrics.clone();
        let limit = self.engine.limits.max_connections();
        if self.signals.connections.fetch_add(1, Ordering::Relaxed) >= limit {
            self.signals.connections.fetch_sub(1, Ordering::Relaxed);
            metrics.refused_connections[endpoint as usize].fetch_add(1, Ordering::Relaxed);
            return None;
        }
        metrics.connections[endpoint as usize].fetch_add(1, Ordering::Relaxed);
        let total = self.signals.connections.clone();
        Some(OpenConnection { _token: self.tracker.enter(), metrics, endpoint, total })
    }
}

/// An open connection in every count of them.
struct OpenConnection {
    _token: TrackerToken,
    metrics: Arc<Metrics>,
    endpoint: Endpoint,
    total: Arc<AtomicUsize>,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.total.fetch_sub(1, Ordering::Relaxed);
        self.metrics.connections[self.endpoint as usize].fetch_sub(1, Ordering::Relaxed);
    }
}
