//! The data plane: start, apply, stats, drain, stop.
//! Python's calls come in here through the border; inside it puts the threads together and takes them apart again.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::change::{Change, Effect, Wiring};
use crate::control;
use crate::desk::Desk;
use crate::embedded::Embedded;
use crate::gauges::Gauge;
use crate::hooks::Hooks;
use crate::io_thread::{self, Listeners, Signals};
use crate::limits::Limits;
use crate::listen;
use crate::lock;
use crate::mailbox::Mailbox;
use crate::metrics::Metrics;
use crate::model_status::VersionState;
use crate::predict_request::Choice;
use crate::serving_map::ServingMap;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::status::Status;
use crate::version::{Remains, Version};

/// The threads that a drain ends.
#[derive(Default)]
struct Threads {
    io: Vec<JoinHandle<bool>>,
    helpers: Vec<JoinHandle<()>>,
}

/// A running data plane.
pub struct Plane {
    shared: Arc<Shared>,
    signals: Signals,
    wiring: Mutex<Option<Wiring>>,
    threads: Mutex<Threads>,
    released: Mutex<Option<JoinHandle<()>>>,
    embedded: Embedded,
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
        let (control, calls) = control::line();
        let shared = Arc::new(Shared::new(settings, control));
        // The last lane is that of the embedding program.
        let mailboxes: Arc<[Arc<Mailbox>]> = (0..=count).map(|_| Arc::default()).collect();
        let (sender, receiver) = channel();
        let wiring = Wiring { mailboxes: mailboxes.clone(), metrics: shared.metrics.clone(), released: sender };
        let plane = Plane {
            signals: Signals::default(),
            threads: Mutex::default(),
            released: Mutex::default(),
            wiring: Mutex::default(),
            embedded: Embedded::new(Arc::new(Desk::embedded(count, shared.clone(), mailboxes[count].clone()))),
            shared: shared.clone(),
            grpc_address,
            _socket_file: socket_file,
            rest_address,
        };
        let (logging, asked) = (hooks.clone(), hooks.clone());
        let for_log = shared.clone();
        plane.helper("tg-log", move || for_log.log.run(&*logging))?;
        plane.helper("tg-control", move || calls.run(&*asked))?;
        let metrics = shared.metrics.clone();
        let released = thread::Builder::new().name("tg-released".to_owned());
        *lock(&plane.released) = Some(released.spawn(move || release(&receiver, &metrics, &*hooks))?);
        let closed = grpc_address.is_none() && rest_address.is_none() && settings.grpc_socket_path.is_none();
        for (index, ((grpc, rest), unix)) in grpc.into_iter().zip(rest).zip(unix).enumerate().filter(|_| !closed) {
            let desk = Arc::new(Desk::new(index, shared.clone(), wiring.mailboxes[index].clone()));
            let (signals, listeners) = (plane.signals.clone(), Listeners { grpc, unix, rest });
            let run = move || io_thread::run(&desk, listeners, &signals).unwrap_or(false);
            let started = thread::Builder::new().name(format!("tg-io-{index}")).spawn(run)?;
            lock(&plane.threads).io.push(started);
        }
        *lock(&plane.wiring) = Some(wiring);
        Ok(plane)
    }

    fn helper(&self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let started = thread::Builder::new().name(name.to_owned()).spawn(run)?;
        lock(&self.threads).helpers.push(started);
        Ok(())
    }

    /// Predicting without a socket.
    pub fn embedded(&self) -> &Embedded {
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

    /// A handle on the version that a request means, which keeps it alive. Waits for nobody.
    pub fn handle(&self, name: &str, choice: Choice<'_>) -> Result<Arc<Version>, Status> {
        self.shared.map.load().resolve(name, choice, None).map(|(_, version)| version.clone())
    }

    /// Looks a version up as a request does: it is there for as long as `work` lasts, without a reference of its own.
    pub fn with_version<T>(
        &self,
        name: &str,
        choice: Choice<'_>,
        work: impl FnOnce(&Version) -> T,
    ) -> Result<T, Status> {
        self.shared.map.load().resolve(name, choice, None).map(|(_, version)| work(version))
    }

    /// The whole serving map as it is now.
    pub fn map(&self) -> Arc<ServingMap> {
        self.shared.map.load_full()
    }

    /// What is bounded, to be read and changed.
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Swaps the serving map once for all changes, or says why none was made.
    pub fn apply(&self, changes: Vec<Change>) -> Result<(), String> {
        let wiring = lock(&self.wiring);
        let Some(wiring) = wiring.as_ref() else {
            return Err("the data plane is stopped".to_owned());
        };
        let current = self.shared.map.load_full();
        let (mut steps, mut tunings) = (Vec::new(), Vec::new());
        for change in changes {
            match change.into_effect(wiring)? {
                Effect::Step(step) => steps.push(step),
                Effect::Tune(model, batching) => tunings.push((model, batching)),
            }
        }
        let next = Arc::new(current.after(steps)?);
        for (model, batching) in tunings {
            next.versions_of(&model).for_each(|version| version.tune(&batching));
        }
        self.shared.map.store(next.clone());
        for version in current.gone(&next) {
            version.retire();
        }
        Ok(())
    }

    /// What `/v2/health/ready` answers.
    pub fn set_ready(&self, ready: bool, reason: &str) {
        self.shared.set_readiness(ready, reason);
    }

    /// What `GetModelStatus` answers about a model from now on; no states forget it.
    pub fn set_states(&self, model: &str, states: Vec<VersionState>) {
        self.shared.states.set(model, states);
    }

    /// Replaces a family of gauges that only Python knows; no samples forget it. The error says what cannot be a name.
    pub fn set_gauges(&self, name: &str, help: &str, gauges: Vec<Gauge>) -> Result<(), String> {
        self.shared.gauges.set(name, help, gauges)
    }

    /// Every counter with its Prometheus sample name; or, of all models, only those of one.
    pub fn stats(&self, only: Option<&str>) -> Vec<(String, f64)> {
        self.shared.samples(only)
    }

    /// The counters themselves.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Not ready, no new connections, everything accepted answered, log flushed, I/O, log and control threads ended.
    /// True if all was answered in time. Versions stay published until they are retired or the plane is stopped.
    pub fn drain(&self, within: Duration) -> bool {
        self.shared.begin_drain();
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
        self.shared.log.close();
        self.shared.control.close();
        for thread in helpers {
            complete &= thread.join().is_ok();
        }
        complete
    }

    /// Ends everything now, within about the time that running callbacks take. Idempotent.
    pub fn stop(&self) {
        self.drain(Duration::ZERO);
        self.shared.map.store(Arc::default());
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
        metrics.version(&model, number).settle(&*executor);
        metrics.forget_oldest(&model);
        drop(executor);
        if retired {
            hooks.released(&model, number);
        }
    }
}
