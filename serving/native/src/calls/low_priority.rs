//! Work that leaves processors to requests: reading large files and requests, and threads in which models load. And short
//! turns, for threads that requests wait for.
//! Idle threads never take the GIL, which nobody could get from them while they wait for a processor.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use tidegate_plane::file_digest::FileDigest;

/// What an idle thread gets at least before one that is only nice goes on, and more for each 100 MB.
const PATIENCE: Duration = Duration::from_secs(2);
const BYTES_PER_SECOND: u64 = 100_000_000;

/// Size in bytes and SHA-256 (lower-case hexadecimal) of a file, read without the GIL in a thread of its own.
#[pyfunction]
pub(crate) fn file_sha256(py: Python<'_>, path: PathBuf) -> PyResult<(u64, String)> {
    py.detach(|| digest(&path))
        .map_err(|error| PyOSError::new_err((error.raw_os_error().unwrap_or(0), error.to_string(), path)))
}

/// Has the calling thread give its processor up at once to any that wakes, at its full share otherwise. Threads that it
/// starts are not affected. Where the system does not know that, nothing changes.
#[pyfunction]
pub(crate) fn enter_low_priority() {
    priority::patient();
}

/// Has the calling thread begin soon when it wakes beside threads that are busy, and end its turns as soon, at its full
/// share. Threads that it starts are not affected. Where the system does not know that, nothing changes.
pub(crate) fn enter_short_turns() {
    priority::prompt();
}

/// Has the calling thread give its processor up at once to any that wakes, at a small share beside those that are busy.
pub(crate) fn step_back() {
    priority::nice();
    priority::patient();
}

fn digest(path: &Path) -> io::Result<(u64, String)> {
    let size = std::fs::metadata(path)?.len();
    let moment = Instant::now() + PATIENCE + Duration::from_secs(size / BYTES_PER_SECOND);
    let (mut reading, ended) = aside(priority::idle, || {
        let mut reading = FileDigest::open(path)?;
        let ended = reading.read_until(Some(moment))?;
        Ok((reading, ended))
    })?;
    if !ended {
        aside(priority::nice, || reading.read_until(None))?;
    }
    Ok(reading.finish())
}

/// What the task gives, from a thread that lowers its priority first. Where the system refuses that, the task runs as
/// any other: its result is the same.
fn aside<T: Send>(step_back: fn(), task: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("tg-calm".into()).spawn_scoped(scope, || {
            step_back();
            task()
        })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// On Linux a priority belongs to a thread; elsewhere to the process, which keeps its own.
#[cfg(not(target_os = "linux"))]
mod priority {
    pub(super) fn idle() {}

    pub(super) fn nice() {}

    pub(super) fn patient() {}

    pub(super) fn prompt() {}
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "system calls on the calling thread")]
mod priority {
    use std::mem::size_of;

    /// A tenth of a processor beside one busy thread.
    const NICE: libc::c_int = 10;

    /// Runs only where a processor would be idle, and gives way at once.
    pub(super) fn idle() {
        let parameter = libc::sched_param { sched_priority: 0 };
        // SAFETY: 0 is the calling thread, and parameter outlives the call, which only reads it.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) };
    }

    /// Runs with others, at a small share.
    pub(super) fn nice() {
        // SAFETY: no memory is involved; 0 is the calling thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
    }

    /// A turn ends as soon as a thread with shorter ones wakes: Linux lets the shorter turn go first, from 6.12 on, and
    /// takes no notice of the length before. The usual length is between one and three milliseconds. A longer turn than
    /// this would hold up all of a process beside busy ones of other sessions or containers, which compete as one: Linux
    /// owes it no more than two usual turns or a tick (4 ms), so that the end of a long one never comes near.
    const LONG_TURN_NANOSECONDS: u64 = 4_000_000;
    const SHORT_TURN_NANOSECONDS: u64 = 400_000;

    /// Keeps its share, and gives way at once.
    pub(super) fn patient() {
        take_turns_of(LONG_TURN_NANOSECONDS);
    }

    /// Keeps its share, and begins at once.
    pub(super) fn prompt() {
        take_turns_of(SHORT_TURN_NANOSECONDS);
    }

    fn take_turns_of(nanoseconds: u64) {
        // SAFETY: no memory is involved; 0 is the calling thread.
        let (policy, nice) = unsafe { (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) };
        if policy != libc::SCHED_OTHER {
            return;
        }
        let wanted = libc::sched_attr {
            size: size_of::<libc::sched_attr>() as u32,
            sched_policy: libc::SCHED_OTHER as u32,
            sched_flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
            sched_nice: nice,
            sched_priority: 0,
            sched_runtime: nanoseconds,
            sched_deadline: 0,
            sched_period: 0,
        };
        // SAFETY: wanted has the size that it says and outlives the call, which only reads it.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) };
    }
}
