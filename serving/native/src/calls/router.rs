//! `Router`: start, apply, stats, stop. Calls that wait give up the GIL; at interpreter exit a running router is stopped.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tidegate_router::links::tls::NodePem;
use tidegate_router::node::Addresses;
use tidegate_router::router::{ModelStats, Router as CoreRouter, Wanted};
use tidegate_router::settings::{ColdLimits, RouterSettings};

use crate::callbacks::closing::Closing;
use crate::calls::settings::{self, Settings};
use crate::calls::system::ThisProcess;

/// Who signs nodes' certificates, the router's own certificate and key, and the name in those of nodes (PEM).
type NodeTls = (Vec<u8>, Option<(Vec<u8>, Vec<u8>)>, Option<String>);

fn node_pem((ca, identity, server_name): NodeTls) -> NodePem {
    NodePem { ca, identity, server_name }
}

/// A running router.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct Router {
    router: Arc<CoreRouter>,
    closing: Arc<Closing>,
}

#[pymethods]
impl Router {
    #[staticmethod]
    #[pyo3(signature = (settings, *, wanted, cold_timeout_ms=30000, cold_requests=1024, cold_bytes=67108864,
        hedge_after_ms=None, connections_per_node=2, node_tls=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword-only in Python, one structure from here on")]
    fn start(
        py: Python<'_>,
        settings: PyRef<'_, Settings>,
        wanted: Py<PyAny>,
        cold_timeout_ms: u64,
        cold_requests: usize,
        cold_bytes: usize,
        hedge_after_ms: Option<u64>,
        connections_per_node: usize,
        node_tls: Option<NodeTls>,
    ) -> PyResult<Router> {
        let patience = Duration::from_millis(cold_timeout_ms);
        let settings = RouterSettings {
            plane: settings.plane.clone(),
            cold: ColdLimits { patience, requests: cold_requests, bytes: cold_bytes },
            hedge_after: hedge_after_ms.map(Duration::from_millis),
            connections_per_node,
            node_tls: node_tls.map(node_pem),
        };
        let closing = Arc::new(Closing::default());
        let tells = closing.clone();
        let wanted: Wanted = Box::new(move |model| tell(&wanted, &tells, model));
        let started = py.detach(|| CoreRouter::start(&settings, wanted, Arc::new(ThisProcess)));
        let router = Arc::new(started.map_err(|why| match why.kind() {
            ErrorKind::InvalidInput => PyValueError::new_err(why.to_string()),
            _ => why.into(),
        })?);
        let exit = Bound::new(py, RouterExit { router: Arc::downgrade(&router), closing: closing.clone() })?;
        py.import("atexit")?.call_method1("register", (exit,))?;
        Ok(Router { router, closing })
    }

    #[getter]
    fn grpc_address(&self) -> Option<String> {
        self.router.grpc_address().map(|address| address.to_string())
    }

    #[getter]
    fn rest_address(&self) -> Option<String> {
        self.router.rest_address().map(|address| address.to_string())
    }

    /// Swaps all routes at once; ValueError, and nothing changes, for what cannot be.
    #[pyo3(signature = (nodes, models))]
    fn apply(
        &self,
        py: Python<'_>,
        nodes: HashMap<String, (String, String)>,
        models: HashMap<String, Vec<String>>,
    ) -> PyResult<()> {
        let nodes = nodes.into_iter().map(|(id, (grpc, rest))| (id, Addresses { grpc, rest })).collect();
        py.detach(|| self.router.apply(nodes, models)).map_err(PyValueError::new_err)
    }

    /// How the versions of all models stand: number, state, gRPC code and text of each, by model.
    #[pyo3(signature = (states))]
    fn set_states(&self, py: Python<'_>, states: HashMap<String, Vec<settings::State>>) {
        let of = |states: Vec<_>| states.into_iter().map(settings::version_state).collect();
        let all = states.into_iter().map(|(model, states)| (model, of(states))).collect();
        py.detach(|| self.router.set_states(all));
    }

    /// Models that are loaded for no request from now on, with why.
    #[pyo3(signature = (refused))]
    fn set_refused(&self, py: Python<'_>, refused: HashMap<String, String>) {
        py.detach(|| self.router.set_refused(refused));
    }

    /// Who may ask from now on. ValueError for what cannot be, and where the router was started without asking anybody.
    #[pyo3(signature = (access))]
    fn set_access(&self, access: settings::AccessLines) -> PyResult<()> {
        self.router.set_access(settings::read_access(access)?).map_err(PyValueError::new_err)
    }

    /// What clients are shown on connections from now on, and whose certificates are taken. ValueError, and nothing changes,
    /// for what cannot be used, and where the router was started without TLS.
    #[pyo3(signature = (tls))]
    fn set_tls(&self, py: Python<'_>, tls: settings::Pem) -> PyResult<()> {
        py.detach(|| self.router.set_tls(&settings::pem(tls))).map_err(PyValueError::new_err)
    }

    /// The same of connections to nodes.
    #[pyo3(signature = (tls))]
    fn set_node_tls(&self, py: Python<'_>, tls: NodeTls) -> PyResult<()> {
        py.detach(|| self.router.set_node_tls(&node_pem(tls))).map_err(PyValueError::new_err)
    }

    /// By model: requests, errors, retried, hedged, and when it was used last, in seconds since 1970.
    fn stats(&self, py: Python<'_>) -> HashMap<String, ModelStats> {
        py.detach(|| self.router.stats())
    }

    /// Not ready, refuses new connections, answers what was accepted, stops. True if all was answered in time.
    #[pyo3(signature = (drain_seconds))]
    fn stop(&self, py: Python<'_>, drain_seconds: f64) -> PyResult<bool> {
        let within = Duration::try_from_secs_f64(drain_seconds)
            .map_err(|_| PyValueError::new_err(format!("drain_seconds is {drain_seconds}: use 0 or more seconds")))?;
        Ok(py.detach(|| self.router.stop(within)))
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        if !self.closing.is_closed() {
            let router = self.router.clone();
            Python::attach(|py| py.detach(move || router.stop(Duration::ZERO)));
        }
    }
}

/// Tells Python that a model is wanted, unless the interpreter is going.
fn tell(wanted: &Py<PyAny>, closing: &Closing, model: &str) {
    if closing.is_closed() {
        return;
    }
    Python::try_attach(|py| {
        if let Err(error) = wanted.call1(py, (model,)) {
            error.write_unraisable(py, Some(wanted.bind(py)));
        }
    });
}

/// Called by `atexit` while the interpreter is still whole.
#[pyclass(frozen, name = "_RouterExit", module = "tidegate_native")]
struct RouterExit {
    router: Weak<CoreRouter>,
    closing: Arc<Closing>,
}

#[pymethods]
impl RouterExit {
    fn __call__(&self, py: Python<'_>) {
        self.closing.close();
        if let Some(router) = self.router.upgrade() {
            py.detach(|| router.stop(Duration::ZERO));
        }
    }
}
