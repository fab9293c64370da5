//! The Python executor of a version: entered once per batch. Exceptions become a status.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyTuple};
use tidegate_codec::status::{Code, Status};
use tidegate_engine::batching::{Executor, Prediction, ServedSignature, Work};

use crate::allocator::share_freed;
use crate::callbacks::batch::Batch;
use crate::callbacks::closing::Closing;
use crate::callbacks::outputs;
use crate::callbacks::raised::to_status;

/// A callable that takes a `Batch`.
pub(crate) struct PythonExecutor {
    callable: Option<Py<PyAny>>,
    entries: AtomicU64,
    closing: Arc<Closing>,
}

impl PythonExecutor {
    pub(crate) fn new(callable: Py<PyAny>, closing: Arc<Closing>) -> PythonExecutor {
        PythonExecutor { callable: Some(callable), entries: AtomicU64::new(0), closing }
    }

    /// The inputs are the model's, who may write into them. Others have the GIL while they are copied.
    fn own_inputs(mut work: Work) -> Work {
        work.columns.iter_mut().for_each(|column| column.own());
        work
    }

    fn call<'py>(&self, py: Python<'py>, work: Work) -> PyResult<Bound<'py, PyAny>> {
        let batch = Bound::new(py, Batch::new(py, work)?)?;
        match &self.callable {
            Some(callable) => callable.bind(py).call1((batch,)),
            None => Ok(py.None().into_bound(py)),
        }
    }

    /// Whether the interpreter is going, so that Python is not to be entered any more.
    pub(crate) fn is_stopping(&self) -> bool {
        self.closing.is_closed()
    }

    /// Has a method of the callable read what a worker left open of a batch: with the batch, and what else it takes.
    pub(crate) fn settle(
        &self,
        work: Work,
        method: &str,
        more: impl FnOnce(Python<'_>) -> PyResult<Vec<Py<PyAny>>>,
    ) -> Result<Prediction, Status> {
        let served = work.served.clone();
        self.enter(|py| {
            let Some(callable) = &self.callable else { return Ok(Prediction::default()) };
            let mut arguments = vec![Bound::new(py, Batch::new(py, work)?)?.into_any().unbind()];
            arguments.extend(more(py)?);
            let arguments = PyTuple::new(py, arguments)?;
            outputs::read(&served.signature, &callable.bind(py).call_method1(method, arguments)?)
        })
    }

    /// Drops something of Python's.
    pub(crate) fn let_go<T>(&self, held: Option<Py<T>>) {
        let Some(held) = held else { return };
        if self.closing.is_closed() {
            // The interpreter is going and takes its objects along.
            std::mem::forget(held);
        } else {
            Python::attach(|py| drop(held.into_bound(py)));
        }
    }

    /// Runs in Python, unless the interpreter is going.
    fn enter<T>(&self, run: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, Status> {
        let stopping = || Status::new(Code::Unavailable, "the server is stopping");
        if self.closing.is_closed() {
            return Err(stopping());
        }
        let entered = Python::try_attach(|py| run(py).map_err(|error| to_status(py, &error)));
        entered.unwrap_or_else(|| Err(stopping()))
    }
}

/// A model's messages, one after the other. Closed when it is dropped, wherever it stands, so that a generator ends.
struct Messages<'a> {
    iterator: Option<Py<PyAny>>,
    executor: &'a PythonExecutor,
}

impl Messages<'_> {
    fn next(&self, served: &ServedSignature) -> Result<Option<Prediction>, Status> {
        self.executor.enter(|py| {
            let Some(iterator) = &self.iterator else { return Ok(None) };
            let message = iterator.bind(py).cast::<PyIterator>()?.clone().next().transpose()?;
            message.map(|message| outputs::read(&served.signature, &message)).transpose()
        })
    }
}

impl Drop for Messages<'_> {
    fn drop(&mut self) {
        let Some(iterator) = self.iterator.take() else { return };
        if self.executor.closing.is_closed() {
            // The interpreter is going and takes its objects along.
            return std::mem::forget(iterator);
        }
        Python::attach(|py| {
            let iterator = iterator.into_bound(py);
            let closed = iterator.getattr_opt("close").and_then(|close| close.map(|close| close.call0()).transpose());
            if let Err(error) = closed {
                // Its client has gone, or has its answer: nobody is left who could take this error.
                error.write_unraisable(py, Some(&iterator));
            }
        });
    }
}

impl Executor for PythonExecutor {
    fn execute(&self, work: Work) -> Result<Prediction, Status> {
        let (served, work) = (work.served.clone(), PythonExecutor::own_inputs(work));
        self.enter(|py| {
            self.entries.fetch_add(1, Ordering::Relaxed);
            outputs::read(&served.signature, &self.call(py, work)?)
        })
    }

    fn stream(&self, work: Work, wanted: &mut dyn FnMut(Prediction) -> bool) -> Result<(), Status> {
        let (served, work) = (work.served.clone(), PythonExecutor::own_inputs(work));
        let iterator = self.enter(|py| {
            self.entries.fetch_add(1, Ordering::Relaxed);
            Ok(self.call(py, work)?.try_iter()?.into_any().unbind())
        })?;
        let messages = Messages { iterator: Some(iterator), executor: self };
        while let Some(message) = messages.next(&served)? {
            if !wanted(message) {
                break;
            }
        }
        Ok(())
    }

    fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    fn share_memory(&self) {
        share_freed();
    }

    /// Keeps the thread's Python state from batch to batch: making one maps and unmaps memory each time.
    fn host(&self, thread: &mut (dyn FnMut() + Send)) {
        if self.closing.is_closed() || Python::try_attach(|py| self.closing.host(py, thread)).is_none() {
            thread();
        }
    }
}

impl Drop for PythonExecutor {
    fn drop(&mut self) {
        let callable = self.callable.take();
        self.let_go(callable);
    }
}
