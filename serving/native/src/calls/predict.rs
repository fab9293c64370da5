//! Predicting in process: arrays in, arrays out, with the GIL given up while the request waits and runs; or without
//! waiting, with a call once there are answers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};
use tidegate_codec::signatures::Signature;
use tidegate_codec::signatures::sequences::SEQUENCE_ID;
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::{Column, Lease, Tensor};
use tidegate_engine::batching::stream::Next;
use tidegate_engine::sync::lock;
use tidegate_plane::endpoints::embedded::arrays::{Arrays, NamedArray};
use tidegate_plane::endpoints::embedded::endpoint::{
    Embedded, EmbeddedRequest, PendingAnswer, PendingStream, RoutedRequest,
};
use tidegate_plane::endpoints::embedded::reply::{Arrivals, EmbeddedAnswer, Told};
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
    let pending = submit(py, endpoint, request, inputs, timeout, None)?;
    let answer = loop {
        match py.detach(|| pending.answer.wait(LOOK)) {
            Some(answer) => break answer,
            None => py.check_signals()?,
        }
    };
    pending.to_outputs(py, answer)
}

/// Puts a request into its queue, and comes back at once.
pub(crate) fn submit<'py>(
    py: Python<'py>,
    endpoint: &Embedded<AnyReply>,
    request: &EmbeddedRequest<'_>,
    inputs: &Bound<'py, PyMapping>,
    timeout: Option<Duration>,
    told: Option<Told>,
) -> PyResult<PendingPrediction> {
    let (routed, arrays) = read(endpoint, request, inputs)?;
    let version = routed.version();
    let signature = routed.signature().cloned();
    let answer = py.detach(|| endpoint.submit(routed, &arrays, timeout, told));
    Ok(PendingPrediction { answer, signature, version })
}

/// A request under way. One that is let go of before its answer came is not computed, where it still waits.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct PendingPrediction {
    answer: PendingAnswer<AnyReply>,
    signature: Option<Signature>,
    version: i64,
}

impl PendingPrediction {
    fn to_outputs<'py>(&self, py: Python<'py>, answer: EmbeddedAnswer) -> PyResult<(Bound<'py, PyDict>, i64)> {
        let outputs = answer.map_err(|status| failed(&status))?;
        match &self.signature {
            Some(signature) => Ok((to_dict(py, signature, outputs)?, self.version)),
            None => Err(failed(&Status::new(Code::Internal, "a version without the signature has answered"))),
        }
    }
}

#[pymethods]
impl PendingPrediction {
    /// Outputs by name and the version that gave them, None while they are not there. Raises `PredictError`.
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyDict>, i64)>> {
        let answer = py.detach(|| self.answer.poll());
        answer.map(|answer| self.to_outputs(py, answer)).transpose()
    }

    /// Seconds until its deadline.
    #[getter]
    fn seconds_left(&self) -> f64 {
        self.answer.time_left().as_secs_f64()
    }
}

/// Has a request answered message by message.
pub(crate) fn stream(
    py: Python<'_>,
    endpoint: &Embedded<AnyReply>,
    request: &EmbeddedRequest<'_>,
    inputs: &Bound<'_, PyMapping>,
    timeout: Option<Duration>,
) -> PyResult<PredictionStream> {
    let (routed, arrays) = read(endpoint, request, inputs)?;
    let version = routed.version();
    let stream = py.detach(|| endpoint.stream(routed, &arrays, timeout));
    Ok(PredictionStream { stream: Mutex::new(Some(Arc::new(stream))), version })
}

/// The messages of one request. The model is told to stop when it is closed.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct PredictionStream {
    /// None once it is closed.
    stream: Mutex<Option<Arc<PendingStream<AnyReply>>>>,
    version: i64,
}

#[pymethods]
impl PredictionStream {
    /// The outputs of the next message by name; None behind the last one. Raises `PredictError`.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(stream) = lock(&self.stream).clone() else { return Ok(None) };
        let next = loop {
            match py.detach(|| stream.wait(LOOK)) {
                Some(next) => break next,
                None => py.check_signals()?,
            }
        };
        match next {
            Next::Message(message) => {
                let (served, outputs) = message.into_outputs();
                to_dict(py, &served.signature, outputs).map(Some)
            }
            Next::End(Ok(())) => Ok(None),
            Next::End(Err(status)) => Err(failed(&status)),
        }
    }

    /// No more messages are wanted.
    fn close(&self, py: Python<'_>) {
        let stream = lock(&self.stream).take();
        py.detach(|| drop(stream));
    }

    /// The version that answers.
    #[getter]
    fn version(&self) -> i64 {
        self.version
    }
}

/// Numbers of requests whose answers are there: one call for all that come before somebody has looked.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct Arrived(Arc<Bell>);

struct Bell {
    tickets: Mutex<Vec<u64>>,
    ring: Py<PyAny>,
}

impl std::fmt::Debug for Bell {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Bell").field("tickets", &self.tickets).finish_non_exhaustive()
    }
}

impl Arrivals for Bell {
    fn arrived(&self, ticket: u64) {
        let first = {
            let mut tickets = lock(&self.tickets);
            tickets.push(ticket);
            tickets.len() == 1
        };
        if first {
            // Whoever is called has nobody above who could take its error.
            Python::attach(|py| {
                if let Err(error) = self.ring.call0(py) {
                    error.write_unraisable(py, None);
                }
            });
        }
    }
}

#[pymethods]
impl Arrived {
    /// `ring` is called by any thread when there is something to take again.
    #[new]
    fn new(ring: Py<PyAny>) -> Arrived {
        Arrived(Arc::new(Bell { tickets: Mutex::default(), ring }))
    }

    /// The numbers since the last call.
    fn take(&self) -> Vec<u64> {
        std::mem::take(&mut *lock(&self.0.tickets))
    }
}

impl Arrived {
    /// Tells it of one request.
    pub(crate) fn told(&self, ticket: u64) -> Told {
        Told { arrivals: self.0.clone(), ticket }
    }
}

/// Where a request goes, and its inputs; one that cannot be read is counted as refused.
fn read(
    endpoint: &Embedded<AnyReply>,
    request: &EmbeddedRequest<'_>,
    inputs: &Bound<'_, PyMapping>,
) -> PyResult<(RoutedRequest, Arrays)> {
    let sequence = |signature: &Signature| read_sequence(signature, inputs);
    let routed = endpoint.route(request, sequence).map_err(|status| failed(&status))?;
    match read_inputs(&routed, inputs)? {
        Ok(arrays) => Ok((routed, arrays)),
        Err(status) => {
            endpoint.refuse(routed, &status);
            Err(failed(&status))
        }
    }
}

/// The sequence that the inputs name; empty where they name none, or none that can be read, which is refused once they are.
fn read_sequence(signature: &Signature, inputs: &Bound<'_, PyMapping>) -> Vec<u8> {
    let Some(spec) = signature.inputs.iter().find(|spec| spec.name == SEQUENCE_ID) else { return Vec::new() };
    let read = inputs.get_item(SEQUENCE_ID).and_then(|value| values::read(spec, &value, Origin::Caller));
    match read.map(|tensor| tensor.column) {
        Ok(Column::Strings(ids)) if !ids.is_empty() => ids.get(0).to_vec(),
        _ => Vec::new(),
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
