//! Requests of different shapes in one queue: each shape has an open batch of its own, nobody is starved, and why batches
//! closed can be told.

use std::time::{Duration, Instant};

use crate::support::{fixture, fixture_of, limits};
use tidegate_engine::batching::batch::Batch;
use tidegate_engine::batching::queue::NextBatch;
use tidegate_engine::batching::{Batching, Queue, Urgency};
use tidegate_engine::metrics::CloseReason;

fn slots(batch: &Batch) -> Vec<u64> {
    batch.entries.iter().map(|entry| entry.slot.unwrap()).collect()
}

fn take(queue: &Queue) -> Option<(Vec<u64>, CloseReason)> {
    match queue.take(Instant::now()) {
        NextBatch::Batch(batch) => Some((slots(&batch), batch.close_reason)),
        NextBatch::Later(_) | NextBatch::Nothing => None,
    }
}

#[test]
fn alternating_shapes_do_not_close_each_others_batches() {
    let fixture = fixture_of(&[-1, -1], &limits(64, 1024));
    for slot in 0..12 {
        let appended = fixture.append_shaped(slot, 1, &[1 + slot as usize % 3], 4);
        assert_eq!(appended.urgency, Urgency::WhenIdle, "nothing closed");
    }
    assert!(take(&fixture.queue).is_none());
    fixture.queue.release_open(0);
    let idle = |slots: [u64; 4]| Some((slots.to_vec(), CloseReason::Idle));
    assert_eq!(take(&fixture.queue), idle([0, 3, 6, 9]), "the oldest first");
    assert_eq!(take(&fixture.queue), idle([1, 4, 7, 10]));
    assert_eq!(take(&fixture.queue), idle([2, 5, 8, 11]));
    assert!(take(&fixture.queue).is_none());
    assert_eq!((fixture.queue.queued_rows(), fixture.memory.used()), (0, 0));
}

#[test]
fn large_requests_find_the_batch_of_their_shape_too() {
    const LARGE: usize = 100_000;
    let fixture = fixture_of(&[-1, -1], &limits(64, 1024));
    fixture.append_shaped(1, 1, &[2], 8);
    fixture.append_shaped(2, 2, &[3], LARGE);
    fixture.append_shaped(3, 3, &[2], LARGE);
    fixture.append_shaped(4, 1, &[3], 12);
    let mut batches = Vec::new();
    while let NextBatch::Batch(batch) = fixture.queue.take_early() {
        let extent: usize = batch.columns[0].extent() / 4 / batch.shapes[0][0];
        assert_eq!(extent, batch.rows);
        batches.push(slots(&batch));
    }
    batches.sort();
    assert_eq!(batches, [[1, 3], [2, 4]]);
}

#[test]
fn of_more_shapes_than_may_be_open_the_oldest_goes() {
    let fixture = fixture_of(&[-1, -1], &limits(64, 1024));
    for slot in 0..8 {
        assert_eq!(fixture.append_shaped(slot, 1, &[1 + slot as usize], 4).urgency, Urgency::WhenIdle);
    }
    assert_eq!(fixture.append_shaped(8, 1, &[9], 4).urgency, Urgency::NowAndWhenIdle);
    assert_eq!(take(&fixture.queue), Some((vec![0], CloseReason::Shapes)));
    assert!(take(&fixture.queue).is_none());
}

#[test]
fn full_batches_of_one_shape_do_not_starve_a_request_of_another() {
    let fixture = fixture_of(&[-1, -1], &limits(2, 1024));
    fixture.append_shaped(0, 1, &[7], 4);
    (1..=6).for_each(|slot| drop(fixture.append_shaped(slot, 1, &[1], 4)));
    fixture.queue.release_open(0);
    assert_eq!(take(&fixture.queue), Some((vec![0], CloseReason::Idle)));
    assert_eq!(take(&fixture.queue), Some((vec![1, 2], CloseReason::Full)));
}

#[test]
fn each_shape_waits_for_its_own_timeout() {
    let patient = Batching { timeout_us: 50_000, ..limits(64, 1024) };
    let fixture = fixture_of(&[-1, -1], &patient);
    let start = Instant::now();
    fixture.append_shaped(0, 1, &[1], 4);
    fixture.append_shaped(1, 1, &[2], 4);
    let NextBatch::Later(due) = fixture.queue.take(start) else { panic!("nothing is due yet") };
    let NextBatch::Batch(first) = fixture.queue.take(due) else { panic!("the first is due") };
    assert_eq!((slots(&first), first.close_reason), (vec![0], CloseReason::Timeout));
    let NextBatch::Batch(second) = fixture.queue.take(due + Duration::from_secs(1)) else { panic!("both are due") };
    assert_eq!(slots(&second), [1]);
}

