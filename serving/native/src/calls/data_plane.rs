//! `DataPlane`: start, apply, set_ready, predict, stats, drain.
//! Calls that wait give up the GIL; at interpreter exit a running plane is stopped.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};
use tidegate_codec::model_spec::{ModelSpec, VersionChoice};
use tidegate_engine::metrics::{Gauge, HungCall};
use tidegate_plane::endpoints::embedded::endpoint::EmbeddedRequest;
use tidegate_plane::plane::Plane;

use crate::callbacks::closing::Closing;
use crate::callbacks::hooks::Callbacks;
use crate::calls::changes;
use crate::calls::predict::{self, Arrived, PendingPrediction, PredictionStream};
use crate::calls::settings::{self, Settings};
use crate::calls::system::ThisProcess;

/// How long the interpreter's exit waits for a model that is still running, and again once it is interrupted.
const EXIT_PATIENCE: Duration = Duration::from_secs(3);

/// A running data plane.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct DataPlane {
    pub(crate) plane: Arc<Plane>,
    closing: Arc<Closing>,
}

#[pymethods]
impl DataPlane {
    #[staticmethod]
    #[pyo3(signature = (settings, *, released, control, log_told, traces=None))]
    fn start(
        py: Python<'_>,
        settings: PyRef<'_, Settings>,
        released: Py<PyAny>,
        control: Py<PyAny>,
        log_told: Py<PyAny>,
        traces: Option<Py<PyAny>>,
    ) -> PyResult<DataPlane> {
        let closing = Arc::new(Closing::default());
        let (log, log_failing) = (settings.log.clone(), AtomicBool::default());
        let closing_too = closing.clone();
        let hooks = Arc::new(Callbacks { released, control, log_told, traces, log, log_failing, closing: closing_too });
        let settings = settings.plane.clone();
        let started = py.detach(|| Plane::start(&settings, hooks, Arc::new(ThisProcess)));
        let plane = Arc::new(started.map_err(|why| match why.kind() {
            ErrorKind::InvalidInput => PyValueError::new_err(why.to_string()),
            _ => why.into(),
        })?);
        let exit = Bound::new(py, Exit { plane: Arc::downgrade(&plane), closing: closing.clone() })?;
        py.import("atexit")?.call_method1("register", (exit,))?;
        Ok(DataPlane { plane, closing })
    }

    #[getter]
    fn grpc_address(&self) -> Option<String> {
        self.plane.grpc_address().map(|address| address.to_string())
    }

    #[getter]
    fn rest_address(&self) -> Option<String> {
        self.plane.rest_address().map(|address| address.to_string())
    }

    /// Swaps the serving map once for all changes; ValueError, and nothing changes, when one of them cannot be.
    #[pyo3(signature = (changes))]
    fn apply(&self, py: Python<'_>, changes: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        let changes = changes.iter().map(|change| changes::to_core(change, &self.closing)).collect::<PyResult<_>>()?;
        py.detach(|| self.plane.apply(changes)).map_err(PyValueError::new_err)
    }

    /// What `/v2/health/ready` answers; not ready until first called.
    #[pyo3(signature = (ready, reason))]
    fn set_ready(&self, ready: bool, reason: &str) {
        self.plane.set_ready(ready, reason);
    }

    /// The server has started: a model that is not there is NOT_FOUND from now on.
    fn started(&self, py: Python<'_>) {
        py.detach(|| self.plane.started());
    }

