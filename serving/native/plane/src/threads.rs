//! The threads of a plane: I/O, its helpers, log, control calls, releases and freed memory. Started together or not at all,
//! and waited for when the plane ends, but never without limit: what they call may hang.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use tidegate_engine::disposal::Disposed;
use tidegate_engine::memory::Memory;
use tidegate_engine::metrics::{LogMetrics, Metrics};
use tidegate_engine::serving_map::Remains;
use tidegate_engine::spare::SPARE;
use tidegate_engine::sync::lock;

use crate::aside::AsideJobs;
use crate::control::ControlCalls;
use crate::endpoints::reply::PlaneDispatcher;
use crate::hooks::Hooks;
use crate::io::completion_queue::CompletionQueue;
use crate::io::signals::Signals;
use crate::io::thread::{IoLane, IoThread, Listeners};
use crate::state::PlaneState;

/// How often an end that has a limit is looked for.
const LOOK: Duration = Duration::from_millis(1);

/// How long the end waits for the access log's file and the collector of traces.
const TELLING: Duration = Duration::from_secs(1);

/// How often freed memory goes back to the system; and after how many times that at the latest while the log is written, as
/// the next block soon wants again what the last one took.
const PURGE_EVERY: Duration = Duration::from_secs(1);
const LATEST: u32 = 5;

/// The part of what requests may hold that freed large blocks may take while they wait to be used again.
const OF_LIMIT: usize = 8;

/// The running threads of a plane.
#[derive(Default)]
pub struct Threads {
    io: Mutex<Vec<JoinHandle<bool>>>,
    lanes: Mutex<Vec<Arc<PlaneDispatcher>>>,
    helpers: Mutex<Vec<JoinHandle<()>>>,
    /// What tells of single requests: nobody's answer depends on it.
    tellers: Mutex<Vec<JoinHandle<()>>>,
    /// Whose freed blocks the thread of freed memory drops until it is told to end.
    memory: Mutex<Option<Arc<Memory>>>,
    released: Mutex<Option<JoinHandle<()>>>,
}

