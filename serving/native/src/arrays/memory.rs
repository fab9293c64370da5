//! Unsafe code: column memory lent to Python, array memory copied out, and a Python thread interrupted.

use std::os::raw::{c_int, c_long};

use pyo3::exceptions::{PyMemoryError, PySystemExit};
use pyo3::ffi;
use pyo3::prelude::*;
use tidegate_codec::tensors::{Column, Lease, Tensor, Words};

use crate::allocator::note_array;

/// Memory of one column, exported to numpy by the buffer protocol. It is an array's `base`.
#[pyclass(frozen, name = "_ColumnMemory", module = "tidegate_native")]
pub(crate) struct ColumnMemory {
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

impl ColumnMemory {
    /// Takes over a column of numbers; one of strings has no memory to show.
    pub(crate) fn new(mut lease: Lease) -> ColumnMemory {
        let (start, length) = match &mut *lease {
            Column::Raw(words) => {
                let bytes = words.as_bytes_mut();
                (bytes.as_mut_ptr(), bytes.len())
            }
            Column::Strings(_) => (std::ptr::NonNull::dangling().as_ptr(), 0),
        };
        ColumnMemory { start, length, _lease: lease }
    }
}

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
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), memory.start.cast(), length, 0, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// Bytes that are copied before the GIL is free for others.
const COPIED_AT_ONCE: usize = 512 << 10;

/// Copies the memory of a C-contiguous array; none if it is not one.
pub(crate) fn copy_contiguous(array: &Bound<'_, PyAny>) -> Option<Tensor> {
    let py = array.py();
    let mut view = std::mem::MaybeUninit::<ffi::Py_buffer>::uninit();
    let flags = ffi::PyBUF_C_CONTIGUOUS;
    // SAFETY: array is a live object and view is room for a Py_buffer, which a result of 0 says is filled.
    if unsafe { ffi::PyObject_GetBuffer(array.as_ptr(), view.as_mut_ptr(), flags) } != 0 {
        drop(PyErr::take(py));
        return None;
    }
    // SAFETY: filled, as above. It is not moved before its release.
    let view = unsafe { view.assume_init_mut() };
    let rank = usize::try_from(view.ndim).unwrap_or(0);
    let length = usize::try_from(view.len).unwrap_or(0);
    note_array(length);
    let mut words = Words::default();
    words.reserve(length);
    for start in (0..length).step_by(COPIED_AT_ONCE) {
        let piece = COPIED_AT_ONCE.min(length - start);
        // SAFETY: a C-contiguous view has `len` readable bytes from `buf` until it is released, wherever the GIL is
        // meanwhile; it is held while they are copied.
        words.push(unsafe { std::slice::from_raw_parts(view.buf.cast::<u8>().add(start), piece) });
        if start + piece < length {
            // Other models need not wait until all is copied.
            py.detach(|| ());
        }
    }
    let shape = if rank == 0 || view.shape.is_null() {
        Vec::new()
    } else {
        // SAFETY: PyBUF_C_CONTIGUOUS includes PyBUF_ND, so that shape has ndim entries.
        let dims = unsafe { std::slice::from_raw_parts(view.shape, rank) };
        dims.iter().map(|dim| usize::try_from(*dim).unwrap_or(0)).collect()
    };
    // SAFETY: filled by PyObject_GetBuffer and released once.
    unsafe { ffi::PyBuffer_Release(view) };
    Some(Tensor { column: Column::Raw(words), shape })
}

/// Raises SystemExit in another thread, at its next Python instruction.
pub(crate) fn interrupt_thread(py: Python<'_>, ident: c_long) {
    let exit = py.get_type::<PySystemExit>();
    // SAFETY: the GIL is held, exit is a live exception class, and an unknown identifier is ignored.
    unsafe { ffi::PyThreadState_SetAsyncExc(ident, exit.as_ptr()) };
}
