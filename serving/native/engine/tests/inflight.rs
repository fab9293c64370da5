//! Requests that wait for their answers: who is late is found without a look at the others, each is taken out once, and
//! clients that may have gone are asked some at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Fixture, fixture};
use proptest::prelude::*;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::per_thread::Apart;
use tidegate_engine::request::inflight::{Inflight, Pending};
use tidegate_engine::request::{Reply, Rows, Tags};
use tidegate_engine::request_id::RequestId;

/// A client that counts how often it is asked, has gone or not, may have gone, and shares its connection with others.
struct Client {
    asked: Arc<AtomicUsize>,
    gone: bool,
    silent: bool,
    connection: usize,
    rows: Arc<AtomicUsize>,
}

impl Reply for Client {
    fn endpoint(&self) -> Endpoint {
        Endpoint::Grpc
    }

    fn connection(&self) -> usize {
        self.connection
    }

    fn rows_under_way(&self) -> Option<&AtomicUsize> {
        Some(&self.rows)
    }

    fn is_gone(&mut self, waits: bool) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.gone || self.silent && waits
    }

    fn succeed(self, _: &Rows<'_>, _: Tags<'_>) -> Code {
        Code::Ok
    }

    fn fail(self, _: &Status, _: Tags<'_>) {}
}

/// Requests that wait, and when the first of them came.
struct Waiting {
    fixture: Fixture,
    inflight: Inflight<Client>,
    asked: Arc<AtomicUsize>,
    /// Rows under way.
    rows: Arc<AtomicUsize>,
    began: Instant,
    /// Whether clients of requests from now on may have gone, or wait without a word.
    silent: bool,
}

impl Waiting {
    fn new() -> Waiting {
        let (inflight, asked) = (Inflight::default(), Arc::default());
        let (fixture, rows, began) = (fixture(8, 1 << 20), Arc::default(), Instant::now());
        Waiting { fixture, inflight, asked, rows, began, silent: false }
    }

    /// A request with this deadline in milliseconds.
    fn add(&mut self, deadline: u64, gone: bool) -> u64 {
        self.add_on(0, deadline, gone)
    }

    /// The same on one of several connections.
    fn add_on(&mut self, connection: usize, deadline: u64, gone: bool) -> u64 {
        let (queue, received) = (Arc::new(Apart(self.fixture.queue.clone())), self.began);
        let deadline = received + Duration::from_millis(deadline);
        let id = RequestId::choose(None, &self.fixture.ids);
        let (asked, rows) = (self.asked.clone(), self.rows.clone());
        let reply = Client { asked, gone, silent: self.silent, connection, rows };
        let key = self.inflight.insert(Pending { reply, id, received, deadline, queue, place: None });
        let place = self.fixture.append(0, 1, 4).unwrap().place.unwrap();
        self.inflight.place(key, place);
        key
    }

    /// Takes out at most so many that are late then; connections and deadlines.
    fn take_late(&mut self, millis: u64, most: usize) -> Vec<(usize, Instant)> {
        self.take_late_at_pace(millis, most, Duration::ZERO)
    }

    /// The same where an answer takes so long.
    fn take_late_at_pace(&mut self, millis: u64, most: usize, each: Duration) -> Vec<(usize, Instant)> {
        let late = self.inflight.late(self.at(millis), most, each);
        let taken = late.into_iter().map(|key| self.inflight.take(key).unwrap());
        taken.map(|pending| (pending.reply.connection(), pending.deadline)).collect()
    }

    fn at(&self, millis: u64) -> Instant {
        self.began + Duration::from_millis(millis)
    }
}

#[test]
fn rows_are_under_way_until_their_request_is_taken_out() {
    let mut waiting = Waiting::new();
    let keys: Vec<u64> = [10, 20, 60_000, 60_000].map(|deadline| waiting.add(deadline, false)).into();
    assert_eq!(waiting.rows.load(Ordering::Relaxed), 4);
    assert_eq!(waiting.take_late(15, 9).len(), 1);
    assert!(waiting.inflight.take(keys[2]).is_some() && waiting.inflight.take(keys[2]).is_none());
    assert_eq!(waiting.rows.load(Ordering::Relaxed), 2);
    waiting.inflight.take_all();
    assert_eq!(waiting.rows.load(Ordering::Relaxed), 0);
}

#[test]
fn a_look_asks_some_clients_and_the_next_ones_the_others() {
    let mut waiting = Waiting::new();
    for number in 0..4000 {
        waiting.add(60_000, number % 1000 == 7);
    }
    let mut gone = 0;
    for _ in 0..16 {
        let before = waiting.asked.load(Ordering::Relaxed);
        gone += waiting.inflight.take_gone(waiting.at(1000)).len();
        assert!(waiting.asked.load(Ordering::Relaxed) - before <= 256);
    }
    assert_eq!((gone, waiting.inflight.len()), (4, 3996));
    assert!(waiting.asked.load(Ordering::Relaxed) >= 4000);
}

#[test]
fn clients_of_very_young_requests_are_not_asked() {
    let mut waiting = Waiting::new();
    waiting.add(60_000, true);
    assert!(waiting.inflight.take_gone(waiting.at(1)).is_empty());
    assert_eq!(waiting.asked.load(Ordering::Relaxed), 0);
}

