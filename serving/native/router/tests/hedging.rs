//! A second copy of a request goes to another node where the first takes long; the first answer counts.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::support::grpc::{PREDICT, frame};
use crate::support::{Mood, Node, Running, eventually, infer, predict, settings};

/// What takes long.
const LATE: Duration = Duration::from_millis(600);

fn hedged(nodes: &[&Node], after: Duration) -> Running {
    let mut settings = settings();
    settings.hedge_after = Some(after);
    let running = Running::start(&settings);
    running.apply(nodes, &[("m", &nodes.iter().map(|node| node.name).collect::<Vec<_>>())]);
    running
}

#[test]
fn the_copys_answer_counts_where_the_first_takes_long_and_the_first_is_cancelled() {
    for over_grpc in [true, false] {
        let (a, b) = (Node::start("a"), Node::start("b"));
        a.set(Mood::Wait(Arc::default()));
        let running = hedged(&[&a, &b], Duration::from_millis(20));
        let (mut grpc, mut rest) = (running.grpc(), running.rest());
        // Either node may be the first, and the other one gets the copy.
        while a.asked() == 0 {
            let body = if over_grpc { grpc.predict(&predict("m", "x")).body } else { rest.predict("1").body.into() };
            assert_eq!(&body[..2], b"b/");
        }
        eventually("what waits is cancelled", || a.cancelled.load(Ordering::SeqCst) == 1);
        let (_, errors, retried, copies, _) = running.router.stats()["m"];
        assert_eq!((errors, retried, copies), (0, 0, 1));
    }
}

/// The code and body, or message, of what is said to a request that waits at a node while something changes.
fn answer_once(running: &Running, over_grpc: bool, node: &Node, change: impl FnOnce()) -> (i32, Vec<u8>) {
    node.set(Mood::Wait(Arc::default()));
    thread::scope(|scope| {
        let asking = scope.spawn(|| {
            if over_grpc {
                let answer = running.grpc().predict(&predict("m", "x"));
                let body = if answer.code == 0 { answer.body } else { answer.message.into() };
                return (answer.code, body);
            }
            let answer = running.rest().predict("1");
            (i32::from(answer.status), answer.body.into())
        });
        eventually("it waits", || node.asked() == 1);
        change();
        asking.join().unwrap()
    })
}

/// The answer to a request that waits at the first node when the routes change.
fn answered_after(over_grpc: bool, nodes: &[&Node; 2], change: impl FnOnce(&Running)) -> (Vec<u8>, Running) {
    let running = Running::before(nodes);
    let answer = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let (mut grpc, mut rest) = (running.grpc(), running.rest());
            loop {
                let body = if over_grpc {
                    grpc.predict(&predict("m", "x")).body.to_vec()
                } else {
                    rest.predict("1").body.into()
                };
                if nodes[0].asked() == 1 {
                    return body;
                }
            }
        });
        eventually("one waits", || nodes[0].asked() == 1);
        change(&running);
        asking.join().unwrap()
    });
    (answer, running)
}

#[test]
fn what_waits_at_a_node_that_the_fleet_lost_is_asked_of_another() {
    for over_grpc in [true, false] {
        let (a, b) = (Node::start("a"), Node::start("b"));
        a.set(Mood::Wait(Arc::default()));
        let (answer, running) = answered_after(over_grpc, &[&a, &b], |running| running.apply(&[&b], &[("m", &["b"])]));
        assert_eq!(&answer[..2], b"b/");
        eventually("what waits is cancelled", || a.cancelled.load(Ordering::SeqCst) == 1);
        let (_, errors, retried, copies, _) = running.router.stats()["m"];
        assert_eq!((errors, retried, copies), (0, 0, 1));
    }
}

#[test]
fn what_waits_at_a_lost_node_that_had_its_model_alone_is_asked_of_the_one_that_gets_it() {
    for over_grpc in [true, false] {
        let (a, b) = (Node::start("a"), Node::start("b"));
        let running = Running::before(&[&a]);
        let body = answer_once(&running, over_grpc, &a, || {
            running.apply(&[&b], &[("m", &[])]);
            eventually("it is wanted elsewhere", || running.wanted() == ["m"]);
            running.apply(&[&b], &[("m", &["b"])]);
        });
        assert_eq!(&body.1[..2], b"b/");
        eventually("what waits is cancelled", || a.cancelled.load(Ordering::SeqCst) == 1);
        assert_eq!(running.router.stats()["m"].1, 0);
    }
}

#[test]
fn what_waits_at_a_lost_node_ends_where_its_model_comes_to_no_other() {
    for over_grpc in [true, false] {
        let (a, b) = (Node::start("a"), Node::start("b"));
        let mut settings = settings();
        settings.cold.patience = Duration::from_millis(300);
        let running = Running::start(&settings);
        running.apply(&[&a], &[("m", &["a"])]);
        let (code, body) = answer_once(&running, over_grpc, &a, || running.apply(&[&b], &[("m", &[])]));
        assert_eq!(code, if over_grpc { 14 } else { 503 });
        let said = String::from_utf8(body).unwrap();
        assert!(
            said.contains("no node answers for model 'm': the fleet has lost node 'a', which was asked: "),
            "{said}"
        );
        assert!(said.contains("is on no node yet: waited 300ms"), "{said}");
    }
}

