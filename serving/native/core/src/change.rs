//! A change to what serves, as Python asks for it, and how a version with its threads comes to be.
//! `Plane::apply` takes a list of them and makes one new serving map, or none.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;

use crate::crew::Crew;
use crate::executor::{Executor, Station};
use crate::mailbox::Mailbox;
use crate::metrics::Metrics;
use crate::queue::Queue;
use crate::request_id::Share;
use crate::serving_map::Step;
use crate::signature::Signature;
use crate::version::{self, Batching, Endpoint, Parts, Remains, Version};

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
}

/// One wish.
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
        /// Labels that are wanted, but whose version is not in the map yet.
        waiting: HashSet<String>,
    },
    /// Copies a share of the model's requests to a version; 0 stops it.
    SetTee {
        /// The model's name.
        model: String,
        /// Who gets the copies.
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
}

/// What new versions are connected to.
pub struct Wiring {
    /// One per I/O thread.
    pub mailboxes: Arc<[Arc<Mailbox>]>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Where remains go.
    pub released: Sender<Remains>,
}

impl Change {
    /// The step that this change makes; a published version's threads start here.
    pub fn into_step(self, wiring: &Wiring) -> Result<Step, String> {
        match self {
            Change::Publish(publish) => publish.start(wiring).map(Step::Publish),
            Change::Retire { model, version } => Ok(Step::Retire(model, version)),
            Change::SetLabels { model, labels, waiting } => Ok(Step::Labels(model, labels, waiting)),
            Change::SetTee { model, version, fraction } => {
                let share = share(&format!("the tee's fraction for model '{model}'"), fraction)?;
                Ok(Step::Tee(model, version, share))
            }
            Change::SetLog { model, rate } => {
                let share = share(&format!("the log's sampling rate for model '{model}'"), rate)?;
                Ok(Step::Log(model, share))
            }
        }
    }
}

fn share(what: &str, fraction: f64) -> Result<Share, String> {
    Share::new(fraction).ok_or_else(|| format!("{what} is {fraction}: it must be between 0 and 1"))
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
        let limits = [
            ("max_batch_rows", batching.max_batch_rows),
            ("max_queued_rows", batching.max_queued_rows),
            ("concurrency", batching.concurrency),
        ];
        match limits.iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(format!("model '{model}' version {version}: {name} is 0, it must be at least 1")),
            None => Ok(()),
        }
    }

    fn start(self, wiring: &Wiring) -> Result<Arc<Version>, String> {
        self.check()?;
        let model: Arc<str> = self.model.as_str().into();
        let metrics = wiring.metrics.version(&self.model, self.version);
        let crew = Arc::new(Crew::default());
        let endpoints: Vec<Arc<Endpoint>> = self
            .signatures
            .iter()
            .map(|signature| {
                let lanes = wiring.mailboxes.len();
                Arc::new(Endpoint {
                    model: model.clone(),
                    number: self.version,
                    signature: signature.clone(),
                    queue: Queue::new(signature, self.batching, lanes, metrics.clone()),
                    metrics: metrics.clone(),
                    crew: crew.clone(),
                    model_spec_field: version::encode_model_spec(&model, self.version, &signature.name),
                })
            })
            .collect();
        let mut threads = Vec::new();
        for index in 0..self.batching.concurrency {
            let station = Station {
                endpoints: endpoints.clone(),
                executor: self.executor.clone(),
                mailboxes: wiring.mailboxes.clone(),
            };
            let name = format!("tg-exec-{index}");
            match thread::Builder::new().name(name).spawn(move || station.run()) {
                Ok(thread) => threads.push(thread),
                Err(why) => {
                    crew.dismiss();
                    return Err(format!("model '{model}': cannot start executor thread {index}: {why}"));
                }
            }
        }
        metrics.observe(&self.executor);
        let parts = Parts { endpoints, crew, threads, executor: self.executor };
        Ok(Version::new(model, self.version, parts, wiring.released.clone()))
    }
}
