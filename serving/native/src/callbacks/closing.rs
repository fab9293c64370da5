//! Keeps the plane out of Python once the interpreter exits, and knows which threads are still inside.

use std::os::raw::c_long;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

use crate::arrays::memory::interrupt_thread;

/// Whether Python may be entered, and the executor threads that are inside.
#[derive(Default)]
pub(crate) struct Closing {
    closed: AtomicBool,
    threads: Mutex<Vec<c_long>>,
}

impl Closing {
    /// Whether the interpreter is going.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Lets no thread in any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Runs an executor thread's life with its Python state kept, known by its identifier.
    pub(crate) fn host(&self, py: Python<'_>, thread: &mut (dyn FnMut() + Send)) {
        let ident = py.import("threading").and_then(|module| module.call_method0("get_ident")?.extract::<c_long>());
        let Ok(ident) = ident else { return py.detach(thread) };
        self.threads().push(ident);
        py.detach(thread);
        self.threads().retain(|other| *other != ident);
    }

    /// Raises SystemExit in every executor thread that is still there, so that a model that never returns does.
    pub(crate) fn interrupt(&self, py: Python<'_>) {
        let threads = self.threads().clone();
        threads.into_iter().for_each(|ident| interrupt_thread(py, ident));
    }

    fn threads(&self) -> MutexGuard<'_, Vec<c_long>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
