//! Predicting in process: arrays in, arrays out, with the GIL given up while the request waits and runs.

use std::time::Duration;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};
use tidegate_codec::signatures::Signature;
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::{Lease, Tensor};
use tidegate_plane::endpoints::embedded::arrays::{Arrays, NamedArray};
use tidegate_plane::endpoints::embedded::endpoint::{Embedded, EmbeddedRequest, RoutedRequest};

use tidegate_plane::endpoints::reply::AnyReply;

use crate::arrays::numpy;
use crate::arrays::values::{self, Origin};

pyo3::create_exception!(
    tidegate_native,
    PredictError,
    PyException,
    "A request failed: (canonical gRPC code, message)."
);

/// How often a waiting caller looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);

fn failed(status: &Status) -> PyErr {
    PredictError::new_err((status.code as u16, status.message.clone()))
}

/// Outputs by name, and the version that gave them.
pub(crate) fn predict<'py>(
    py: Python<'py>,
    endpoint: &Embedded<AnyReply>,
    request: &EmbeddedRequest<'_>,
    inputs: &Bound<'py, PyMapping>,
    timeout: Option<Duration>,
) -> PyResult<(Bound<'py, PyDict>, i64)> {
    let routed = endpoint.route(request).map_err(|status| failed(&status))?;
    let version = routed.version();
    let arrays = match read_inputs(&routed, inputs)? {
        Ok(arrays) => arrays,
        Err(status) => {
            endpoint.refuse(routed, &status);
            return Err(failed(&status));
        }
    };
    let signature = routed.signature().cloned();
    let pending = py.detach(|| endpoint.submit(routed, &arrays, timeout));
    drop(arrays);
    let answer = loop {
        match py.detach(|| pending.wait(LOOK)) {
            Some(answer) => break answer,
            None => py.check_signals()?,
        }
    };
    let outputs = answer.map_err(|status| failed(&status))?;
    match signature {
        Some(signature) => Ok((to_dict(py, &signature, outputs)?, version)),
        None => Err(failed(&Status::new(Code::Internal, "a version without the signature has answered"))),
    }
}

/// Inputs in the signature's types; `submit` refuses what the signature does not have.
fn read_inputs(routed: &RoutedRequest, inputs: &Bound<'_, PyMapping>) -> PyResult<Result<Arrays, Status>> {
    let mut arrays = Arrays::default();
    let Some(signature) = routed.signature() else { return Ok(Ok(arrays)) };
    let mut names = Vec::new();
    for item in inputs.items()?.iter() {
        let (name, value): (String, Bound<'_, PyAny>) = item.extract()?;
        if let Some(index) = signature.input_index(name.as_bytes(), arrays.0.len()) {
            let spec = &signature.inputs[index];
            let array = match values::read(spec, &value, Origin::Caller) {
                Ok(array) => array,
                Err(error) => return Ok(Err(Status::invalid(error.value(value.py()).to_string()))),
            };
            arrays.0.push(NamedArray { name: name.clone(), dtype: spec.dtype, array });
        }
        names.push(name);
    }
    Ok(if names.len() == arrays.0.len() { Ok(arrays) } else { Err(signature.wrong_names(names)) })
}

fn to_dict<'py>(py: Python<'py>, signature: &Signature, outputs: Vec<Tensor>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (spec, output) in signature.outputs.iter().zip(outputs) {
        let lease = Lease::unpooled(output.column);
        dict.set_item(&spec.name, numpy::to_array(py, spec.dtype, output.shape.into_iter(), lease)?)?;
    }
    Ok(dict)
}