/// What the threads work on.
pub struct Work {
    /// What all share.
    pub state: Arc<PlaneState>,
    /// What Python does.
    pub hooks: Arc<dyn Hooks>,
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
        let Work { state, hooks, calls, aside, remains, lanes } = work;
        let engine = state.engine.clone();
        let (sink, control, logging) = (hooks.clone(), hooks.clone(), engine.clone());
        let log = spawn("tg-log", move || {
            sink.give_way();
            logging.log.run(&*sink);
        })?;
        lock(&self.helpers).push(log);
        self.start_telemetry(&state, &hooks)?;
        let control = spawn("tg-control", move || calls.run(&*control))?;
        lock(&self.helpers).push(control);
        let (jobs, count) = (Arc::new(aside.0), aside.1);
        for index in 0..count {
            let (jobs, hooks) = (jobs.clone(), hooks.clone());
            let helper = spawn(&format!("tg-aside-{index}"), move || {
                hooks.step_back();
                jobs.run(&|| hooks.share_memory());
            })?;
            lock(&self.helpers).push(helper);
        }
        let (disposed, of_models, freed) =
            (engine.limits.memory.disposal.open(), engine.limits.memory.clone(), hooks.clone());
        let metrics = engine.metrics.clone();
        let memory = spawn("tg-memory", move || {
            freed.step_back();
            let keeping = SPARE.keep(of_models.limit() / OF_LIMIT);
            return_memory(&disposed, &of_models, &metrics.log, &*freed);
            drop(keeping);
            freed.return_memory();
        })?;
        lock(&self.helpers).push(memory);
        *lock(&self.memory) = Some(engine.limits.memory.clone());
        let (metrics, told) = (engine.metrics.clone(), hooks.clone());
        *lock(&self.released) = Some(spawn("tg-released", move || release(&remains, &metrics, &*told))?);
        for (index, (listeners, completions)) in lanes.into_iter().enumerate() {
            let dispatcher = Arc::new(PlaneDispatcher::new(index, engine.clone()));
            lock(&self.lanes).push(dispatcher.clone());
            let lane = IoLane { dispatcher, completions, state: state.clone(), hooks: hooks.clone() };
            let signals = signals.clone();
            let name = format!("tg-io-{index}");
            let io = IoThread::new(listeners).map_err(|why| named(&name, &why))?;
            let started = spawn(&name, move || io.run(&lane, &signals))?;
            lock(&self.io).push(started);
        }
        Ok(())
    }

    /// The threads that tell of single requests, where anybody wants to know.
    fn start_telemetry(&self, state: &PlaneState, hooks: &Arc<dyn Hooks>) -> io::Result<()> {
        let Some(observer) = state.observer.clone() else { return Ok(()) };
        if let Some(file) = observer.access_file()? {
            let (observer, hooks) = (observer.clone(), hooks.clone());
            let writer = spawn("tg-access", move || {
                hooks.give_way();
                observer.run_access_log(file);
            })?;
            lock(&self.tellers).push(writer);
        }
        if observer.traces() {
            let hooks = hooks.clone();
            let exporter = spawn("tg-traces", move || {
                hooks.give_way();
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
        if let Some(memory) = lock(&self.memory).take() {
            memory.disposal.close();
        }
        let threads = std::mem::take(&mut *lock(&self.helpers));
        let ended = threads.into_iter().filter_map(|thread| join(thread, until).err()).count() == 0;
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

/// Starts a thread with a name; the error has it, too.
pub fn spawn<T: Send + 'static>(name: &str, run: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(run).map_err(|why| named(name, &why))
}

fn named(name: &str, why: &io::Error) -> io::Error {
    io::Error::new(why.kind(), format!("cannot start thread {name}: {why}"))
}

/// Waits for a thread that was told to end; gives it back where it has not ended by then.
pub fn join(thread: JoinHandle<()>, until: Instant) -> Result<(), JoinHandle<()>> {
    while !thread.is_finished() {
        if Instant::now() >= until {
            return Err(thread);
        }
        std::thread::sleep(LOOK);
    }
    let _ = thread.join();
    Ok(())
}

/// Drops large blocks as they come, and has the allocator give back what else was freed every now and then.
fn return_memory(disposed: &Receiver<Disposed>, memory: &Memory, log: &LogMetrics, hooks: &dyn Hooks) {
    let mut due = Instant::now() + PURGE_EVERY;
    let (mut seen, mut owed) = (memory.large_outputs(), false);
    let mut purge = Purge::default();
    loop {
        match disposed.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(block) => drop(block),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if Instant::now() >= due {
            if purge.is_due(log.written_rows()) {
                hooks.return_memory();
            }
            let made = memory.large_outputs();
            match made != seen {
                true => (seen, owed) = (made, true),
                false if std::mem::take(&mut owed) => hooks.return_model_memory(),
                false => {}
            }
            due = Instant::now() + PURGE_EVERY;
        }
    }
}

/// When freed memory goes back to the system.
#[derive(Debug, Default)]
struct Purge {
    /// Rows that the log had written when it was asked last.
    logged: u64,
    put_off: u32,
}

impl Purge {
    /// Asked every now and then, with how many rows the log has written so far.
    fn is_due(&mut self, written: u64) -> bool {
        let quiet = std::mem::replace(&mut self.logged, written) == written;
        self.put_off += 1;
        let due = quiet || self.put_off == LATEST;
        if due {
            self.put_off = 0;
        }
        due
    }
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
    metrics.forget_oldest(&model);
    drop(executor);
    if retired {
        hooks.released(&model, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_back_at_once_where_no_log_is_written_and_now_and_then_while_one_is() {
        let mut purge = Purge::default();
        let due = [0, 0, 1, 2, 3, 4, 5, 6, 6, 7].map(|written| purge.is_due(written));
        assert_eq!(due, [true, true, false, false, false, false, true, false, true, false]);
    }
}
