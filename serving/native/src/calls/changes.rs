//! The changes that `DataPlane.apply` takes, as Python values.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tidegate_codec::model_metadata::Description;
use tidegate_codec::signatures::signature::Signature as CoreSignature;
use tidegate_engine::batching::limits::Batching as CoreBatching;
use tidegate_engine::serving_map::change::{self, Change};

use crate::callbacks::closing::Closing;
use crate::callbacks::executor::PythonExecutor;
use crate::calls::settings::{Batching, Signature};

/// Change: make a version available.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct Publish {
    model: String,
    version: i64,
    signatures: Vec<CoreSignature>,
    executor: Py<PyAny>,
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
        let signatures = signatures.iter().map(|signature| signature.0.clone()).collect();
        let (executor, batching) = (executor.unbind(), batching.0.clone());
        let description = described.map(|(message, json)| Description { message, json });
        Ok(Publish { model, version, signatures, executor, batching, description })
    }
}

/// Change: take a version out of the map.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct Retire {
    model: String,
    version: i64,
}

#[pymethods]
impl Retire {
    #[new]
    #[pyo3(signature = (*, model, version))]
    fn new(model: String, version: i64) -> Retire {
        Retire { model, version }
    }
}

/// Change: the whole label set of a model.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct SetLabels {
    model: String,
    labels: HashMap<String, i64>,
    waiting: HashSet<String>,
}

#[pymethods]
impl SetLabels {
    #[new]
    #[pyo3(signature = (*, model, labels, waiting=Vec::new()))]
    fn new(model: String, labels: Bound<'_, PyAny>, waiting: Vec<String>) -> PyResult<SetLabels> {
        let items = labels.cast::<pyo3::types::PyMapping>()?.items()?;
        let labels = items.iter().map(|item| item.extract()).collect::<PyResult<_>>()?;
        Ok(SetLabels { model, labels, waiting: waiting.into_iter().collect() })
    }
}

/// Change: where requests without version and label go while there is no label `stable`.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct SetDefault {
    model: String,
    version: Option<i64>,
}

#[pymethods]
impl SetDefault {
    #[new]
    #[pyo3(signature = (*, model, version))]
    fn new(model: String, version: Option<i64>) -> SetDefault {
        SetDefault { model, version }
    }
}

/// Change: copy a share of the model's requests to a version.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct SetShadow {
    model: String,
    version: i64,
    fraction: f64,
}

#[pymethods]
impl SetShadow {
    #[new]
    #[pyo3(signature = (*, model, version, fraction))]
    fn new(model: String, version: i64, fraction: f64) -> SetShadow {
        SetShadow { model, version, fraction }
    }
}

/// Change: log a share of the model's answers.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct SetLog {
    model: String,
    sampling_rate: f64,
}

#[pymethods]
impl SetLog {
    #[new]
    #[pyo3(signature = (*, model, sampling_rate))]
    fn new(model: String, sampling_rate: f64) -> SetLog {
        SetLog { model, sampling_rate }
    }
}

/// Change: spread requests that name neither version nor label over several versions.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct SetSplit {
    model: String,
    shares: BTreeMap<i64, f64>,
    key: String,
}

#[pymethods]
impl SetSplit {
    #[new]
    #[pyo3(signature = (*, model, shares, key=""))]
    fn new(model: String, shares: Bound<'_, PyAny>, key: &str) -> PyResult<SetSplit> {
        let items = shares.cast::<pyo3::types::PyMapping>()?.items()?;
        let shares = items.iter().map(|item| item.extract()).collect::<PyResult<_>>()?;
        Ok(SetSplit { model, shares, key: key.to_owned() })
    }
}

/// Change: refuse every request to a model, or let them in again.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct SetDisabled {
    model: String,
    reason: Option<String>,
}

#[pymethods]
impl SetDisabled {
    #[new]
    #[pyo3(signature = (*, model, reason))]
    fn new(model: String, reason: Option<String>) -> SetDisabled {
        SetDisabled { model, reason }
    }
}

/// Change: other queue limits and another number of executor threads for all versions of a model.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct SetBatching {
    model: String,
    batching: CoreBatching,
}

#[pymethods]
impl SetBatching {
    #[new]
    #[pyo3(signature = (*, model, batching))]
    fn new(model: String, batching: PyRef<'_, Batching>) -> SetBatching {
        SetBatching { model, batching: batching.0.clone() }
    }
}

/// A change as the core takes it.
pub(crate) fn to_core(change: &Bound<'_, PyAny>, closing: &Arc<Closing>) -> PyResult<Change> {
    if let Ok(publish) = change.cast::<Publish>() {
        let publish = publish.get();
        let executor = PythonExecutor::new(publish.executor.clone_ref(change.py()), closing.clone());
        return Ok(Change::Publish(change::Publish {
            model: publish.model.clone(),
            version: publish.version,
            signatures: publish.signatures.clone(),
            batching: publish.batching.clone(),
            executor: Arc::new(executor),
            description: publish.description.clone(),
        }));
    }
    if let Ok(retire) = change.cast::<Retire>() {
        let Retire { model, version } = retire.get();
        return Ok(Change::Retire { model: model.clone(), version: *version });
    }
    if let Ok(set) = change.cast::<SetLabels>() {
        let SetLabels { model, labels, waiting } = set.get();
        return Ok(Change::SetLabels { model: model.clone(), labels: labels.clone(), waiting: waiting.clone() });
    }
    if let Ok(set) = change.cast::<SetDefault>() {
        let SetDefault { model, version } = set.get();
        return Ok(Change::SetDefault { model: model.clone(), version: *version });
    }
    if let Ok(set) = change.cast::<SetShadow>() {
        let SetShadow { model, version, fraction } = set.get();
        return Ok(Change::SetShadow { model: model.clone(), version: *version, fraction: *fraction });
    }
    if let Ok(set) = change.cast::<SetLog>() {
        let SetLog { model, sampling_rate } = set.get();
        return Ok(Change::SetLog { model: model.clone(), rate: *sampling_rate });
    }
    if let Ok(set) = change.cast::<SetSplit>() {
        let SetSplit { model, shares, key } = set.get();
        return Ok(Change::SetSplit { model: model.clone(), shares: shares.clone(), key: key.clone() });
    }
    if let Ok(set) = change.cast::<SetDisabled>() {
        let SetDisabled { model, reason } = set.get();
        return Ok(Change::SetDisabled { model: model.clone(), reason: reason.clone() });
    }
    if let Ok(set) = change.cast::<SetBatching>() {
        let SetBatching { model, batching } = set.get();
        return Ok(Change::SetBatching { model: model.clone(), batching: batching.clone() });
    }
    let kind = change.get_type();
    Err(PyTypeError::new_err(format!("{kind} is not a change: use Publish, Retire or one of the Set classes")))
}
