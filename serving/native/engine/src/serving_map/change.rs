//! A change to what serves, as Python gives it, and the making of a version.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use http::HeaderValue;
use tidegate_codec::model_metadata::Description;
use tidegate_codec::signatures::Signature;

use crate::batching::{Batching, CompletionsByLane, Executor, ExecutorPool, Queue, ServedSignature, Unanswered};
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::serving_map::version::{Parts, Remains, Version};

/// Makes a version available.
#[derive(Clone)]
pub struct Publish {
    /// The model's name.
    pub model: String,
    /// The version's number.
    pub version: i64,
    /// Ways to call it.
    pub signatures: Vec<Signature>,
    /// Its queues' limits and its number of threads.
    pub batching: Batching,
    /// What runs its batches.
    pub executor: Arc<dyn Executor>,
    /// How its model itself describes its signatures, where it does.
    pub description: Option<Description>,
}

/// One change.
#[derive(Clone)]
pub enum Change {
    /// Makes a version available.
    Publish(Publish),
    /// Takes one out of the map.
    Retire {
        /// The model's name.
        model: String,
        /// The version's number.
        version: i64,
    },
    /// Replaces all labels of a model.
    SetLabels {
        /// The model's name.
        model: String,
        /// Version by label.
        labels: HashMap<String, i64>,
        /// Labels whose version is not in the map yet.
        waiting: HashSet<String>,
    },
    /// Requests without version and label go to this version, whatever label `stable` says.
    SetDefault {
        /// The model's name.
        model: String,
        /// Its number; none for label `stable`, else the newest in the map.
        version: Option<i64>,
    },
    /// Copies a share of the model's requests to a version; 0 stops it.
    SetShadow {
        /// The model's name.
        model: String,
        /// The version that gets the copies.
        version: i64,
        /// 0.0 to 1.0.
        fraction: f64,
    },
    /// Logs a share of the model's answers; 0 stops it.
    SetLog {
        /// The model's name.
        model: String,
        /// 0.0 to 1.0.
        rate: f64,
    },
    /// Spreads requests that name neither version nor label over several versions.
    SetSplit {
        /// The model's name.
        model: String,
        /// Share by version, summing to 1; none ends the split.
        shares: BTreeMap<i64, f64>,
        /// The header whose value decides; empty for the request's id.
        key: String,
    },
    /// Refuses every request to the model, or lets them in again.
    SetDisabled {
        /// The model's name.
        model: String,
        /// Why; none lets them in.
        reason: Option<String>,
    },
    /// Changes the queues and the threads of all versions of the model.
    SetBatching {
        /// The model's name.
        model: String,
        /// The new limits.
        batching: Batching,
    },
}

/// What new versions are connected to.
pub struct Wiring {
    /// Where finished batches go, for each lane of their queues.
    pub completions: CompletionsByLane,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// What requests may hold.
    pub memory: Arc<Memory>,
    /// Where remains go.
    pub released: Sender<Remains>,
}

impl Change {
    /// The model that it is about.
    pub fn model(&self) -> &str {
        match self {
            Change::Publish(Publish { model, .. })
            | Change::Retire { model, .. }
            | Change::SetLabels { model, .. }
            | Change::SetDefault { model, .. }
            | Change::SetShadow { model, .. }
            | Change::SetLog { model, .. }
            | Change::SetSplit { model, .. }
            | Change::SetDisabled { model, .. }
            | Change::SetBatching { model, .. } => model,
        }
    }
}

impl Publish {
    fn check(&self) -> Result<(), String> {
        let Publish { model, version, signatures, batching, .. } = self;
        if model.is_empty() {
            return Err("a published model has an empty name".to_owned());
        }
        if *version < 0 {
            return Err(format!("model '{model}' version {version}: a version must not be negative"));
        }
        if signatures.is_empty() {
            return Err(format!("model '{model}' version {version} has no signature: give it one"));
        }
        for (at, signature) in signatures.iter().enumerate() {
            if signatures[..at].iter().any(|other| other.name == signature.name) {
                return Err(format!("model '{model}' version {version} has two signatures '{}'", signature.name));
            }
        }
        batching.check().map_err(|why| format!("model '{model}' version {version}: {why}"))
    }

    /// The version, which starts threads once requests come.
    pub fn start(mut self, wiring: &Wiring) -> Result<Arc<Version>, String> {
        self.check()?;
        let description = self.description.take();
        let model: Arc<str> = self.model.as_str().into();
        let metrics = wiring.metrics.version(&self.model, self.version);
        let memory = wiring.memory.of_model(&self.model);
        let queues = |executors: &Arc<ExecutorPool>| -> Vec<Arc<Queue>> {
            let queue = |signature: Signature| {
                let served = Arc::new(ServedSignature {
                    model: model.clone(),
                    version: self.version,
                    version_header: HeaderValue::from(self.version),
                    unanswered: Unanswered::new(memory.clone(), &signature.outputs, executors.clone()),
                    times: metrics.signature(&signature.name),
                    signature,
                    memory: memory.clone(),
                    log: wiring.memory.of_log(&self.model),
                    metrics: metrics.clone(),
                });
                Arc::new(Queue::new(served, executors.clone(), &self.batching, wiring.completions.len()))
            };
            self.signatures.iter().cloned().map(queue).collect()
        };
        let observed = Arc::downgrade(&self.executor);
        metrics.observe(Box::new(move || observed.upgrade().map_or(0, |executor| executor.entries())));
        let (executor, completions) = (self.executor.clone(), wiring.completions.clone());
        let parts = Parts { queues, executor, completions, description };
        let version = Version::new(model.clone(), self.version, parts, wiring.released.clone());
        version.tune(&self.batching);
        Ok(version)
    }
}
