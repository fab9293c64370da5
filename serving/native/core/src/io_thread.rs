//! One I/O thread: a current-thread runtime that accepts connections for both endpoints and answers on them.
//! The plane starts it with listeners and a desk; it ends when the drain is over or its time is up.

use std::future::Future;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;

use crate::desk::Desk;
use crate::drain::{DrainWatch, Guest, Presence};
use crate::grpc;
use crate::grpc_methods::GrpcMethods;
use crate::metrics::{Endpoint, Metrics};
use crate::rest;
use crate::rest_routes::RestRoutes;
use crate::unix_authority::UnixAuthority;

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

/// The endpoints' listeners of one I/O thread.
pub struct Listeners {
    /// For gRPC, if that endpoint is there.
    pub grpc: Option<TcpListener>,
    /// For gRPC over a Unix socket, if it is there.
    pub unix: Option<UnixListener>,
    /// For REST, if that endpoint is there.
    pub rest: Option<TcpListener>,
}

/// Runs until the drain is over. True if all connections were closed in time; copies for shadows are waited for as long, but
/// nobody misses those that did not come.
pub fn run(desk: &Arc<Desk>, listeners: Listeners, signals: &Signals) -> std::io::Result<bool> {
    // Sockets are looked at when the tasks are done, not in between: batches grow, and calls to the poller are few.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().event_interval(1009).build()?;
    let complete = runtime.block_on(serve(desk.clone(), listeners, signals.clone()));
    drop(runtime);
    desk.leave();
    Ok(complete)
}

async fn serve(desk: Arc<Desk>, listeners: Listeners, signals: Signals) -> bool {
    let presence = Arc::new(Presence::default());
    let answering = desk.clone();
    tokio::spawn(async move { answering.answer_batches().await });
    let closing = desk.clone();
    tokio::spawn(async move { closing.touched.close_when_dry(closing.index).await });
    let sweeping = desk.clone();
    tokio::spawn(async move { sweeping.sweep().await });
    let copies = desk.copies.clone();
    let (grpc, rest) = (Arc::new(GrpcMethods(desk.clone())), Arc::new(RestRoutes(desk.clone())));
    let host = Host { desk, grpc, rest, presence: presence.clone(), signals: signals.clone() };
    let Listeners { grpc, unix, rest } = listeners;
    let ears = [
        (Endpoint::Grpc, grpc.and_then(|listener| tokio::net::TcpListener::from_std(listener).ok()).map(Ear::Tcp)),
        (Endpoint::Grpc, unix.and_then(|listener| tokio::net::UnixListener::from_std(listener).ok()).map(Ear::Unix)),
        (Endpoint::Rest, rest.and_then(|listener| tokio::net::TcpListener::from_std(listener).ok()).map(Ear::Tcp)),
    ];
    let open = ears.into_iter().filter_map(|(endpoint, ear)| Some((endpoint, ear?)));
    let endpoints: Vec<_> = open.map(|(endpoint, ear)| tokio::spawn(host.clone().accept(endpoint, ear))).collect();
    for endpoint in endpoints {
        let _ = endpoint.await;
    }
    let _ = signals.draining.subscribe().wait_for(|draining| *draining).await;
    let until = signals.until.borrow().unwrap_or_else(Instant::now);
    let complete = tokio::time::timeout_at(until.into(), presence.empty()).await.is_ok();
    let _ = tokio::time::timeout_at(until.into(), copies.empty()).await;
    complete
}

/// A listening socket.
enum Ear {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

/// A socket that was accepted.
enum Call {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Ear {
    async fn accept(&self) -> std::io::Result<Call> {
        match self {
            Ear::Tcp(listener) => listener.accept().await.map(|(socket, _)| Call::Tcp(socket)),
            Ear::Unix(listener) => listener.accept().await.map(|(socket, _)| Call::Unix(socket)),
        }
    }
}

#[derive(Clone)]
struct Host {
    desk: Arc<Desk>,
    grpc: Arc<GrpcMethods>,
    rest: Arc<RestRoutes>,
    presence: Arc<Presence>,
    signals: Signals,
}

impl Host {
    /// Accepts connections of one endpoint until the drain begins, and those that were made before it.
    async fn accept(self, endpoint: Endpoint, ear: Ear) {
        let mut draining = self.signals.draining.subscribe();
        loop {
            let accepted = tokio::select! {
                biased;
                accepted = ear.accept() => accepted,
                _ = draining.wait_for(|draining| *draining) => return,
            };
            match accepted {
                Ok(Call::Tcp(socket)) => {
                    let _ = socket.set_nodelay(true);
                    self.receive(endpoint, socket);
                }
                Ok(Call::Unix(socket)) => self.receive(endpoint, UnixAuthority::new(socket)),
                // Out of file descriptors, as a rule; some will come free.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    fn receive<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(&self, endpoint: Endpoint, socket: T) {
        let Some(guest) = self.admit(endpoint) else { return };
        let drain = DrainWatch::new(self.signals.draining.subscribe());
        let limits = self.desk.shared.limits.clone();
        match endpoint {
            Endpoint::Rest => self.spawn(guest, rest::serve(socket, self.rest.clone(), limits, drain)),
            Endpoint::Grpc | Endpoint::Embedded => {
                self.spawn(guest, grpc::serve(socket, self.grpc.clone(), limits, drain))
            }
        }
    }

    fn spawn(&self, guest: Visit, connection: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(async move {
            connection.await;
            drop(guest);
        });
    }

    /// Counts a connection in, or refuses it when there are too many.
    fn admit(&self, endpoint: Endpoint) -> Option<Visit> {
        let metrics = self.desk.shared.metrics.clone();
        let limit = self.desk.shared.limits.max_connections();
        if self.signals.connections.fetch_add(1, Ordering::Relaxed) >= limit {
            self.signals.connections.fetch_sub(1, Ordering::Relaxed);
            metrics.refused_connections[endpoint as usize].fetch_add(1, Ordering::Relaxed);
            return None;
        }
        metrics.connections[endpoint as usize].fetch_add(1, Ordering::Relaxed);
        let total = self.signals.connections.clone();
        Some(Visit { _guest: self.presence.enter(), metrics, endpoint, total })
    }
}

/// An open connection in every count of them.
struct Visit {
    _guest: Guest,
    metrics: Arc<Metrics>,
    endpoint: Endpoint,
    total: Arc<AtomicUsize>,
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.total.fetch_sub(1, Ordering::Relaxed);
        self.metrics.connections[self.endpoint as usize].fetch_sub(1, Ordering::Relaxed);
    }
}
