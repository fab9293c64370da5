//! What all threads of a plane share: the serving map, settings, counters, the log and the line to Python.
//! The plane makes it once; it goes to the I/O threads and comes back to `apply`, `stats` and `drain`.

use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;

use crate::control::Control;
use crate::limits::Limits;
use crate::lock;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::model_status::ModelStates;
use crate::request_id::IdSource;
use crate::serving_map::ServingMap;
use crate::settings::Settings;

/// What `/v2/health/ready` answers.
#[derive(Clone, Debug)]
pub struct Readiness {
    /// Whether requests should come.
    pub ready: bool,
    /// Why, or why not.
    pub reason: String,
}

/// The shared parts of a plane.
pub struct Shared {
    /// Which versions serve.
    pub map: ArcSwap<ServingMap>,
    /// What is bounded.
    pub limits: Arc<Limits>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// The inference log.
    pub log: Log,
    /// One more path of the metrics.
    pub metrics_path: Option<String>,
    /// Whether pages of any origin may read REST answers.
    pub rest_cors: bool,
    /// Where each version stands.
    pub states: ModelStates,
    /// Calls that Python answers.
    pub control: Control,
    /// Ids for requests that bring none.
    pub ids: IdSource,
    readiness: Mutex<Readiness>,
}

impl Shared {
    /// Not ready, and serving nothing.
    pub fn new(settings: &Settings, control: Control) -> Shared {
        let metrics = Arc::new(Metrics::default());
        Shared {
            map: ArcSwap::default(),
            log: Log::new(settings, metrics.clone()),
            limits: Arc::new(Limits::new(settings)),
            metrics,
            metrics_path: settings.metrics_path.clone(),
            rest_cors: settings.rest_cors,
            states: ModelStates::default(),
            control,
            ids: IdSource::default(),
            readiness: Mutex::new(Readiness { ready: false, reason: "the server is starting".to_owned() }),
        }
    }

    /// The current readiness.
    pub fn readiness(&self) -> Readiness {
        lock(&self.readiness).clone()
    }

    /// Sets it.
    pub fn set_readiness(&self, ready: bool, reason: &str) {
        *lock(&self.readiness) = Readiness { ready, reason: reason.to_owned() };
    }
}
