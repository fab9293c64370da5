//! What clients do not take of their answers holds up nobody else, is counted, and goes back to the system as an engine's does.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::support::grpc::{PREDICT, frame};
use crate::support::{GRPC, MOST_CALLS, Mood, Node, REST, Running, eventually, predict, settings};

#[test]
fn freed_memory_goes_back_now_and_then_from_all_threads() {
    let running = Running::start(&settings());
    eventually("a thread of its own gives back what the others share", || {
        running.process.was_asked(&[
            ("tg-memory", "step back"),
            ("tg-memory", "return memory"),
            ("tg-io-0", "share memory"),
            ("tg-aside-0", "step back"),
            ("tg-aside-0", "share memory"),
            ("tg-aside-1", "share memory"),
        ])
    });
}

#[test]
fn calls_without_end_hold_up_no_others_however_few_a_node_takes_over_a_connection() {
    // A small client takes no more answers than these at a time.
    const EACH: usize = 80;
    const CALLS: usize = 4 * EACH;
    let (node, told) = (Node::start("a"), Arc::<Notify>::default());
    let running = Running::before(&[&node]);
    node.set(Mood::Wait(told.clone()));
    let mut clients: Vec<_> = (0..CALLS / EACH).map(|_| running.grpc()).collect();
    let mut start = |at: usize| clients[at / EACH].start(PREDICT, &[], frame(&predict("m", "")));
    let calls: Vec<_> = (0..CALLS).map(&mut start).collect();
    eventually("all reached the node, and wait", || node.asked() == CALLS && Arc::strong_count(&told) > CALLS);
    node.set(Mood::Echo);
    assert_eq!(running.grpc().predict(&predict("m", "x")).code, 0);
    let open = node.open(GRPC);
    assert!(open > CALLS / MOST_CALLS, "{open} connections");
    told.notify_waiters();
    assert!(calls.into_iter().enumerate().all(|(at, call)| clients[at / EACH].finish(call).code == 0));
    eventually("those that were full are closed", || node.open(GRPC) <= 2);
    assert_eq!(running.grpc().predict(&predict("m", "x")).code, 0);
}

#[test]
fn what_is_kept_of_answers_that_nobody_takes_is_counted() {
    const CALLS: usize = 60;
    const ANSWER: usize = 1 << 20;
    let (node, mut few) = (Node::start("a"), settings());
    (few.plane.max_message_bytes, few.plane.request_memory_bytes) = (64 << 10, 8 << 20);
    let running = Running::start(&few);
    running.apply(&[&node], &[("m", &["a"])]);
    node.set(Mood::Large(ANSWER));
    let mut client = running.grpc();
    let calls: Vec<_> = (0..CALLS).map(|_| client.start(PREDICT, &[], frame(&predict("m", "")))).collect();
    let mut rest = running.rest();
    let mut sample = |name: &str| {
        let page = rest.get("/metrics").body;
        let line = page.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse::<f64>().unwrap() as usize
    };
    eventually("most are refused", || sample("tidegate_request_memory_refusals_total ") > CALLS / 2);
    assert!(sample("tidegate_request_memory_refusals_total ") < CALLS - 4, "there was room for some");
    node.set(Mood::Echo);
    assert_eq!(running.grpc().predict(&predict("m", "x")).code, 0, "others are served");
    drop((calls, client));
    eventually("all is given back", || sample("tidegate_request_memory_bytes ") == 0);
}

#[test]
fn of_many_connections_for_rest_few_are_kept() {
    const REQUESTS: usize = 60;
    let (node, told) = (Node::start("a"), Arc::<Notify>::default());
    let running = Running::before(&[&node]);
    node.set(Mood::Wait(told.clone()));
    let mut clients: Vec<_> = (0..REQUESTS).map(|_| running.rest()).collect();
    clients.iter_mut().for_each(|client| client.send_predict("1"));
    eventually("all wait", || node.asked() == REQUESTS && Arc::strong_count(&told) > REQUESTS);
    node.set(Mood::Echo);
    assert_eq!((node.open(REST), running.rest().predict("1").status), (REQUESTS, 200));
    told.notify_waiters();
    assert!(clients.iter_mut().all(|client| client.receive().status == 200));
    eventually("most are closed", || node.open(REST) <= REQUESTS * 2 / 3);
    assert_eq!(clients[0].predict("1").status, 200);
    assert!(node.open(REST) > 0, "some are kept");
}
