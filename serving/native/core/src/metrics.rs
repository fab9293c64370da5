//! Every number that the plane counts, and their Prometheus names.
//! All parts add to it without locks; `/metrics` and `stats()` read the same list of samples.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use crate::executor::Executor;
use crate::histogram::Histogram;
use crate::lock;
use crate::status::{CODES, Code};

/// Where a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// gRPC.
    Grpc = 0,
    /// REST.
    Rest = 1,
    /// No socket: the program that the plane lives in.
    Embedded = 2,
}

/// What a request asks of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Any outputs, in any protocol.
    Predict = 0,
    /// Classes of examples.
    Classify = 1,
    /// A number for each example.
    Regress = 2,
    /// Several of these at once.
    MultiInference = 3,
    /// Feeds and fetches.
    SessionRun = 4,
}

const CALLS: [&str; 5] = ["Predict", "Classify", "Regress", "MultiInference", "SessionRun"];
const ENDPOINTS: [&str; 3] = ["grpc", "rest", "embedded"];
/// Versions of a model that are gone and whose counters are kept.
const GONE_KEPT: usize = 16;
/// Endpoints with connections.
const SOCKETS: usize = 2;

/// Answers by endpoint and code.
#[derive(Debug)]
pub struct Answers([[AtomicU64; CODES]; ENDPOINTS.len()]);

impl Default for Answers {
    fn default() -> Answers {
        Answers(std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))))
    }
}

