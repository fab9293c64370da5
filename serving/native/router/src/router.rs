//! The router: start, apply, stats, stop.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::iter::once;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tidegate_codec::version_state::VersionState;
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::sync::lock;
use tidegate_engine::tracker::Tracker;
use tidegate_plane::aside::{AsideJobs, aside};
use tidegate_plane::connections::io_time::IoTime;
use tidegate_plane::connections::pace::Pace;
use tidegate_plane::connections::tended::Connections;
use tidegate_plane::control;
use tidegate_plane::endpoints::grpc::methods::GrpcMethods;
use tidegate_plane::endpoints::reply::PlaneDispatcher;
use tidegate_plane::endpoints::rest::routes::RestRoutes;
use tidegate_plane::freed_memory::{FreedMemory, share_memory};
use tidegate_plane::io::host::Host;
use tidegate_plane::io::listen;
use tidegate_plane::io::listener::Listener;
use tidegate_plane::io::signals::Signals;
use tidegate_plane::io::thread::{IoThread, Listeners};
use tidegate_plane::named_thread::{join, spawn};
use tidegate_plane::security::access::Access;
use tidegate_plane::security::tls::Pem;
use tidegate_plane::state::PlaneState;
use tidegate_plane::supervision::{spawn_task, spawn_thread};
use tidegate_plane::system::System;
use tidegate_plane::threads::{start_access_log, start_aside};
use tokio::sync::watch;

use crate::grpc::service::GrpcForwarder;
use crate::hedging::Hedging;
use crate::lane::{Lane, Shared};
use crate::links::connect::{Connector, Links};
use crate::links::tls::NodePem;
use crate::node::Addresses;
use crate::rest::service::RestForwarder;
use crate::routes::Counts;
use crate::settings::RouterSettings;
use crate::waiting::ColdRequests;

/// How long the refusals at the end of a drain may take on their way to the clients.
const FAREWELL: Duration = Duration::from_millis(250);
/// How long threads that were told to end may take for it.
const ENDING: Duration = Duration::from_secs(2);

/// What is counted of one model: requests, errors, retried, hedged, and when it was used last, in seconds since 1970.
pub type ModelStats = (u64, u64, u64, u64, f64);

/// Called with the name of a model that is asked for and on no node; on a thread of its own.
pub type Wanted = Box<dyn Fn(&str) + Send>;

/// A running router.
pub struct Router {
    shared: Arc<Shared>,
    signals: Signals,
    links: Links,
    applying: Mutex<()>,
    stopped: AtomicBool,
    io: Mutex<Vec<JoinHandle<bool>>>,
    helpers: Mutex<Vec<JoinHandle<()>>>,
    memory: Mutex<Option<FreedMemory>>,
    grpc_address: Option<SocketAddr>,
    rest_address: Option<SocketAddr>,
    _socket_file: Option<listen::SocketFile>,
}

impl Router {
    /// Binds the addresses and starts the threads. Nothing is left behind on error.
    pub fn start(settings: &RouterSettings, wanted: Wanted, system: Arc<dyn System>) -> io::Result<Router> {
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
        settings.check().map_err(invalid)?;
        let plane = &settings.plane;
        let count = plane.io_threads;
        let (grpc, grpc_address) = listen::maybe(plane.grpc_address.as_deref(), count)?;
        let (rest, rest_address) = listen::maybe(plane.rest_address.as_deref(), count)?;
        let (unix, socket_file) = listen::maybe_unix(plane.grpc_socket_path.as_deref(), count)?;
        let connector = Connector::new(settings.node_tls.as_ref()).map_err(invalid)?;
        let (aside, jobs) = aside(count + 1);
        // Nobody answers what Python would of an engine; those methods are refused before.
        let (control, _) = control::channel();
        let state = Arc::new(PlaneState::new(plane, control, aside).map_err(invalid)?);
        state.set_readiness(false, "the router has not read the fleet's routes yet");
        let engine = &state.engine;
        let signals = Signals::new(Connections::new(plane.patience, engine.limits.clone(), engine.metrics.clone()));
        let (sender, names) = channel();
        let shared = Arc::new(Shared {
            state,
            system,
            routes: ArcSwap::default(),
            refused: ArcSwap::default(),
            changed: watch::Sender::new(()),
            cold: ColdRequests::new(settings.cold, sender),
            hedging: settings.hedge_after.map(Hedging::new),
            overdue: watch::Sender::new(false),
        });
        let router = Router {
            shared,
            signals,
            links: Links {
                lanes: count,
                connections: settings.connections_per_node,
                connector,
                keepalive: plane.patience.keepalive,
            },
            applying: Mutex::new(()),
            stopped: AtomicBool::new(false),
            io: Mutex::default(),
            helpers: Mutex::default(),
            memory: Mutex::default(),
            grpc_address,
            rest_address,
            _socket_file: socket_file,
        };
        let listeners = grpc.into_iter().zip(rest).zip(unix);
        let listeners = listeners.map(|((grpc, rest), unix)| Listeners { grpc, unix, rest }).collect();
        if let Err(why) = router.start_threads(listeners, jobs, names, wanted) {
            router.stop(Duration::ZERO);
            return Err(why);
        }
        Ok(router)
    }

