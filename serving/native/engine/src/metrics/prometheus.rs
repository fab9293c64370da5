//! Samples: where they go, and the page in Prometheus' text format with a help line for each family.

use std::collections::BTreeMap;
use std::fmt::{Arguments, Write};

/// TensorFlow Serving's name for answers by model and status.
pub const REQUEST_COUNT: &str = ":tensorflow:serving:request_count";
/// The same for microseconds that requests took, by model, method and endpoint.
pub const REQUEST_LATENCY: &str = ":tensorflow:serving:request_latency";

/// Takes samples.
pub trait Samples {
    /// One of a family, whose sample names may have a suffix; without labels where these are empty.
    fn add(&mut self, family: &str, suffix: &str, labels: Arguments<'_>, value: f64);
}

/// Names with labels, and values.
impl Samples for Vec<(String, f64)> {
    fn add(&mut self, family: &str, suffix: &str, labels: Arguments<'_>, value: f64) {
        let mut name = String::new();
        write_name(&mut name, family, suffix, labels);
        self.push((name, value));
    }
}

fn write_name(text: &mut String, family: &str, suffix: &str, labels: Arguments<'_>) {
    let _ = write!(text, "{family}{suffix}{{");
    let start = text.len();
    let _ = write!(text, "{labels}}}");
    if text.len() == start + 1 {
        text.truncate(start - 1);
    }
}

/// Samples in Prometheus' text format: one buffer for each family, however many samples it has.
#[derive(Debug, Default)]
pub struct Page(BTreeMap<String, String>);

impl Samples for Page {
    fn add(&mut self, family: &str, suffix: &str, labels: Arguments<'_>, value: f64) {
        let text = match self.0.get_mut(family) {
            Some(text) => text,
            None => self.0.entry(family.to_owned()).or_default(),
        };
        write_name(text, family, suffix, labels);
        let _ = writeln!(text, " {value}");
    }
}

impl Page {
    /// All of it; `help` knows what a family says.
    pub fn finish(self, help: impl Fn(&str) -> String) -> String {
        let mut page = String::with_capacity(self.0.values().map(|text| text.len() + 256).sum());
        for (family, text) in self.0 {
            let kind = match &*family {
                REQUEST_COUNT => "counter",
                REQUEST_LATENCY
                | "tidegate_request_seconds"
                | "tidegate_batch_rows"
                | "tidegate_model_request_seconds"
                | "tidegate_stage_seconds" => "histogram",
                counter if counter.ends_with("_total") => "counter",
                _ => "gauge",
            };
            let words = help(&family).replace('\\', "\\\\").replace('\n', "\\n");
            let _ = writeln!(page, "# HELP {family} {words}\n# TYPE {family} {kind}");
            page.push_str(&text);
        }
        page
    }
}

/// A label's value as it stands between quotes.
pub fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The help text of a family; empty for one that is not the plane's.
pub fn help_of(family: &str) -> &'static str {
    HELP.iter().find(|(name, _)| *name == family).map_or("", |(_, help)| help)
}

