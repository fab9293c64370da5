//! The idle workers of a version, for Python, which brings and buries them, and for the executor, which asks them.

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use tidegate_engine::sync::lock;
use tidegate_workers::Line;

use crate::workers::line::WorkerLine;

/// A worker that somebody asks, or may.
pub(crate) struct Member {
    /// Python's `Worker`.
    pub(crate) worker: Py<PyAny>,
    pub(crate) line: Arc<Line>,
}

/// The one that ran last is the next to run.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct IdleWorkers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    members: Vec<Member>,
    waiting: usize,
    answered: bool,
    /// Called when a worker is idle again that somebody in Python waits for; None once they are closed.
    notify: Option<Py<PyAny>>,
}

impl IdleWorkers {
    /// One of them, for as long as it takes.
    pub(crate) fn pop(&self) -> Option<Member> {
        lock(&self.state).members.pop()
    }

    /// Empties the memory between the engine and each that is idle. Nobody asks one meanwhile; whose memory cannot be emptied
    /// is lost, as whoever asks it next finds.
    pub(crate) fn rest(&self) {
        let idle = self.__len__();
        for _ in 0..idle {
            let Some(member) = self.first() else { return };
            if member.line.rest().is_err() {
                member.line.hang_up();
            }
            self.put_back(member, false);
        }
    }

    /// The one that is to run last.
    fn first(&self) -> Option<Member> {
        let members = &mut lock(&self.state).members;
        (!members.is_empty()).then(|| members.remove(0))
    }

    /// One that has answered is idle again.
    pub(crate) fn push(&self, member: Member) {
        self.put_back(member, true);
    }

    fn put_back(&self, member: Member, has_answered: bool) {
        let awaited = {
            let mut state = lock(&self.state);
            if state.notify.is_none() {
                return;
            }
            state.members.push(member);
            state.answered |= has_answered;
            state.waiting > 0
        };
        if awaited {
            Python::attach(|py| {
                let notify = lock(&self.state).notify.as_ref().map(|notify| notify.clone_ref(py));
                if let Some(Err(error)) = notify.map(|notify| notify.call0(py)) {
                    error.write_unraisable(py, None);
                }
            });
        }
    }
}

#[pymethods]
impl IdleWorkers {
    #[new]
    fn new(notify: Py<PyAny>) -> IdleWorkers {
        IdleWorkers { state: Mutex::new(State { notify: Some(notify), ..State::default() }) }
    }

    fn __len__(&self) -> usize {
        lock(&self.state).members.len()
    }

    fn put(&self, worker: Py<PyAny>, line: PyRef<'_, WorkerLine>) {
        lock(&self.state).members.push(Member { worker, line: line.line.clone() });
    }

    fn take(&self) -> Option<Py<PyAny>> {
        self.pop().map(|member| member.worker)
    }

    fn remove(&self, worker: &Bound<'_, PyAny>) -> bool {
        let mut state = lock(&self.state);
        let found = state.members.iter().position(|member| member.worker.is(worker));
        found.map(|index| state.members.remove(index)).is_some()
    }

    fn await_one(&self, waits: bool) {
        let mut state = lock(&self.state);
        state.waiting = if waits { state.waiting + 1 } else { state.waiting.saturating_sub(1) };
    }

    fn have_answered(&self) -> bool {
        std::mem::take(&mut lock(&self.state).answered)
    }

    fn close(&self) {
        let gone = {
            let mut state = lock(&self.state);
            (std::mem::take(&mut state.members), state.notify.take())
        };
        drop(gone);
    }
}