    fn start_threads(
        &self,
        listeners: Vec<Listeners>,
        jobs: AsideJobs,
        names: Receiver<String>,
        wanted: Wanted,
    ) -> io::Result<()> {
        let telling = spawn_thread("tg-wanted", move || tell(&names, &wanted))?;
        lock(&self.helpers).push(telling);
        let system = &self.shared.system;
        start_aside((jobs, listeners.len() + 1), system, &self.helpers)?;
        *lock(&self.memory) = Some(FreedMemory::start(&self.shared.state.engine, system.clone())?);
        if let Some(observer) = &self.shared.state.observer {
            start_access_log(observer, system, &self.helpers)?;
        }
        for (index, listeners) in listeners.into_iter().enumerate() {
            let io = IoThread::new(listeners)?;
            let lane = Arc::new(Lane { index, shared: self.shared.clone() });
            let signals = self.signals.clone();
            let started =
                spawn(&format!("tg-io-{index}"), move || io.block_on(|listeners| serve(lane, listeners, signals)))?;
            lock(&self.io).push(started);
        }
        Ok(())
    }

    /// Where the gRPC endpoint listens, beside its Unix socket.
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc_address
    }

    /// Where the REST endpoint listens.
    pub fn rest_address(&self) -> Option<SocketAddr> {
        self.rest_address
    }

    /// Swaps all routes at once: nodes by their ids, and of each model the ids of those that it is on. Requests that are under
    /// way end where they are; those at a node that is not among them any more are asked of another one, too. The router is ready from then on. The error names what cannot be, and then nothing changes.
    pub fn apply(&self, nodes: HashMap<String, Addresses>, models: HashMap<String, Vec<String>>) -> Result<(), String> {
        let _one_at_a_time = lock(&self.applying);
        if self.stopped.load(Ordering::Acquire) {
            return Err("the router is stopped".to_owned());
        }
        let before = self.shared.routes.load_full();
        let next = Arc::new(before.after(nodes, models, &self.links)?);
        self.shared.routes.store(next.clone());
        before.lost_in(&next).for_each(|node| node.lose());
        self.shared.changed.send_replace(());
        self.shared.state.set_readiness(true, "the router has routes");
        Ok(())
    }

    /// How the versions of all models stand in the whole fleet, which the router itself answers where it is asked about all
    /// of them, or about one that is on no node.
    pub fn set_states(&self, all: HashMap<String, Vec<VersionState>>) {
        self.shared.state.engine.states.replace(all);
    }

    /// Models that are loaded for no request from now on, each with why: what operators decided. Nodes that have such a model say
    /// so themselves.
    pub fn set_refused(&self, all: HashMap<String, String>) {
        self.shared.refused.store(Arc::new(all));
        self.shared.changed.send_replace(());
    }

    /// Who may ask from now on. The error says that the router was started without asking anybody.
    pub fn set_access(&self, access: Access) -> Result<(), String> {
        self.shared.state.set_access(access)
    }

    /// How TLS with clients begins on connections from now on. The error says what cannot be used; then nothing changes.
    pub fn set_tls(&self, pem: &Pem) -> Result<(), String> {
        self.shared.state.set_tls(pem)
    }

    /// The same of connections to nodes.
    pub fn set_node_tls(&self, pem: &NodePem) -> Result<(), String> {
        self.links.connector.set(pem)
    }

    /// What is counted of each model that is known.
    pub fn stats(&self) -> HashMap<String, ModelStats> {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let routes = self.shared.routes.load();
        let of = |counts: &Counts| {
            let (requests, errors) = (load(&counts.requests), load(&counts.errors));
            (requests, errors, load(&counts.retried), load(&counts.hedged), counts.last_used())
        };
        routes.models().map(|model| (model.name.clone(), of(&model.counts))).collect()
    }

    /// Not ready, no new connections, everything accepted answered, threads ended. True if all was answered in time; who was
    /// not hears UNAVAILABLE. Idempotent.
    pub fn stop(&self, within: Duration) -> bool {
        drop(lock(&self.applying));
        self.stopped.store(true, Ordering::Release);
        self.shared.state.begin_drain();
        self.signals.until.send_replace(Some(Instant::now() + within));
        self.signals.draining.send_replace(true);
        let threads = std::mem::take(&mut *lock(&self.io));
        let late = threads.into_iter().filter_map(|thread| (!thread.join().unwrap_or(false)).then_some(()));
        let complete = late.count() == 0;
        self.shared.state.aside.close();
        self.shared.cold.close();
        if let Some(observer) = &self.shared.state.observer {
            observer.close();
        }
        self.shared.routes.store(Arc::default());
        let until = Instant::now() + ENDING;
        let memory = lock(&self.memory).take().map(FreedMemory::end);
        let helpers = std::mem::take(&mut *lock(&self.helpers));
        helpers.into_iter().chain(memory).for_each(|thread| drop(join(thread, until)));
        complete
    }
}

