//! What all threads of a plane share: the serving map, settings, counters, the log and the line to Python.
//! The plane makes it once; it goes to the I/O threads and comes back to `apply`, `stats` and `drain`.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::control::Control;
use crate::gauges::Gauges;
use crate::limits::Limits;
use crate::log::Log;
use crate::metric_help::help_of;
use crate::metrics::{self, Metrics};
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
    /// Whether the plane drains; then it stays so.
    pub draining: bool,
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
    /// Gauges that Python sets.
    pub gauges: Gauges,
    /// Calls that Python answers.
    pub control: Control,
    /// Ids for requests that bring none.
    pub ids: IdSource,
    readiness: watch::Sender<Readiness>,
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
            gauges: Gauges::default(),
            control,
            ids: IdSource::default(),
            readiness: watch::Sender::new(Readiness {
                ready: false,
                reason: "the server is starting".to_owned(),
                draining: false,
            }),
        }
    }

    /// The current readiness.
    pub fn readiness(&self) -> Readiness {
        self.readiness.borrow().clone()
    }

    /// The readiness now and whenever it changes.
    pub fn watch_readiness(&self) -> watch::Receiver<Readiness> {
        self.readiness.subscribe()
    }

    /// Sets it.
    pub fn set_readiness(&self, ready: bool, reason: &str) {
        self.readiness.send_modify(|now| {
            now.ready = ready;
            reason.clone_into(&mut now.reason);
        });
    }

    /// Not ready, and whoever watches that is let go.
    pub fn begin_drain(&self) {
        let reason = "the server is draining".to_owned();
        self.readiness.send_replace(Readiness { ready: false, reason, draining: true });
    }

    /// Every sample of metrics: name with labels, and value; or, of all models, only those of one.
    pub fn samples(&self, only: Option<&str>) -> Vec<(String, f64)> {
        let mut list = self.metrics.samples(only);
        list.extend(self.states.samples(only));
        list.extend(self.gauges.samples(only));
        list
    }

    /// The same in Prometheus' text format.
    pub fn render_metrics(&self) -> String {
        metrics::render(self.samples(None), |family| {
            self.gauges.help(family).unwrap_or_else(|| help_of(family).to_owned())
        })
    }
}