impl Answers {
    /// One more.
    pub fn count(&self, endpoint: Endpoint, code: Code) {
        self.0[endpoint as usize][code as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// Counters of one version.
#[derive(Default)]
pub struct VersionMetrics {
    /// Answers by endpoint and code.
    pub answers: Answers,
    /// Requests by what they ask.
    calls: [AtomicU64; CALLS.len()],
    /// Executor calls.
    pub batches: AtomicU64,
    /// Rows in them.
    pub rows: AtomicU64,
    /// Rows per executor call.
    pub batch_rows: Histogram,
    /// Copies of rows that filled batches up to an allowed size (TensorFlow Serving's `padding_size`).
    pub padding_rows: AtomicU64,
    /// Batches that raised and were run again in halves.
    pub bisections: AtomicU64,
    /// Rows that wait in its queues.
    pub queued_rows: AtomicU64,
    /// Requests refused because the queue was full.
    pub rejections: AtomicU64,
    /// Requests whose deadline passed in the queue.
    pub deadline_drops: AtomicU64,
    /// Requests whose client went away while they waited.
    pub cancelled: AtomicU64,
    /// Requests copied to this version.
    pub shadow_copied: AtomicU64,
    /// Copies that its full queue refused.
    pub shadow_dropped: AtomicU64,
    /// Copies that do not fit its signature.
    pub shadow_failed: AtomicU64,
    executor: Mutex<Option<Weak<dyn Executor>>>,
    settled_entries: AtomicU64,
}

impl std::fmt::Debug for VersionMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VersionMetrics")
    }
}

impl VersionMetrics {
    /// Counts a request that found this version.
    pub fn count_call(&self, call: Call) {
        self.calls[call as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one executor call for so many rows, asked for `size` rows.
    pub fn count_batch(&self, rows: usize, size: usize) {
        self.padding_rows.fetch_add((size - rows) as u64, Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
        self.batch_rows.add(rows as u64);
    }

    /// Whose entries to report.
    pub fn observe(&self, executor: &Arc<dyn Executor>) {
        *lock(&self.executor) = Some(Arc::downgrade(executor));
    }

    /// Entries into the model so far.
    fn entries(&self) -> u64 {
        let current = lock(&self.executor).as_ref().and_then(Weak::upgrade);
        self.settled_entries.load(Ordering::Relaxed) + current.map_or(0, |executor| executor.entries())
    }

    /// Whether its version is gone.
    fn is_settled(&self) -> bool {
        lock(&self.executor).is_none()
    }

    /// Keeps the number of entries of an executor that goes.
    pub fn settle(&self, executor: &dyn Executor) {
        let mut observed = lock(&self.executor);
        self.settled_entries.fetch_add(executor.entries(), Ordering::Relaxed);
        *observed = None;
    }
}

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

/// All counters.
#[derive(Debug, Default)]
pub struct Metrics {
    versions: Mutex<BTreeMap<(String, i64), Arc<VersionMetrics>>>,
    /// Answers to requests that named no version that we have.
    pub unrouted: Answers,
    /// From a request's last byte to its answer, by endpoint.
    pub latency: [Histogram; ENDPOINTS.len()],
    /// Open connections by endpoint.
    pub connections: [AtomicU64; SOCKETS],
    /// Connections closed because there were too many.
    pub refused_connections: [AtomicU64; SOCKETS],
    /// Log rows.
    pub log: LogMetrics,
    /// Bytes that wait for the log.
    pub log_waiting_bytes: AtomicU64,
}

impl Metrics {
    /// The counters of a version; they outlive it, until `forget_oldest` drops them.
    pub fn version(&self, model: &str, number: i64) -> Arc<VersionMetrics> {
        lock(&self.versions).entry((model.to_owned(), number)).or_default().clone()
    }

    /// Drops counters of a model's versions that are gone, but for the newest 16: versions come and go for ever.
    pub fn forget_oldest(&self, model: &str) {
        let mut versions = lock(&self.versions);
        let gone = |(key, metrics): (&(String, i64), &Arc<VersionMetrics>)| metrics.is_settled().then(|| key.clone());
        let gone: Vec<_> = versions.range(every_version(model)).filter_map(gone).collect();
        for key in &gone[..gone.len().saturating_sub(GONE_KEPT)] {
            versions.remove(key);
        }
    }

    /// Counts an answer's latency.
    pub fn count_latency(&self, endpoint: Endpoint, latency: Duration) {
        self.latency[endpoint as usize].add(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Every sample: name with labels, and value; or, of all models, only those of one.
    pub fn samples(&self, only: Option<&str>) -> Vec<(String, f64)> {
        let mut list = Vec::new();
        let owned = |(key, value): (&(String, i64), &Arc<VersionMetrics>)| (key.clone(), value.clone());
        let versions: Vec<_> = match only {
            Some(model) => lock(&self.versions).range(every_version(model)).map(owned).collect(),
            None => lock(&self.versions).iter().map(owned).collect(),
        };
        answers(&mut list, "", "", &self.unrouted);
        for ((model, number), metrics) in &versions {
            let model = escape(model);
            answers(&mut list, &model, &number.to_string(), &metrics.answers);
            version_samples(&mut list, &format!("model=\"{model}\",version=\"{number}\""), metrics);
        }
        for (endpoint, name) in ENDPOINTS.iter().enumerate() {
            let label = format!("endpoint=\"{name}\"");
            self.latency[endpoint].samples(&mut list, "tidegate_request_seconds", &label, 1e-9);
            if endpoint < SOCKETS {
                push(&mut list, "tidegate_connections", &label, &self.connections[endpoint]);
                push(&mut list, "tidegate_refused_connections_total", &label, &self.refused_connections[endpoint]);
            }
        }
        for (role, name) in ["primary", "shadow"].iter().enumerate() {
            let label = format!("role=\"{name}\"");
            push(&mut list, "tidegate_log_eligible_rows_total", &label, &self.log.eligible[role]);
            push(&mut list, "tidegate_log_written_rows_total", &label, &self.log.written[role]);
            push(&mut list, "tidegate_log_dropped_rows_total", &label, &self.log.dropped[role]);
        }
        let waiting = self.log_waiting_bytes.load(Ordering::Relaxed);
        list.push(("tidegate_log_waiting_bytes".to_owned(), waiting as f64));
        list
    }
}

/// Samples in Prometheus' text format; `help` knows what a family says.
pub fn render(mut samples: Vec<(String, f64)>, help: impl Fn(&str) -> String) -> String {
    samples.sort_by(|left, right| family(&left.0).cmp(family(&right.0)));
    let mut text = String::new();
    let mut current = String::new();
    for (name, value) in &samples {
        let family = family(name);
        if family != current {
            let kind = match family {
                "tidegate_request_seconds" | "tidegate_batch_rows" => "histogram",
                counter if counter.ends_with("_total") => "counter",
                _ => "gauge",
            };
            let words = help(family).replace('\\', "\\\\").replace('\n', "\\n");
            let _ = writeln!(text, "# HELP {family} {words}\n# TYPE {family} {kind}");
            family.clone_into(&mut current);
        }
        let _ = writeln!(text, "{name} {value}");
    }
    text
}

fn every_version(model: &str) -> RangeInclusive<(String, i64)> {
    (model.to_owned(), i64::MIN)..=(model.to_owned(), i64::MAX)
}

fn family(sample: &str) -> &str {
    let name = sample.split('{').next().unwrap_or(sample);
    ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

/// A label's value as it stands between quotes.
pub fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn push(list: &mut Vec<(String, f64)>, name: &str, labels: &str, counter: &AtomicU64) {
    list.push((format!("{name}{{{labels}}}"), counter.load(Ordering::Relaxed) as f64));
}

fn answers(list: &mut Vec<(String, f64)>, model: &str, version: &str, answers: &Answers) {
    for (endpoint, by_code) in ENDPOINTS.iter().zip(&answers.0) {
        for (code, count) in by_code.iter().enumerate() {
            if count.load(Ordering::Relaxed) > 0 {
                let status = Code::from_number(code as i64).name();
                let labels =
                    format!("endpoint=\"{endpoint}\",model=\"{model}\",version=\"{version}\",status=\"{status}\"");
                push(list, "tidegate_requests_total", &labels, count);
            }
        }
    }
}

fn version_samples(list: &mut Vec<(String, f64)>, labels: &str, metrics: &VersionMetrics) {
    let counters = [
        ("tidegate_batches_total", &metrics.batches),
        ("tidegate_rows_total", &metrics.rows),
        ("tidegate_padding_rows_total", &metrics.padding_rows),
        ("tidegate_bisections_total", &metrics.bisections),
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
    for (method, counter) in CALLS.iter().zip(&metrics.calls) {
        if counter.load(Ordering::Relaxed) > 0 {
            push(list, "tidegate_method_requests_total", &format!("{labels},method=\"{method}\""), counter);
        }
    }
    push(list, "tidegate_queued_rows", labels, &metrics.queued_rows);
    list.push((format!("tidegate_python_entries_total{{{labels}}}"), metrics.entries() as f64));
    metrics.batch_rows.samples(list, "tidegate_batch_rows", labels, 1.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Answer, Work};
    use crate::status::Status;

    struct Idle;

    impl Executor for Idle {
        fn execute(&self, _work: Work) -> Result<Answer, Status> {
            Ok(Answer::default())
        }

        fn entries(&self) -> u64 {
            0
        }
    }

    #[test]
    fn counters_of_the_newest_versions_that_are_gone_are_kept_and_of_all_that_are_there() {
        let metrics = Metrics::default();
        let there: Arc<dyn Executor> = Arc::new(Idle);
        for number in 1..=30 {
            metrics.version("m", number).observe(&there);
            metrics.version("n", number).settle(&Idle);
        }
        for number in 2..=25 {
            metrics.version("m", number).settle(&Idle);
            metrics.forget_oldest("m");
        }
        let numbers = |model| -> Vec<i64> {
            let versions = lock(&metrics.versions);
            versions.range(every_version(model)).map(|((_, number), _)| *number).collect()
        };
        assert_eq!(numbers("m"), [1].into_iter().chain(10..=30).collect::<Vec<_>>());
        assert_eq!(numbers("n").len(), 30);
    }

    #[test]
    fn samples_of_one_model_leave_the_others_out() {
        let metrics = Metrics::default();
        metrics.version("m", 1).count_batch(3, 4);
        metrics.version("m2", 1).count_batch(4, 4);
        let samples = metrics.samples(Some("m"));
        assert!(samples.iter().any(|(name, value)| name.contains("model=\"m\"") && *value == 3.0));
        assert!(!samples.iter().any(|(name, _)| name.contains("model=\"m2\"")));
        assert!(samples.iter().any(|(name, _)| name == "tidegate_log_waiting_bytes"));
    }
}