/// One I/O thread, until the drain is over. True if all was answered in time.
async fn serve(lane: Arc<Lane>, listeners: Vec<(Endpoint, Listener)>, signals: Signals) -> bool {
    let (tracker, shared) = (Arc::new(Tracker::default()), lane.shared.clone());
    if lane.index == 0 {
        signals.connections.begin_to_tend();
    }
    let tending = lane.clone();
    spawn_task(move || tending.clone().close_idle());
    let dispatcher = Arc::new(PlaneDispatcher::new(lane.index, shared.state.engine.clone()));
    let (sharing, system) = (dispatcher.clone(), shared.system.clone());
    spawn_task(move || share_memory(sharing.clone(), system.clone()));
    let pace = Pace::new(dispatcher.mixture());
    let local = GrpcMethods { dispatcher: dispatcher.clone(), state: shared.state.clone() };
    let grpc = Arc::new(GrpcForwarder { lane: lane.clone(), local });
    let local = RestRoutes { dispatcher, state: shared.state.clone() };
    let rest = Arc::new(RestForwarder { lane, local });
    let state = shared.state.clone();
    let host = Arc::new(Host {
        state,
        pace,
        time: IoTime::default(),
        grpc,
        rest,
        tracker: tracker.clone(),
        signals: signals.clone(),
    });
    host.accept_all(listeners).await;
    let until = signals.until.borrow().unwrap_or_else(Instant::now);
    let complete = tokio::time::timeout_at(until.into(), tracker.empty()).await.is_ok();
    if !complete {
        shared.overdue.send_replace(true);
        let _ = tokio::time::timeout(FAREWELL, tracker.empty()).await;
    }
    complete
}

/// Tells which models are wanted. A name that came many times while others were told, as clients gave up, is told once.
fn tell(names: &Receiver<String>, wanted: &Wanted) {
    while let Ok(name) = names.recv() {
        let all: BTreeSet<String> = once(name).chain(names.try_iter()).collect();
        all.iter().for_each(|name| wanted(name));
    }
}
