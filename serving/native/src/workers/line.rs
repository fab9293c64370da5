//! The engine's end of the way to one worker, for Python: texts, and arrays by name.

use std::io;
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::exceptions::{PyConnectionError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tidegate_codec::dtype::DType;
use tidegate_codec::signatures::TensorSpec;
use tidegate_codec::tensors::{Lease, Tensor};
use tidegate_engine::sync::lock;
use tidegate_workers::{Line, LineError, Message, Named};

use crate::arrays::numpy;
use crate::arrays::values::{self, Origin};

/// A line whose other end is still to be handed to a worker.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct WorkerLine {
    pub(crate) line: Arc<Line>,
    other_end: Mutex<Option<UnixStream>>,
}

/// Nobody is there: `ConnectionError`; what makes no sense: `ValueError`.
fn to_python(error: LineError) -> PyErr {
    match error {
        LineError::Closed(why) => PyConnectionError::new_err(why),
        LineError::NoSense(what) => PyValueError::new_err(what),
    }
}

/// With the system's number, by which it is told whether it lacks something, such as open files.
fn os_error(error: io::Error) -> PyErr {
    PyOSError::new_err((error.raw_os_error(), error.to_string()))
}

#[pymethods]
impl WorkerLine {
    #[new]
    fn new() -> PyResult<WorkerLine> {
        let (end, other) = UnixStream::pair().map_err(os_error)?;
        Ok(WorkerLine { line: Arc::new(Line::new(end)), other_end: Mutex::new(Some(other)) })
    }

    /// The descriptor of the worker's end, which is the caller's from now on; once.
    fn take_other_end(&self) -> PyResult<i32> {
        let other = lock(&self.other_end).take();
        other.map(UnixStream::into_raw_fd).ok_or_else(|| PyValueError::new_err("the other end was taken before"))
    }

    #[pyo3(signature = (text, tensors=None))]
    fn send(&self, py: Python<'_>, text: &[u8], tensors: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let mut read = Vec::new();
        for (name, array) in tensors.into_iter().flat_map(PyDictMethods::iter) {
            let (name, spec) = (name.extract::<String>()?, spec_of(&array)?);
            read.push((name, spec.dtype, values::read(&spec, &array, Origin::Caller)?));
        }
        py.detach(|| self.line.send(text, &read.iter().map(named).collect::<Vec<_>>())).map_err(to_python)
    }

    fn receive<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyDict>)> {
        let Message { text, tensors } = py.detach(|| self.line.receive()).map_err(to_python)?;
        Ok((PyBytes::new(py, &text), to_arrays(py, tensors)?))
    }

    fn unanswered_seconds(&self) -> Option<f64> {
        self.line.unanswered().map(|time| time.as_secs_f64())
    }

    fn await_end(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let time = Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))?;
        py.detach(|| self.line.await_end(time)).map_err(to_python)
    }

    fn hang_up(&self) {
        self.line.hang_up();
    }
}

/// Tensors by name, as arrays.
pub(crate) fn to_arrays(py: Python<'_>, tensors: Vec<(String, DType, Tensor)>) -> PyResult<Bound<'_, PyDict>> {
    let arrays = PyDict::new(py);
    for (name, dtype, Tensor { column, shape }) in tensors {
        arrays.set_item(name, numpy::to_array(py, dtype, shape.into_iter(), Lease::unpooled(column))?)?;
    }
    Ok(arrays)
}

fn named((name, dtype, tensor): &(String, DType, Tensor)) -> Named<'_> {
    Named { name, dtype: *dtype, shape: tensor.shape.clone(), column: &tensor.column }
}

fn spec_of(array: &Bound<'_, PyAny>) -> PyResult<TensorSpec> {
    let dtype = array.getattr("dtype")?;
    let (kind, name): (String, String) = (dtype.getattr("kind")?.extract()?, dtype.getattr("name")?.extract()?);
    let name = if ["O", "S", "U"].contains(&kind.as_str()) { "string" } else { name.as_str() };
    let dtype = DType::from_name(name)
        .ok_or_else(|| PyValueError::new_err(format!("dtype {name} cannot be served: use numbers, bool or text")))?;
    Ok(TensorSpec::of_any_rank("", dtype))
}
