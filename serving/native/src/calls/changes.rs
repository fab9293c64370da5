//! The changes that `DataPlane.apply` takes, as Python values.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyMapping;
use tidegate_codec::model_metadata::Description;
use tidegate_codec::signatures::signature::Signature as CoreSignature;
use tidegate_engine::batching::Executor;
use tidegate_engine::batching::limits::Batching as CoreBatching;
use tidegate_engine::serving_map::change::{self, Change};

use crate::callbacks::closing::Closing;
use crate::callbacks::executor::PythonExecutor;
use crate::callbacks::worker_executor::WorkerExecutor;
use crate::calls::low_priority::enter_short_turns;
use crate::calls::settings::{Batching, Signature};
use crate::workers::idle::IdleWorkers;

/// Change: make a version available.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct Publish {
    model: String,
    version: i64,
    signatures: Vec<CoreSignature>,
    executor: Py<PyAny>,
    workers: Option<Py<IdleWorkers>>,
    batching: CoreBatching,
    description: Option<Description>,
}

#[pymethods]
impl Publish {
    #[new]
    #[pyo3(signature = (*, model, version, signatures, executor, batching, described=None))]
    fn new(
        model: String,
        version: i64,
        signatures: Vec<PyRef<'_, Signature>>,
        executor: Bound<'_, PyAny>,
        batching: PyRef<'_, Batching>,
        described: Option<(Vec<u8>, Vec<u8>)>,
    ) -> PyResult<Publish> {
        if !executor.is_callable() {
            let kind = executor.get_type();
            return Err(PyTypeError::new_err(format!("executor of model '{model}' is {kind}: it must be callable")));
        }
        let workers = executor.getattr_opt("workers")?.filter(|workers| !workers.is_none());
        let workers = workers.map(|workers| workers.extract().map_err(PyErr::from)).transpose()?;
        let signatures = signatures.iter().map(|signature| signature.0.clone()).collect();
        let (executor, batching) = (executor.unbind(), batching.0.clone());
        let description = described.map(|(message, json)| Description { message, json });
        Ok(Publish { model, version, signatures, executor, workers, batching, description })
    }
}

/// Change: take a version out of the map.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct Retire(Change);

#[pymethods]
impl Retire {
    #[new]
    #[pyo3(signature = (*, model, version))]
    fn new(model: String, version: i64) -> Retire {
        Retire(Change::Retire { model, version })
    }
}

/// Change: the whole label set of a model.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct SetLabels(Change);

#[pymethods]
impl SetLabels {
    #[new]
    #[pyo3(signature = (*, model, labels, waiting=Vec::new()))]
    fn new(model: String, labels: Bound<'_, PyMapping>, waiting: Vec<String>) -> PyResult<SetLabels> {
        let labels = labels.items()?.iter().map(|item| item.extract()).collect::<PyResult<_>>()?;
        Ok(SetLabels(Change::SetLabels { model, labels, waiting: waiting.into_iter().collect() }))
    }
}

/// Change: where requests without version and label go, whatever label `stable` says.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct SetDefault(Change);

#[pymethods]
impl SetDefault {
    #[new]
    #[pyo3(signature = (*, model, version))]
    fn new(model: String, version: Option<i64>) -> SetDefault {
        SetDefault(Change::SetDefault { model, version })
    }
}

/// Change: copy a share of the model's requests to a version.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct SetShadow(Change);

#[pymethods]
impl SetShadow {
    #[new]
    #[pyo3(signature = (*, model, version, fraction))]
    fn new(model: String, version: i64, fraction: f64) -> SetShadow {
        SetShadow(Change::SetShadow { model, version, fraction })
    }
}

/// Change: log a share of the model's answers.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct SetLog(Change);

#[pymethods]
impl SetLog {
    #[new]
    #[pyo3(signature = (*, model, sampling_rate))]
    fn new(model: String, sampling_rate: f64) -> SetLog {
        SetLog(Change::SetLog { model, rate: sampling_rate })
    }
}

/// Change: spread requests that name neither version nor label over several versions.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct SetSplit(Change);

#[pymethods]
impl SetSplit {
    #[new]
    #[pyo3(signature = (*, model, shares, key=""))]
    fn new(model: String, shares: Bound<'_, PyMapping>, key: &str) -> PyResult<SetSplit> {
        let shares = shares.items()?.iter().map(|item| item.extract()).collect::<PyResult<_>>()?;
        Ok(SetSplit(Change::SetSplit { model, shares, key: key.to_owned() }))
    }
}

/// Change: refuse every request to a model, or let them in again.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct SetDisabled(Change);

#[pymethods]
impl SetDisabled {
    #[new]
    #[pyo3(signature = (*, model, reason))]
    fn new(model: String, reason: Option<String>) -> SetDisabled {
        SetDisabled(Change::SetDisabled { model, reason })
    }
}

/// Change: other queue limits and another number of executor threads for all versions of a model.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct SetBatching(Change);

#[pymethods]
impl SetBatching {
    #[new]
    #[pyo3(signature = (*, model, batching))]
    fn new(model: String, batching: PyRef<'_, Batching>) -> SetBatching {
        SetBatching(Change::SetBatching { model, batching: batching.0.clone() })
    }
}

/// A change as the core takes it.
pub(crate) fn to_core(change: &Bound<'_, PyAny>, closing: &Arc<Closing>) -> PyResult<Change> {
    macro_rules! take {
        ($($class:ident),*) => {
            $(if let Ok(change) = change.cast::<$class>() {
                return Ok(change.get().0.clone());
            })*
        };
    }
    take!(Retire, SetLabels, SetDefault, SetShadow, SetLog, SetSplit, SetDisabled, SetBatching);
    let Ok(publish) = change.cast::<Publish>() else {
        let kind = change.get_type();
        return Err(PyTypeError::new_err(format!(
            "{kind} is not a change: use Publish, Retire or one of the Set classes"
        )));
    };
    let publish = publish.get();
    let python = PythonExecutor::new(publish.executor.clone_ref(change.py()), closing.clone());
    let executor: Arc<dyn Executor> = match &publish.workers {
        Some(workers) => Arc::new(WorkerExecutor::new(python, workers.clone_ref(change.py()), enter_short_turns)),
        None => Arc::new(python),
    };
    Ok(Change::Publish(change::Publish {
        model: publish.model.clone(),
        version: publish.version,
        signatures: publish.signatures.clone(),
        batching: publish.batching.clone(),
        executor,
        description: publish.description.clone(),
    }))
}
