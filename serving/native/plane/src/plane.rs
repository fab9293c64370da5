//! The data plane: start, apply, stats, drain, stop.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidegate_codec::model_spec::VersionChoice;
use tidegate_codec::status::Status;
use tidegate_codec::version_state::VersionState;
use tidegate_engine::batching::Completions;
use tidegate_engine::limits::Limits;
use tidegate_engine::metrics::{Gauge, HungCall, Metrics};
use tidegate_engine::serving_map::{Change, ServingMap, Version, Wiring};
use tidegate_engine::sync::lock;

use crate::aside::aside;
use crate::connections::tended::Connections;
use crate::control;
use crate::endpoints::embedded::endpoint::Embedded;
use crate::endpoints::reply::{AnyReply, PlaneDispatcher};
use crate::hooks::Hooks;
use crate::io::completion_queue::CompletionQueue;
use crate::io::listen;
use crate::io::signals::Signals;
use crate::io::thread::Listeners;
use crate::security::access::Access;
use crate::security::tls::Pem;
use crate::settings::Settings;
use crate::state::PlaneState;
use crate::system::System;
use crate::threads::{Threads, Work};

/// How long threads that were told to end may take for it, beyond the time that a drain has.
const AFTERWARDS: Duration = Duration::from_millis(250);
/// Between two looks whether a model's call has returned.
const LOOK: Duration = Duration::from_millis(1);
/// How long a stop waits for callbacks that run.
const STOPPING: Duration = Duration::from_secs(2);

/// A running data plane.
pub struct Plane {
    state: Arc<PlaneState>,
    signals: Signals,
    wiring: Mutex<Option<Wiring>>,
    threads: Threads,
    embedded: Embedded<AnyReply>,
    grpc_address: Option<SocketAddr>,
    _socket_file: Option<listen::SocketFile>,
    rest_address: Option<SocketAddr>,
}

impl Plane {
    /// Binds the addresses and starts the threads. Nothing is left behind on error.
    pub fn start(settings: &Settings, hooks: Arc<dyn Hooks>, system: Arc<dyn System>) -> io::Result<Plane> {
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
        settings.check().map_err(invalid)?;
        let count = settings.io_threads;
        let (grpc, grpc_address) = listen::maybe(settings.grpc_address.as_deref(), count)?;
        let (rest, rest_address) = listen::maybe(settings.rest_address.as_deref(), count)?;
        let (unix, socket_file) = listen::maybe_unix(settings.grpc_socket_path.as_deref(), count)?;
        let (control, calls) = control::channel();
        let (aside, jobs) = aside(count + 1);
        let state = Arc::new(PlaneState::new(settings, control, aside).map_err(invalid)?);
        let engine = state.engine.clone();
        if settings.starting {
            engine.map.store(Arc::new(ServingMap::of_a_start()));
        }
        // The last lane is that of the embedding program.
        let embedded = Embedded::new(PlaneDispatcher::without_io(count, engine.clone()));
        let queues: Vec<Arc<CompletionQueue>> = (0..count).map(|_| Arc::default()).collect();
        let by_thread = queues.iter().map(|queue| queue.clone() as Arc<dyn Completions>);
        let completions = by_thread.chain([embedded.completions()]).collect();
        let (sender, remains) = channel();
        let wiring = Wiring {
            completions,
            metrics: engine.metrics.clone(),
            memory: engine.limits.memory.clone(),
            released: sender,
        };
        let plane = Plane {
            signals: Signals::new(Connections::new(settings.patience, engine.limits.clone(), engine.metrics.clone())),
            threads: Threads::default(),
            wiring: Mutex::new(Some(wiring)),
            embedded,
            state: state.clone(),
            grpc_address,
            _socket_file: socket_file,
            rest_address,
        };
        let closed = grpc_address.is_none() && rest_address.is_none() && settings.grpc_socket_path.is_none();
        let listeners = grpc.into_iter().zip(rest).zip(unix).filter(|_| !closed);
        let listeners = listeners.map(|((grpc, rest), unix)| Listeners { grpc, unix, rest });
        let aside = (jobs, count + 1);
        let work = Work { state, hooks, system, calls, aside, remains, lanes: listeners.zip(queues).collect() };
        if let Err(why) = plane.threads.start(work, &plane.signals) {
            plane.stop();
            return Err(why);
        }
        Ok(plane)
    }

    /// Predicting without a socket.
    pub fn embedded(&self) -> &Embedded<AnyReply> {
        &self.embedded
    }

