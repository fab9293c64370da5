//! What models were asked and how long it took, as the statistics extension has it: `ModelStatisticsResponse` and JSON.

use crate::json::text::{write_list, write_text};
use crate::protobuf::wire;

/// A number of requests, and nanoseconds.
pub type Duration = (u64, u64);

/// The batches of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchStatistics {
    /// Rows in each of them.
    pub rows: u64,
    /// By stage, in the order of `COMPUTE`.
    pub durations: [Duration; COMPUTE.len()],
}

/// One version of a model.
#[derive(Debug, Default)]
pub struct ModelStatistics {
    /// The model's name.
    pub name: String,
    /// The version's number.
    pub version: i64,
    /// When it answered last, in milliseconds since 1970; 0 for never.
    pub last_inference: u64,
    /// Rows that ran.
    pub inferences: u64,
    /// Calls of the model.
    pub executions: u64,
    /// Requests by outcome and stage, in the order of `DURATIONS`.
    pub durations: [Duration; DURATIONS.len()],
    /// Its batches, the smallest first.
    pub batches: Vec<BatchStatistics>,
}

/// Outcomes and stages, numbered from 1 in the message.
pub const DURATIONS: [&str; 8] =
    ["success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss"];

/// The stages of a batch, numbered from 2 in the message.
pub const COMPUTE: [&str; 3] = ["compute_input", "compute_infer", "compute_output"];

/// `ModelStatisticsResponse`.
pub fn message(all: &[ModelStatistics]) -> Vec<u8> {
    let mut out = Vec::new();
    all.iter().for_each(|one| wire::put_bytes(&mut out, 1, &one.message()));
    out
}

/// The same as JSON.
pub fn json(all: &[ModelStatistics]) -> Vec<u8> {
    let mut out = b"{\"model_stats\":".to_vec();
    write_list(&mut out, all.len(), |out, index| all[index].write_json(out));
    out.push(b'}');
    out
}

impl ModelStatistics {
    fn message(&self) -> Vec<u8> {
        let mut out = Vec::new();
        wire::put_bytes(&mut out, 1, self.name.as_bytes());
        wire::put_bytes(&mut out, 2, self.version.to_string().as_bytes());
        wire::put_uint(&mut out, 3, self.last_inference);
        wire::put_uint(&mut out, 4, self.inferences);
        wire::put_uint(&mut out, 5, self.executions);
        let mut durations = Vec::new();
        put_durations(&mut durations, 1, &self.durations);
        wire::put_bytes(&mut out, 6, &durations);
        for batch in &self.batches {
            let mut message = Vec::new();
            wire::put_uint(&mut message, 1, batch.rows);
            put_durations(&mut message, 2, &batch.durations);
            wire::put_bytes(&mut out, 7, &message);
        }
        out
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"name\":");
        write_text(out, &self.name);
        let ModelStatistics { version, last_inference, inferences, executions, .. } = self;
        let counts = format!(
            ",\"version\":\"{version}\",\"last_inference\":{last_inference},\"inference_count\":{inferences},\
             \"execution_count\":{executions},\"inference_stats\":{{"
        );
        out.extend_from_slice(counts.as_bytes());
        out.extend_from_slice(durations_json(&DURATIONS, &self.durations).as_bytes());
        out.extend_from_slice(b"},\"batch_stats\":");
        write_list(out, self.batches.len(), |out, index| {
            let BatchStatistics { rows, durations } = &self.batches[index];
            let stages = durations_json(&COMPUTE, durations);
            out.extend_from_slice(format!("{{\"batch_size\":{rows},{stages}}}").as_bytes());
        });
        out.extend_from_slice(b",\"memory_usage\":[]}");
    }
}

fn put_durations(out: &mut Vec<u8>, first: u32, durations: &[Duration]) {
    for (number, (count, ns)) in (first..).zip(durations) {
        let mut duration = Vec::new();
        wire::put_uint(&mut duration, 1, *count);
        wire::put_uint(&mut duration, 2, *ns);
        wire::put_bytes(out, number, &duration);
    }
}

fn durations_json(names: &[&str], durations: &[Duration]) -> String {
    let named = names.iter().zip(durations);
    let written = named.map(|(name, (count, ns))| format!("\"{name}\":{{\"count\":{count},\"ns\":{ns}}}"));
    written.collect::<Vec<_>>().join(",")
}
