//! `Batch`, which an executor gets with its inputs as arrays, and `Result`, which it may return.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate_engine::batching::{ServedSignature, Work};

use crate::arrays::numpy;

/// What an executor gets: inputs by name, wrapping the batch buffer without a copy; axis 0 is the batch unless `unbatched`.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct Batch {
    served: Arc<ServedSignature>,
    inputs: Py<PyDict>,
    rows: usize,
    unbatched: bool,
    offsets: Vec<usize>,
}

impl Batch {
    pub(crate) fn new(py: Python<'_>, work: Work) -> PyResult<Batch> {
        let Work { served, columns, shapes, rows, unbatched, offsets } = work;
        let inputs = PyDict::new(py);
        for ((spec, lease), inner) in served.signature.inputs.iter().zip(columns).zip(shapes.iter()) {
            let shape = (!unbatched).then_some(rows).into_iter().chain(inner.iter().copied());
            inputs.set_item(&spec.name, numpy::to_array(py, spec.dtype, shape, lease)?)?;
        }
        Ok(Batch { served, inputs: inputs.unbind(), rows, unbatched, offsets })
    }
}

#[pymethods]
impl Batch {
    #[getter]
    fn model(&self) -> &str {
        &self.served.model
    }

    #[getter]
    fn version(&self) -> i64 {
        self.served.version
    }

    #[getter]
    fn signature(&self) -> &str {
        &self.served.signature.name
    }

    #[getter]
    fn inputs(&self, py: Python<'_>) -> Py<PyDict> {
        self.inputs.clone_ref(py)
    }

    #[getter]
    fn rows(&self) -> usize {
        self.rows
    }

    #[getter]
    fn unbatched(&self) -> bool {
        self.unbatched
    }

    #[getter]
    fn request_offsets(&self) -> Vec<usize> {
        self.offsets.clone()
    }
}

/// Outputs by name, batch on axis 0, and by row the (canonical gRPC code, message) of what went wrong, or with a list of
/// errors in JSON as a third.
#[pyclass(frozen, name = "Result", module = "tidegate_native")]
pub(crate) struct Outcome {
    pub(crate) outputs: Py<PyAny>,
    pub(crate) errors: Option<Py<PyAny>>,
}

#[pymethods]
impl Outcome {
    #[new]
    #[pyo3(signature = (outputs, errors=None))]
    fn new(outputs: Py<PyAny>, errors: Option<Py<PyAny>>) -> Outcome {
        Outcome { outputs, errors }
    }
}
