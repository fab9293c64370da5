//! The counters of all versions and of the plane, and the samples of them that `/metrics` and `stats()` give.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidegate_codec::status::{CODES, Code};

use crate::metrics::answers::{Answers, CALLS, CLOSINGS, ENDPOINTS, Endpoint};
use crate::metrics::histogram::Histogram;
use crate::metrics::prometheus::{Samples, escape};
use crate::metrics::running::RunningCall;
use crate::metrics::stages::STAGES;
use crate::metrics::version::VersionMetrics;
use crate::per_thread::PerThread;
use crate::sync::lock;

/// Versions of a model that are gone and whose counters are kept.
const GONE_KEPT: usize = 16;

/// The same of all models.
const ALL_GONE_KEPT: usize = 1024;
/// Endpoints with connections.
const SOCKETS: usize = 2;

/// Times that a task or thread which all requests depend on began again after a panic, of all engines of the process.
pub static BACKGROUND_RESTARTS: AtomicU64 = AtomicU64::new(0);

/// Rows of the log by role, primary first.
#[derive(Debug, Default)]
pub struct LogMetrics {
    /// Sampled for the log.
    pub eligible: [AtomicU64; 2],
    /// Handed over.
    pub written: [AtomicU64; 2],
    /// Not handed over.
    pub dropped: [AtomicU64; 2],
}

impl LogMetrics {
    /// Rows that were handed over, of every role.
    pub fn written_rows(&self) -> u64 {
        self.written.iter().map(|rows| rows.load(Ordering::Relaxed)).sum()
    }
}

/// What became of what was to be told of requests.
#[derive(Debug, Default)]
pub struct OutletCounts {
    /// Written.
    pub written: AtomicU64,
    /// Not written: the buffer was full, or whoever writes could not.
    pub dropped: AtomicU64,
}

/// Requests in the access log, and traces.
#[derive(Debug, Default)]
pub struct TelemetryMetrics {
    /// Lines of the access log.
    pub access_lines: OutletCounts,
    /// Lines of refused requests that it has only as a count.
    pub refused_lines_left_out: AtomicU64,
    /// Requests whose spans are exported.
    pub traces: OutletCounts,
}

/// A call that runs for long, and whose it is.
#[derive(Clone, Debug)]
pub struct HungCall {
    /// The model's name.
    pub model: String,
    /// The version's number.
    pub version: i64,
    /// The call.
    pub call: RunningCall,
}

/// All counters.
#[derive(Debug, Default)]
pub struct Metrics {
    versions: Mutex<BTreeMap<(String, i64), Arc<VersionMetrics>>>,
    /// Versions in the order in which they went, and some that came again or whose counters are dropped.
    gone: Mutex<VecDeque<(String, i64)>>,
    /// Answers to requests that named no version that we have.
    pub unrouted: Answers,
    /// From a request's last byte to its answer, by endpoint.
    pub latency: [PerThread<Histogram>; ENDPOINTS.len()],
    /// Open connections by endpoint.
    pub connections: [AtomicU64; SOCKETS],
    /// Connections and requests turned away because there were too many connections.
    pub refused_connections: [AtomicU64; SOCKETS],
    /// Connections on which TLS did not begin.
    pub tls_failures: [AtomicU64; SOCKETS],
    /// Connections that the server closed, by why.
    pub closed_connections: [[AtomicU64; CLOSINGS.len()]; SOCKETS],
    /// Log rows.
    pub log: LogMetrics,
    /// Bytes that wait for the log.
    pub log_waiting_bytes: AtomicU64,
    /// What is told of single requests.
    pub telemetry: Arc<TelemetryMetrics>,
}

impl Metrics {
    /// The counters of a version; they outlive it, until `forget_oldest` drops them.
    pub fn version(&self, model: &str, number: i64) -> Arc<VersionMetrics> {
        lock(&self.versions).entry((model.to_owned(), number)).or_default().clone()
    }

    /// The counters of a model's versions, or of one of them, or of all models, in their order.
    pub fn of(&self, model: Option<&str>, number: Option<i64>) -> Vec<((String, i64), Arc<VersionMetrics>)> {
        let versions = lock(&self.versions);
        let wanted = versions.iter().filter(|((name, version), _)| {
            model.is_none_or(|model| model == name) && number.is_none_or(|number| number == *version)
        });
        wanted.map(|(key, metrics)| (key.clone(), metrics.clone())).collect()
    }

