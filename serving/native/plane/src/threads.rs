//! The threads of a plane: I/O, its helpers, log, control calls, releases and freed memory. Started together or not at all,
//! and waited for when the plane ends, but never without limit: what they call may hang. A router has some of them, too.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidegate_engine::metrics::Metrics;
use tidegate_engine::serving_map::Remains;
use tidegate_engine::sync::lock;
use tidegate_engine::telemetry::Observer;

use crate::aside::AsideJobs;
use crate::control::ControlCalls;
use crate::endpoints::reply::PlaneDispatcher;
use crate::freed_memory::FreedMemory;
use crate::hooks::Hooks;
use crate::io::completion_queue::CompletionQueue;
use crate::io::signals::Signals;
use crate::io::thread::{IoLane, IoThread, Listeners};
use crate::named_thread::{join, named, spawn};
use crate::state::PlaneState;
use crate::supervision::spawn_thread;
use crate::system::System;

/// How long the end waits for the access log's file and the collector of traces.
const TELLING: Duration = Duration::from_secs(1);

/// The running threads of a plane.
#[derive(Default)]
pub struct Threads {
    io: Mutex<Vec<JoinHandle<bool>>>,
    lanes: Mutex<Vec<Arc<PlaneDispatcher>>>,
    helpers: Mutex<Vec<JoinHandle<()>>>,
    /// What tells of single requests: nobody's answer depends on it.
    tellers: Mutex<Vec<JoinHandle<()>>>,
    memory: Mutex<Option<FreedMemory>>,
    released: Mutex<Option<JoinHandle<()>>>,
}

/// What the threads work on.
pub struct Work {
    /// What all share.
    pub state: Arc<PlaneState>,
    /// What Python does.
    pub hooks: Arc<dyn Hooks>,
    /// The process.
    pub system: Arc<dyn System>,
    /// Calls that Python answers.
    pub calls: ControlCalls,
    /// What I/O threads leave to others, and how many these are.
    pub aside: (AsideJobs, usize),
    /// Versions whose last handle is gone.
    pub remains: Receiver<Remains>,
    /// The listeners of each I/O thread, and where its finished batches come in.
    pub lanes: Vec<(Listeners, Arc<CompletionQueue>)>,
}

impl Threads {
    /// Starts all. After an error those that run already are to be ended as after a drain.
    pub fn start(&self, work: Work, signals: &Signals) -> io::Result<()> {
        let Work { state, hooks, system, calls, aside, remains, lanes } = work;
        let engine = state.engine.clone();
        let (sink, logging, process) = (hooks.clone(), engine.clone(), system.clone());
        let log = spawn_thread("tg-log", move || {
            process.give_way();
            logging.log.run(&*sink);
        })?;
        lock(&self.helpers).push(log);
        self.start_telemetry(&state, &hooks, &system)?;
        let (control, process) = (hooks.clone(), system.clone());
        let control = spawn_thread("tg-control", move || {
            process.give_way();
            calls.run(&*control);
        })?;
        lock(&self.helpers).push(control);
        start_aside(aside, &system, &self.helpers)?;
        *lock(&self.memory) = Some(FreedMemory::start(&engine, system.clone())?);
        let metrics = engine.metrics.clone();
        *lock(&self.released) = Some(spawn_thread("tg-released", move || release(&remains, &metrics, &*hooks))?);
        for (index, (listeners, completions)) in lanes.into_iter().enumerate() {
            let dispatcher = Arc::new(PlaneDispatcher::new(index, engine.clone()));
            lock(&self.lanes).push(dispatcher.clone());
            let lane = IoLane { dispatcher, completions, state: state.clone(), system: system.clone() };
            let signals = signals.clone();
            let name = format!("tg-io-{index}");
            let io = IoThread::new(listeners).map_err(|why| named(&name, &why))?;
            let started = spawn(&name, move || io.run(&lane, &signals))?;
            lock(&self.io).push(started);
        }
        Ok(())
    }

