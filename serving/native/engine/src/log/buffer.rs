//! The inference log's bounded buffer, and the thread that makes blocks of finished batches. A record that does not fit,
//! or a block that the sink does not take, is dropped and counted. What waits is counted as requests' memory too.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_codec::status::Code;

use crate::batching::Entry;
use crate::log::block::{ClockPair, LogBlock, Record};
use crate::log::turns::Turns;
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

/// How often the end looks for records that are still to come.
const LOOK: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
struct State {
    records: Vec<Record>,
    closing: bool,
    /// Whether the thread has handed over everything and takes no more.
    ended: bool,
    urgent: bool,
}

/// While it lives, the log waits for a record that is to be offered.
#[derive(Debug)]
pub struct Expected {
    coming: Arc<AtomicUsize>,
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.coming.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The buffer between I/O threads and the log thread.
#[derive(Debug)]
pub struct Log {
    state: Mutex<State>,
    changed: Condvar,
    /// Batches whose clients have answers already and whose record is still to come.
    coming: Arc<AtomicUsize>,
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
            coming: Arc::default(),
            metrics,
            block_rows: limits.block_rows,
            interval: limits.interval,
            bound: limits.buffer_bytes as u64,
        }
    }

    /// Has the log stay open for what is offered until the guard is dropped. Taken before the first answer of a batch is
    /// written: a drain that finds all clients answered does not lose the batch's record.
    pub fn expect(&self) -> Expected {
        self.coming.fetch_add(1, Ordering::SeqCst);
        Expected { coming: self.coming.clone() }
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
        if state.ended {
            drop(state);
            return self.refuse(rows, size);
        }
        let was_empty = state.records.is_empty();
        state.records.push(record);
        let urgent = self.is_much(waiting) && !state.urgent;
        state.urgent |= urgent;
        drop(state);
        if was_empty || urgent {
            self.changed.notify_one();
        }
    }

    /// Whether so much waits that the log must not wait for others.
    fn is_much(&self, waiting: u64) -> bool {
        waiting > self.bound / 4
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
            let turns = Turns::default();
            for record in records {
                let mut placed = 0;
                let placing = || self.place(&record, &mut placed, &mut blocks, &clock, sink);
                if catch_unwind(AssertUnwindSafe(placing)).is_err() {
                    self.lose(&record, placed, &mut blocks);
                }
                turns.give_way(|| self.is_much(self.metrics.log_waiting_bytes.load(Ordering::Relaxed)));
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
        while state.closing && self.coming.load(Ordering::SeqCst) > 0 {
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.urgent = false;
        state.ended = state.closing;
        (std::mem::take(&mut state.records), state.closing)
    }

    /// Copies the sampled rows of a record into the block of its signature; those of the first `placed` entries are there.
    fn place(
        &self,
        record: &Record,
        placed: &mut usize,
        blocks: &mut Vec<LogBlock>,
        clock: &ClockPair,
        sink: &dyn LogSink,
    ) {
        let size = record.byte_size() as u64;
        for part in &record.parts {
            let mut at = part.entries.start;
            while at < part.entries.end {
                // A run of entries that are all logged and all have outputs, or all have none.
                let has_outputs = |at: usize| record.outcomes[at].code == Code::Ok && part.error_of(at).is_none();
                let answered = has_outputs(at);
                let mut end = at;
                while end < part.entries.end && record.outcomes[end].logged && has_outputs(end) == answered {
                    end += 1;
                }
                if end == at {
                    at += 1;
                    continue;
                }
                let found = blocks.iter().position(|block| Arc::ptr_eq(&block.served, &record.served));
                let index = found.unwrap_or_else(|| {
                    blocks.push(LogBlock::new(record.served.clone()));
                    blocks.len() - 1
                });
                // An empty block has bytes of its own (first offsets of strings), which `hand_over` takes off again.
                let before = found.map_or(0, |known| blocks[known].byte_size());
                blocks[index].append(record, at..end, answered.then_some(part), clock);
                let grown = (blocks[index].byte_size() - before) as u64;
                self.metrics.log_waiting_bytes.fetch_add(grown, Ordering::Relaxed);
                blocks[index].memory.note(grown as usize);
                *placed = end;
                if blocks[index].rows >= self.block_rows {
                    self.hand_over(blocks.swap_remove(index), sink);
                }
                at = end;
            }
        }
        self.metrics.log_waiting_bytes.fetch_sub(size, Ordering::Relaxed);
    }

    /// A fault in one record must not end the log; it has been printed where it happened. Rows of the same signature are not
    /// written either: the last of them may have come in half, of which nothing was counted.
    fn lose(&self, record: &Record, placed: usize, blocks: &mut Vec<LogBlock>) {
        self.refuse(record.rows_from(placed), record.byte_size() as u64);
        for block in blocks.extract_if(.., |block| Arc::ptr_eq(&block.served, &record.served)) {
            self.refuse(block.by_role, block.memory.bytes() as u64);
        }
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