    /// A version is gone. Drops counters of its model's versions that are gone, but for the newest 16, and of those of all
    /// models that went first, but for 1,024: versions come and go for ever, and so do models.
    pub fn forget_oldest(&self, model: &str, number: i64) {
        let mut versions = lock(&self.versions);
        let gone = |(key, metrics): (&(String, i64), &Arc<VersionMetrics>)| metrics.is_settled().then(|| key.clone());
        let gone: Vec<_> = versions.range(every_version(model)).filter_map(gone).collect();
        for key in &gone[..gone.len().saturating_sub(GONE_KEPT)] {
            versions.remove(key);
        }
        let mut went = lock(&self.gone);
        let own = |(name, version): &(String, i64)| name == model && *version == number;
        went.retain(|key| !own(key));
        went.push_back((model.to_owned(), number));
        if went.len() > ALL_GONE_KEPT {
            went.retain(|key| versions.get(key).is_some_and(|metrics| metrics.is_settled()));
        }
        let too_many = went.len().saturating_sub(ALL_GONE_KEPT);
        for key in went.drain(..too_many) {
            versions.remove(&key);
        }
    }

    /// Calls that run for longer than `least` and far longer than calls of their version usually take.
    pub fn stuck_calls(&self, least: Duration) -> Vec<HungCall> {
        let now = Instant::now();
        self.calls(|metrics| metrics.running.stuck(now, least))
    }

    /// Every call that runs now.
    pub fn running_calls(&self) -> Vec<HungCall> {
        self.calls(|metrics| metrics.running.list())
    }

    fn calls(&self, of: impl Fn(&VersionMetrics) -> Vec<RunningCall>) -> Vec<HungCall> {
        let versions = lock(&self.versions);
        let calls = versions.iter().flat_map(|((model, version), metrics)| {
            of(metrics).into_iter().map(|call| HungCall { model: model.clone(), version: *version, call })
        });
        calls.collect()
    }