const HELP: [(&str, &str); 49] = [
    (REQUEST_COUNT, "Answers by model and status, under TensorFlow Serving's name."),
    (
        REQUEST_LATENCY,
        "Microseconds from a request's last byte until its batch is answered, under TensorFlow Serving's name.",
    ),
    ("tidegate_requests_total", "Answers by endpoint, model, version and canonical status."),
    ("tidegate_method_requests_total", "Requests that found a version and its signature, by method, in any protocol."),
    ("tidegate_request_seconds", "From a request's last byte to its answer."),
    (
        "tidegate_model_request_seconds",
        "Requests that ran, by model, version and signature: from a request's last byte until its batch is answered.",
    ),
    (
        "tidegate_stage_seconds",
        "The same by stage: decode until it is in a batch, queue until the model begins, run, encode until it is answered.",
    ),
    ("tidegate_connections", "Open connections."),
    (
        "tidegate_refused_connections_total",
        "Connections and requests turned away because there were too many connections.",
    ),
    (
        "tidegate_tls_failures_total",
        "Connections on which TLS did not begin: plain text, no certificate, or one that is not trusted.",
    ),
    (
        "tidegate_closed_connections_total",
        "Connections that the server closed, by why: nothing came, or nothing was taken.",
    ),
    ("tidegate_batches_total", "Executor calls."),
    ("tidegate_python_entries_total", "Entries into Python, one per executor call."),
    ("tidegate_rows_total", "Rows in executor calls."),
    ("tidegate_batch_rows", "Rows per executor call."),
    (
        "tidegate_closed_batches_total",
        "Batches that ran, by why they closed: full, bytes, idle, timeout, shapes, alone, deadline, drain.",
    ),
    ("tidegate_closed_batch_requests_total", "Requests in them."),
    ("tidegate_closed_batch_rows_total", "Rows in them."),
    ("tidegate_max_batch_rows", "Rows at which a batch closes."),
    (
        "tidegate_batch_timeout_seconds",
        "How long a batch waits for more rows; 0 where it goes when the sockets are idle.",
    ),
    ("tidegate_batch_concurrency", "Executor threads of the version, at most."),
    ("tidegate_padding_rows_total", "Copies of rows that filled batches up to an allowed size."),
    ("tidegate_bisections_total", "Batches that raised and were run again in halves."),
    ("tidegate_panics_total", "Batches that were lost to a fault of the server itself."),
    (
        "tidegate_background_restarts_total",
        "Times that a thread or task which all requests depend on began again after a fault of the server itself.",
    ),
    ("tidegate_queued_rows", "Rows that wait in the queues."),
    ("tidegate_queue_waiting_requests", "Requests that wait though the queue was full when they came."),
    ("tidegate_queue_rejections_total", "Requests refused because the queue was full."),
    ("tidegate_call_seconds_running", "For how long the longest call of the model runs now; 0 while none does."),
    ("tidegate_deadline_drops_total", "Requests whose deadline passed in the queue."),
    ("tidegate_stream_messages_total", "Messages of streaming answers that models made."),
    ("tidegate_cancelled_total", "Requests whose client went away while they waited."),
    ("tidegate_shadow_copied_total", "Requests copied to this version."),
    ("tidegate_shadow_dropped_total", "Copies that a full queue refused."),
    ("tidegate_shadow_failed_total", "Copies that do not fit the signature."),
    ("tidegate_log_eligible_rows_total", "Rows sampled for the inference log."),
    ("tidegate_log_written_rows_total", "Rows handed over to the inference log."),
    ("tidegate_log_dropped_rows_total", "Rows that the inference log lost."),
    ("tidegate_log_waiting_bytes", "Bytes that wait for the inference log."),
    ("tidegate_access_log_written_lines_total", "Lines of the access log."),
    ("tidegate_access_log_dropped_lines_total", "Lines that the access log lost: too many waited, or its file failed."),
    (
        "tidegate_access_log_left_out_lines_total",
        "Refused requests that the access log only counts, since their address had so many in a second.",
    ),
    ("tidegate_traces_exported_total", "Requests whose spans the collector took."),
    ("tidegate_traces_dropped_total", "Requests whose spans were lost: too many waited, or the collector failed."),
    (
        "tidegate_request_memory_bytes",
        "Bytes that requests hold, from their bodies to their answers, and what waits to be logged of them.",
    ),
    ("tidegate_request_memory_limit_bytes", "Bytes that requests may hold."),
    ("tidegate_request_memory_refusals_total", "Requests refused because they would have held too much memory."),
    (
        "tidegate_spare_memory_bytes",
        "Bytes of large blocks that were freed and wait for the next batch, before they go back to the system.",
    ),
    ("tidegate_version_state", "1 for the state in which a version is."),
];