#[test]
fn what_two_nodes_were_asked_ends_where_the_fleet_loses_both() {
    for over_grpc in [true, false] {
        let (a, b, c) = (Node::start("a"), Node::start("b"), Node::start("c"));
        b.set(Mood::Wait(Arc::default()));
        let running = Running::before(&[&a]);
        let (code, body) = answer_once(&running, over_grpc, &a, || {
            running.apply(&[&b], &[("m", &["b"])]);
            eventually("the other one is asked", || b.asked() == 1);
            running.apply(&[&c], &[("m", &["c"])]);
        });
        assert_eq!(code, if over_grpc { 14 } else { 503 });
        let said = String::from_utf8(body).unwrap();
        assert!(said.contains("for model 'm': the fleet has lost node 'b', which was asked"), "{said}");
    }
}

#[test]
fn a_node_that_was_lost_still_answers_what_it_was_asked() {
    let told = Arc::new(Notify::new());
    let (a, b) = (Node::start("a"), Node::start("b"));
    a.set(Mood::Wait(told.clone()));
    let running = Running::before(&[&a]);
    let mut grpc = running.grpc();
    let call = grpc.start(PREDICT, &[], frame(&predict("m", "x")));
    eventually("it waits", || a.asked() == 1);
    running.apply(&[&b], &[("m", &[])]);
    eventually("it is wanted elsewhere", || running.wanted() == ["m"]);
    a.set(Mood::Echo);
    told.notify_waiters();
    assert_eq!(&grpc.finish(call).body[..2], b"a/");
}

#[test]
fn a_call_of_many_messages_ends_where_the_fleet_loses_its_node() {
    let (a, b) = (Node::start("a"), Node::start("b"));
    a.set(Mood::Wait(Arc::default()));
    let running = Running::before(&[&a]);
    let mut client = running.grpc();
    let stream = "/inference.GRPCInferenceService/ModelStreamInfer";
    let (call, _messages) = client.open_ended(stream, &[], frame(&infer("m", "1")));
    eventually("it waits", || a.asked() == 1);
    running.apply(&[&b], &[("m", &["b"])]);
    let answer = client.finish(call);
    assert_eq!(answer.code, 14);
    assert!(answer.message.contains("the fleet has lost node 'a', which was asked; try again"), "{}", answer.message);
}

#[test]
fn what_waits_at_a_node_that_only_the_model_leaves_ends_there() {
    for over_grpc in [true, false] {
        let told = Arc::new(Notify::new());
        let (a, b) = (Node::start("a"), Node::start("b"));
        a.set(Mood::Wait(told.clone()));
        let (answer, running) = answered_after(over_grpc, &[&a, &b], |running| {
            running.apply(&[&a, &b], &[("m", &["b"])]);
            a.set(Mood::Echo);
            told.notify_waiters();
        });
        assert_eq!(&answer[..2], b"a/");
        assert_eq!(running.router.stats()["m"].3, 0);
    }
}

#[test]
fn at_most_one_in_twenty_is_sent_twice() {
    const CALLS: usize = 100;
    let told = Arc::new(Notify::new());
    let (a, b) = (Node::start("a"), Node::start("b"));
    a.set(Mood::Wait(told.clone()));
    b.set(Mood::Wait(told.clone()));
    let running = hedged(&[&a, &b], Duration::from_millis(1));
    let mut grpc = running.grpc();
    let start = |_| grpc.start(PREDICT, &[], frame(&predict("m", "x")));
    let calls: Vec<_> = (0..CALLS).map(start).collect();
    let copies = CALLS / 20 + 1;
    eventually("all came, and the copies", || a.asked() + b.asked() == CALLS + copies);
    a.set(Mood::Echo);
    b.set(Mood::Echo);
    told.notify_waiters();
    for call in calls {
        assert_eq!(grpc.finish(call).code, 0);
    }
    assert_eq!(a.asked() + b.asked(), CALLS + copies);
    assert_eq!(running.router.stats()["m"].3, copies as u64);
}

#[test]
fn one_node_alone_gets_one_copy() {
    let told = Arc::new(Notify::new());
    let node = Node::start("a");
    node.set(Mood::Wait(told.clone()));
    let running = hedged(&[&node], Duration::from_millis(1));
    let mut grpc = running.grpc();
    let call = grpc.start(PREDICT, &[("grpc-timeout", "50m")], frame(&predict("m", "x")));
    assert_eq!(grpc.finish(call).code, 4);
    assert_eq!((node.asked(), running.router.stats()["m"].3), (1, 0));
}

/// The time in which 99 of 100 calls are answered, one after the other, of two nodes that now and then take long.
fn p99(hedge_after: Option<Duration>) -> Duration {
    const CALLS: usize = 200;
    let (a, b) = (Node::start("a"), Node::start("b"));
    for node in [&a, &b] {
        node.set(Mood::Hiccup(40, LATE));
    }
    let mut settings = settings();
    settings.hedge_after = hedge_after;
    let running = Running::start(&settings);
    running.apply(&[&a, &b], &[("m", &["a", "b"])]);
    let mut grpc = running.grpc();
    let mut took: Vec<Duration> = (0..CALLS)
        .map(|_| {
            let began = Instant::now();
            assert_eq!(grpc.predict(&predict("m", "x")).code, 0);
            began.elapsed()
        })
        .collect();
    took.sort();
    took[CALLS * 99 / 100 - 1]
}

#[test]
fn the_slowest_requests_are_answered_sooner() {
    let plain = p99(None);
    assert!(plain >= LATE, "{plain:?}");
    // On a machine that is busy with something else any request may take long.
    let hedged: Vec<_> = (0..3).map(|_| p99(Some(LATE / 6))).collect();
    assert!(hedged.iter().any(|p99| *p99 < LATE), "{hedged:?} beside {plain:?}");
}
