//! Columns as numpy arrays: numbers wrap the column's memory without a copy, strings become object arrays of `bytes`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyTuple};
use tidegate_codec::dtype::{ALL, DType};
use tidegate_codec::tensors::{Column, Lease, Strings};

use crate::arrays::memory::ColumnMemory;

/// What we need of numpy, looked up once.
pub(crate) struct Numpy {
    pub(crate) ndarray: Py<PyAny>,
    pub(crate) asarray: Py<PyAny>,
    pub(crate) ascontiguousarray: Py<PyAny>,
    pub(crate) can_cast: Py<PyAny>,
    pub(crate) isfinite: Py<PyAny>,
    pub(crate) errstate: Py<PyAny>,
    pub(crate) array: Py<PyAny>,
    pub(crate) object: Py<PyAny>,
    dtypes: Vec<Py<PyAny>>,
}

static NUMPY: PyOnceLock<Numpy> = PyOnceLock::new();

impl Numpy {
    pub(crate) fn get(py: Python<'_>) -> PyResult<&Numpy> {
        NUMPY.get_or_try_init(py, || {
            let numpy = py.import("numpy")?;
            let function = |name: &str| numpy.getattr(name).map(Bound::unbind);
            let make = |name: &str| numpy.getattr("dtype")?.call1((name,)).map(Bound::unbind);
            let names = ALL.iter().map(|dtype| if *dtype == DType::String { "O" } else { dtype.name() });
            Ok(Numpy {
                ndarray: function("ndarray")?,
                asarray: function("asarray")?,
                ascontiguousarray: function("ascontiguousarray")?,
                can_cast: function("can_cast")?,
                isfinite: function("isfinite")?,
                errstate: function("errstate")?,
                array: function("array")?,
                object: make("O")?,
                dtypes: names.map(make).collect::<PyResult<_>>()?,
            })
        })
    }

    pub(crate) fn dtype(&self, dtype: DType) -> &Py<PyAny> {
        let index = ALL.iter().position(|other| *other == dtype).unwrap_or(ALL.len() - 1);
        &self.dtypes[index]
    }
}

/// An array of this dtype and shape over a column. Strings are copied into objects, and their memory is free at once.
pub(crate) fn to_array<'py>(
    py: Python<'py>,
    dtype: DType,
    shape: impl Iterator<Item = usize>,
    lease: Lease,
) -> PyResult<Bound<'py, PyAny>> {
    let numpy = Numpy::get(py)?;
    let shape = PyTuple::new(py, shape.collect::<Vec<_>>())?;
    if let Column::Strings(strings) = &*lease {
        return strings_to_array(py, numpy, strings, &shape);
    }
    let memory = Bound::new(py, ColumnMemory::new(lease))?;
    numpy.ndarray.bind(py).call1((shape, numpy.dtype(dtype).bind(py), memory))
}

fn strings_to_array<'py>(
    py: Python<'py>,
    numpy: &Numpy,
    strings: &Strings,
    shape: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let items = PyList::new(py, (0..strings.len()).map(|index| PyBytes::new(py, strings.get(index))))?;
    let flat = numpy.array.bind(py).call1((items, numpy.object.bind(py)))?;
    if shape.len() == 1 { Ok(flat) } else { flat.call_method1("reshape", (shape,)) }
}
