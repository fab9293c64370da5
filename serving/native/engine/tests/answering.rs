//! A finished batch is answered some requests at a time, each of them once, whatever parts it ran in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::fixture;
use proptest::prelude::*;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::batching::{FinishedBatch, Part};
use tidegate_engine::engine::Engine;
use tidegate_engine::limits::Limits;
use tidegate_engine::log::LogLimits;
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::per_thread::Apart;
use tidegate_engine::request::inflight::Pending;
use tidegate_engine::request::{Answering, Dispatcher, Reply, Rows, Tags, Turn};
use tidegate_engine::request_id::RequestId;
use tidegate_engine::sync::lock;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

/// The way back through the connection of this number.
struct Nobody(usize);

/// To answer through this connection is a fault of the server.
const FAULTY: usize = usize::MAX;

impl Reply for Nobody {
    fn endpoint(&self) -> Endpoint {
        Endpoint::Grpc
    }

    fn connection(&self) -> usize {
        self.0
    }

    fn is_gone(&mut self, _: bool) -> bool {
        false
    }

    fn succeed(self, _: &Rows<'_>, _: Tags<'_>) -> Code {
        Code::Ok
    }

    fn fail(self, _: &Status, _: Tags<'_>) {
        assert_ne!(self.0, FAULTY, "an answer that cannot be written");
    }
}

fn dispatcher() -> Dispatcher<Nobody> {
    let second = Duration::from_secs(1);
    let log = LogLimits { block_rows: 1, interval: second, buffer_bytes: 1 };
    Dispatcher::without_io(0, Arc::new(Engine::new(Limits::new(1 << 20, 1, second, second, 1 << 30), &log)))
}

/// A batch that failed in parts of so many requests.
fn finished(parts: &[usize]) -> FinishedBatch {
    let fixture = fixture(8, 1 << 20);
    let mut first = 0;
    let part = |count: &usize| {
        let entries = first..first + count;
        first += count;
        let outputs = Err(Status::internal("it failed"));
        Part { entries, first_row: 0, unbatched: false, outputs, errors: Vec::new() }
    };
    FinishedBatch {
        version: Arc::new(()),
        memory: None,
        unanswered: None,
        ran: None,
        served: fixture.queue.served.clone(),
        parts: parts.iter().map(part).collect(),
        entries: (0..parts.iter().sum::<usize>() as u64).map(|slot| fixture.entry(slot)).collect(),
        refused: false,
        inputs: Vec::new(),
        shapes: Arc::default(),
    }
}

proptest! {
    #[test]
    fn of_each_batch_so_many_are_answered_at_a_time(parts in proptest::collection::vec(1usize..50, 1..5), most in 1usize..40) {
        let (dispatcher, mut answering) = (dispatcher(), Answering::new(finished(&parts)));
        let turn = Turn { enough: most, most };
        let mut left: usize = parts.iter().sum();
        while left > 0 {
            prop_assert_eq!(dispatcher.answer_some(&mut answering, turn), most.min(left));
            left = left.saturating_sub(most);
            prop_assert_eq!(answering.left(), left);
        }
        prop_assert_eq!(dispatcher.answer_some(&mut answering, turn), 0);
        dispatcher.end_answers(answering);
    }
}

#[test]
fn once_there_are_enough_answers_another_connection_waits_until_they_are_sent() {
    let (dispatcher, fixture) = (dispatcher(), fixture(8, 1 << 20));
    let connections = [1, 1, 1, 2, 2, 3, 3, 3, 3, 3, 4];
    let mut batch = finished(&[5, 6]);
    for (entry, connection) in batch.entries.iter_mut().zip(connections) {
        let (reply, id, queue) = (Nobody(connection), entry.id.clone(), Arc::new(Apart(fixture.queue.clone())));
        let pending = Pending { reply, id, received: entry.received, deadline: entry.deadline, queue, place: None };
        entry.slot = Some(lock(&dispatcher.inflight).insert(pending));
    }
    let mut answering = Answering::new(batch);
    let turn = Turn { enough: 4, most: 6 };
    let turns: Vec<usize> = std::iter::from_fn(|| Some(dispatcher.answer_some(&mut answering, turn)))
        .take_while(|answered| *answered > 0)
        .collect();
    assert_eq!(turns, [5, 5, 1]);
    assert!(dispatcher.is_empty());
    dispatcher.end_answers(answering);
}

#[test]
fn a_fault_in_the_answer_to_one_late_request_keeps_none_of_the_others_from_theirs() {
    let (dispatcher, fixture, now) = (Arc::new(dispatcher()), fixture(8, 1 << 20), Instant::now());
    let add = |connection| {
        let (reply, id) = (Nobody(connection), RequestId::choose(None, &fixture.ids));
        let queue = Arc::new(Apart(fixture.queue.clone()));
        let pending = Pending { reply, id, received: now, deadline: now, queue, place: None };
        let key = lock(&dispatcher.inflight).insert(pending);
        let place = fixture.append(0, 1, 4).unwrap().place.unwrap();
        lock(&dispatcher.inflight).place(key, place);
    };
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let sweeping = dispatcher.clone();
    runtime.spawn(async move { sweeping.run_sweep().await });
    for connections in [[1, FAULTY, 2], [FAULTY, 3, 4]] {
        connections.into_iter().for_each(add);
        let answered = async {
            while !dispatcher.is_empty() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        runtime.block_on(async { timeout(Duration::from_secs(20), answered).await }).unwrap();
    }
}
