//! Both endpoints as an I/O thread runs them, on connections in memory: the plane's own code from the watched socket to the
//! model and back.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use tidegate_codec::protobuf::tensor::Numbers;
use tidegate_engine::batching::Completions;
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::request_id::Share;
use tidegate_engine::serving_map::{Remains, Wiring};
use tidegate_engine::telemetry::TelemetryOptions;
use tidegate_plane::aside::aside;
use tidegate_plane::connections::io_time::IoTime;
use tidegate_plane::connections::pace::Pace;
use tidegate_plane::connections::peer::Peer;
use tidegate_plane::connections::socket::WatchedSocket;
use tidegate_plane::connections::tended::Connections;
use tidegate_plane::control;
use tidegate_plane::drain::DrainWatch;
use tidegate_plane::endpoints::grpc::connection as grpc_connection;
use tidegate_plane::endpoints::grpc::methods::GrpcMethods;
use tidegate_plane::endpoints::grpc::unix_authority::UnixAuthority;
use tidegate_plane::endpoints::reply::{AnyReply, PlaneDispatcher};
use tidegate_plane::endpoints::rest::connection as rest_connection;
use tidegate_plane::endpoints::rest::routes::RestRoutes;
use tidegate_plane::io::completion_queue::CompletionQueue;
use tidegate_plane::settings::{Patience, Security, Settings};
use tidegate_plane::state::PlaneState;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::bounds::{self, Memory};
use crate::null_model::{self, NullModel};

const MESSAGE: usize = 1 << 20;
const BUDGET: usize = 16 << 20;

/// What requests may hold and, beside it, the buffers of one connection and of its protocol.
const MEMORY: Memory = Memory { fixed: BUDGET + (4 << 20), per_byte: 64 };

/// Bytes on their way in one direction.
const PIPE: usize = 64 << 10;

/// A conversation that lasts longer hangs, or does not give its memory back: nobody waits in it but for the other side.
const LONGEST: Duration = Duration::from_secs(20);

/// Every task has had its turn several times, and nothing waits for the model.
const QUIET_TURNS: usize = 16;

/// What the model takes, about.
const MODEL: Duration = Duration::from_micros(20);

/// How a client connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// HTTP/1.1.
    Rest,
    /// HTTP/2 over TCP.
    Grpc,
    /// HTTP/2 over a Unix socket, whose path may come as the authority.
    GrpcOnUnixSocket,
}

struct Endpoints {
    runtime: Runtime,
    dispatcher: Arc<PlaneDispatcher>,
    state: Arc<PlaneState>,
    connections: Arc<Connections>,
    rest: Arc<RestRoutes<AnyReply>>,
    grpc: Arc<GrpcMethods<AnyReply>>,
    draining: watch::Sender<bool>,
    _remains: Receiver<Remains>,
}

static ENDPOINTS: LazyLock<Mutex<Endpoints>> = LazyLock::new(|| Mutex::new(Endpoints::new()));

/// Threads for large bodies.
const ASIDE: usize = 2;

/// Sends the pieces over a new connection and returns what came back once the connection has ended.
pub fn converse(via: Via, pieces: &[&[u8]]) -> Vec<u8> {
    let endpoints = ENDPOINTS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut answers = Vec::new();
    bounds::within(MEMORY, &pieces.concat(), || {
        let talk = async { timeout(LONGEST, endpoints.talk(via, pieces)).await };
        answers = endpoints.runtime.block_on(talk).unwrap_or_else(|_| panic!("{}", endpoints.what_is_left()));
        0
    });
    answers
}

impl Endpoints {
    fn new() -> Endpoints {
        let settings = settings();
        let (control, calls) = control::channel();
        let (aside, jobs) = aside(ASIDE);
        let state = Arc::new(PlaneState::new(&settings, control, aside).expect("plain text needs no certificate"));
        let engine = state.engine.clone();
        let model = Arc::new(NullModel::default());
        let hooks = model.clone();
        std::thread::spawn(move || calls.run(&*hooks));
        let jobs = Arc::new(jobs);
        for jobs in std::iter::repeat_n(jobs, ASIDE) {
            std::thread::spawn(move || jobs.run(&|| ()));
        }
        let completions: Arc<CompletionQueue> = Arc::default();
        let (released, _remains) = channel();
        let wiring = Wiring {
            completions: [completions.clone() as Arc<dyn Completions>].into_iter().collect(),
            metrics: engine.metrics.clone(),
            memory: engine.limits.memory.clone(),
            released,
        };
        let map = engine.map.load_full().after(null_model::publish(&model), &wiring);
        engine.map.store(Arc::new(map.unwrap_or_else(|why| panic!("{why}"))));
        state.set_readiness(true, "all models are there");
        let dispatcher = Arc::new(PlaneDispatcher::new(0, engine.clone()));
        let runtime = Builder::new_current_thread().enable_time().build().unwrap_or_else(|why| panic!("{why}"));
        let (flushing, sweeping, answering) = (dispatcher.clone(), dispatcher.clone(), dispatcher.clone());
        runtime.spawn(async move { flushing.run_idle_flush().await });
        runtime.spawn(async move { sweeping.run_sweep().await });
        runtime.spawn(async move {
            let mut finished = Vec::new();
            loop {
                completions.take(&mut finished).await;
                finished.drain(..).for_each(|batch| answering.answer_batch(batch));
            }
        });
        let connections = Connections::new(settings.patience, engine.limits.clone(), engine.metrics.clone());
        let rest = Arc::new(RestRoutes { dispatcher: dispatcher.clone(), state: state.clone() });
        let grpc = Arc::new(GrpcMethods { dispatcher: dispatcher.clone(), state: state.clone() });
        let draining = watch::Sender::new(false);
        Endpoints { runtime, dispatcher, state, connections, rest, grpc, draining, _remains }
    }