#[test]
fn whoever_may_have_gone_is_given_up_where_the_request_has_waited_for_long_and_does_not_run() {
    let mut waiting = Waiting::new();
    waiting.silent = true;
    waiting.add(60_000, false);
    assert_eq!(waiting.fixture.take_all().len(), 1, "the first runs");
    let second = waiting.add(60_000, false);
    assert!(waiting.inflight.take_gone(waiting.at(50)).is_empty());
    let gone = waiting.inflight.take_gone(waiting.at(150));
    assert_eq!(gone.iter().map(|(key, _)| *key).collect::<Vec<_>>(), [second]);
}

#[test]
fn after_a_flood_only_the_places_in_use_are_kept_and_no_old_key_fits_a_new_request() {
    let mut waiting = Waiting::new();
    let flood: Vec<u64> = (0..4000).map(|_| waiting.add(60_000, false)).collect();
    let (stays, others) = flood.split_at(3);
    assert!(others.iter().all(|key| waiting.inflight.take(*key).is_some()));
    waiting.inflight.shrink();
    let later: Vec<u64> = (0..1000).map(|_| waiting.add(60_000, false)).collect();
    assert!(later.iter().all(|key| (*key as u32) < 1003), "places of the flood are in use");
    assert!(others.iter().all(|key| waiting.inflight.take(*key).is_none()), "an old key takes a new request");
    assert!(stays.iter().chain(&later).all(|key| waiting.inflight.take(*key).is_some()));
    assert!(waiting.inflight.is_empty());
}

#[test]
fn late_requests_of_one_connection_are_answered_after_each_other() {
    let mut waiting = Waiting::new();
    for number in 0..60 {
        waiting.add_on(number as usize % 3, number, false);
    }
    let late = waiting.take_late(100, 45);
    let of = |connection: u64| (0..15).map(move |turn| (connection as usize, connection + 3 * turn));
    let expected: Vec<(usize, Instant)> =
        (0..3).flat_map(of).map(|(connection, deadline)| (connection, waiting.at(deadline))).collect();
    assert_eq!(late, expected, "the earliest 45, by connection");
}

#[test]
fn of_many_whose_deadlines_pass_together_some_are_answered_a_little_sooner() {
    let mut waiting = Waiting::new();
    for number in 0..4000 {
        waiting.add(if number < 10 { 985 } else { 1000 }, false);
    }
    let each = Duration::from_micros(4);
    assert_eq!(waiting.take_late_at_pace(980, 5000, each), [], "it is soon enough later for what takes 16 ms");
    assert_eq!(waiting.take_late_at_pace(985, 5000, each).len(), 10, "those whose deadlines have passed");
    assert_eq!(waiting.take_late_at_pace(990, 5000, each), []);
    assert!(waiting.inflight.earliest().unwrap() > waiting.at(990), "the next look is not sooner than that");
    let mut left = 3990;
    for millis in 991..=1007 {
        let taken = waiting.take_late_at_pace(millis, 250, each).len();
        left -= taken;
        assert!(taken <= 250);
    }
    assert_eq!(left, 0, "250 in a millisecond are all within 7 of their deadline");
}

#[test]
fn nobody_is_answered_sooner_where_there_is_time_for_all() {
    let mut waiting = Waiting::new();
    for _ in 0..1000 {
        waiting.add(1000, false);
    }
    let each = Duration::from_micros(4);
    assert_eq!(waiting.take_late_at_pace(999, 5000, each), []);
    assert_eq!(waiting.inflight.earliest(), Some(waiting.at(1000)));
    assert_eq!(waiting.take_late_at_pace(1000, 5000, each).len(), 1000);
}

#[test]
fn a_request_with_little_time_is_not_answered_much_sooner() {
    let mut waiting = Waiting::new();
    for _ in 0..1000 {
        waiting.add(50, false);
    }
    let each = Duration::from_micros(50);
    assert_eq!(waiting.take_late_at_pace(44, 2000, each), []);
    assert_eq!(waiting.take_late_at_pace(45, 200, each).len(), 200, "a tenth of its time sooner");
}

proptest! {
    #[test]
    fn who_is_late_is_taken_once_and_nobody_else(
        deadlines in proptest::collection::vec(0u64..100, 1..400),
        answered in proptest::collection::vec(any::<bool>(), 400),
        most in 1usize..50,
    ) {
        let mut waiting = Waiting::new();
        let keys: Vec<u64> = deadlines.iter().map(|deadline| waiting.add(*deadline, false)).collect();
        for (key, _) in keys.iter().zip(&answered).filter(|(_, answered)| **answered) {
            prop_assert!(waiting.inflight.take(*key).is_some());
        }
        let mut left: Vec<u64> =
            deadlines.iter().zip(&answered).filter(|(_, answered)| !**answered).map(|(deadline, _)| *deadline).collect();
        left.sort_unstable();
        for now in [30, 31, 99] {
            let mut late = Vec::new();
            loop {
                let taken = waiting.take_late(now, most);
                prop_assert!(taken.len() <= most);
                late.extend(taken.iter().map(|(_, deadline)| *deadline));
                if taken.len() < most {
                    break;
                }
            }
            let due = left.partition_point(|deadline| *deadline <= now);
            let expected: Vec<Instant> = left.drain(..due).map(|deadline| waiting.at(deadline)).collect();
            prop_assert_eq!(late, expected, "the earliest first");
        }
        prop_assert!(waiting.inflight.is_empty());
    }
}
