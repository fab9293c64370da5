//! Connections of which one has much under way and another little: who comes first, and for whom the last eighth of a long
//! queue is.

use std::sync::Arc;
use std::time::Instant;

use crate::support::{Fixture, fill, fixture, fixture_of, limits};
use tidegate_codec::status::{Code, Status};
use tidegate_engine::batching::queue::NextBatch;
use tidegate_engine::batching::{Appended, Batching, Entry, Role};

/// Appends rows of a connection that has so many under way.
fn append(fixture: &Fixture, rows: usize, under_way: usize) -> Result<Appended, Status> {
    append_as(fixture, 1, rows, under_way)
}

/// The same with a slot of its own.
fn append_as(fixture: &Fixture, slot: u64, rows: usize, under_way: usize) -> Result<Appended, Status> {
    let entry = Entry { under_way, ..fixture.entry(slot) };
    fixture.queue.append(&Arc::new(()), 0, entry, 4 * rows, &|page| fill(page, slot as f32, rows))
}

/// Slots in the order in which they run.
fn order(fixture: &Fixture) -> Vec<u64> {
    fixture.queue.release_open(0);
    let mut taken = Vec::new();
    while let NextBatch::Batch(batch) = fixture.queue.take(Instant::now()) {
        taken.extend(batch.entries.iter().map(|entry| entry.slot.unwrap()));
    }
    assert_eq!((fixture.queue.queued_rows(), fixture.memory.used()), (0, 0));
    taken
}

/// One connection that asks six times for a batch, and another that asks for a row behind it.
fn crowd(fixture: &Fixture) -> Vec<u64> {
    (0..6).for_each(|number| drop(append_as(fixture, number, 64, 64 * number as usize).unwrap()));
    append_as(fixture, 10, 1, 3).unwrap();
    append_as(fixture, 11, 1, 4).unwrap();
    order(fixture)
}

#[test]
fn where_more_than_a_batch_waits_little_comes_before_much() {
    assert_eq!(crowd(&fixture(64, 1024)), [0, 1, 10, 2, 3, 4, 5, 11]);
}

#[test]
fn who_waits_for_a_place_is_served_first_come_first_served() {
    let waiting = fixture_of(&[-1], &Batching { waits_when_full: true, ..limits(64, 1024) });
    assert_eq!(crowd(&waiting), [0, 1, 2, 3, 4, 5, 10, 11]);
}

#[test]
fn of_eight_batches_one_is_the_oldest_of_who_has_much_under_way() {
    let fixture = fixture(1, 1023);
    (0..3).for_each(|slot| drop(append_as(&fixture, slot, 1, 1).unwrap()));
    (10..30).for_each(|slot| drop(append_as(&fixture, slot, 1, 0).unwrap()));
    let order = order(&fixture);
    assert_eq!(order.iter().position(|slot| *slot == 2), Some(7), "{order:?}");
    assert_eq!(order.len(), 23);
}

#[test]
fn both_count_against_the_same_limit() {
    let fixture = fixture(8, 40);
    (0..5).for_each(|number| drop(append(&fixture, 8, 8 * number).unwrap()));
    assert!(append(&fixture, 1, 0).unwrap_err().message.contains("limit of 40 rows"));
    assert!(append(&fixture, 1, 8).unwrap_err().message.contains("limit of 40 rows"));
    assert_eq!(fixture.queue.queued_rows(), 40);
}

/// A queue of which one connection has filled seven eighths.
fn filled() -> Fixture {
    let fixture = fixture(64, 1024);
    (0..14).for_each(|number| drop(append(&fixture, 64, 64 * number).unwrap()));
    fixture
}

#[test]
fn one_connection_leaves_an_eighth_of_a_long_queue_to_others() {
    let fixture = filled();
    for rows in [1, 64] {
        let refused = append(&fixture, rows, 896).unwrap_err();
        assert_eq!(refused.code, Code::ResourceExhausted);
        let words = "1 more rows beside the 896 that this connection has under way would be more than half of the 128";
        assert!(refused.message.contains(words), "{}", refused.message);
    }
    append(&fixture, 1, 0).unwrap();
    assert_eq!(fixture.queue.queued_rows(), 897, "what is refused is not counted");
}

#[test]
fn the_less_is_left_the_fewer_rows_a_connection_may_have() {
    let fixture = filled();
    append(&fixture, 64, 0).unwrap();
    append(&fixture, 33, 0).unwrap_err();
    append(&fixture, 32, 0).unwrap();
    append(&fixture, 1, 16).unwrap_err();
    (0..30).for_each(|_| drop(append(&fixture, 1, 0).unwrap()));
    assert_eq!(fixture.queue.queued_rows(), 1022);
}

#[test]
fn copies_leave_it_to_requests() {
    let fixture = filled();
    let copy = Entry { role: Role::Shadow, under_way: usize::MAX, ..fixture.entry(1) };
    let refused = fixture.queue.append(&Arc::new(()), 0, copy, 4, &|page| fill(page, 1.0, 1));
    assert_eq!(refused.unwrap_err().code, Code::ResourceExhausted);
}

#[test]
fn a_short_queue_is_for_whoever_comes_first() {
    let fixture = fixture(64, 1023);
    append(&fixture, 1022, 1022).unwrap();
    append(&fixture, 1, 1022).unwrap();
    let refused = append(&fixture, 1, 0).unwrap_err();
    assert!(refused.message.contains("limit of 1023 rows"), "{}", refused.message);
}
