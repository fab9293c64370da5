//! What a model returned, as columns: the declared outputs, found by name, cast where that loses no kind, copied once.
//! The executor hands in Python objects under the GIL; the core checks rows and shapes of what comes out.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PyString};
use tidegate_plane::batch::{Answer, Output};
use tidegate_plane::column::{Column, Strings, Words};
use tidegate_plane::dtype::DType;
use tidegate_plane::signature::{Signature, TensorSpec};
use tidegate_plane::status::{Code, Status};

use crate::arrays::Numpy;
use crate::batch::Outcome;
use crate::memory::copy_contiguous;

/// Reads a mapping of outputs or a `Result`.
pub(crate) fn read(signature: &Signature, returned: &Bound<'_, PyAny>) -> PyResult<Answer> {
    let py = returned.py();
    let Ok(outcome) = returned.cast::<Outcome>() else {
        return Ok(Answer { outputs: read_outputs(signature, returned)?, errors: Vec::new() });
    };
    let outcome = outcome.get();
    let mut errors = Vec::new();
    if let Some(by_row) = &outcome.errors {
        for item in by_row.bind(py).cast::<PyMapping>()?.items()?.iter() {
            let (row, (code, message)): (usize, (i64, String)) = item.extract()?;
            let code = match Code::from_number(code) {
                Code::Ok => Code::Unknown,
                other => other,
            };
            errors.push((row, Status::new(code, message)));
        }
    }
    Ok(Answer { outputs: read_outputs(signature, outcome.outputs.bind(py))?, errors })
}

fn read_outputs(signature: &Signature, returned: &Bound<'_, PyAny>) -> PyResult<Vec<Option<Output>>> {
    let find = |name: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
        if let Ok(dict) = returned.cast::<PyDict>() {
            return dict.get_item(name);
        }
        let mapping = returned.cast::<PyMapping>().map_err(|_| {
            let kind = returned.get_type();
            PyTypeError::new_err(format!("the model returned {kind}, not a mapping of outputs or a Result"))
        })?;
        if mapping.contains(name)? { mapping.get_item(name).map(Some) } else { Ok(None) }
    };
    let read = |spec: &TensorSpec| find(&spec.name)?.map(|value| read_output(spec, &value)).transpose();
    signature.outputs.iter().map(read).collect()
}

fn read_output(spec: &TensorSpec, value: &Bound<'_, PyAny>) -> PyResult<Output> {
    let numpy = Numpy::get(value.py())?;
    if spec.dtype == DType::String { read_strings(spec, value, numpy) } else { read_numbers(spec, value, numpy) }
}

fn read_numbers(spec: &TensorSpec, value: &Bound<'_, PyAny>, numpy: &Numpy) -> PyResult<Output> {
    let py = value.py();
    let wanted = numpy.dtype(spec.dtype).bind(py);
    let is_array = value.is_instance(numpy.ndarray.bind(py))?;
    let ready = is_array && value.getattr("dtype")?.is(wanted);
    if let Some(output) = if ready { copy_contiguous(value) } else { None } {
        return Ok(output);
    }
    let array = if is_array { value.clone() } else { numpy.asarray.bind(py).call1((value,))? };
    let cast = cast(spec, &array, wanted, numpy)?;
    let contiguous = numpy.ascontiguousarray.bind(py).call1((&cast,))?;
    // ascontiguousarray turns a scalar into a row; the shape to be checked is the model's own.
    if cast.getattr("ndim")?.extract::<usize>()? == 0 {
        return Ok(Output { column: Column::Raw(Words::default()), shape: Vec::new() });
    }
    copy_contiguous(&contiguous).ok_or_else(|| {
        PyTypeError::new_err(format!("output '{}' cannot be read as an array of {}", spec.name, spec.dtype.name()))
    })
}

/// Floats may change width, whole numbers become floats or other whole numbers that hold the same values.
fn cast<'py>(
    spec: &TensorSpec,
    array: &Bound<'py, PyAny>,
    wanted: &Bound<'py, PyAny>,
    numpy: &Numpy,
) -> PyResult<Bound<'py, PyAny>> {
    let found = array.getattr("dtype")?;
    if found.eq(wanted)? {
        return Ok(array.clone());
    }
    let can_cast =
        |rule: &str| -> PyResult<bool> { numpy.can_cast.bind(array.py()).call1((&found, wanted, rule))?.extract() };
    let (name, want) = (&spec.name, spec.dtype.name());
    if !can_cast("same_kind")? {
        return Err(PyTypeError::new_err(format!(
            "the model returned output '{name}' of dtype {found}, which does not become {want}"
        )));
    }
    let cast = array.call_method1("astype", (wanted,))?;
    let whole = !matches!(spec.dtype, DType::Float16 | DType::Float32 | DType::Float64);
    if whole && !can_cast("safe")? && !cast.eq_elements(array)? {
        return Err(PyTypeError::new_err(format!(
            "the model returned output '{name}' of dtype {found} with values that do not fit {want}"
        )));
    }
    Ok(cast)
}

trait EqElements {
    fn eq_elements(&self, other: &Self) -> PyResult<bool>;
}

impl EqElements for Bound<'_, PyAny> {
    fn eq_elements(&self, other: &Self) -> PyResult<bool> {
        self.rich_compare(other, pyo3::basic::CompareOp::Eq)?.call_method0("all")?.extract()
    }
}

fn read_strings(spec: &TensorSpec, value: &Bound<'_, PyAny>, numpy: &Numpy) -> PyResult<Output> {
    let py = value.py();
    let array = numpy.asarray.bind(py).call1((value, numpy.object.bind(py)))?;
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    let items = array.call_method0("ravel")?.call_method0("tolist")?;
    let mut strings = Strings::default();
    for item in items.cast::<PyList>()?.iter() {
        if let Ok(bytes) = item.cast::<PyBytes>() {
            strings.push(bytes.as_bytes());
        } else if let Ok(text) = item.cast::<PyString>() {
            strings.push(text.to_str()?.as_bytes());
        } else {
            let kind = item.get_type();
            return Err(PyTypeError::new_err(format!(
                "the model returned output '{}' with an element of {kind}: strings must be bytes or str",
                spec.name
            )));
        }
    }
    Ok(Output { column: Column::Strings(strings), shape })
}