    /// Predicts without a socket: outputs by name, and the version that gave them. Raises `PredictError`.
    #[pyo3(signature = (model, inputs, *, version=None, label=None, signature="", timeout_ms=None, request_id=None,
        traceparent=None, key=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword-only in Python, one structure from here on")]
    fn predict<'py>(
        &self,
        py: Python<'py>,
        model: &str,
        inputs: &Bound<'py, PyMapping>,
        version: Option<i64>,
        label: Option<&str>,
        signature: &str,
        timeout_ms: Option<u64>,
        request_id: Option<&str>,
        traceparent: Option<&str>,
        key: Option<&str>,
    ) -> PyResult<(Bound<'py, PyDict>, i64)> {
        let spec = ModelSpec { name: model, choice: choice(version, label), signature_name: signature };
        let request = EmbeddedRequest { spec, request_id, traceparent, key };
        predict::predict(py, self.plane.embedded(), &request, inputs, timeout_ms.map(Duration::from_millis))
    }

    /// As `predict`, but comes back at once; `arrived` is told the ticket once the answer is there.
    #[pyo3(signature = (model, inputs, arrived, ticket, *, version=None, label=None, signature="", timeout_ms=None,
        request_id=None, traceparent=None, key=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword-only in Python, one structure from here on")]
    fn submit<'py>(
        &self,
        py: Python<'py>,
        model: &str,
        inputs: &Bound<'py, PyMapping>,
        arrived: PyRef<'_, Arrived>,
        ticket: u64,
        version: Option<i64>,
        label: Option<&str>,
        signature: &str,
        timeout_ms: Option<u64>,
        request_id: Option<&str>,
        traceparent: Option<&str>,
        key: Option<&str>,
    ) -> PyResult<PendingPrediction> {
        let spec = ModelSpec { name: model, choice: choice(version, label), signature_name: signature };
        let request = EmbeddedRequest { spec, request_id, traceparent, key };
        let (timeout, told) = (timeout_ms.map(Duration::from_millis), arrived.told(ticket));
        predict::submit(py, self.plane.embedded(), &request, inputs, timeout, Some(told))
    }

    /// As `predict`, for a signature that streams; `timeout_ms` bounds all of it, None each message by the settings.
    #[pyo3(signature = (model, inputs, *, version=None, label=None, signature="", timeout_ms=None, request_id=None,
        traceparent=None, key=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword-only in Python, one structure from here on")]
    fn stream<'py>(
        &self,
        py: Python<'py>,
        model: &str,
        inputs: &Bound<'py, PyMapping>,
        version: Option<i64>,
        label: Option<&str>,
        signature: &str,
        timeout_ms: Option<u64>,
        request_id: Option<&str>,
        traceparent: Option<&str>,
        key: Option<&str>,
    ) -> PyResult<PredictionStream> {
        let spec = ModelSpec { name: model, choice: choice(version, label), signature_name: signature };
        let request = EmbeddedRequest { spec, request_id, traceparent, key };
        predict::stream(py, self.plane.embedded(), &request, inputs, timeout_ms.map(Duration::from_millis))
    }

    /// Limits from now on; what was let in before stays. ValueError, and nothing changes, for one that is 0.
    #[pyo3(signature = (*, max_message_bytes, max_connections, request_timeout_ms))]
    fn set_limits(&self, max_message_bytes: usize, max_connections: usize, request_timeout_ms: u64) -> PyResult<()> {
        let timeout = Duration::from_millis(request_timeout_ms);
        self.plane.limits().set(max_message_bytes, max_connections, timeout).map_err(PyValueError::new_err)
    }

    /// Who may ask from now on. ValueError for what cannot be, and where the plane was started without asking anybody.
    #[pyo3(signature = (access))]
    fn set_access(&self, access: settings::AccessLines) -> PyResult<()> {
        self.plane.set_access(settings::read_access(access)?).map_err(PyValueError::new_err)
    }

    /// What the server shows on connections from now on, and whose certificates it takes. ValueError, and nothing changes,
    /// for what cannot be used, and where the plane was started without TLS.
    #[pyo3(signature = (tls))]
    fn set_tls(&self, py: Python<'_>, tls: settings::Pem) -> PyResult<()> {
        py.detach(|| self.plane.set_tls(&settings::pem(tls))).map_err(PyValueError::new_err)
    }

    /// What `GetModelStatus` answers about a model: version, state, gRPC code and text of each, in this order.
    #[pyo3(signature = (model, states))]
    fn set_states(&self, py: Python<'_>, model: &str, states: Vec<settings::State>) {
        let states = states.into_iter().map(settings::version_state).collect();
        py.detach(|| self.plane.set_states(model, states));
    }

    /// Replaces a family of gauges in the metrics: help text, and labels and value of each sample; none forget it.
    /// ValueError for a name that cannot be.
    #[pyo3(signature = (name, help, samples))]
    fn set_gauges(&self, py: Python<'_>, name: &str, help: &str, samples: Vec<Gauge>) -> PyResult<()> {
        py.detach(|| self.plane.set_gauges(name, help, samples)).map_err(PyValueError::new_err)
    }

    /// Counters by Prometheus sample name with labels, the same numbers as `/metrics`; of one model, where it is named.
    #[pyo3(signature = (model=None))]
    fn stats(&self, py: Python<'_>, model: Option<&str>) -> HashMap<String, f64> {
        py.detach(|| self.plane.stats(model).into_iter().collect())
    }

    /// Every call of a model that runs now, the longest first: model, version, signature, rows of its batch, id of its
    /// first request, and seconds.
    fn running_calls(&self, py: Python<'_>) -> Vec<Call> {
        py.detach(|| described(self.plane.running_calls()))
    }

    /// Those that run for longer than `least_ms` and than ten times what calls of their version usually take.
    #[pyo3(signature = (least_ms))]
    fn stuck_calls(&self, py: Python<'_>, least_ms: u64) -> Vec<Call> {
        py.detach(|| described(self.plane.stuck_calls(Duration::from_millis(least_ms))))
    }

    /// Not ready, refuse new connections, answer what was accepted, flush the log, stop. True if all was answered and
    /// every call of a model has returned in time.
    #[pyo3(signature = (deadline_ms))]
    fn drain(&self, py: Python<'_>, deadline_ms: u64) -> bool {
        py.detach(|| self.plane.drain(Duration::from_millis(deadline_ms)))
    }
}

/// A running call as Python sees it.
type Call = (String, i64, String, usize, String, f64);

fn described(calls: Vec<HungCall>) -> Vec<Call> {
    let mut calls = calls;
    calls.sort_by_key(|hung| hung.call.since);
    let described = calls.into_iter().map(|HungCall { model, version, call }| {
        let seconds = call.since.elapsed().as_secs_f64();
        (model, version, call.signature, call.rows, call.request.as_str().to_owned(), seconds)
    });
    described.collect()
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        if !self.closing.is_closed() {
            let plane = self.plane.clone();
            Python::attach(|py| py.detach(move || plane.stop()));
        }
    }
}

/// Called by `atexit` while the interpreter is still whole.
#[pyclass(frozen, name = "_Exit", module = "tidegate_native")]
struct Exit {
    plane: Weak<Plane>,
    closing: Arc<Closing>,
}

#[pymethods]
impl Exit {
    /// Lets no thread of the plane into Python any more and waits for those that are in.
    fn __call__(&self, py: Python<'_>) {
        self.closing.close();
        let Some(plane) = self.plane.upgrade() else { return };
        if !py.detach(|| plane.stop_within(EXIT_PATIENCE)) {
            self.closing.interrupt(py);
            py.detach(|| plane.stop_within(EXIT_PATIENCE));
        }
    }
}

fn choice<'a>(version: Option<i64>, label: Option<&'a str>) -> VersionChoice<'a> {
    match (version, label) {
        (Some(version), _) => VersionChoice::Version(version),
        (None, Some(label)) => VersionChoice::Label(label),
        (None, None) => VersionChoice::Any,
    }
}
