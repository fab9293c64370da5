//! Priorities in one queue: higher ones go first, lower ones are not starved, and what waits behind a request neither
//! fills its queue nor makes it late.

use std::time::{Duration, Instant};

use crate::support;
use crate::support::{Fixture, fixture_of, limits};
use tidegate_engine::batching::Batching;
use tidegate_engine::batching::queue::NextBatch;

fn levels(max_batch_rows: usize, max_queued_rows: usize) -> Fixture {
    let batching =
        Batching { priority_levels: 3, default_priority_level: 2, ..limits(max_batch_rows, max_queued_rows) };
    fixture_of(&[-1], &batching)
}

/// Slots of the requests in the next batch.
fn take(fixture: &Fixture) -> Vec<u64> {
    match fixture.queue.take(Instant::now()) {
        NextBatch::Batch(batch) => batch.entries.iter().map(|entry| entry.slot.unwrap()).collect(),
        NextBatch::Later(_) | NextBatch::Nothing => Vec::new(),
    }
}

#[test]
fn higher_priorities_go_first_and_share_no_batch_with_lower_ones() {
    let fixture = levels(8, 100);
    for (slot, level) in [(0, 2), (1, 1), (2, 0), (3, 1), (4, 0), (5, 2)] {
        fixture.append_level(slot, 1, level).unwrap();
    }
    assert!(take(&fixture).is_empty(), "their batches are open");
    fixture.queue.release_open(0);
    assert_eq!([take(&fixture), take(&fixture), take(&fixture)], [[2, 4], [1, 3], [0, 5]]);
    assert_eq!((fixture.queue.queued_rows(), fixture.memory.used()), (0, 0));
}

#[test]
fn of_eight_batches_one_is_the_oldest_whatever_its_priority() {
    let fixture = levels(1, 100);
    fixture.append_level(1000, 1, 2).unwrap();
    fixture.append_level(1001, 1, 1).unwrap();
    let mut taken = Vec::new();
    for slot in 0..24 {
        fixture.append_level(slot, 1, 0).unwrap();
        fixture.append_level(100 + slot, 1, 0).unwrap();
        taken.extend(take(&fixture));
    }
    let low: Vec<usize> = (0..taken.len()).filter(|at| taken[*at] >= 1000).collect();
    assert_eq!(low, [7, 15], "{taken:?}");
    assert_eq!((taken[7], taken[15]), (1000, 1001));
}

#[test]
fn what_has_a_lower_priority_does_not_fill_the_queue() {
    let fixture = levels(4, 10);
    fixture.append_level(0, 10, 2).unwrap();
    assert!(fixture.append_level(1, 1, 2).unwrap_err().message.contains("limit of 10 rows"));
    fixture.append_level(2, 6, 1).unwrap();
    fixture.append_level(3, 4, 1).unwrap();
    assert!(fixture.append_level(4, 1, 1).is_err());
    let place = fixture.append_level(5, 10, 0).unwrap().place.unwrap();
    assert!(fixture.append_level(6, 1, 0).is_err());
    assert_eq!(fixture.queue.queued_rows(), 30);
    assert!(fixture.queue.abandon(&place, None));
    fixture.append_level(7, 10, 0).unwrap();
    while !take(&fixture).is_empty() {}
    while let NextBatch::Batch(_) = fixture.queue.take_early() {}
    assert_eq!((fixture.queue.queued_rows(), fixture.memory.used()), (0, 0));
    for level in [2, 1, 0] {
        fixture.append_level(8, 10, level).unwrap();
    }
}

#[test]
fn what_has_a_lower_priority_makes_nobody_late() {
    let fixture = levels(10, 10_000);
    for _ in 0..3 {
        fixture.queue.service.count(1, Duration::from_millis(100));
        fixture.queue.service.count(10, Duration::from_millis(1000));
    }
    // They take 20 s, the limit of 60 s is far.
    fixture.append_level(0, 200, 1).unwrap();
    let soon = |slot: u64, level: usize| {
        let entry = fixture.entry(slot);
        let entry =
            tidegate_engine::batching::Entry { level, deadline: entry.received + Duration::from_secs(2), ..entry };
        fixture.queue.append(&std::sync::Arc::new(()), 0, entry, 4, &|page| support::fill(page, 1.0, 1))
    };
    assert!(soon(1, 0).is_ok());
    let late = soon(2, 1).unwrap_err();
    assert!(late.message.contains("rows wait, which takes about"), "{}", late.message);
}

#[test]
fn a_level_is_what_was_asked_for_or_the_default() {
    let batching = Batching { priority_levels: 3, default_priority_level: 2, ..limits(1, 1) };
    assert_eq!([0, 1, 2, 3, 4, u64::MAX].map(|asked| batching.level(asked)), [1, 0, 1, 2, 1, 1]);
    let lowest = Batching { default_priority_level: 0, ..batching.clone() };
    assert_eq!(lowest.level(0), 2);
    assert_eq!([0, 1, 7].map(|asked| limits(1, 1).level(asked)), [0; 3], "without levels all are alike");
    assert!(batching.check().is_ok());
    assert!(Batching { default_priority_level: 4, ..batching.clone() }.check().is_err());
    assert!(Batching { priority_levels: 9, ..batching }.check().is_err());
}
