//! The plane's callbacks into Python: a version released, a control call, recorded traces, and the log that cannot be
//! written, or can again. None gets through once the interpreter exits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::log::{LogBlock, LogSink};
use tidegate_engine::telemetry::{Ended, TraceSink};
use tidegate_log_files::{LogWriter, WriteError};
use tidegate_plane::hooks::Hooks;

use crate::callbacks::closing::Closing;
use crate::callbacks::raised::to_status;
use crate::callbacks::traces::TracedRequest;

/// The callables that `DataPlane.start` was given.
pub(crate) struct Callbacks {
    pub(crate) released: Py<PyAny>,
    pub(crate) control: Py<PyAny>,
    pub(crate) log_told: Py<PyAny>,
    /// Who gets requests whose traces are recorded, where anybody does.
    pub(crate) traces: Option<Py<PyAny>>,
    /// What writes the log, where there is one.
    pub(crate) log: Option<LogWriter>,
    /// Whether the last block of the log could not be written.
    pub(crate) log_failing: AtomicBool,
    pub(crate) closing: Arc<Closing>,
}

impl Callbacks {
    fn enter<T>(&self, call: impl FnOnce(Python<'_>) -> T) -> Option<T> {
        if self.closing.is_closed() { None } else { Python::try_attach(call) }
    }
}

impl Hooks for Callbacks {
    fn released(&self, model: &str, version: i64) {
        self.enter(|py| {
            if let Err(error) = self.released.call1(py, (model, version)) {
                error.write_unraisable(py, Some(self.released.bind(py)));
            }
        });
    }

    fn control(&self, method: &str, request: &[u8]) -> Result<Vec<u8>, Status> {
        let answer = self.enter(|py| {
            let answer = self.control.call1(py, (method, PyBytes::new(py, request)));
            let bytes = answer.and_then(|answer| Ok(answer.bind(py).cast::<PyBytes>()?.as_bytes().to_vec()));
            bytes.map_err(|error| to_status(py, &error))
        });
        answer.unwrap_or_else(|| Err(Status::new(Code::Unavailable, "the server is stopping")))
    }
}

impl TraceSink for Callbacks {
    /// False where Python lost them, or raised.
    fn take_traces(&self, ended: &[Arc<Ended>]) -> bool {
        let Some(traces) = &self.traces else { return false };
        let taken = self.enter(|py| {
            let requests: Vec<_> = ended.iter().map(|ended| TracedRequest::new(py, ended)).collect();
            let taken = traces.call1(py, (requests,)).and_then(|taken| taken.extract(py));
            taken.unwrap_or_else(|error: PyErr| {
                error.write_unraisable(py, Some(traces.bind(py)));
                false
            })
        });
        taken.unwrap_or(false)
    }
}

impl LogSink for Callbacks {
    /// Writes a block. Python is entered only to hear of one that could not be, and of the next one that could.
    fn take(&self, block: LogBlock) -> bool {
        let Some(log) = &self.log else { return false };
        let written = log.write(&block);
        let failed = written.is_err();
        if self.log_failing.swap(failed, Ordering::Relaxed) || failed {
            self.enter(|py| {
                let problem = written.err().map(|error| to_exception(error).into_value(py));
                if let Err(error) = self.log_told.call1(py, (problem,)) {
                    error.write_unraisable(py, Some(self.log_told.bind(py)));
                }
            });
        }
        !failed
    }
}

/// An OSError with the system's number and the folder's name, if it was the system.
fn to_exception(error: WriteError) -> PyErr {
    match error.os_error {
        Some(number) => PyOSError::new_err((number, error.text, error.folder)),
        None => PyRuntimeError::new_err(format!("{}: {}", error.folder.display(), error.text)),
    }
}
