//! A queue by itself: what comes in while something large is decoded, who joins whom, and that rows are counted right
//! whatever comes, leaves and is taken.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::support::{Fixture, fill, fill_shaped, fixture, fixture_of, limits};
use proptest::prelude::*;
use tidegate_codec::dtype::DType;
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::{Column, Page};
use tidegate_engine::batching::queue::NextBatch;
use tidegate_engine::batching::{Batching, Entry, Place, Role, Urgency};

/// A message of so many bytes is decoded apart.
const LARGE: usize = 100_000;

#[test]
fn behind_a_request_that_fills_the_queue_nothing_is_decoded_to_be_refused() {
    let fixture = fixture(64, 64);
    fixture.append(1, 64, 256).unwrap();
    let decoded = Cell::new(false);
    let refused = fixture.queue.append(&Arc::new(()), 0, fixture.entry(2), 4, &|page| {
        decoded.set(true);
        fill(page, 2.0, 1)
    });
    assert_eq!((refused.err().map(|why| why.code), decoded.get()), (Some(Code::ResourceExhausted), false));
}

#[test]
fn a_large_request_is_decoded_while_small_ones_come_in() {
    let fixture = fixture(64, 1024);
    let (begun, begin) = channel();
    let (go_on, wait) = channel::<()>();
    std::thread::scope(|scope| {
        let fixture = &fixture;
        let large = scope.spawn(move || {
            fixture.queue.append(&Arc::new(()), 0, fixture.entry(1), LARGE, &|page| {
                begun.send(()).unwrap();
                wait.recv_timeout(Duration::from_secs(10)).expect("the small one has to wait for the large one");
                fill(page, 1.0, 3)
            })
        });
        begin.recv().unwrap();
        fixture.append(2, 1, 4).unwrap();
        go_on.send(()).unwrap();
        assert_eq!(large.join().unwrap().unwrap().request.rows, 3);
    });
    assert_eq!(fixture.take_all(), [[(2, 1), (1, 3)]], "they still share a batch");
}

#[test]
fn requests_that_were_decoded_apart_are_put_between_the_others_in_their_order() {
    let fixture = fixture(64, 1024);
    for (slot, rows, bytes) in [(1, 2, 8), (2, 3, LARGE), (3, 1, LARGE), (4, 2, 8), (5, 4, LARGE), (6, 1, 4)] {
        fixture.append(slot, rows, bytes).unwrap();
    }
    assert_eq!(fixture.take_all(), [[(1, 2), (2, 3), (3, 1), (4, 2), (5, 4), (6, 1)]]);
    assert_eq!((fixture.memory.used(), fixture.queue.queued_rows()), (0, 0));
}

#[test]
fn what_a_batch_is_put_together_of_is_kept_as_it_came_while_there_is_memory_for_it() {
    for keeps in [true, false] {
        let fixture = fixture(64, 1024);
        for (slot, rows) in [(1, 2), (2, 3)] {
            fixture.append(slot, rows, LARGE).unwrap();
        }
        let others = fixture.queue.served.memory.note(if keeps { 0 } else { 1 << 30 });
        let before = fixture.memory.used();
        let NextBatch::Batch(mut batch) = fixture.queue.take_early() else { panic!("nothing waits") };
        assert_eq!(fixture.memory.used() - before, if keeps { 5 * 4 } else { 0 });
        batch.columns[0].truncate(0);
        assert_eq!(batch.kept.is_some(), keeps);
        if let Some(kept) = batch.kept.take() {
            let mut rows = Column::new(DType::Float32);
            kept[0].extend(&mut rows, 4..16);
            let Column::Raw(words) = rows else { panic!("strings") };
            assert_eq!(words.as_bytes(), [1.0_f32, 2.0, 2.0].map(f32::to_le_bytes).concat());
        }
        drop((batch, others));
        assert_eq!(fixture.memory.used(), 0);
    }
}

#[test]
fn a_small_message_that_becomes_large_is_decoded_apart_too() {
    let fixture = fixture(64, 1024);
    fixture.append(1, 2, 8).unwrap();
    let rows = LARGE / 4;
    let appended = fixture.append(2, rows, 48).unwrap();
    assert_eq!((appended.request.rows, appended.urgency), (rows, Urgency::Now));
    assert_eq!(fixture.memory.used(), 8 + rows * 4, "what the first try took is given back");
    assert_eq!(fixture.take_all(), [[(1, 2)], [(2, rows)]]);
    assert_eq!((fixture.memory.used(), fixture.queue.queued_rows()), (0, 0));
}

#[test]
fn who_joins_a_batch_that_was_released_wakes_nobody() {
    let fixture = fixture(3, 64);
    let urgency = |slot| fixture.append(slot, 1, 4).unwrap().urgency;
    assert_eq!(urgency(1), Urgency::WhenIdle);
    fixture.queue.release_open(0);
    assert_eq!(urgency(2), Urgency::Released);
    assert_eq!(urgency(3), Urgency::Now, "it is full");
    assert_eq!(urgency(4), Urgency::WhenIdle, "nobody knows of the next one");
    assert_eq!(fixture.take_all(), [vec![(1, 1), (2, 1), (3, 1)], vec![(4, 1)]]);
}

