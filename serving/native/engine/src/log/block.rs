//! Rows of the inference log of one version and signature, column by column, as they are handed to the sink.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tidegate_codec::signatures::TensorSpec;
use tidegate_codec::status::Code;
use tidegate_codec::tensors::{Column, Strings};

use crate::batching::ragged::cut_rows;
use crate::batching::{Entry, FinishedBatch, Kept, Part, ServedSignature};
use crate::memory::Reservation;
use crate::trace_context::TraceId;

/// What a row takes in the columns that every log has, beside its request's id.
const ROW_BYTES: usize = 4 + 1 + 1 + 8 + 8 + size_of::<Option<TraceId>>();

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
    pub inputs: Vec<Kept>,
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
        self.rows_from(0)
    }

    /// Those of all entries but so many.
    pub fn rows_from(&self, first: usize) -> [u64; 2] {
        let mut rows = [0; 2];
        let entries = self.entries.iter().zip(&self.outcomes).skip(first);
        for (entry, _) in entries.filter(|(_, outcome)| outcome.logged) {
            rows[entry.role as usize] += entry.rows as u64;
        }
        rows
    }

    /// Memory that it holds, about.
    pub fn byte_size(&self) -> usize {
        let outputs = self.parts.iter().filter_map(|part| part.outputs.as_ref().ok()).flatten();
        let outputs: usize = outputs.map(|output| output.column.byte_size()).sum();
        let inputs: usize = self.inputs.iter().map(Kept::byte_size).sum();
        inputs + outputs + self.entries.len() * size_of::<Entry>()
    }
}

/// The dimensions of one input or output in rows that follow each other, up to where they change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowShapes {
    runs: Vec<(usize, Option<Vec<usize>>)>,
}

impl RowShapes {
    /// Notes so many rows more; without dimensions they have no value.
    pub fn push(&mut self, rows: usize, inner: Option<&[usize]>) {
        match self.runs.last_mut() {
            Some((end, last)) if last.as_deref() == inner => *end += rows,
            Some((end, _)) => {
                let end = *end + rows;
                self.runs.push((end, inner.map(<[usize]>::to_vec)));
            }
            None => self.runs.push((rows, inner.map(<[usize]>::to_vec))),
        }
    }

    /// Runs of equal rows: where each ends, and the dimensions of its rows if they have a value.
    pub fn runs(&self) -> impl Iterator<Item = (usize, Option<&[usize]>)> {
        self.runs.iter().map(|(end, inner)| (*end, inner.as_deref()))
    }

    fn byte_size(&self) -> usize {
        let of = |inner: &Option<Vec<usize>>| inner.as_ref().map_or(0, |inner| inner.len() * size_of::<usize>());
        self.runs.iter().skip(1).map(|(_, inner)| size_of::<(usize, Option<Vec<usize>>)>() + of(inner)).sum()
    }
}

/// The elements of one input or output, row after row.
#[derive(Debug)]
pub struct Logged {
    /// Of all rows that have a value.
    pub values: Column,
    /// How many of them belong to each row.
    pub shapes: RowShapes,
}

impl Logged {
    fn new(spec: &TensorSpec) -> Logged {
        Logged { values: Column::new(spec.dtype), shapes: RowShapes::default() }
    }

    /// Appends rows of another column.
    fn extend(&mut self, spec: &TensorSpec, from: &Column, inner: &[usize], rows: Range<usize>) {
        let row = Column::row_extent(spec.dtype, inner);
        self.values.extend(from, rows.start * row..rows.end * row);
        self.note_rows(spec, inner, &rows);
    }

    /// Appends rows of an input as it came.
    fn extend_kept(&mut self, spec: &TensorSpec, from: &Kept, inner: &[usize], rows: Range<usize>) {
        let row = Column::row_extent(spec.dtype, inner);
        from.extend(&mut self.values, rows.start * row..rows.end * row);
        self.note_rows(spec, inner, &rows);
    }

    fn note_rows(&mut self, spec: &TensorSpec, inner: &[usize], rows: &Range<usize>) {
        match spec.admits_any_rank() {
            // A column has one type in all files.
            true => self.shapes.push(rows.len(), Some(&[inner.iter().product()])),
            false => self.shapes.push(rows.len(), Some(inner)),
        }
    }

    /// Appends rows of a column that was padded, as they came.
    fn extend_own(&mut self, spec: &TensorSpec, from: (&Column, &[usize]), own: &[usize], rows: Range<usize>) {
        let (column, padded) = from;
        if own == padded {
            return self.extend(spec, column, own, rows);
        }
        self.shapes.push(rows.len(), Some(own));
        cut_rows(spec, &mut self.values, (column, rows), (padded, own));
    }

    fn byte_size(&self) -> usize {
        self.values.byte_size() + self.shapes.byte_size()
    }
}

