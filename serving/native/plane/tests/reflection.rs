//! Calls of many messages over real sockets: each is answered when it came, and the call ends as its client, its deadline or
//! the plane has it.

use std::time::Duration;

use crate::support::grpc::{Client, Stream, frame};
use crate::support::{LONG, Model, Running, settings};
use bytes::Bytes;
use h2::SendStream;
use tidegate_codec::status::Status;
use tidegate_plane::endpoints::grpc::conversation::LARGEST;
use tidegate_plane::endpoints::grpc::reflection::METHODS;
use tidegate_plane::settings::Settings;

fn begin(client: &mut Client, path: &str, first: Vec<u8>) -> (Stream, SendStream<Bytes>) {
    let (call, sending) = client.open_ended(path, &[], first);
    (client.answers(call), sending)
}

fn answering(running: &Running, answers: &[&[u8]]) {
    let mut waiting = running.hooks.answers.lock().unwrap();
    waiting.extend(answers.iter().rev().map(|answer| Ok::<_, Status>(answer.to_vec())));
}

#[test]
fn each_question_is_answered_while_more_may_come() {
    let running = Running::with(&Model::half_plus_two());
    let mut client = running.grpc();
    for path in METHODS {
        answering(&running, &[b"one", b"two", b"three"]);
        let (mut stream, mut sending) = begin(&mut client, path, frame(b"first"));
        assert_eq!(client.next(&mut stream), Ok(b"one".to_vec()), "although the client has not ended the call");
        let both = [frame(b"second"), frame(b"third")].concat();
        let (head, tail) = both.split_at(7);
        sending.send_data(head.to_vec().into(), false).unwrap();
        sending.send_data(tail.to_vec().into(), true).unwrap();
        assert_eq!(client.next(&mut stream), Ok(b"two".to_vec()));
        assert_eq!(client.next(&mut stream), Ok(b"three".to_vec()));
        assert_eq!(client.next(&mut stream), Err(0));
        let asked = std::mem::take(&mut *running.hooks.asked.lock().unwrap());
        let expected = ["first", "second", "third"].map(|text| (METHODS[0].to_owned(), text.as_bytes().to_vec()));
        assert_eq!(asked, expected);
    }
}

#[test]
fn what_is_no_question_ends_the_call() {
    let running = Running::with(&Model::half_plus_two());
    let mut client = running.grpc();
    let too_large = [&[0][..], &(LARGEST as u32 + 1).to_be_bytes()].concat();
    let compressed_somehow = [&[1][..], &frame(b"x")[1..]].concat();
    for (sent, code) in [(too_large, 8), (compressed_somehow, 13)] {
        let (mut stream, _sending) = begin(&mut client, METHODS[0], sent);
        assert_eq!(client.next(&mut stream), Err(code));
    }
    let (mut stream, mut sending) = begin(&mut client, METHODS[0], frame(b"whole")[..7].to_vec());
    sending.send_data(Bytes::new(), true).unwrap();
    assert_eq!(client.next(&mut stream), Err(3), "half a message");
    assert!(running.hooks.asked.lock().unwrap().is_empty());
}

#[test]
fn a_call_that_asks_nothing_does_not_last() {
    let running = Running::start(&Settings { request_timeout: Duration::from_millis(50), ..settings() });
    let mut client = running.grpc();
    let (mut stream, _sending) = begin(&mut client, METHODS[0], Vec::new());
    assert_eq!(client.next(&mut stream), Err(4));
}

#[test]
fn a_drain_ends_calls_that_are_open() {
    let running = Running::with(&Model::half_plus_two());
    let mut client = running.grpc();
    answering(&running, &[b"one"]);
    let (mut stream, _sending) = begin(&mut client, METHODS[0], frame(b"first"));
    assert_eq!(client.next(&mut stream), Ok(b"one".to_vec()));
    let plane = running.plane.clone();
    let drained = std::thread::spawn(move || plane.drain(LONG));
    assert_eq!(client.next(&mut stream), Err(14));
    drop((stream, client));
    assert!(drained.join().unwrap());
}