#[test]
fn a_request_of_more_rows_than_the_queue_holds_counts_as_one_batch_and_others_still_come_in() {
    let fixture = fixture(4, 10);
    let place = fixture.append(1, 1000, 4000).unwrap().place.unwrap();
    assert_eq!(fixture.queue.queued_rows(), 1000);
    fixture.append(2, 6, 24).unwrap();
    let full = fixture.append(3, 1, 4).unwrap_err();
    assert!(full.message.contains("limit of 10 rows"), "{}", full.message);
    assert!(fixture.queue.abandon(&place, None));
    fixture.append(4, 4, 16).unwrap();
    assert_eq!(fixture.take_all(), [vec![(1, 1000)], vec![(2, 6)], vec![(4, 4)]]);
    assert_eq!(fixture.queue.queued_rows(), 0);
    fixture.append(5, 10, 40).unwrap();
    assert!(fixture.append(6, 1, 4).is_err(), "the limit is what it was");
}

#[test]
fn a_request_whose_rows_cannot_all_run_in_time_is_refused_at_once() {
    let fixture = fixture(10, 10);
    for _ in 0..3 {
        fixture.queue.service.count(1, Duration::from_millis(20));
        fixture.queue.service.count(10, Duration::from_millis(200));
    }
    fixture.append(1, 1000, 4000).unwrap();
    fixture.take_all();
    let late = fixture.append(2, 10_000, 40_000).unwrap_err();
    assert!(late.message.contains("10000 rows wait, which takes about"), "{}", late.message);
    assert_eq!((fixture.queue.queued_rows(), fixture.memory.used()), (0, 0));
}

#[test]
fn batches_that_everybody_gave_up_give_their_memory_back() {
    let fixture = fixture(2, 1024);
    let places: Vec<Place> = (0..7).map(|slot| fixture.append(slot, 1, 4).unwrap().place.unwrap()).collect();
    for (slot, place) in places.iter().enumerate().filter(|(slot, _)| *slot != 3) {
        assert!(fixture.queue.abandon(place, (slot == 6).then_some(6)));
    }
    fixture.queue.drop_dead(0);
    assert_eq!((fixture.queue.queued_rows(), fixture.memory.used()), (1, 20), "what is behind one that waits stays");
    assert!(fixture.queue.abandon(&places[3], None));
    fixture.queue.drop_dead(0);
    assert_eq!((fixture.queue.queued_rows(), fixture.memory.used()), (0, 0));
    let metrics = &fixture.queue.served.metrics;
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((count(&metrics.deadline_drops), count(&metrics.cancelled)), (6, 1));
    assert!(matches!(fixture.queue.take_early(), NextBatch::Nothing));
}

#[test]
fn lists_without_elements_are_no_more_than_rows_that_the_queue_holds() {
    let fixture = fixture_of(&[-1, -1, -1], &limits(8, 30));
    let append = |rows, inner: &[usize], bytes| {
        let decode = |page: &mut Page<'_>| fill_shaped(page, 1.0, rows, inner);
        fixture.queue.append(&Arc::new(()), 0, fixture.entry(1), bytes, &decode)
    };
    for bytes in [0, LARGE] {
        for (rows, inner) in [(1 << 50, [0, 7]), (1, [1 << 50, 0]), (1 << 20, [1 << 30, 0])] {
            let refused = append(rows, &inner, bytes).unwrap_err().message;
            let expected = "input 'x' has 1125899906842624 lists without an element: send at most 30 of these at once";
            assert_eq!(refused, expected);
            assert_eq!((fixture.queue.queued_rows(), fixture.memory.used()), (0, 0));
        }
        let refused = append(2, &[0, 1 << 60], bytes).unwrap_err().message;
        assert_eq!(refused, "input 'x' has rows of shape [0,1152921504606846976], which no array can have");
        for (rows, inner) in [(30, [0, 1 << 40]), (3, [10, 0]), (31, [1, 1])] {
            append(rows, &inner, bytes).unwrap();
            assert!(matches!(fixture.queue.take_early(), NextBatch::Batch(batch) if batch.rows == rows));
        }
    }
}

fn waiting(max_batch_rows: usize, max_queued_rows: usize) -> Fixture {
    fixture_of(&[-1], &Batching { waits_when_full: true, ..limits(max_batch_rows, max_queued_rows) })
}

fn beyond(fixture: &Fixture) -> u64 {
    fixture.queue.served.metrics.waiting_requests.load(std::sync::atomic::Ordering::Relaxed)
}

