//! A request that a node did not begin to answer is tried once on another one.

use std::time::Duration;

use tidegate_router::node::Addresses;

use crate::support::{Mood, Node, Running, placed, predict, settings};

/// Both protocols, so often that each node is chosen first some of the time.
const TIMES: usize = 20;
const GRPC: (&str, &str) = ("content-type", "application/grpc");

#[test]
fn a_node_that_cannot_is_followed_by_one_that_can() {
    let (a, b) = (Node::start("a"), Node::start("b"));
    let running = Running::before(&[&a, &b]);
    for (grpc, rest) in
        [(Mood::Fail(14), Mood::Fail(503)), (Mood::Fail(5), Mood::Fail(404)), (Mood::Break, Mood::Break)]
    {
        a.set(grpc);
        for _ in 0..TIMES {
            let answer = running.grpc().predict(&predict("m", "x"));
            assert_eq!((answer.code, &answer.body[..2]), (0, &b"b/"[..]));
        }
        a.set(rest);
        for _ in 0..TIMES {
            assert_eq!(running.rest().predict("1").body, "b/1");
        }
    }
    assert!(running.router.stats()["m"].2 > 0);
    assert_eq!(running.router.stats()["m"].1, 0);
}

#[test]
fn a_node_that_answers_as_no_engine_does_is_followed_by_one_that_does() {
    let (a, b) = (Node::start("a"), Node::start("b"));
    let running = Running::before(&[&a, &b]);
    for status in [302, 304, 600, 999] {
        let running = Running::before(&[&a, &b]);
        a.set(Mood::Head(status, &[("location", "http://169.254.169.254/")]));
        for _ in 0..TIMES {
            let answer = running.rest().predict("1");
            assert_eq!((answer.status, answer.body.as_str()), (200, "b/1"));
        }
    }
    let heads: [(u16, &'static [(&str, &str)]); 4] =
        [(302, &[]), (200, &[]), (200, &[("content-type", "text/html")]), (200, &[GRPC, ("grpc-status", "0")])];
    for (status, headers) in heads {
        a.set(Mood::Head(status, headers));
        for _ in 0..TIMES {
            let answer = running.grpc().predict(&predict("m", "x"));
            assert_eq!((answer.code, &answer.body[..2]), (0, &b"b/"[..]), "{status} {headers:?}");
        }
    }
    b.set(Mood::Head(200, &[("content-type", "text/html")]));
    let answer = running.grpc().predict(&predict("m", "x"));
    assert_eq!(answer.code, 14);
    assert!(
        answer.message.contains("without a message") || answer.message.contains("'text/html'"),
        "{}",
        answer.message
    );
}

#[test]
fn a_status_that_there_is_not_reaches_no_client() {
    let node = Node::start("a");
    let running = Running::before(&[&node]);
    for status in ["-x", "999", "", "0x5", "-1", "99999999999999999999"] {
        node.set(Mood::Status(status));
        assert_eq!(running.grpc().predict(&predict("m", "x")).code, 2, "{status:?}");
    }
    node.set(Mood::Head(200, &[GRPC, ("grpc-status", "-x")]));
    assert_eq!(running.grpc().predict(&predict("m", "x")).code, 2);
}

#[test]
fn none_is_asked_twice_and_the_last_word_passes() {
    let (a, b) = (Node::start("a"), Node::start("b"));
    let running = Running::before(&[&a, &b]);
    a.set(Mood::Fail(14));
    b.set(Mood::Fail(14));
    let answer = running.grpc().predict(&predict("m", ""));
    assert_eq!((answer.code, a.asked(), b.asked()), (14, 1, 1));
    a.set(Mood::Break);
    b.set(Mood::Break);
    let answer = running.grpc().predict(&predict("m", ""));
    assert_eq!(answer.code, 14);
    assert!(answer.message.starts_with("no node answers for model 'm'"), "{}", answer.message);
    assert_eq!((a.asked(), b.asked()), (2, 2));
    assert_eq!(running.rest().predict("1").status, 503);
    assert_eq!((a.asked(), b.asked()), (3, 3));
}

#[test]
fn what_is_the_clients_fault_is_not_tried_again() {
    let (a, b) = (Node::start("a"), Node::start("b"));
    let running = Running::before(&[&a, &b]);
    for code in [3, 8, 13] {
        a.set(Mood::Fail(code));
        b.set(Mood::Fail(code));
        assert_eq!(running.grpc().predict(&predict("m", "")).code, i32::from(code));
    }
    assert_eq!(a.asked() + b.asked(), 3);
}

#[test]
fn a_killed_node_fails_no_request_and_is_left_alone() {
    let (mut a, b) = (Node::start("a"), Node::start("b"));
    let running = Running::before(&[&a, &b]);
    let (mut grpc, mut rest) = (running.grpc(), running.rest());
    for round in 0..3 {
        if round == 1 {
            a.kill();
        }
        for _ in 0..TIMES {
            assert_eq!(grpc.predict(&predict("m", "x")).code, 0);
            assert_eq!(rest.predict("1").status, 200);
        }
    }
    let retried = running.router.stats()["m"].2;
    assert!(retried > 0 && retried < TIMES as u64, "{retried} of {} after it had gone", 4 * TIMES);
    assert_eq!(running.router.stats()["m"].1, 0);
    drop(b);
}

#[test]
fn an_endpoint_that_is_closed_takes_its_nodes_other_one_from_nobody() {
    let (a, b) = (Node::start("a"), Node::start("b"));
    let running = Running::start(&settings());
    let closed = |node: &Node| Addresses { rest: String::new(), ..node.addresses.clone() };
    let nodes = [("a", a.addresses.clone()), ("b", closed(&b))].map(|(id, addresses)| (id.to_owned(), addresses));
    running.router.apply(nodes.into(), placed(&[("m", &["a", "b"])])).unwrap();
    let (mut grpc, mut rest) = (running.grpc(), running.rest());
    for _ in 0..2 * TIMES {
        assert_eq!((rest.predict("1").status, grpc.predict(&predict("m", "x")).code), (200, 0));
    }
    assert!(b.asked() > TIMES / 2, "{} of {} calls", b.asked(), 2 * TIMES);
}

#[test]
fn a_node_that_has_no_address_for_grpc_keeps_no_other_from_its_place() {
    let (a, b) = (Node::start("a"), Node::start("b"));
    let running = Running::start(&settings());
    for closed in ["", "nowhere", "\u{fc}node:8510"] {
        let without = Addresses { grpc: closed.to_owned(), ..b.addresses.clone() };
        let nodes = [("a", a.addresses.clone()), ("b", without)].map(|(id, addresses)| (id.to_owned(), addresses));
        running.router.apply(nodes.into(), placed(&[("m", &["a", "b"]), ("n", &["b"])])).unwrap();
        for _ in 0..TIMES {
            assert_eq!(running.grpc().predict(&predict("m", "x")).code, 0);
        }
        let answer = running.grpc().predict(&predict("n", "x"));
        assert!(answer.message.contains("node 'b' has no gRPC endpoint"), "{} {}", answer.code, answer.message);
        running.router.apply([].into(), [].into()).unwrap();
    }
    running
        .router
        .apply(
            [("b".to_owned(), Addresses { grpc: String::new(), ..b.addresses.clone() })].into(),
            placed(&[("m", &["b"])]),
        )
        .unwrap();
    assert_eq!(running.rest().predict("1").body, "b/1");
}

#[test]
fn a_connection_that_the_node_closed_meanwhile_costs_nothing() {
    let mut node = Node::start("a");
    let running = Running::before(&[&node]);
    let (mut grpc, mut rest) = (running.grpc(), running.rest());
    assert_eq!((grpc.predict(&predict("m", "")).code, rest.predict("1").status), (0, 200));
    node.restart();
    assert_eq!((grpc.predict(&predict("m", "")).code, rest.predict("1").status), (0, 200));
    assert_eq!(running.router.stats()["m"].2, 0, "there is no other node");
}

#[test]
fn a_deadline_ends_what_no_node_answers_and_tells_the_node() {
    let node = Node::start("a");
    let mut settings = settings();
    settings.plane.request_timeout = Duration::from_millis(50);
    let running = Running::start(&settings);
    running.apply(&[&node], &[("m", &["a"])]);
    node.set(Mood::Wait(std::sync::Arc::default()));
    assert_eq!(running.grpc().predict(&predict("m", "")).code, 4);
    assert_eq!(running.rest().predict("1").status, 504);
    crate::support::eventually("both were given up", || node.cancelled.load(std::sync::atomic::Ordering::SeqCst) == 2);
}

#[test]
fn a_client_that_goes_away_has_the_node_told() {
    let node = Node::start("a");
    let running = Running::before(&[&node]);
    node.set(Mood::Wait(std::sync::Arc::default()));
    let mut grpc = running.grpc();
    let call = grpc.start(crate::support::grpc::PREDICT, &[], crate::support::grpc::frame(&predict("m", "")));
    let mut rest = running.rest();
    rest.send_predict("1");
    crate::support::eventually("both came", || node.asked() == 2);
    drop((call, rest));
    crate::support::eventually("both were given up", || node.cancelled.load(std::sync::atomic::Ordering::SeqCst) == 2);
}

#[test]
fn a_call_is_sent_again_where_its_connection_ends_for_what_others_gave_up() {
    let node = Node::start("a");
    let running = Running::before(&[&node]);
    node.set(Mood::Calm);
    let answer = running.grpc().predict(&predict("m", "x"));
    assert_eq!(answer.code, 0, "{}", answer.message);
    assert_eq!((node.asked(), running.router.stats()["m"].2), (1, 0), "it is one try with the node");
}
