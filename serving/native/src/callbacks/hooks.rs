//! The plane's three callbacks into Python: a version released, a control call, a log block to write.
//! None gets through once the interpreter exits. And what the plane asks of the system.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::log::{LogBlock, LogSink};
use tidegate_plane::hooks::Hooks;

use crate::arrays::memory::{purge_freed, share_freed, trim_heap};
use crate::callbacks::closing::Closing;
use crate::callbacks::executor::to_status;

/// The callables that `DataPlane.start` was given.
pub(crate) struct Callbacks {
    pub(crate) released: Py<PyAny>,
    pub(crate) control: Py<PyAny>,
    pub(crate) log_block: Py<PyAny>,
    pub(crate) closing: Arc<Closing>,
    /// Lowers the priority of the calling thread.
    pub(crate) step_back: fn(),
    /// Has it give way to any that wakes.
    pub(crate) give_way: fn(),
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

    fn give_way(&self) {
        (self.give_way)();
    }

    fn step_back(&self) {
        (self.step_back)();
    }

    fn return_memory(&self) {
        purge_freed();
    }

    fn return_model_memory(&self) {
        trim_heap();
    }

    fn share_memory(&self) {
        share_freed();
    }
}

impl LogSink for Callbacks {
    fn take(&self, block: LogBlock) -> bool {
        let written = self.enter(|py| {
            let block = crate::callbacks::log_block::LogBlock::new(py, block);
            match block.and_then(|block| self.log_block.call1(py, (block,))) {
                Ok(_) => true,
                Err(error) => {
                    error.write_unraisable(py, Some(self.log_block.bind(py)));
                    false
                }
            }
        });
        written.unwrap_or(false)
    }
}