#[test]
fn where_requests_wait_a_full_queue_takes_them_first_in_first_out() {
    let fixture = waiting(2, 3);
    let places: Vec<Place> = (0..8).map(|slot| fixture.append(slot, 1, 4).unwrap().place.unwrap()).collect();
    assert_eq!((fixture.queue.queued_rows(), beyond(&fixture)), (8, 5), "three have their places");
    assert!(fixture.queue.abandon(&places[0], None) && fixture.queue.abandon(&places[6], Some(6)));
    assert_eq!((fixture.queue.queued_rows(), beyond(&fixture)), (6, 4));
    let NextBatch::Batch(first) = fixture.queue.take_early() else { panic!("nothing is there") };
    assert_eq!(first.entries.iter().map(|entry| entry.slot.unwrap()).collect::<Vec<_>>(), [0, 1]);
    assert_eq!((fixture.queue.queued_rows(), beyond(&fixture)), (5, 4), "the first had their places");
    fixture.append(8, 1, 4).unwrap();
    assert_eq!(beyond(&fixture), 5, "what comes now is behind them");
    assert_eq!(fixture.take_all().concat().iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), [2, 3, 4, 5, 6, 7, 8]);
    drop(first);
    assert_eq!((fixture.queue.queued_rows(), beyond(&fixture), fixture.memory.used()), (0, 0, 0));
    fixture.append(9, 3, 12).unwrap();
    assert_eq!(beyond(&fixture), 0);
}

#[test]
fn copies_do_not_wait_and_a_request_that_would_be_late_does() {
    let fixture = waiting(1, 1);
    for _ in 0..3 {
        fixture.queue.service.count(1, Duration::from_secs(90));
    }
    fixture.append(1, 1, 4).unwrap();
    let copy = Entry { role: Role::Shadow, ..fixture.entry(2) };
    let refused = fixture.queue.append(&Arc::new(()), 0, copy, 4, &|page| fill(page, 2.0, 1)).unwrap_err();
    assert!(refused.message.contains("the batch queue is full"), "{}", refused.message);
    fixture.append(3, 1, 4).unwrap();
    assert_eq!((fixture.queue.queued_rows(), beyond(&fixture)), (2, 1), "its deadline is in a minute");
}

#[derive(Clone, Debug)]
enum Step {
    Append { rows: usize, large: bool },
    Fail { rows: usize, large: bool },
    Abandon(usize),
    DropDead,
    Take,
}

fn step() -> impl Strategy<Value = Step> {
    let rows = 0usize..40;
    prop_oneof![
        4 => (rows.clone(), any::<bool>()).prop_map(|(rows, large)| Step::Append { rows, large }),
        1 => (rows, any::<bool>()).prop_map(|(rows, large)| Step::Fail { rows, large }),
        2 => any::<usize>().prop_map(Step::Abandon),
        1 => Just(Step::DropDead),
        1 => Just(Step::Take),
    ]
}

proptest! {
    #[test]
    fn rows_and_memory_are_counted_right_whatever_happens(
        steps in proptest::collection::vec(step(), 1..80),
        waits in any::<bool>(),
    ) {
        let fixture = if waits { waiting(8, 30) } else { fixture(8, 30) };
        let mut placed: Vec<(u64, Place)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            let slot = number as u64;
            let bytes = |large| if large { LARGE } else { 0 };
            match step {
                Step::Append { rows, large } => {
                    let appended = fixture.append(slot, rows, bytes(large));
                    prop_assert!(!waits || appended.is_ok());
                    placed.extend(appended.ok().and_then(|appended| appended.place).map(|place| (slot, place)));
                }
                Step::Fail { rows, large } => {
                    let failed = fixture.queue.append(&Arc::new(()), 0, fixture.entry(slot), bytes(large), &|page| {
                        fill(page, -1.0, rows)?;
                        Err(Status::invalid("on purpose"))
                    });
                    prop_assert!(failed.is_err());
                }
                Step::Abandon(which) if !placed.is_empty() => {
                    let (slot, place) = placed.swap_remove(which % placed.len());
                    prop_assert!(fixture.queue.abandon(&place, Some(slot).filter(|slot| slot % 2 == 0)));
                }
                Step::Abandon(_) => {}
                Step::DropDead => fixture.queue.drop_dead(0),
                Step::Take => {
                    let taken: Vec<u64> = fixture.take_all().concat().iter().map(|(slot, _)| *slot).collect();
                    prop_assert!(placed.iter().all(|(slot, _)| taken.contains(slot)), "nobody is lost");
                    for (_, place) in placed.drain(..) {
                        prop_assert!(!fixture.queue.abandon(&place, None), "it runs");
                    }
                }
            }
            let rows: usize = placed.iter().map(|(_, place)| place.rows).sum();
            let late = placed.iter().filter(|(_, place)| place.beyond).count();
            prop_assert_eq!(beyond(&fixture), late as u64);
            prop_assert!(waits || late == 0);
            prop_assert_eq!(fixture.queue.queued_rows(), rows);
            prop_assert!(fixture.memory.used() >= rows * 4);
        }
        fixture.take_all();
        prop_assert_eq!((fixture.queue.queued_rows(), fixture.memory.used()), (0, 0));
    }
}
