//! Samples in Prometheus' text format, with a help line for each family.

use std::fmt::Write;

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

fn family(sample: &str) -> &str {
    let name = sample.split('{').next().unwrap_or(sample);
    ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

/// A label's value as it stands between quotes.
pub fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The help text of a family; empty for one that is not the plane's.
pub fn help_of(family: &str) -> &'static str {
    HELP.iter().find(|(name, _)| *name == family).map_or("", |(_, help)| help)
}

const HELP: [(&str, &str); 29] = [
    ("tidegate_requests_total", "Answers by endpoint, model, version and canonical status."),
    ("tidegate_method_requests_total", "Requests that found a version and its signature, by method, in any protocol."),
    ("tidegate_request_seconds", "From a request's last byte to its answer."),
    ("tidegate_connections", "Open connections."),
    (
        "tidegate_refused_connections_total",
        "Connections and requests turned away because there were too many connections.",
    ),
    (
        "tidegate_closed_connections_total",
        "Connections that the server closed, by why: nothing came, or nothing was taken.",
    ),
    ("tidegate_batches_total", "Executor calls."),
    ("tidegate_python_entries_total", "Entries into Python, one per executor call."),
    ("tidegate_rows_total", "Rows in executor calls."),
    ("tidegate_batch_rows", "Rows per executor call."),
    ("tidegate_padding_rows_total", "Copies of rows that filled batches up to an allowed size."),
    ("tidegate_bisections_total", "Batches that raised and were run again in halves."),
    ("tidegate_panics_total", "Batches that were lost to a fault of the server itself."),
    ("tidegate_queued_rows", "Rows that wait in the queues."),
    ("tidegate_queue_rejections_total", "Requests refused because the queue was full."),
    ("tidegate_call_seconds_running", "For how long the longest call of the model runs now; 0 while none does."),
    ("tidegate_deadline_drops_total", "Requests whose deadline passed in the queue."),
    ("tidegate_cancelled_total", "Requests whose client went away while they waited."),
    ("tidegate_shadow_copied_total", "Requests copied to this version."),
    ("tidegate_shadow_dropped_total", "Copies that a full queue refused."),
    ("tidegate_shadow_failed_total", "Copies that do not fit the signature."),
    ("tidegate_log_eligible_rows_total", "Rows sampled for the inference log."),
    ("tidegate_log_written_rows_total", "Rows handed over to the inference log."),
    ("tidegate_log_dropped_rows_total", "Rows that the inference log lost."),
    ("tidegate_log_waiting_bytes", "Bytes that wait for the inference log."),
    (
        "tidegate_request_memory_bytes",
        "Bytes that requests hold, from their bodies to their answers, and what waits to be logged of them.",
    ),
    ("tidegate_request_memory_limit_bytes", "Bytes that requests may hold."),
    ("tidegate_request_memory_refusals_total", "Requests refused because they would have held too much memory."),
    ("tidegate_version_state", "1 for the state in which a version is."),
];
