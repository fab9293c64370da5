//! Calls of many messages, large answers to slow clients, and the end of a router.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::Notify;

use crate::support::grpc::{PREDICT, frame};
use crate::support::{LONG, Mood, Node, Running, eventually, infer, predict, settings};

const STREAM: &str = "/inference.GRPCInferenceService/ModelStreamInfer";
/// More than a router and the sockets keep of an answer that nobody takes.
const KEPT: usize = 16 << 20;

#[test]
fn messages_pass_both_ways_while_a_call_is_open() {
    let (a, b) = (Node::start("a"), Node::start("b"));
    let running = Running::start(&settings());
    running.apply(&[&a, &b], &[("m", &["a"]), ("n", &["b"])]);
    let mut client = running.grpc();
    let (call, mut messages) = client.open_ended(STREAM, &[], frame(&infer("n", "1")));
    let mut stream = client.answers(call);
    assert_eq!(client.next(&mut stream), Ok([b"b/", &infer("n", "1")[..]].concat()));
    for content in ["2", "3"] {
        messages.send_data(frame(&infer("n", content)).into(), false).unwrap();
        assert_eq!(client.next(&mut stream), Ok([b"b/", &infer("n", content)[..]].concat()));
    }
    messages.send_data(bytes::Bytes::new(), true).unwrap();
    assert_eq!(client.next(&mut stream), Err(0));
    assert_eq!((a.asked(), b.asked()), (0, 1));
}

#[test]
fn a_message_that_cannot_be_read_ends_a_call_behind_the_answers_under_way() {
    let node = Node::start("a");
    let running = Running::before(&[&node]);
    for (bad, code) in [([0, 0x7f, 0xff, 0xff, 0xff], 8), ([2, 0, 0, 0, 0], 13)] {
        let mut client = running.grpc();
        let (call, mut messages) = client.open_ended(STREAM, &[], frame(&infer("m", "1")));
        let mut stream = client.answers(call);
        assert_eq!(client.next(&mut stream), Ok([b"a/", &infer("m", "1")[..]].concat()));
        messages.send_data([frame(&infer("m", "2")), bad.to_vec()].concat().into(), false).unwrap();
        assert_eq!(client.next(&mut stream), Ok([b"a/", &infer("m", "2")[..]].concat()));
        assert_eq!(client.next(&mut stream), Err(code));
    }
    assert_eq!(node.cancelled.load(Ordering::SeqCst), 0);
}

#[test]
fn a_call_of_many_messages_for_an_unknown_model_is_not_found() {
    let running = Running::before(&[]);
    let mut client = running.grpc();
    let (call, _messages) = client.open_ended(STREAM, &[], frame(&infer("n", "1")));
    assert_eq!(client.finish(call).code, 5);
}

#[test]
fn large_messages_pass_both_ways() {
    let node = Node::start("a");
    let running = Running::before(&[&node]);
    let message = predict("m", &"x".repeat(3 << 20));
    let answer = running.grpc().predict(&message);
    assert_eq!((answer.code, answer.body.len()), (0, message.len() + 2));
    assert!(answer.body[2..] == message);
    let body = "x".repeat(3 << 20);
    let answer = running.rest().predict(&body);
    assert!(answer.body == format!("a/{body}"));
}

#[test]
fn a_client_that_takes_nothing_does_not_have_its_answer_gathered() {
    const ANSWER: usize = 64 << 20;
    let node = Node::start("a");
    let running = Running::before(&[&node]);
    node.set(Mood::Large(ANSWER));
    let mut client = running.grpc();
    let call = client.start(PREDICT, &[], frame(&predict("m", "")));
    let mut rest = running.rest();
    rest.send_predict("1");
    eventually("both came", || node.asked() == 2);
    node.set(Mood::Echo);
    for _ in 0..50 {
        // Others go on meanwhile, on the same connection to the node.
        assert_eq!(running.grpc().predict(&predict("m", "x")).code, 0);
    }
    let sent = node.sent.load(Ordering::SeqCst);
    assert!(sent < KEPT, "{sent} bytes were taken from the node");
    assert_eq!(node.cancelled.load(Ordering::SeqCst), 0);
    let answer = client.finish(call);
    assert_eq!((answer.code, answer.body.len()), (0, ANSWER));
    assert_eq!(rest.receive().body.len(), ANSWER);
}

#[test]
fn a_drain_answers_what_was_accepted_and_takes_nothing_more() {
    let told = Arc::new(Notify::new());
    let node = Node::start("a");
    let running = Running::before(&[&node]);
    node.set(Mood::Wait(told.clone()));
    let (mut grpc, mut rest) = (running.grpc(), running.rest());
    let call = grpc.start(PREDICT, &[], frame(&predict("m", "x")));
    rest.send_predict("1");
    eventually("both came", || node.asked() == 2);
    let addresses = [running.grpc_address(), running.router.rest_address().unwrap()];
    std::thread::scope(|scope| {
        let stopped = scope.spawn(|| running.router.stop(LONG));
        eventually("nobody listens", || addresses.iter().all(|address| std::net::TcpStream::connect(address).is_err()));
        told.notify_waiters();
        assert_eq!(grpc.finish(call).code, 0);
        assert_eq!(rest.receive().body, "a/1");
        assert!(stopped.join().unwrap());
    });
    assert!(running.router.apply(Default::default(), Default::default()).is_err());
}

#[test]
fn who_is_not_answered_until_the_drain_is_over_hears_so() {
    let node = Node::start("a");
    let running = Running::before(&[&node]);
    node.set(Mood::Wait(Arc::default()));
    let (mut grpc, mut rest) = (running.grpc(), running.rest());
    let call = grpc.start(PREDICT, &[], frame(&predict("m", "x")));
    rest.send_predict("1");
    eventually("both came", || node.asked() == 2);
    assert!(!running.router.stop(Duration::from_millis(20)));
    let answer = grpc.finish(call);
    assert_eq!((answer.code, answer.message.contains("the router stopped")), (14, true));
    assert_eq!(rest.receive().status, 503);
}

#[test]
fn thousands_of_models_are_swapped_while_requests_come() {
    const MODELS: usize = 1000;
    let (a, b) = (Node::start("a"), Node::start("b"));
    let running = Running::start(&settings());
    let names: Vec<String> = (0..MODELS).map(|index| format!("m{index}")).collect();
    let place = |shift: usize| {
        let on = |index: usize| if (index + shift).is_multiple_of(2) { &["a"][..] } else { &["b"][..] };
        let models: Vec<_> = names.iter().enumerate().map(|(index, name)| (name.as_str(), on(index))).collect();
        running.apply(&[&a, &b], &models);
    };
    place(0);
    let mut client = running.grpc();
    for (index, name) in names.iter().enumerate() {
        if index.is_multiple_of(100) {
            place(index / 100);
        }
        let node = if (index + index / 100).is_multiple_of(2) { b"a/" } else { b"b/" };
        let answer = client.predict(&predict(name, "x"));
        assert_eq!((answer.code, &answer.body[..2]), (0, &node[..]), "{name}");
    }
    assert!(running.router.stats().values().all(|counts| counts.0 == 1));
    let page = running.rest().get("/metrics").body;
    assert!(page.contains("tidegate_router_requests_total{model=\"m999\"} 1\n"), "{page}");
    assert!(page.contains("tidegate_connections"), "an engine's own are there");
}
