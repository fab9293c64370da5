//! A block of the inference log as Python sees it: numpy arrays, one entry per row.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use tidegate_codec::dtype::DType;
use tidegate_codec::signatures::TensorSpec;
use tidegate_codec::tensors::{Column, Lease, Strings, Words};
use tidegate_engine::batching::ServedSignature;
use tidegate_engine::log::block as core;

use crate::arrays::numpy;

/// Rows logged for one version, column by column.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct LogBlock {
    served: Arc<ServedSignature>,
    rows: usize,
    inputs: Py<PyDict>,
    outputs: Py<PyDict>,
    request_id: Strings,
    row: Py<PyAny>,
    role: Py<PyAny>,
    status: Py<PyAny>,
    received_at_us: Py<PyAny>,
    latency_us: Py<PyAny>,
}

impl LogBlock {
    pub(crate) fn new(py: Python<'_>, block: core::LogBlock) -> PyResult<LogBlock> {
        let rows = block.rows;
        let column = |dtype: DType, words: Words| {
            let lease = Lease::unpooled(Column::Raw(words));
            numpy::to_array(py, dtype, std::iter::once(rows), lease).map(Bound::unbind)
        };
        let signature = block.served.signature.clone();
        Ok(LogBlock {
            inputs: tensors(py, &signature.inputs, block.inputs, &block.layout.inputs, rows)?,
            outputs: tensors(py, &signature.outputs, block.outputs, &block.layout.outputs, rows)?,
            served: block.served,
            rows,
            request_id: block.request_id,
            row: column(DType::UInt32, block.row)?,
            role: column(DType::UInt8, block.role)?,
            status: column(DType::UInt8, block.status)?,
            received_at_us: column(DType::Int64, block.received_at_us)?,
            latency_us: column(DType::Int64, block.latency_us)?,
        })
    }
}

fn tensors(
    py: Python<'_>,
    specs: &[TensorSpec],
    columns: Vec<Column>,
    shapes: &[Vec<usize>],
    rows: usize,
) -> PyResult<Py<PyDict>> {
    let dict = PyDict::new(py);
    for ((spec, column), inner) in specs.iter().zip(columns).zip(shapes) {
        let shape = std::iter::once(rows).chain(inner.iter().copied());
        dict.set_item(&spec.name, numpy::to_array(py, spec.dtype, shape, Lease::unpooled(column))?)?;
    }
    Ok(dict.unbind())
}

#[pymethods]
impl LogBlock {
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
    fn rows(&self) -> usize {
        self.rows
    }

    #[getter]
    fn inputs(&self, py: Python<'_>) -> Py<PyDict> {
        self.inputs.clone_ref(py)
    }

    #[getter]
    fn outputs(&self, py: Python<'_>) -> Py<PyDict> {
        self.outputs.clone_ref(py)
    }

    #[getter]
    fn request_id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let texts = (0..self.request_id.len()).map(|index| String::from_utf8_lossy(self.request_id.get(index)));
        PyList::new(py, texts.map(|text| PyString::new(py, &text)).collect::<Vec<_>>())
    }

    #[getter]
    fn row(&self, py: Python<'_>) -> Py<PyAny> {
        self.row.clone_ref(py)
    }

    #[getter]
    fn role(&self, py: Python<'_>) -> Py<PyAny> {
        self.role.clone_ref(py)
    }

    #[getter]
    fn status(&self, py: Python<'_>) -> Py<PyAny> {
        self.status.clone_ref(py)
    }

    #[getter]
    fn received_at_us(&self, py: Python<'_>) -> Py<PyAny> {
        self.received_at_us.clone_ref(py)
    }

    #[getter]
    fn latency_us(&self, py: Python<'_>) -> Py<PyAny> {
        self.latency_us.clone_ref(py)
    }
}