#[test]
fn requests_that_went_away_leave_no_open_batch() {
    let fixture = fixture_of(&[-1, -1], &limits(64, 1024));
    let places: Vec<_> =
        (0..3).map(|slot| fixture.append_shaped(slot, 1, &[1 + slot as usize], 4).place.unwrap()).collect();
    for place in &places[..2] {
        assert!(fixture.queue.abandon(place, None));
    }
    fixture.queue.drop_dead(0);
    assert_eq!((fixture.queue.queued_rows(), fixture.memory.used()), (1, 12));
    fixture.queue.release_open(0);
    assert_eq!(take(&fixture.queue).unwrap().0, [2]);
}

#[test]
fn why_a_batch_closed_is_told() {
    let fixture = fixture(4, 1024);
    let reason_of = |rows: &[usize]| {
        for (slot, rows) in rows.iter().enumerate() {
            fixture.append(slot as u64, *rows, 4).unwrap();
        }
        let (_, reason) = take(&fixture.queue).unwrap();
        while let NextBatch::Batch(_) = fixture.queue.take_early() {}
        reason
    };
    assert_eq!(reason_of(&[2, 2]), CloseReason::Full);
    assert_eq!(reason_of(&[3, 2]), CloseReason::Full, "the next does not fit beside it");
    fixture.queue.keep_apart();
    assert_eq!(reason_of(&[1]), CloseReason::Alone);
}

fn padding(max_batch_rows: usize) -> Batching {
    Batching { pad_variable_length_inputs: true, ..limits(max_batch_rows, 1024) }
}

#[test]
fn requests_of_several_lengths_share_a_batch_where_they_may_be_padded() {
    let fixture = fixture_of(&[-1, -1], &padding(8));
    for (slot, length) in [2, 2, 3, 1, 3].into_iter().enumerate() {
        fixture.append_shaped(slot as u64, 1 + slot % 2, &[length], if slot == 4 { 100_000 } else { 12 });
    }
    let NextBatch::Batch(batch) = fixture.queue.take_early() else { panic!("nothing waits") };
    assert_eq!(slots(&batch), [0, 1, 2, 3, 4]);
    assert_eq!((&batch.shapes[..], batch.rows, batch.ragged), (&[vec![3]][..], 7, true));
    let own: Vec<Option<usize>> =
        batch.entries.iter().map(|entry| entry.own_shapes.as_ref().map(|own| own[0][0])).collect();
    assert_eq!(own, [Some(2), Some(2), None, Some(1), None]);
    assert_eq!(batch.columns[0].extent() / 4, 2 + 2 * 2 + 3 + 2 + 3, "as they came, until they run");
    drop(batch);
    assert_eq!((fixture.queue.queued_rows(), fixture.memory.used()), (0, 0));
}

#[test]
fn what_cannot_be_padded_has_a_batch_of_its_own() {
    let fixture = fixture_of(&[-1, -1], &padding(64));
    fixture.append_shaped(0, 19, &[2], 8);
    fixture.append_shaped(1, 1, &[0], 8);
    fixture.append_shaped(2, 1, &[3], 8);
    // Padded to its 4 MB all rows together would be 84 MB, more than a batch may take.
    fixture.append_shaped(3, 1, &[1 << 20], 100);
    fixture.queue.release_open(0);
    let mut batches = Vec::new();
    while let Some((slots, reason)) = take(&fixture.queue) {
        assert_eq!(reason, CloseReason::Idle);
        batches.push(slots);
    }
    batches.sort();
    assert_eq!(batches, [vec![0, 2], vec![1], vec![3]]);
}

#[test]
fn a_full_batch_of_another_shape_makes_place_for_the_next_of_that_shape() {
    let fixture = fixture_of(&[-1, -1], &limits(4, 1024));
    fixture.append_shaped(0, 3, &[1], 4);
    fixture.append_shaped(1, 1, &[2], 4);
    assert_eq!(fixture.append_shaped(2, 2, &[1], 4).urgency, Urgency::NowAndWhenIdle);
    assert_eq!(take(&fixture.queue), Some((vec![0], CloseReason::Full)));
    assert_eq!(fixture.append_shaped(3, 2, &[1], 4).urgency, Urgency::Now);
    assert_eq!(take(&fixture.queue), Some((vec![2, 3], CloseReason::Full)));
}
