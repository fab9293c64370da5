//! The border between Python and the data plane: the extension module `tidegate_native`.
//! Python's calls come in through the classes here; the plane's callbacks go out through two traits of the core.

#![deny(unsafe_code)]
#![allow(clippy::needless_pass_by_value, reason = "arguments come from Python by value")]

mod arrays;
mod batch;
mod callbacks;
mod calm;
mod changes;
mod closing;
mod executor;
mod log_block;
#[allow(unsafe_code, reason = "the buffer protocol")]
mod memory;
mod outputs;
mod plane;
mod predict;
mod settings;
mod values;

use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The native data plane: what happens per request.
#[pymodule]
#[pyo3(name = "_native")]
mod tidegate_native {
    #[pymodule_export]
    use crate::batch::{Batch, Outcome};
    #[pymodule_export]
    use crate::calm::{enter_low_priority, file_sha256};
    #[pymodule_export]
    use crate::changes::{
        Publish, Retire, SetBatching, SetDefault, SetDisabled, SetLabels, SetLog, SetShadow, SetSplit,
    };
    #[pymodule_export]
    use crate::log_block::LogBlock;
    #[pymodule_export]
    use crate::plane::DataPlane;
    #[pymodule_export]
    use crate::predict::PredictError;
    #[pymodule_export]
    use crate::settings::{Batching, Settings, Signature, TensorSpec};

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
