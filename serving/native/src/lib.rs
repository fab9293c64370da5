//! The border between Python and the data plane: the extension module `tidegate_native`.

#![deny(unsafe_code)]
#![allow(clippy::needless_pass_by_value, reason = "arguments come from Python by value")]

#[allow(unsafe_code, reason = "an allocator is unsafe by its nature")]
mod allocator;
mod arrays;
mod callbacks;
mod calls;
mod workers;

use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

/// The native data plane: what happens per request.
#[pymodule]
#[pyo3(name = "_native")]
mod tidegate_native {
    #[pymodule_export]
    use crate::callbacks::batch::{Batch, Outcome};
    #[pymodule_export]
    use crate::callbacks::traces::TracedRequest;
    #[pymodule_export]
    use crate::calls::changes::{
        Publish, Retire, SetBatching, SetDefault, SetDisabled, SetLabels, SetLog, SetShadow, SetSplit,
    };
    #[pymodule_export]
    use crate::calls::data_plane::DataPlane;
    #[pymodule_export]
    use crate::calls::exit_guard::ExitGuard;
    #[pymodule_export]
    use crate::calls::low_priority::{enter_low_priority, file_sha256};
    #[pymodule_export]
    use crate::calls::predict::{Arrived, PendingPrediction, PredictError, PredictionStream};
    #[pymodule_export]
    use crate::calls::router::Router;
    #[pymodule_export]
    use crate::calls::settings::{Batching, Settings, Signature, TensorSpec};
    #[pymodule_export]
    use crate::workers::idle::IdleWorkers;
    #[pymodule_export]
    use crate::workers::line::WorkerLine;

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        allocator::purge_when_told();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
