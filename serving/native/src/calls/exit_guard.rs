//! Ends the process where a stop takes too long or is asked for twice, whoever holds the GIL meanwhile.
//! Signals come to a thread of its own, which passes them on to Python.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{IntoRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::Builder;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use tidegate_engine::metrics::HungCall;
use tidegate_plane::plane::Plane;

use crate::calls::data_plane::DataPlane;

/// The status of a process that left something undone.
const UNDONE: i32 = 1;

/// So long whoever reads the error stream has to take what the process says at its end.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// After all has ended the interpreter has so long for its own end: it waits for every thread, one that reads a large file
/// included.
const LAST_THREADS: Duration = Duration::from_secs(1);

#[derive(Default)]
struct State {
    /// Milliseconds from the first stop signal to the end; 0 for no limit.
    limit_ms: AtomicU64,
    /// The status of the process, once there is nothing left to do.
    ended: OnceLock<i32>,
    plane: Mutex<Weak<Plane>>,
}

/// Waits for signals beside Python: `signals` is for `signal.set_wakeup_fd`, and what comes there comes out of `passed_on`.
/// Both belong to the caller, who closes them.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct ExitGuard {
    state: Arc<State>,
    #[pyo3(get)]
    signals: RawFd,
    #[pyo3(get)]
    passed_on: RawFd,
}

#[pymethods]
impl ExitGuard {
    #[new]
    fn new() -> PyResult<ExitGuard> {
        let (signals, mut heard) = UnixStream::pair()?;
        let (passed_on, mut out) = UnixStream::pair()?;
        signals.set_nonblocking(true)?;
        out.set_nonblocking(true)?;
        let state = Arc::<State>::default();
        let of_thread = state.clone();
        Builder::new().name("tg-exit-guard".to_owned()).spawn(move || of_thread.run(&mut heard, &mut out))?;
        Ok(ExitGuard { state, signals: signals.into_raw_fd(), passed_on: passed_on.into_raw_fd() })
    }

    /// From now on the process ends with status 1 so long after the first stop signal, and at once at the second.
    #[pyo3(signature = (limit_ms))]
    fn arm(&self, limit_ms: u64) {
        self.state.limit_ms.store(limit_ms.max(1), Ordering::Release);
    }

    /// Whose calls are named when the process ends.
    #[pyo3(signature = (plane))]
    fn watch(&self, plane: PyRef<'_, DataPlane>) {
        *self.state.plane.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&plane.plane);
    }

    /// Nothing is left to do: where the process was told to stop, it ends with this status soon, whatever thread still runs.
    #[pyo3(signature = (status))]
    fn ended(&self, status: i32) {
        let _ = self.state.ended.set(status);
    }
}

impl State {
    fn run(&self, heard: &mut UnixStream, out: &mut UnixStream) {
        let mut until: Option<Instant> = None;
        let mut bytes = [0; 64];
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return self.end("did not end in time");
            }
            let _ = heard.set_read_timeout(left);
            let read = match heard.read(&mut bytes) {
                Ok(0) => return self.wait_for_end(until),
                Ok(read) => &bytes[..read],
                Err(why) if matches!(why.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => continue,
                Err(_) => return,
            };
            let stops = read.iter().filter(|byte| [libc::SIGTERM, libc::SIGINT].contains(&i32::from(**byte))).count();
            let limit = self.limit_ms.load(Ordering::Acquire);
            if limit > 0 && stops > usize::from(until.is_none()) {
                self.end("was told a second time to stop");
            }
            if limit > 0 && stops > 0 {
                until = until.or(Some(Instant::now() + Duration::from_millis(limit)));
            }
            let _ = out.write_all(read);
        }
    }

    /// Nobody listens any more; the interpreter's own end may still hang.
    fn wait_for_end(&self, until: Option<Instant>) {
        let Some(mut until) = until else { return };
        if self.ended.get().is_some() {
            until = until.min(Instant::now() + LAST_THREADS);
        }
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        self.end("did not end in time");
    }

    fn end(&self, why: &str) {
        if let Some(status) = self.ended.get() {
            exit(*status);
        }
        let plane = self.plane.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let calls = plane.map(|plane| plane.running_calls()).unwrap_or_default();
        let calls: Vec<String> = calls.iter().map(describe).collect();
        let running = if calls.is_empty() { "no call of a model runs".to_owned() } else { calls.join("; ") };
        let words = format!("tidegate: the process {why} and ends with status {UNDONE} now: {running}");
        let (told, heard) = channel();
        let telling = Builder::new().name("tg-last-words".to_owned()).spawn(move || {
            let _ = writeln!(std::io::stderr(), "{words}");
            let _ = told.send(());
        });
        if telling.is_ok() {
            let _ = heard.recv_timeout(LAST_WORDS);
        }
        exit(UNDONE);
    }
}

fn describe(hung: &HungCall) -> String {
    let HungCall { model, version, call } = hung;
    let (signature, rows, request) = (&call.signature, call.rows, call.request.as_str());
    let seconds = call.since.elapsed().as_secs_f64();
    format!(
        "{model} version {version}: a call of '{signature}' with {rows} rows (request {request}) runs for {seconds:.1} s"
    )
}

#[allow(unsafe_code, reason = "an end that runs no handler, which may hang as well")]
fn exit(status: i32) {
    // SAFETY: ends the process at once; nothing of it runs afterwards.
    unsafe { libc::_exit(status) }
}
