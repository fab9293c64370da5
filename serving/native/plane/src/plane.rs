//! The data plane: start, apply, stats, drain, stop.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use tidegate_codec::model_spec::VersionChoice;
use tidegate_codec::status::Status;
use tidegate_codec::version_state::VersionState;
use tidegate_engine::batching::Completions;
use tidegate_engine::limits::Limits;
use tidegate_engine::metrics::{Gauge, Metrics};
use tidegate_engine::serving_map::{Change, Remains, ServingMap, Version, Wiring};
use tidegate_engine::sync::lock;

use crate::control;
use crate::endpoints::embedded::endpoint::Embedded;
use crate::endpoints::reply::{AnyReply, PlaneDispatcher};
use crate::hooks::Hooks;
use crate::io::completion_queue::CompletionQueue;
use crate::io::listen;
use crate::io::thread::{self, IoLane, Listeners, Signals};
use crate::settings::Settings;
use crate::state::PlaneState;

/// The threads that a drain ends.
#[derive(Default)]
struct Threads {
    io: Vec<JoinHandle<bool>>,
    helpers: Vec<JoinHandle<()>>,
}

/// A running data plane.
pub struct Plane {
    state: Arc<PlaneState>,
    signals: Signals,
    wiring: Mutex<Option<Wiring>>,
    threads: Mutex<Threads>,
    released: Mutex<Option<JoinHandle<()>>>,
    embedded: Embedded<AnyReply>,
    grpc_address: Option<SocketAddr>,
    _socket_file: Option<listen::SocketFile>,
    rest_address: Option<SocketAddr>,
}

impl Plane {
    /// Binds the addresses and starts the threads. Nothing is left behind on error.
    pub fn start(settings: &Settings, hooks: Arc<dyn Hooks>) -> io::Result<Plane> {
        settings.check().map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        let count = settings.io_threads;
        let (grpc, grpc_address) = listen::maybe(settings.grpc_address.as_deref(), count)?;
        let (rest, rest_address) = listen::maybe(settings.rest_address.as_deref(), count)?;
        let (unix, socket_file) = listen::maybe_unix(settings.grpc_socket_path.as_deref(), count)?;
        let (control, calls) = control::channel();
        let state = Arc::new(PlaneState::new(settings, control));
        let engine = state.engine.clone();
        // The last lane is that of the embedding program.
        let embedded = Embedded::new(PlaneDispatcher::without_io(count, engine.clone()));
        let queues: Vec<Arc<CompletionQueue>> = (0..count).map(|_| Arc::default()).collect();
        let by_thread = queues.iter().map(|queue| queue.clone() as Arc<dyn Completions>);
        let completions = by_thread.chain([embedded.completions()]).collect();
        let (sender, receiver) = channel();
        let wiring = Wiring {
            completions,
            metrics: engine.metrics.clone(),
            memory: engine.limits.memory.clone(),
            released: sender,
        };
        let plane = Plane {
            signals: Signals::default(),
            threads: Mutex::default(),
            released: Mutex::default(),
            wiring: Mutex::default(),
            embedded,
            state: state.clone(),
            grpc_address,
            _socket_file: socket_file,
            rest_address,
        };
        let (sink, control) = (hooks.clone(), hooks.clone());
        let logging = engine.clone();
        plane.helper("tg-log", move || logging.log.run(&*sink))?;
        plane.helper("tg-control", move || calls.run(&*control))?;
        let metrics = engine.metrics.clone();
        let released = Builder::new().name("tg-released".to_owned());
        *lock(&plane.released) = Some(released.spawn(move || release(&receiver, &metrics, &*hooks))?);
        let closed = grpc_address.is_none() && rest_address.is_none() && settings.grpc_socket_path.is_none();
        let listeners = grpc.into_iter().zip(rest).zip(unix).zip(queues);
        for (index, (((grpc, rest), unix), completions)) in listeners.enumerate().filter(|_| !closed) {
            let dispatcher = Arc::new(PlaneDispatcher::new(index, engine.clone()));
            let lane = IoLane { dispatcher, completions, state: state.clone() };
            let (signals, listeners) = (plane.signals.clone(), Listeners { grpc, unix, rest });
            let run = move || thread::run(&lane, listeners, &signals).unwrap_or(false);
            let started = Builder::new().name(format!("tg-io-{index}")).spawn(run)?;
            lock(&plane.threads).io.push(started);
        }
        *lock(&plane.wiring) = Some(wiring);
        Ok(plane)
    }

    fn helper(&self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let started = Builder::new().name(name.to_owned()).spawn(run)?;
        lock(&self.threads).helpers.push(started);
        Ok(())
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

    /// The counters themselves.
    pub fn metrics(&self) -> &Metrics {
        &self.state.engine.metrics
    }

    /// Not ready, no new connections, everything accepted answered, log flushed, I/O, log and control threads ended.
    /// True if all was answered in time. Versions stay published until they are retired or the plane is stopped.
    pub fn drain(&self, within: Duration) -> bool {
        self.state.begin_drain();
        let until = Instant::now() + within;
        self.signals.until.send_replace(Some(until));
        self.signals.draining.send_replace(true);
        let (io, helpers) = {
            let mut threads = lock(&self.threads);
            (std::mem::take(&mut threads.io), std::mem::take(&mut threads.helpers))
        };
        let mut complete = true;
        for thread in io {
            complete &= thread.join().unwrap_or(false);
        }
        complete &= self.embedded.drain(until);
        self.state.engine.log.close();
        self.state.control.close();
        for thread in helpers {
            complete &= thread.join().is_ok();
        }
        complete
    }

    /// Ends everything now, within about the time that running callbacks take. Idempotent.
    pub fn stop(&self) {
        self.drain(Duration::ZERO);
        self.state.engine.map.store(Arc::default());
        lock(&self.wiring).take();
        let released = lock(&self.released).take();
        if let Some(thread) = released {
            let _ = thread.join();
        }
    }
}

/// Takes versions apart whose last handle is gone: threads joined, model dropped, Python told.
fn release(receiver: &Receiver<Remains>, metrics: &Metrics, hooks: &dyn Hooks) {
    for remains in receiver {
        let Remains { model, number, threads, executor, retired } = remains;
        for thread in threads {
            let _ = thread.join();
        }
        metrics.version(&model, number).settle(executor.entries());
        metrics.forget_oldest(&model);
        drop(executor);
        if retired {
            hooks.released(&model, number);
        }
    }
}
