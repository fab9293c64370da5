//! What accepts the connections of one I/O thread, and serves each with the services of its endpoint.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustls::ServerConfig;
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::tracker::Tracker;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::connections::full_frames::FullFrames;
use crate::connections::io_time::IoTime;
use crate::connections::lifeline::Lifeline;
use crate::connections::pace::Pace;
use crate::connections::peer::Peer;
use crate::connections::socket::WatchedSocket;
use crate::connections::tended::OpenConnection;
use crate::drain::DrainWatch;
use crate::endpoints::grpc::connection as grpc_connection;
use crate::endpoints::grpc::service::GrpcService;
use crate::endpoints::grpc::unix_authority::UnixAuthority;
use crate::endpoints::rest::connection as rest_connection;
use crate::endpoints::rest::service::RestService;
use crate::io::listener::{Listener, Socket, take_turns};
use crate::io::signals::Signals;
use crate::security::{plain_text, tls};
use crate::sockets::ends::Ends;
use crate::sockets::slow_takers::SlowTaker;
use crate::state::PlaneState;
use crate::supervision::spawn_task;

/// One I/O thread's connections, and who answers on them.
pub struct Host<G, R> {
    /// Limits, TLS and who looks at requests.
    pub state: Arc<PlaneState>,
    /// How much is read and begun between two looks at the sockets.
    pub pace: Pace,
    /// What its connections take of its time.
    pub time: IoTime,
    /// Answers calls over gRPC.
    pub grpc: Arc<G>,
    /// Answers requests over REST.
    pub rest: Arc<R>,
    /// Counts the connections that are open.
    pub tracker: Arc<Tracker>,
    /// How the thread is to end.
    pub signals: Signals,
}

impl<G: GrpcService, R: RestService> Host<G, R> {
    /// Accepts connections until the drain begins.
    pub async fn accept_all(self: &Arc<Host<G, R>>, listeners: Vec<(Endpoint, Listener)>) {
        let accept = |(endpoint, listener): (Endpoint, Listener)| {
            let (host, listener) = (self.clone(), Arc::new(listener));
            spawn_task(move || host.clone().accept(endpoint, listener.clone()))
        };
        let endpoints: Vec<_> = listeners.into_iter().map(accept).collect();
        for endpoint in endpoints {
            let _ = endpoint.await;
        }
        let _ = self.signals.draining.subscribe().wait_for(|draining| *draining).await;
    }

    /// Accepts connections of one endpoint until the drain begins, and those that were made before it.
    async fn accept(self: Arc<Host<G, R>>, endpoint: Endpoint, listener: Arc<Listener>) {
        let mut draining = self.signals.draining.subscribe();
        for before in 0.. {
            take_turns(before).await;
            let accepted = tokio::select! {
                biased;
                accepted = listener.accept() => accepted,
                _ = draining.wait_for(|draining| *draining) => return,
            };
            match accepted {
                Ok(Socket::Tcp(socket, from)) => {
                    let _ = socket.set_nodelay(true);
                    match self.state.tls.as_ref().and_then(|tls| tls.load().of(endpoint)) {
                        None if endpoint == Endpoint::Grpc => self.receive_grpc(socket, from),
                        None => self.receive(endpoint, self.ask_again(SlowTaker::new(socket)), Some(from)),
                        Some(tls) => self.receive_tls(endpoint, socket, from, tls),
                    }
                }
                Ok(Socket::Unix(socket)) => self.receive(endpoint, UnixAuthority::new(socket), None),
                // Out of file descriptors, as a rule; some will come free.
                Err(_) => {
                    self.signals.connections.make_room();
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
    }

    fn receive<T: AsyncRead + AsyncWrite + Ends + Unpin + Send + 'static>(
        &self,
        endpoint: Endpoint,
        socket: T,
        from: Option<SocketAddr>,
    ) {
        let open = self.signals.connections.admit(endpoint);
        let (socket, peer, drain) = self.surround(socket, open.lifeline.clone(), from, Vec::new());
        if endpoint == Endpoint::Rest {
            self.spawn(open, rest_connection::serve(socket, self.rest.clone(), peer, drain));
        } else {
            self.spawn(open, grpc_connection::serve(socket, self.grpc.clone(), peer, drain));
        }
    }

    /// The same over gRPC without TLS, once it is known that the client does not speak HTTP/1.
    fn receive_grpc(self: &Arc<Host<G, R>>, socket: TcpStream, from: SocketAddr) {
        let open = self.signals.connections.admit(Endpoint::Grpc);
        let (host, lifeline) = (self.clone(), open.lifeline.clone());
        self.spawn(open, async move {
            let patience = host.state.engine.limits.header_timeout();
            let Ok(Ok(socket)) = tokio::time::timeout(patience, plain_text::refuse_http1(socket)).await else { return };
            let (socket, peer, drain) = host.surround(
                FullFrames::new(host.ask_again(SlowTaker::new(socket))),
                lifeline,
                Some(from),
                Vec::new(),
            );
            grpc_connection::serve(socket, host.grpc.clone(), peer, drain).await;
        });
    }

    /// The same once TLS has begun, for which there is as long as for a request's head.
    fn receive_tls(
        self: &Arc<Host<G, R>>,
        endpoint: Endpoint,
        socket: TcpStream,
        from: SocketAddr,
        tls: Arc<ServerConfig>,
    ) {
        let open = self.signals.connections.admit(endpoint);
        let (host, lifeline) = (self.clone(), open.lifeline.clone());
        self.spawn(open, async move {
            let patience = host.state.engine.limits.header_timeout();
            let begun = tokio::time::timeout(patience, tls::accept(socket, from.ip(), tls, &host.state.aside)).await;
            let Ok(Ok((mut socket, names))) = begun else {
                host.state.engine.metrics.tls_failures[endpoint as usize].fetch_add(1, Ordering::Relaxed);
                return;
            };
            socket.get_mut().0.ask_again(host.signals.connections.patience().write);
            let (socket, peer, drain) = host.surround(socket, lifeline, Some(from), names);
            if endpoint == Endpoint::Rest {
                rest_connection::serve(socket, host.rest.clone(), peer, drain).await;
            } else {
                grpc_connection::serve(socket, host.grpc.clone(), peer, drain).await;
            }
        });
    }

    /// One that takes its answers slowly is not to seem to take nothing.
    fn ask_again(&self, mut socket: SlowTaker) -> SlowTaker {
        socket.ask_again(self.signals.connections.patience().write);
        socket
    }

    /// What a connection is served with.
    fn surround<T>(
        &self,
        socket: T,
        lifeline: Arc<Lifeline>,
        address: Option<SocketAddr>,
        names: Vec<String>,
    ) -> (WatchedSocket<T>, Peer, DrainWatch) {
        let socket = WatchedSocket::new(socket, lifeline.clone(), self.pace.clone());
        let drain = DrainWatch::new(self.signals.draining.subscribe());
        let (limits, connections) = (self.state.engine.limits.clone(), self.signals.connections.clone());
        let (pace, aside, observer) = (self.pace.clone(), self.state.aside.clone(), self.state.observer.clone());
        (socket, Peer { limits, lifeline, connections, pace, aside, names, address, observer }, drain)
    }

    fn spawn(&self, open: OpenConnection, connection: impl Future<Output = ()> + Send + 'static) {
        let (token, time) = (self.tracker.enter(), self.time.clone());
        tokio::spawn(async move {
            open.lifeline.clone().run(connection, time).await;
            drop((open, token));
        });
    }
}
