//! The inference log's bounded buffer, and the thread that makes blocks of finished batches. A record that does not fit,
//! or a block that the sink does not take, is dropped and counted. What waits is counted as requests' memory too.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_codec::signatures::TensorSpec;
use tidegate_codec::tensors::Tensor;

use crate::batching::Entry;
use crate::log::block::{ClockPair, Layout, LogBlock, Record};
use crate::metrics::Metrics;
use crate::sync::lock;

/// Where blocks go.
pub trait LogSink: Send + Sync {
    /// Takes a block of log rows. False when they are lost.
    fn take(&self, block: LogBlock) -> bool;
}

/// When a block is handed over, and how much may wait.
#[derive(Clone, Copy, Debug)]
pub struct LogLimits {
    /// Rows of a full block.
    pub block_rows: usize,
    /// A block that is not full is handed over after this time.
    pub interval: Duration,
    /// Bytes that may wait.
    pub buffer_bytes: usize,
}

/// How much of one model may wait: so many times what stays free. So no model takes all, and however many are busy, one
/// that is not finds room.
const OF_FREE: u64 = 3;

/// Records collect for this long before the log thread looks at them, unless a lot has come.
const LINGER: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
struct State {
    records: Vec<Record>,
    closing: bool,
    urgent: bool,
}

/// The buffer between I/O threads and the log thread.
#[derive(Debug)]
pub struct Log {
    state: Mutex<State>,
    changed: Condvar,
    metrics: Arc<Metrics>,
    block_rows: usize,
    interval: Duration,
    bound: u64,
}

impl Log {
    /// An empty buffer.
    pub fn new(limits: &LogLimits, metrics: Arc<Metrics>) -> Log {
        Log {
            state: Mutex::default(),
            changed: Condvar::new(),
            metrics,
            block_rows: limits.block_rows,
            interval: limits.interval,
            bound: limits.buffer_bytes as u64,
        }
    }

    /// Takes a record, or drops and counts it where the buffer, its model's part of it or the memory for requests is full.
    /// Never waits for the log thread's work.
    pub fn offer(&self, mut record: Record) {
        let rows = record.rows();
        for (role, count) in rows.iter().enumerate() {
            self.metrics.log.eligible[role].fetch_add(*count, Ordering::Relaxed);
        }
        let size = record.byte_size() as u64;
        let waiting = self.metrics.log_waiting_bytes.fetch_add(size, Ordering::Relaxed) + size;
        let share = &record.served.log;
        let own = share.used() as u64 + size;
        let fits = waiting <= self.bound && own <= OF_FREE * (self.bound - waiting);
        record.memory = if fits { share.note_spare(size as usize) } else { None };
        if record.memory.is_none() {
            return self.refuse(rows, size);
        }
        let mut state = lock(&self.state);
        if state.closing {
            drop(state);
            return self.refuse(rows, size);
        }
        let was_empty = state.records.is_empty();
        state.records.push(record);
        let urgent = waiting > self.bound / 4 && !state.urgent;
        state.urgent |= urgent;
        drop(state);
        if was_empty || urgent {
            self.changed.notify_one();
        }
    }

    /// Counts the rows of an answer that cannot be written as rows of its model.
    pub fn leave_out(&self, entry: &Entry) {
        let mut rows = [0; 2];
        rows[entry.role as usize] = entry.rows as u64;
        self.metrics.log.eligible[entry.role as usize].fetch_add(entry.rows as u64, Ordering::Relaxed);
        self.count_dropped(rows);
    }

    fn refuse(&self, rows: [u64; 2], size: u64) {
        self.metrics.log_waiting_bytes.fetch_sub(size, Ordering::Relaxed);
        self.count_dropped(rows);
    }

    fn count_dropped(&self, rows: [u64; 2]) {
        for (role, count) in rows.iter().enumerate() {
            self.metrics.log.dropped[role].fetch_add(*count, Ordering::Relaxed);
        }
    }

    /// The thread hands over everything and ends.
    pub fn close(&self) {
        lock(&self.state).closing = true;
        self.changed.notify_one();
    }

    /// The log thread.
    pub fn run(&self, sink: &dyn LogSink) {
        let mut blocks: Vec<LogBlock> = Vec::new();
        loop {
            let (records, closing) =
                self.wait_for_records(blocks.iter().map(|block| block.started + self.interval).min());
            let clock = ClockPair::now();
            for record in records {
                self.place(&record, &mut blocks, &clock, sink);
            }
            let now = Instant::now();
            let (due, young): (Vec<LogBlock>, Vec<LogBlock>) =
                blocks.into_iter().partition(|block| closing || block.started + self.interval <= now);
            blocks = young;
            for block in due {
                self.hand_over(block, sink);
            }
            if closing {
                return;
            }
        }
    }

