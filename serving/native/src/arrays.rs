//! Columns as numpy arrays: numbers wrap the column's memory without a copy, strings become object arrays of `bytes`.
//! Batches and log blocks hand in columns; the arrays own them, and memory returns to its pool with the last view.

use std::os::raw::c_int;

use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyTuple};
use tidegate_plane::column::{Column, Lease, Strings};
use tidegate_plane::dtype::{ALL, DType};

/// Memory of one column, exported to numpy by the buffer protocol. It is an array's `base`.
#[pyclass(frozen, name = "_ColumnMemory", module = "tidegate_native")]
struct ColumnMemory {
    start: *mut u8,
    length: usize,
    /// Owns what `start` points to; its heap memory does not move while it is not written through.
    _lease: Lease,
}

// SAFETY: the pointer is into memory that the lease owns and that nobody touches through the lease any more; all
// access goes through Python buffers, whose users synchronise as for any other array.
unsafe impl Send for ColumnMemory {}
// SAFETY: as above; the class has no methods that read or write through the pointer.
unsafe impl Sync for ColumnMemory {}

#[pymethods]
impl ColumnMemory {
    /// Fills in a writable, contiguous view of bytes.
    ///
    /// # Safety
    /// `view` comes from the interpreter and is valid for writing, as the buffer protocol asks.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let memory = slf.get();
        let length = ffi::Py_ssize_t::try_from(memory.length)
            .map_err(|_| PyMemoryError::new_err("a column is larger than an array can be"))?;
        // SAFETY: start and length describe memory that lives as long as this object, which the view keeps alive.
        let filled =
            unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), memory.start.cast(), length, 0, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// What we need of numpy, looked up once.
pub(crate) struct Numpy {
    pub(crate) ndarray: Py<PyAny>,
    pub(crate) asarray: Py<PyAny>,
    pub(crate) ascontiguousarray: Py<PyAny>,
    pub(crate) can_cast: Py<PyAny>,
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
    mut lease: Lease,
) -> PyResult<Bound<'py, PyAny>> {
    let numpy = Numpy::get(py)?;
    let shape = PyTuple::new(py, shape.collect::<Vec<_>>())?;
    let memory = match &mut *lease {
        Column::Strings(strings) => return strings_to_array(py, numpy, strings, &shape),
        Column::Raw(words) => {
            let bytes = words.as_bytes_mut();
            (bytes.as_mut_ptr(), bytes.len())
        }
    };
    let (start, length) = memory;
    let memory = Bound::new(py, ColumnMemory { start, length, _lease: lease })?;
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