    /// Where the gRPC endpoint listens, beside its Unix socket.
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc_address
    }

    /// Where the REST endpoint listens.
    pub fn rest_address(&self) -> Option<SocketAddr> {
        self.rest_address
    }

    /// A handle on the version that a request means, which keeps it alive. Never waits.
    pub fn handle(&self, name: &str, choice: VersionChoice<'_>) -> Result<Arc<Version>, Status> {
        self.state.engine.map.load().resolve(name, choice, None).map(|(_, version)| version.clone())
    }

    /// Looks a version up as a request does: it is there for as long as `work` lasts, without a reference of its own.
    pub fn with_version<T>(
        &self,
        name: &str,
        choice: VersionChoice<'_>,
        work: impl FnOnce(&Version) -> T,
    ) -> Result<T, Status> {
        self.state.engine.map.load().resolve(name, choice, None).map(|(_, version)| work(version))
    }

    /// The whole serving map as it is now.
    pub fn map(&self) -> Arc<ServingMap> {
        self.state.engine.map.load_full()
    }

    /// What is bounded, to be read and changed.
    pub fn limits(&self) -> &Limits {
        &self.state.engine.limits
    }

    /// Swaps the serving map once for all changes, or says why none was made.
    pub fn apply(&self, changes: Vec<Change>) -> Result<(), String> {
        let wiring = lock(&self.wiring);
        let Some(wiring) = wiring.as_ref() else {
            return Err("the data plane is stopped".to_owned());
        };
        let current = self.state.engine.map.load_full();
        let next = Arc::new(current.after(changes, wiring)?);
        self.state.engine.map.store(next.clone());
        for version in current.gone(&next) {
            version.retire();
        }
        Ok(())
    }

    /// Who may ask from now on. The error says that the plane was started without asking anybody.
    pub fn set_access(&self, access: Access) -> Result<(), String> {
        self.state.set_access(access)
    }

    /// How TLS begins on connections from now on. The error says what cannot be used; then nothing changes.
    pub fn set_tls(&self, pem: &Pem) -> Result<(), String> {
        self.state.set_tls(pem)
    }

    /// What the server starts with is there, or has failed.
    pub fn started(&self) {
        let _changes = lock(&self.wiring);
        let map = &self.state.engine.map;
        map.store(Arc::new(map.load().started()));
    }

    /// What `/v2/health/ready` answers.
    pub fn set_ready(&self, ready: bool, reason: &str) {
        self.state.set_readiness(ready, reason);
    }

    /// What `GetModelStatus` answers about a model from now on; no states forget it.
    pub fn set_states(&self, model: &str, states: Vec<VersionState>) {
        self.state.engine.states.set(model, states);
    }

    /// Replaces a family of gauges that only Python knows; no samples forget it. The error says what cannot be a name.
    pub fn set_gauges(&self, name: &str, help: &str, gauges: Vec<Gauge>) -> Result<(), String> {
        self.state.engine.gauges.set(name, help, gauges)
    }

    /// Every counter with its Prometheus sample name; or, of all models, only those of one.
    pub fn stats(&self, only: Option<&str>) -> Vec<(String, f64)> {
        self.state.engine.samples(only)
    }

    /// Every call of a model that runs now.
    pub fn running_calls(&self) -> Vec<HungCall> {
        self.state.engine.metrics.running_calls()
    }

    /// The calls that run for longer than `least` and far longer than calls of their version usually take.
    pub fn stuck_calls(&self, least: Duration) -> Vec<HungCall> {
        self.state.engine.metrics.stuck_calls(least)
    }

    /// The counters themselves.
    pub fn metrics(&self) -> &Metrics {
        &self.state.engine.metrics
    }

    /// Not ready, no new connections, everything accepted answered, log flushed, I/O, helper, log and control threads ended.
    /// True if all was answered and every call of a model has returned in time, also where nobody waits for it any more.
    /// Who was not answered hears UNAVAILABLE. Versions stay published until they are retired or the plane is stopped.
    pub fn drain(&self, within: Duration) -> bool {
        self.state.begin_drain();
        let until = Instant::now() + within;
        self.signals.until.send_replace(Some(until));
        self.signals.draining.send_replace(true);
        let mut complete = self.threads.join_io();
        self.state.aside.close();
        complete &= self.embedded.drain(until);
        complete &= self.calls_return(until);
        self.state.engine.log.close();
        if let Some(observer) = &self.state.observer {
            observer.close();
        }
        self.state.control.close();
        complete &= self.threads.join_helpers(until.max(Instant::now()) + AFTERWARDS);
        self.threads.join_tellers();
        complete
    }

    /// Waits for calls of models, also where their clients have gone. True if none runs any more by then.
    fn calls_return(&self, until: Instant) -> bool {
        while !self.running_calls().is_empty() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }

    /// Ends everything now, within about the time that running callbacks take, but within seconds. Idempotent. True if
    /// nothing is left; a model whose call does not return keeps its thread.
    pub fn stop(&self) -> bool {
        self.stop_within(STOPPING)
    }

    /// The same within a time.
    pub fn stop_within(&self, within: Duration) -> bool {
        let until = Instant::now() + within;
        self.drain(Duration::ZERO);
        self.state.engine.map.store(Arc::default());
        lock(&self.wiring).take();
        self.threads.join_released(until)
    }
}