    /// Waits for records, lets more of them come, and takes them; returns early when a block is due or at the end.
    fn wait_for_records(&self, due: Option<Instant>) -> (Vec<Record>, bool) {
        let mut state = lock(&self.state);
        while state.records.is_empty() && !state.closing {
            match due.map(|due| due.saturating_duration_since(Instant::now())) {
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => break,
                Some(left) => {
                    state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        let until = Instant::now() + LINGER;
        while !state.records.is_empty() && !state.urgent && !state.closing {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.urgent = false;
        (std::mem::take(&mut state.records), state.closing)
    }

    /// Copies the sampled rows of a record into the blocks that they fit.
    fn place(&self, record: &Record, blocks: &mut Vec<LogBlock>, clock: &ClockPair, sink: &dyn LogSink) {
        let size = record.byte_size() as u64;
        for part in &record.parts {
            let mut at = part.entries.start;
            while at < part.entries.end {
                // A run of entries that are all logged and all have outputs, or all have none.
                let failed = part.error_of(at).is_some();
                let mut end = at;
                while end < part.entries.end && record.outcomes[end].logged && part.error_of(end).is_some() == failed {
                    end += 1;
                }
                if end == at {
                    at += 1;
                    continue;
                }
                let outputs = if failed { None } else { part.outputs.as_ref().ok() };
                let layout = layout(record, outputs, part.unbatched);
                let found = blocks.iter().position(|block| same_block(block, record, &layout));
                let index = found.unwrap_or_else(|| {
                    blocks.push(LogBlock::new(record.served.clone(), layout));
                    blocks.len() - 1
                });
                // An empty block has bytes of its own (first offsets of strings), which `hand_over` takes off again.
                let before = found.map_or(0, |known| blocks[known].byte_size());
                blocks[index].append(record, at..end, outputs.map(|_| part), clock);
                let grown = (blocks[index].byte_size() - before) as u64;
                self.metrics.log_waiting_bytes.fetch_add(grown, Ordering::Relaxed);
                blocks[index].memory.note(grown as usize);
                if blocks[index].rows >= self.block_rows {
                    self.hand_over(blocks.swap_remove(index), sink);
                }
                at = end;
            }
        }
        self.metrics.log_waiting_bytes.fetch_sub(size, Ordering::Relaxed);
    }

    fn hand_over(&self, mut block: LogBlock, sink: &dyn LogSink) {
        let (size, rows) = (block.byte_size() as u64, block.by_role);
        let _until_written = block.memory.split(block.memory.bytes());
        let written = catch_unwind(AssertUnwindSafe(|| sink.take(block))).unwrap_or(false);
        self.metrics.log_waiting_bytes.fetch_sub(size, Ordering::Relaxed);
        if written {
            for (role, count) in rows.iter().enumerate() {
                self.metrics.log.written[role].fetch_add(*count, Ordering::Relaxed);
            }
        } else {
            self.count_dropped(rows);
        }
    }
}

fn same_block(block: &LogBlock, record: &Record, layout: &Layout) -> bool {
    Arc::ptr_eq(&block.served, &record.served) && block.layout == *layout
}

/// Inner dimensions of a record's rows; without outputs, those that the signature fixes and 0 for the others.
fn layout(record: &Record, outputs: Option<&Vec<Tensor>>, unbatched: bool) -> Layout {
    let signature = &record.served.signature;
    let of_unknown = |spec: &TensorSpec| -> Vec<usize> {
        spec.inner().iter().map(|dim| usize::try_from(*dim).unwrap_or(0)).collect()
    };
    let outputs = match outputs {
        Some(outputs) => {
            signature.outputs.iter().zip(outputs).map(|(spec, output)| logged(spec, output.inner(unbatched))).collect()
        }
        None if unbatched => signature.outputs.iter().map(|spec| logged(spec, &of_unknown(spec))).collect(),
        None => signature.outputs.iter().map(of_unknown).collect(),
    };
    if !signature.inputs.iter().any(TensorSpec::admits_any_rank) {
        return Layout { inputs: record.shapes.clone(), outputs };
    }
    let inputs = signature.inputs.iter().zip(&*record.shapes).map(|(spec, inner)| logged(spec, inner));
    Layout { inputs: inputs.collect(), outputs }
}

/// The dimensions of a logged row: a column has one type in all files, so what may have any rank is one list.
fn logged(spec: &TensorSpec, inner: &[usize]) -> Vec<usize> {
    if spec.admits_any_rank() { vec![inner.iter().product()] } else { inner.to_vec() }
}
