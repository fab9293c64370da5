//! The log's thread works in short turns: while it makes blocks of much that waits, it lets others have the processor.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::fixture;
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::{Column, Tensor, Words};
use tidegate_engine::batching::{Entry, Kept, Part};
use tidegate_engine::log::{Log, LogBlock, LogLimits, LogSink, Outcome, Record};
use tidegate_engine::metrics::Metrics;
use tidegate_engine::sync::lock;

const RECORDS: usize = 64;
const ROWS: usize = 4096;
/// A turn is half a millisecond, and most records alone take longer.
const LEAST_PAUSES: u64 = 8;

/// How often its thread had given its processor up when each block came.
#[derive(Default)]
struct Pauses(Mutex<Vec<u64>>);

impl LogSink for Pauses {
    fn take(&self, _: LogBlock) -> bool {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap();
        lock(&self.0).push(line.split_whitespace().last().unwrap().parse().unwrap());
        true
    }
}

#[test]
fn the_log_gives_way_while_it_makes_many_blocks() {
    let fixture = fixture(ROWS, ROWS);
    let metrics = Arc::<Metrics>::default();
    let limits = LogLimits { block_rows: 1, interval: Duration::from_secs(3600), buffer_bytes: 1 << 30 };
    let log = Log::new(&limits, metrics);
    for slot in 0..RECORDS {
        let entry = Entry { rows: ROWS, logged: true, ..fixture.entry(slot as u64) };
        let mut words = Words::default();
        words.push(&[0; 4 * ROWS]);
        let failed = Err(Status::internal("it failed"));
        log.offer(Record {
            served: fixture.queue.served.clone(),
            entries: vec![entry],
            outcomes: vec![Outcome { code: Code::Internal, latency_us: 1, logged: true }],
            inputs: vec![Kept::copy(&Column::Raw(words))],
            shapes: [vec![]].into(),
            parts: vec![Part { entries: 0..1, first_row: 0, unbatched: false, outputs: failed, errors: Vec::new() }],
            memory: None,
        });
    }
    log.close();
    let pauses = Pauses::default();
    log.run(&pauses);
    let pauses = pauses.0.into_inner().unwrap();
    let (first, last) = (pauses[0], pauses[RECORDS - 1]);
    assert!(last - first >= LEAST_PAUSES, "{} pauses in {RECORDS} records", last - first);
}

/// The rows of all blocks.
#[derive(Default)]
struct Rows(Mutex<usize>);

impl LogSink for Rows {
    fn take(&self, block: LogBlock) -> bool {
        *lock(&self.0) += block.rows;
        true
    }
}

#[test]
fn a_record_that_cannot_be_read_is_counted_as_dropped_and_keeps_no_other_from_the_log() {
    let metrics = Arc::<Metrics>::default();
    let limits = LogLimits { block_rows: 100, interval: Duration::from_secs(3600), buffer_bytes: 1 << 30 };
    let log = Log::new(&limits, metrics.clone());
    let outcome = || Outcome { code: Code::Internal, latency_us: 1, logged: true };
    // One has an entry more than it has outcomes.
    for entries in [0..1, 0..2, 0..1] {
        let fixture = fixture(ROWS, ROWS);
        let entry = Entry { rows: 1, logged: true, ..fixture.entry(1) };
        let mut words = Words::default();
        words.push(&[0; 4]);
        let failed = Err(Status::internal("it failed"));
        log.offer(Record {
            served: fixture.queue.served.clone(),
            entries: vec![entry],
            outcomes: vec![outcome()],
            inputs: vec![Kept::copy(&Column::Raw(words))],
            shapes: [vec![]].into(),
            parts: vec![Part { entries, first_row: 0, unbatched: false, outputs: failed, errors: Vec::new() }],
            memory: None,
        });
    }
    log.close();
    let rows = Rows::default();
    log.run(&rows);
    let counted = [&metrics.log.written, &metrics.log.dropped].map(|count| count[0].load(Ordering::Relaxed));
    assert_eq!((rows.0.into_inner().unwrap(), counted), (2, [2, 1]));
    assert_eq!(metrics.log_waiting_bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn rows_that_share_a_block_with_a_record_that_cannot_be_read_are_each_counted_once() {
    let metrics = Arc::<Metrics>::default();
    let limits = LogLimits { block_rows: 100, interval: Duration::from_secs(3600), buffer_bytes: 1 << 30 };
    let log = Log::new(&limits, metrics.clone());
    let fixture = fixture(ROWS, ROWS);
    let failed = || Err(Status::internal("it failed"));
    let part = |(at, outputs): (usize, Result<Vec<Tensor>, Status>)| Part {
        entries: at..at + 1,
        first_row: at,
        unbatched: false,
        outputs,
        errors: Vec::new(),
    };
    // The second answer of the record in the middle lacks its only output, which is found once its input is in the block.
    for answers in [vec![failed()], vec![failed(), Ok(Vec::new())], vec![failed()]] {
        let mut words = Words::default();
        words.push(&vec![0; 4 * answers.len()]);
        let of_row = |row| Entry { first_row: row, rows: 1, logged: true, ..fixture.entry(row as u64) };
        let outcome = |code| Outcome { code, latency_us: 1, logged: true };
        let codes = answers.iter().map(|answer| if answer.is_ok() { Code::Ok } else { Code::Internal });
        log.offer(Record {
            served: fixture.queue.served.clone(),
            entries: (0..answers.len()).map(of_row).collect(),
            outcomes: codes.map(outcome).collect(),
            inputs: vec![Kept::copy(&Column::Raw(words))],
            shapes: [vec![]].into(),
            parts: (0..).zip(answers).map(part).collect(),
            memory: None,
        });
    }
    log.close();
    let rows = Rows::default();
    log.run(&rows);
    let counted = [&metrics.log.written, &metrics.log.dropped].map(|count| count[0].load(Ordering::Relaxed));
    let waiting = metrics.log_waiting_bytes.load(Ordering::Relaxed);
    assert_eq!((rows.0.into_inner().unwrap(), counted, waiting), (1, [1, 3], 0));
}
