//! Rows of the inference log of one version and signature, column by column, as they are handed to the sink.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tidegate_codec::status::Code;
use tidegate_codec::tensors::{Column, Strings, Words};

use crate::batching::{Entry, FinishedBatch, Part, ServedSignature};
use crate::memory::Reservation;

/// What became of one entry of a finished batch.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// OK or what went wrong.
    pub code: Code,
    /// From its last byte to its answer.
    pub latency_us: i64,
    /// Whether it goes to the log.
    pub logged: bool,
}

/// A finished batch with the outcome of each of its entries.
#[derive(Debug)]
pub struct Record {
    /// For names and types. The version itself is not held: a log must not delay an unload.
    pub served: Arc<ServedSignature>,
    /// Its requests.
    pub entries: Vec<Entry>,
    /// One per entry.
    pub outcomes: Vec<Outcome>,
    /// The inputs as they came.
    pub inputs: Vec<Column>,
    /// Inner dimensions of each input.
    pub shapes: Arc<[Vec<usize>]>,
    /// The answers.
    pub parts: Vec<Part>,
    /// What it takes of the log's memory, once it was let in.
    pub memory: Option<Reservation>,
}

impl Record {
    /// Keeps of a finished batch what the log needs.
    pub fn new(finished: FinishedBatch, outcomes: Vec<Outcome>) -> Record {
        let FinishedBatch { served, entries, inputs, shapes, parts, .. } = finished;
        Record { served, entries, outcomes, inputs, shapes, parts, memory: None }
    }

    /// Rows to be logged, by role.
    pub fn rows(&self) -> [u64; 2] {
        let mut rows = [0; 2];
        for (entry, _) in self.entries.iter().zip(&self.outcomes).filter(|(_, outcome)| outcome.logged) {
            rows[entry.role as usize] += entry.rows as u64;
        }
        rows
    }

    /// Memory that it holds, about.
    pub fn byte_size(&self) -> usize {
        let outputs = self.parts.iter().filter_map(|part| part.outputs.as_ref().ok()).flatten();
        let outputs: usize = outputs.map(|output| output.column.byte_size()).sum();
        let inputs: usize = self.inputs.iter().map(Column::byte_size).sum();
        inputs + outputs + self.entries.len() * size_of::<Entry>()
    }
}

/// Which rows may share a block: those of one signature with the same inner dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Of each input.
    pub inputs: Arc<[Vec<usize>]>,
    /// Of each output.
    pub outputs: Vec<Vec<usize>>,
}

/// Rows in columns.
#[derive(Debug)]
pub struct LogBlock {
    /// Names, types, model and version.
    pub served: Arc<ServedSignature>,
    /// Inner dimensions of all its rows.
    pub layout: Layout,
    /// Rows so far.
    pub rows: usize,
    /// One per input.
    pub inputs: Vec<Column>,
    /// One per output.
    pub outputs: Vec<Column>,
    /// The request's id, once per row.
    pub request_id: Strings,
    /// uint32: the row's number inside its request.
    pub row: Words,
    /// uint8: 0 primary, 1 shadow.
    pub role: Words,
    /// uint8: canonical gRPC code.
    pub status: Words,
    /// int64: Unix time in microseconds.
    pub received_at_us: Words,
    /// int64.
    pub latency_us: Words,
    /// When its first row came.
    pub started: Instant,
    /// Rows by role.
    pub by_role: [u64; 2],
    /// What it takes of the log's memory.
    pub memory: Reservation,
}

/// Now on both clocks, to turn instants into Unix time.
#[derive(Clone, Copy, Debug)]
pub struct ClockPair {
    instant: Instant,
    unix_us: i64,
}

impl ClockPair {
    /// Reads both clocks.
    pub fn now() -> ClockPair {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        ClockPair { instant: Instant::now(), unix_us: unix.as_micros() as i64 }
    }

    fn unix_us(&self, then: Instant) -> i64 {
        self.unix_us - self.instant.saturating_duration_since(then).as_micros() as i64
    }
}

impl LogBlock {
    /// An empty block.
    pub fn new(served: Arc<ServedSignature>, layout: Layout) -> LogBlock {
        let signature = &served.signature;
        LogBlock {
            inputs: signature.inputs.iter().map(|spec| Column::new(spec.dtype)).collect(),
            outputs: signature.outputs.iter().map(|spec| Column::new(spec.dtype)).collect(),
            memory: served.log.reservation(),
            served,
            layout,
            rows: 0,
            request_id: Strings::default(),
            row: Words::default(),
            role: Words::default(),
            status: Words::default(),
            received_at_us: Words::default(),
            latency_us: Words::default(),
            started: Instant::now(),
            by_role: [0; 2],
        }
    }

    /// Memory that its content needs, about.
    pub fn byte_size(&self) -> usize {
        let columns = self.inputs.iter().chain(&self.outputs);
        columns.map(Column::byte_size).sum::<usize>() + self.rows * 22 + self.request_id.bytes().len()
    }

    /// Appends the rows of consecutive entries; `part` is where their outputs are, if they have any.
    pub fn append(&mut self, record: &Record, entries: std::ops::Range<usize>, part: Option<&Part>, clock: &ClockPair) {
        let chosen = &record.entries[entries.clone()];
        let (Some(first), Some(last)) = (chosen.first(), chosen.last()) else {
            return;
        };
        let (start, end) = (first.first_row, last.first_row + last.rows);
        let signature = &self.served.signature;
        for (index, spec) in signature.inputs.iter().enumerate() {
            let row = Column::row_extent(spec.dtype, &self.layout.inputs[index]);
            self.inputs[index].extend(&record.inputs[index], start * row..end * row);
        }
        let outputs = part.and_then(|part| part.outputs.as_ref().ok().map(|outputs| (outputs, part.first_row)));
        for (index, spec) in signature.outputs.iter().enumerate() {
            let row = Column::row_extent(spec.dtype, &self.layout.outputs[index]);
            match outputs {
                Some((outputs, base)) => {
                    self.outputs[index].extend(&outputs[index].column, (start - base) * row..(end - base) * row);
                }
                None => self.outputs[index].extend_zeros((end - start) * row),
            }
        }
        for (entry, outcome) in chosen.iter().zip(&record.outcomes[entries]) {
            self.append_meta(entry, outcome, clock);
        }
        self.rows += end - start;
    }

    fn append_meta(&mut self, entry: &Entry, outcome: &Outcome, clock: &ClockPair) {
        let received = clock.unix_us(entry.received).to_le_bytes();
        self.by_role[entry.role as usize] += entry.rows as u64;
        for row in 0..entry.rows {
            self.request_id.push(entry.id.as_str().as_bytes());
            self.row.push(&(row as u32).to_le_bytes());
            self.role.push(&[entry.role as u8]);
            self.status.push(&[outcome.code as u8]);
            self.received_at_us.push(&received);
            self.latency_us.push(&outcome.latency_us.to_le_bytes());
        }
    }
}