    async fn talk(&self, via: Via, pieces: &[&[u8]]) -> Vec<u8> {
        let (client, server) = duplex(PIPE);
        let served = tokio::spawn(self.serve(via, server));
        let (mut reading, mut writing) = split(client);
        let answers = tokio::spawn(async move {
            let mut answers = Vec::new();
            // A connection that breaks off has answered what it answered.
            let _ = reading.read_to_end(&mut answers).await;
            answers
        });
        for piece in pieces {
            if writing.write_all(piece).await.is_err() {
                break;
            }
            yield_now().await;
        }
        self.settle().await;
        let _ = writing.shutdown().await;
        if let Err(fault) = served.await {
            std::panic::resume_unwind(fault.into_panic());
        }
        drop(writing);
        let answers = answers.await.unwrap_or_default();
        self.settle().await;
        // An executor may still hold what it ran for a client that left.
        while self.held() > 0 {
            self.let_model_run().await;
        }
        answers
    }

    /// What an I/O thread does with a socket that it accepted.
    fn serve(&self, via: Via, server: DuplexStream) -> impl Future<Output = ()> + Send + 'static {
        let endpoint = if via == Via::Rest { Endpoint::Rest } else { Endpoint::Grpc };
        let open = self.connections.admit(endpoint);
        let lifeline = open.lifeline.clone();
        let drain = DrainWatch::new(self.draining.subscribe());
        let (limits, connections) = (self.state.engine.limits.clone(), self.connections.clone());
        let peer = Peer {
            limits,
            lifeline: lifeline.clone(),
            connections,
            pace: Pace::default(),
            aside: self.state.aside.clone(),
            names: Vec::new(),
            address: None,
            observer: self.state.observer.clone(),
        };
        let (rest, grpc) = (self.rest.clone(), self.grpc.clone());
        async move {
            let watched = lifeline.clone();
            match via {
                Via::Rest => {
                    let socket = WatchedSocket::new(server, watched, Pace::default());
                    lifeline.run(rest_connection::serve(socket, rest, peer, drain), IoTime::default()).await;
                }
                Via::Grpc => {
                    let socket = WatchedSocket::new(server, watched, Pace::default());
                    lifeline.run(grpc_connection::serve(socket, grpc, peer, drain), IoTime::default()).await;
                }
                Via::GrpcOnUnixSocket => {
                    let socket = WatchedSocket::new(UnixAuthority::new(server), watched, Pace::default());
                    lifeline.run(grpc_connection::serve(socket, grpc, peer, drain), IoTime::default()).await;
                }
            }
            drop(open);
        }
    }

    fn held(&self) -> usize {
        self.state.engine.limits.memory.used()
    }

    fn what_is_left(&self) -> String {
        format!("the connection did not end: {} bytes are held, waiting: {}", self.held(), !self.dispatcher.is_empty())
    }

    /// Lets every task do what it can, and the model answer.
    async fn settle(&self) {
        let mut quiet = 0;
        while quiet < QUIET_TURNS {
            if quiet == 0 {
                self.let_model_run().await;
            }
            yield_now().await;
            quiet = if self.dispatcher.is_empty() { quiet + 1 } else { 0 };
        }
    }

    /// Everything else waits for the model: this thread must not take its processor.
    async fn let_model_run(&self) {
        if self.held() > 0 {
            std::thread::sleep(MODEL);
        }
        yield_now().await;
    }
}

/// Every request is looked at; its trace goes nowhere, for the memory of one conversation to end with it.
fn told_to_nobody() -> TelemetryOptions {
    TelemetryOptions { access_log: None, traces: Share::new(0.0) }
}

fn settings() -> Settings {
    let long = Duration::from_secs(3600);
    Settings {
        grpc_address: None,
        grpc_socket_path: None,
        rest_address: None,
        metrics_path: None,
        starting: false,
        rest_cors: true,
        numbers: Numbers::InFields,
        shared_memory: false,
        security: Security::default(),
        telemetry: told_to_nobody(),
        io_threads: 1,
        max_message_bytes: MESSAGE,
        request_memory_bytes: BUDGET,
        max_connections: 16,
        patience: Patience { header: long, idle: long, keepalive: long, write: long },
        request_timeout: Duration::from_secs(10),
        event_keepalive: Duration::from_secs(3600),
        log_block_rows: 1 << 10,
        log_block_interval: Duration::from_secs(1),
        log_buffer_bytes: 1 << 20,
    }
}