    /// The threads that tell of single requests, where anybody wants to know.
    fn start_telemetry(&self, state: &PlaneState, hooks: &Arc<dyn Hooks>, system: &Arc<dyn System>) -> io::Result<()> {
        let Some(observer) = state.observer.clone() else { return Ok(()) };
        start_access_log(&observer, system, &self.tellers)?;
        if observer.traces() {
            let (hooks, system) = (hooks.clone(), system.clone());
            let exporter = spawn_thread("tg-traces", move || {
                system.give_way();
                observer.run_traces(&*hooks);
            })?;
            lock(&self.tellers).push(exporter);
        }
        Ok(())
    }

    /// Waits for the I/O threads, which end by themselves once the drain is over. True if all was answered in time.
    pub fn join_io(&self) -> bool {
        let threads = std::mem::take(&mut *lock(&self.io));
        let late = threads.into_iter().filter_map(|thread| (!thread.join().unwrap_or(false)).then_some(()));
        late.count() == 0
    }

    /// Waits for the log, control and helper threads, and that of freed memory, which were told to end. True if they did.
    pub fn join_helpers(&self, until: Instant) -> bool {
        let memory = lock(&self.memory).take().map(FreedMemory::end);
        let threads = std::mem::take(&mut *lock(&self.helpers));
        let ended = threads.into_iter().chain(memory).filter_map(|thread| join(thread, until).err()).count() == 0;
        // What a helper entered since its I/O thread ended must not hold its version.
        lock(&self.lanes).drain(..).for_each(|lane| lane.close());
        ended
    }

    /// Waits a little until what is to be told of requests is told.
    pub fn join_tellers(&self) {
        let (threads, until) = (std::mem::take(&mut *lock(&self.tellers)), Instant::now() + TELLING);
        threads.into_iter().for_each(|thread| drop(join(thread, until)));
    }

    /// Waits until every version is taken apart. True if they are; a model that hangs keeps its version.
    pub fn join_released(&self, until: Instant) -> bool {
        let mut released = lock(&self.released);
        let Some(thread) = released.take() else { return true };
        *released = join(thread, until).err();
        released.is_none()
    }
}

/// Starts the threads that do what I/O threads leave to others, so many.
pub fn start_aside(
    (jobs, count): (AsideJobs, usize),
    system: &Arc<dyn System>,
    into: &Mutex<Vec<JoinHandle<()>>>,
) -> io::Result<()> {
    let jobs = Arc::new(jobs);
    for index in 0..count {
        let (jobs, system) = (jobs.clone(), system.clone());
        let helper = spawn_thread(&format!("tg-aside-{index}"), move || {
            system.step_back();
            jobs.run(&|| system.share_memory());
        })?;
        lock(into).push(helper);
    }
    Ok(())
}

/// Starts the thread that writes the access log, where there is one.
pub fn start_access_log(
    observer: &Arc<Observer>,
    system: &Arc<dyn System>,
    into: &Mutex<Vec<JoinHandle<()>>>,
) -> io::Result<()> {
    let Some(mut file) = observer.access_file()? else { return Ok(()) };
    let (observer, system) = (observer.clone(), system.clone());
    let writer = spawn_thread("tg-access", move || {
        system.give_way();
        observer.run_access_log(&mut file);
    })?;
    lock(into).push(writer);
    Ok(())
}

/// Takes versions apart whose last handle is gone: threads joined, model dropped, Python told.
fn release(receiver: &Receiver<Remains>, metrics: &Metrics, hooks: &dyn Hooks) {
    for remains in receiver {
        // A fault in one must not keep all others; it has been printed where it happened.
        let _ = catch_unwind(AssertUnwindSafe(|| take_apart(remains, metrics, hooks)));
    }
}

fn take_apart(remains: Remains, metrics: &Metrics, hooks: &dyn Hooks) {
    let Remains { model, number, threads, executor, retired } = remains;
    for thread in threads {
        let _ = thread.join();
    }
    metrics.version(&model, number).settle(executor.entries());
    metrics.forget_oldest(&model, number);
    drop(executor);
    if retired {
        hooks.released(&model, number);
    }
}
