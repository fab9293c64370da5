//! Nodes that stop in the middle of an answer hold nobody for longer than a request has.

use std::io::Read;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::grpc::{PREDICT, frame};
use crate::support::{Mood, Node, Running, eventually, infer, predict, settings};

const STREAM: &str = "/inference.GRPCInferenceService/ModelStreamInfer";

#[test]
fn a_call_whose_node_stops_within_its_answer_ends_at_its_deadline() {
    let node = Node::start("a");
    let running = Running::before(&[&node]);
    node.set(Mood::Half);
    let answer = running.grpc().call(PREDICT, &[("grpc-timeout", "300m")], &predict("m", "x"));
    assert_eq!((answer.code, answer.message.as_str()), (4, "the deadline passed before the node's answer had ended"));
    eventually("the node hears of it", || running.router.stats()["m"].1 == 1);
}

#[test]
fn a_request_whose_node_stops_within_its_answer_ends_at_its_deadline() {
    let node = Node::start("a");
    let mut settings = settings();
    settings.plane.request_timeout = Duration::from_millis(300);
    let running = Running::start(&settings);
    running.apply(&[&node], &[("m", &["a"])]);
    node.set(Mood::Half);
    let mut socket = std::net::TcpStream::connect(running.router.rest_address().unwrap()).unwrap();
    socket.set_read_timeout(Some(crate::support::LONG)).unwrap();
    std::io::Write::write_all(
        &mut socket,
        b"POST /v1/models/m:predict HTTP/1.1\r\nhost: t\r\ncontent-length: 1\r\n\r\n1",
    )
    .unwrap();
    let mut answer = Vec::new();
    // Nothing tells a client that a body is not whole but a connection that ends within it.
    let ended = socket.read_to_end(&mut answer);
    assert!(!matches!(&ended, Err(why) if why.kind() == std::io::ErrorKind::WouldBlock), "{ended:?}");
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("a/1") && !answer.ends_with("0\r\n\r\n"), "{answer}");
}

#[test]
fn a_call_without_a_deadline_ends_where_its_node_does_not_live() {
    let node = Node::start("a");
    let mut settings = settings();
    settings.plane.patience.keepalive = Duration::from_millis(500);
    let running = Running::start(&settings);
    running.apply(&[&node], &[("m", &["a"])]);
    let mut client = running.grpc();
    let (call, mut messages) = client.open_ended(STREAM, &[], frame(&infer("m", "1")));
    let mut stream = client.answers(call);
    assert_eq!(client.next(&mut stream), Ok([b"a/", &infer("m", "1")[..]].concat()));
    let lock = Arc::new(Mutex::new(()));
    let held = lock.lock().unwrap();
    node.set(Mood::Freeze(lock.clone()));
    messages.send_data(frame(&infer("m", "2")).into(), false).unwrap();
    assert_eq!(client.next(&mut stream), Err(14));
    drop(held);
}

#[test]
fn a_node_that_lets_deadlines_pass_is_asked_seldom_until_it_answers() {
    let (a, b) = (Node::start("a"), Node::start("b"));
    let mut settings = settings();
    settings.plane.request_timeout = Duration::from_millis(200);
    let running = Running::start(&settings);
    running.apply(&[&a, &b], &[("m", &["a", "b"]), ("other", &["a", "b"])]);
    a.set(Mood::Wait(Arc::default()));
    let (mut grpc, mut rest) = (running.grpc(), running.rest());
    let mut late = 0;
    for _ in 0..40 {
        late += usize::from(grpc.predict(&predict("m", "x")).code == 4);
        late += usize::from(rest.predict("1").status == 504);
    }
    assert!((1..=8).contains(&late), "{late} of 80 were lost by a node that answers nothing");
    let before = a.asked();
    a.set(Mood::Echo);
    eventually("it is asked again", || {
        assert_eq!(grpc.predict(&predict("m", "x")).code, 0);
        a.asked() > before + 10
    });
}
