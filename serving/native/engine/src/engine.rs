//! The `Engine`: serving map, limits, counters and log, shared by all threads.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tidegate_codec::model_spec::ModelSpec;
use tidegate_codec::status::Status;
use tidegate_codec::version_state::VersionState;

use crate::limits::Limits;
use crate::log::{Log, LogLimits};
use crate::metrics::{Gauges, Metrics, Page, Samples, help_of};
use crate::request_id::IdSource;
use crate::serving_map::{ModelStates, ServingMap, Version};
use crate::spare::SPARE;

/// The shared parts.
pub struct Engine {
    /// Which versions serve.
    pub map: ArcSwap<ServingMap>,
    /// What is bounded.
    pub limits: Arc<Limits>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// The inference log.
    pub log: Log,
    /// Where each version stands.
    pub states: ModelStates,
    /// Gauges that Python sets.
    pub gauges: Gauges,
    /// Ids for requests that bring none.
    pub ids: IdSource,
}

impl Engine {
    /// Serves nothing yet.
    pub fn new(limits: Limits, log: &LogLimits) -> Engine {
        let metrics = Arc::new(Metrics::default());
        Engine {
            map: ArcSwap::default(),
            limits: Arc::new(limits),
            log: Log::new(log, metrics.clone()),
            metrics,
            states: ModelStates::default(),
            gauges: Gauges::default(),
            ids: IdSource::default(),
        }
    }

    /// The version that a request means, for answers that need no batch.
    pub fn version(&self, spec: &ModelSpec<'_>) -> Result<Arc<Version>, Status> {
        self.map.load().resolve(spec.name, spec.choice, None).map(|(_, version)| version.clone())
    }

    /// The states of the versions that a request means.
    pub fn version_states(&self, spec: &ModelSpec<'_>) -> Result<Vec<VersionState>, Status> {
        self.states.find(spec, &self.map.load())
    }

    /// Every sample of metrics: name with labels, and value; or, of all models, only those of one.
    pub fn samples(&self, only: Option<&str>) -> Vec<(String, f64)> {
        let mut list = Vec::new();
        self.collect(only, &mut list);
        list
    }

    /// The same in Prometheus' text format, with what TensorFlow Serving's dashboards read where that is wanted.
    pub fn render_metrics(&self, tensorflow_serving: bool) -> String {
        let mut page = Page::default();
        self.collect(None, &mut page);
        if tensorflow_serving {
            self.metrics.tensorflow_serving_samples(&mut page);
        }
        page.finish(|family| self.gauges.help(family).unwrap_or_else(|| help_of(family).to_owned()))
    }

    fn collect(&self, only: Option<&str>, list: &mut impl Samples) {
        self.metrics.samples(only, list);
        self.states.samples(only, list);
        self.gauges.samples(only, list);
        let memory = &self.limits.memory;
        list.add("tidegate_request_memory_bytes", "", format_args!(""), memory.used() as f64);
        list.add("tidegate_request_memory_limit_bytes", "", format_args!(""), memory.limit() as f64);
        list.add("tidegate_request_memory_refusals_total", "", format_args!(""), memory.refused() as f64);
        list.add("tidegate_spare_memory_bytes", "", format_args!(""), SPARE.bytes() as f64);
    }
}