/// Rows in columns.
#[derive(Debug)]
pub struct LogBlock {
    /// Names, types, model and version.
    pub served: Arc<ServedSignature>,
    /// Rows so far.
    pub rows: usize,
    /// One per input.
    pub inputs: Vec<Logged>,
    /// One per output; rows that failed have no value.
    pub outputs: Vec<Logged>,
    /// The request's id, once per row.
    pub request_id: Strings,
    /// The trace that the request belongs to, once per row; none where it belongs to none.
    pub trace_id: Vec<Option<TraceId>>,
    /// The row's number inside its request.
    pub row: Vec<u32>,
    /// 0 primary, 1 shadow.
    pub role: Vec<u8>,
    /// Canonical gRPC code.
    pub status: Vec<u8>,
    /// Unix time in microseconds.
    pub received_at_us: Vec<i64>,
    /// From the request's last byte to its answer.
    pub latency_us: Vec<i64>,
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
    pub fn new(served: Arc<ServedSignature>) -> LogBlock {
        let signature = &served.signature;
        LogBlock {
            inputs: signature.inputs.iter().map(Logged::new).collect(),
            outputs: signature.outputs.iter().map(Logged::new).collect(),
            memory: served.log.reservation(),
            served,
            rows: 0,
            request_id: Strings::default(),
            trace_id: Vec::new(),
            row: Vec::new(),
            role: Vec::new(),
            status: Vec::new(),
            received_at_us: Vec::new(),
            latency_us: Vec::new(),
            started: Instant::now(),
            by_role: [0; 2],
        }
    }

    /// Memory that its content needs, about.
    pub fn byte_size(&self) -> usize {
        let columns = self.inputs.iter().chain(&self.outputs);
        columns.map(Logged::byte_size).sum::<usize>() + self.rows * ROW_BYTES + self.request_id.bytes().len()
    }

    /// Appends the rows of consecutive entries; `part` is where their outputs are, if they have any.
    pub fn append(&mut self, record: &Record, entries: Range<usize>, part: Option<&Part>, clock: &ClockPair) {
        let chosen = &record.entries[entries.clone()];
        let (Some(first), Some(last)) = (chosen.first(), chosen.last()) else {
            return;
        };
        let rows = first.first_row..last.first_row + last.rows;
        let signature = &self.served.signature;
        let as_they_came = chosen.iter().all(|entry| entry.own_shapes.is_none());
        for (index, spec) in signature.inputs.iter().enumerate() {
            let (logged, kept, inner) = (&mut self.inputs[index], &record.inputs[index], &record.shapes[index]);
            let Some(column) = kept.whole().filter(|_| !as_they_came) else {
                logged.extend_kept(spec, kept, inner, rows.clone());
                continue;
            };
            for entry in chosen {
                let own = entry.own_shapes.as_ref().map_or(inner, |own| &own[index]);
                logged.extend_own(spec, (column, inner), own, entry.first_row..entry.first_row + entry.rows);
            }
        }
        let outputs = part.and_then(|part| part.outputs.as_ref().ok().map(|outputs| (outputs, part)));
        for (index, spec) in signature.outputs.iter().enumerate() {
            let logged = &mut self.outputs[index];
            match outputs {
                Some((outputs, part)) => {
                    let (output, base) = (&outputs[index], part.first_row);
                    let own = rows.start - base..rows.end - base;
                    logged.extend(spec, &output.column, output.inner(part.unbatched), own);
                }
                None => logged.shapes.push(rows.len(), None),
            }
        }
        for (entry, outcome) in chosen.iter().zip(&record.outcomes[entries]) {
            self.append_meta(entry, outcome, clock);
        }
        self.rows += rows.len();
    }

    fn append_meta(&mut self, entry: &Entry, outcome: &Outcome, clock: &ClockPair) {
        let received = clock.unix_us(entry.received);
        self.by_role[entry.role as usize] += entry.rows as u64;
        for row in 0..entry.rows {
            self.request_id.push(entry.id.as_bytes());
            self.trace_id.push(entry.trace);
            self.row.push(row as u32);
            self.role.push(entry.role as u8);
            self.status.push(outcome.code as u8);
            self.received_at_us.push(received);
            self.latency_us.push(outcome.latency_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_alike_are_one_run() {
        let mut shapes = RowShapes::default();
        shapes.push(2, Some(&[3]));
        shapes.push(3, Some(&[3]));
        shapes.push(1, Some(&[4]));
        shapes.push(1, None);
        let runs: Vec<_> = shapes.runs().collect();
        assert_eq!(runs, [(5, Some(&[3][..])), (6, Some(&[4][..])), (7, None)]);
        assert!(shapes.byte_size() > 2 * size_of::<usize>(), "what changes often is counted");
    }
}
