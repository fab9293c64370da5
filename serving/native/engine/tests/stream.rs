//! Messages of a streaming answer on their way: a sender does not get far ahead, and hears when nobody reads any more.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Fixture, fixture};
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::{Column, Tensor, Words};
use tidegate_engine::batching::stream::{Message, Next, Stream, WAITING};

const LONG: Duration = Duration::from_secs(20);

fn message(fixture: &Fixture, value: f32) -> Message {
    let mut words = Words::default();
    words.push(&value.to_le_bytes());
    let outputs = vec![Tensor { column: Column::Raw(words), shape: vec![1] }];
    Message::new(fixture.queue.served.clone(), outputs).unwrap()
}

fn taken(stream: &Stream) -> Option<f32> {
    match stream.wait_next(Instant::now() + LONG).unwrap() {
        Next::Message(message) => {
            let (_, outputs) = message.into_outputs();
            let Column::Raw(words) = &outputs[0].column else { panic!("not floats") };
            Some(f32::from_le_bytes(words.as_bytes()[..4].try_into().unwrap()))
        }
        Next::End(_) => None,
    }
}

#[test]
fn a_sender_gets_no_further_ahead_than_the_room_there_is() {
    let (fixture, stream, sent) = (fixture(1, 1), Stream::new(None), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..500 {
                assert!(stream.send(message(&fixture, number as f32)));
                sent.fetch_add(1, Ordering::SeqCst);
            }
            stream.end(Ok(()));
        });
        for number in 0..500 {
            assert_eq!(taken(&stream), Some(number as f32));
            let ahead = sent.load(Ordering::SeqCst).saturating_sub(number + 1);
            assert!(ahead <= WAITING, "{ahead} messages wait");
        }
        assert_eq!(taken(&stream), None);
    });
}

#[test]
fn a_sender_that_waits_for_room_hears_that_the_reader_has_left() {
    let (fixture, stream) = (fixture(1, 1), Stream::new(None));
    for _ in 0..WAITING {
        assert!(stream.send(message(&fixture, 1.0)));
    }
    assert_eq!(fixture.memory.used(), WAITING * 4);
    thread::scope(|scope| {
        let sender = scope.spawn(|| stream.send(message(&fixture, 2.0)));
        stream.leave();
        assert!(!sender.join().unwrap());
    });
    assert!(stream.is_left());
    assert_eq!(fixture.memory.used(), 0, "what nobody reads takes no memory");
}

#[test]
fn what_waits_is_read_before_the_end_which_the_first_says() {
    let (fixture, stream) = (fixture(1, 1), Stream::new(None));
    assert!(stream.send(message(&fixture, 1.0)));
    stream.end(Err(Status::new(Code::DeadlineExceeded, "late")));
    stream.end(Ok(()));
    assert!(!stream.send(message(&fixture, 2.0)), "after the end");
    assert_eq!(taken(&stream), Some(1.0));
    let Some(Next::End(Err(status))) = stream.wait_next(Instant::now()) else { panic!("no error") };
    assert_eq!(status.code, Code::DeadlineExceeded);
}

#[test]
fn a_task_is_woken_by_the_next_message() {
    let (fixture, stream) = (fixture(1, 1), Stream::new(None));
    let mut context = Context::from_waker(Waker::noop());
    assert!(stream.poll_next(&mut context).is_pending());
    assert!(stream.wait_next(Instant::now()).is_none());
    assert!(stream.send(message(&fixture, 1.0)));
    assert!(matches!(stream.poll_next(&mut context), Poll::Ready(Next::Message(_))));
}

#[test]
fn the_deadline_moves_on_with_each_message_where_there_is_a_patience() {
    let (fixture, stream) = (fixture(1, 1), Stream::new(Some(LONG)));
    let first = stream.deadline().unwrap();
    while Instant::now() + LONG <= first {
        thread::yield_now();
    }
    assert!(stream.send(message(&fixture, 1.0)));
    assert!(stream.deadline().unwrap() > first);
    assert_eq!(Stream::new(None).deadline(), None);
}