    /// Counts an answer's latency.
    pub fn count_latency(&self, endpoint: Endpoint, latency: Duration) {
        self.latency[endpoint as usize].mine().add(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Every sample; or, of all models, only those of one.
    pub fn samples(&self, only: Option<&str>, list: &mut impl Samples) {
        let owned = |(key, value): (&(String, i64), &Arc<VersionMetrics>)| (key.clone(), value.clone());
        let versions: Vec<_> = match only {
            Some(model) => lock(&self.versions).range(every_version(model)).map(owned).collect(),
            None => lock(&self.versions).iter().map(owned).collect(),
        };
        answers(list, "", "", &self.unrouted.by_endpoint());
        for ((model, number), metrics) in &versions {
            let model = escape(model);
            answers(list, &model, &number.to_string(), &metrics.answers());
            version_samples(list, &format!("model=\"{model}\",version=\"{number}\""), metrics);
        }
        for (endpoint, name) in ENDPOINTS.iter().enumerate() {
            let label = format!("endpoint=\"{name}\"");
            Histogram::samples_of(self.latency[endpoint].iter(), list, "tidegate_request_seconds", &label, 1e-9);
            if endpoint < SOCKETS {
                push(list, "tidegate_connections", &label, &self.connections[endpoint]);
                push(list, "tidegate_refused_connections_total", &label, &self.refused_connections[endpoint]);
                push(list, "tidegate_tls_failures_total", &label, &self.tls_failures[endpoint]);
                for (why, count) in CLOSINGS.iter().zip(&self.closed_connections[endpoint]) {
                    push(list, "tidegate_closed_connections_total", &format!("{label},reason=\"{why}\""), count);
                }
            }
        }
        for (role, name) in ["primary", "shadow"].iter().enumerate() {
            let label = format!("role=\"{name}\"");
            push(list, "tidegate_log_eligible_rows_total", &label, &self.log.eligible[role]);
            push(list, "tidegate_log_written_rows_total", &label, &self.log.written[role]);
            push(list, "tidegate_log_dropped_rows_total", &label, &self.log.dropped[role]);
        }
        let waiting = self.log_waiting_bytes.load(Ordering::Relaxed);
        list.add("tidegate_log_waiting_bytes", "", format_args!(""), waiting as f64);
        let OutletCounts { written, dropped } = &self.telemetry.access_lines;
        push(list, "tidegate_access_log_written_lines_total", "", written);
        push(list, "tidegate_access_log_dropped_lines_total", "", dropped);
        push(list, "tidegate_access_log_left_out_lines_total", "", &self.telemetry.refused_lines_left_out);
        let OutletCounts { written, dropped } = &self.telemetry.traces;
        push(list, "tidegate_traces_exported_total", "", written);
        push(list, "tidegate_traces_dropped_total", "", dropped);
        push(list, "tidegate_background_restarts_total", "", &BACKGROUND_RESTARTS);
    }
}

fn every_version(model: &str) -> RangeInclusive<(String, i64)> {
    (model.to_owned(), i64::MIN)..=(model.to_owned(), i64::MAX)
}

fn push(list: &mut impl Samples, name: &str, labels: &str, counter: &AtomicU64) {
    list.add(name, "", format_args!("{labels}"), counter.load(Ordering::Relaxed) as f64);
}

fn answers(list: &mut impl Samples, model: &str, version: &str, answers: &[[u64; CODES]; ENDPOINTS.len()]) {
    for (endpoint, by_code) in ENDPOINTS.iter().zip(answers) {
        for (code, count) in by_code.iter().enumerate() {
            if *count > 0 {
                let status = Code::from_number(code as i64).name();
                let labels =
                    format!("endpoint=\"{endpoint}\",model=\"{model}\",version=\"{version}\",status=\"{status}\"");
                list.add("tidegate_requests_total", "", format_args!("{labels}"), *count as f64);
            }
        }
    }
}

fn version_samples(list: &mut impl Samples, labels: &str, metrics: &VersionMetrics) {
    let counters = [
        ("tidegate_batches_total", &metrics.batches),
        ("tidegate_rows_total", &metrics.rows),
        ("tidegate_padding_rows_total", &metrics.padding_rows),
        ("tidegate_bisections_total", &metrics.bisections),
        ("tidegate_panics_total", &metrics.panics),
        ("tidegate_queue_rejections_total", &metrics.rejections),
        ("tidegate_deadline_drops_total", &metrics.deadline_drops),
        ("tidegate_cancelled_total", &metrics.cancelled),
        ("tidegate_shadow_copied_total", &metrics.shadow_copied),
        ("tidegate_shadow_dropped_total", &metrics.shadow_dropped),
        ("tidegate_shadow_failed_total", &metrics.shadow_failed),
    ];
    for (name, counter) in counters {
        push(list, name, labels, counter);
    }
    if metrics.messages.load(Ordering::Relaxed) > 0 {
        push(list, "tidegate_stream_messages_total", labels, &metrics.messages);
    }
    for (method, count) in CALLS.iter().zip(metrics.calls()) {
        if count > 0 {
            let labels = format_args!("{labels},method=\"{method}\"");
            list.add("tidegate_method_requests_total", "", labels, count as f64);
        }
    }
    list.add("tidegate_queued_rows", "", format_args!("{labels}"), metrics.queued_rows() as f64);
    push(list, "tidegate_queue_waiting_requests", labels, &metrics.waiting_requests);
    let longest = metrics.running.longest(Instant::now()).as_secs_f64();
    list.add("tidegate_call_seconds_running", "", format_args!("{labels}"), longest);
    list.add("tidegate_python_entries_total", "", format_args!("{labels}"), metrics.entries() as f64);
    metrics.batch_rows.samples(list, "tidegate_batch_rows", labels, 1.0);
    for (signature, times) in metrics.signatures().iter().filter(|(_, times)| times.last_ms() > 0) {
        let labels = format!("{labels},signature=\"{}\"", escape(signature));
        let whole = times.whole.iter().flatten();
        Histogram::samples_of(whole, list, "tidegate_model_request_seconds", &labels, 1e-9);
        for (stage, name) in times.stages.iter().zip(STAGES) {
            stage.samples(list, "tidegate_stage_seconds", &format!("{labels},stage=\"{name}\""), 1e-9);
        }
        times.closings.samples(list, &labels);
    }
}
