//! A model's return value as tensors: the declared outputs, found by name, and errors by row.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString, PyTuple};
use tidegate_codec::signatures::{Signature, TensorSpec};
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::Tensor;
use tidegate_engine::batching::Prediction;

use crate::arrays::values::{self, Origin};
use crate::callbacks::batch::Outcome;
use crate::callbacks::raised::few_words;

/// Reads a mapping of outputs or a `Result`.
pub(crate) fn read(signature: &Signature, returned: &Bound<'_, PyAny>) -> PyResult<Prediction> {
    let py = returned.py();
    let Ok(outcome) = returned.cast::<Outcome>() else {
        return Ok(Prediction { outputs: read_outputs(signature, returned)?, errors: Vec::new() });
    };
    let outcome = outcome.get();
    let mut errors = Vec::new();
    if let Some(by_row) = &outcome.errors {
        for item in by_row.bind(py).cast::<PyMapping>()?.items()?.iter() {
            let (row, error): (usize, Bound<'_, PyTuple>) = item.extract()?;
            let (code, message): (i64, Bound<'_, PyString>) = error.get_slice(0, 2).extract()?;
            let details: Option<String> = error.iter().nth(2).map(|details| details.extract()).transpose()?;
            let code = match Code::from_number(code) {
                Code::Ok => Code::Unknown,
                other => other,
            };
            let status = Status::new(code, few_words(&message));
            errors.push((row, details.into_iter().fold(status, Status::with_details)));
        }
    }
    Ok(Prediction { outputs: read_outputs(signature, outcome.outputs.bind(py))?, errors })
}

fn read_outputs(signature: &Signature, returned: &Bound<'_, PyAny>) -> PyResult<Vec<Option<Tensor>>> {
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
    let read = |spec: &TensorSpec| find(&spec.name)?.map(|value| values::read(spec, &value, Origin::Model)).transpose();
    signature.outputs.iter().map(read).collect()
}
