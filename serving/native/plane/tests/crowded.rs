//! A queue that one connection would fill: others still get their requests in.

use std::sync::Arc;

use crate::support;
use crate::support::examples::{MULTI_INFERENCE, REGRESS, example, floats, list, multi, request};
use crate::support::infer::{STREAM_INFER, infer};
use crate::support::inference::{CLASSIFY_METHOD, REGRESS_METHOD, of_tensorflow, parses_at, running};
use crate::support::messages::predict_x;
use crate::support::{Gate, Model, Running, eventually, grpc, publish_with, scalar_signature, settings};
use tidegate_codec::status::Code;
use tidegate_engine::batching::Batching;

const ROWS: usize = 64;

/// A plane whose model stands at the gate.
fn crowd(gate: &Arc<Gate>) -> Running {
    let running = Running::start(&settings());
    let batching = Batching { max_queued_rows: 1024, ..support::batching() };
    running.plane.apply(vec![publish_with("m", 1, &Model::gated(gate), scalar_signature(), batching)]).unwrap();
    running
}

#[test]
fn whoever_has_little_under_way_is_served_while_a_connection_fills_the_queue() {
    let gate = Arc::new(Gate::default());
    let running = crowd(&gate);
    let mut greedy = running.grpc();
    let many = predict_x(&[1.0; ROWS]);
    let mut waiting = vec![greedy.start(grpc::PREDICT, &[], grpc::frame(&many))];
    gate.wait_for(1);
    waiting.extend((0..14).map(|_| greedy.start(grpc::PREDICT, &[], grpc::frame(&many))));
    eventually("one batch runs and fourteen wait", || running.m1("tidegate_queued_rows") == (14 * ROWS) as f64);
    for rows in [1, ROWS] {
        let refused = greedy.predict(&predict_x(&vec![1.0; rows]));
        assert_eq!(refused.code, Code::ResourceExhausted as i32);
        assert!(refused.message.contains("beside the 960 that this connection has under way"), "{}", refused.message);
    }
    let (mut modest, mut rest) = (running.grpc(), running.rest());
    let other = modest.start(grpc::PREDICT, &[], grpc::frame(&predict_x(&[2.0])));
    rest.send_predict(r#"{"instances":[4]}"#);
    eventually("theirs wait, too", || running.m1("tidegate_queued_rows") == (14 * ROWS + 2) as f64);
    gate.open();
    assert_eq!((modest.finish(other).code, rest.receive().status), (0, 200));
    waiting.into_iter().for_each(|call| assert_eq!(greedy.finish(call).code, 0));
    let again: Vec<grpc::Call> = (0..14).map(|_| greedy.start(grpc::PREDICT, &[], grpc::frame(&many))).collect();
    again.into_iter().for_each(|call| assert_eq!(greedy.finish(call).code, 0, "what is answered is not under way"));
}

#[test]
fn messages_of_a_stream_are_under_way_on_its_connection() {
    let gate = Arc::new(Gate::default());
    let running = crowd(&gate);
    let mut greedy = running.grpc();
    let message = grpc::frame(&infer(&[1.0; ROWS]));
    let (_call, mut sending) = greedy.open_ended(STREAM_INFER, &[], message.clone());
    gate.wait_for(1);
    sending.send_data(message.repeat(14).into(), false).unwrap();
    eventually("fourteen wait", || running.m1("tidegate_queued_rows") == (14 * ROWS) as f64);
    assert_eq!(greedy.predict(&predict_x(&[1.0])).code, Code::ResourceExhausted as i32);
    let (mut modest, message) = (running.grpc(), grpc::frame(&predict_x(&[2.0])));
    let other = modest.start(grpc::PREDICT, &[], message);
    eventually("theirs waits, too", || running.m1("tidegate_queued_rows") == (14 * ROWS + 1) as f64);
    gate.open();
    assert_eq!(modest.finish(other).code, 0);
}

#[test]
fn all_tasks_of_a_call_are_under_way_on_its_connection() {
    let gate = Arc::new(Gate::default());
    let running = running(&parses_at(&gate), of_tensorflow());
    let input = list(&vec![example(&[("a", floats(&[1.0]))]); ROWS]);
    let tasks = [("m", "", CLASSIFY_METHOD), ("m", "value", REGRESS_METHOD)];
    let mut greedy = running.grpc();
    let call = grpc::frame(&multi(&tasks, &input));
    let mut waiting = vec![greedy.start(MULTI_INFERENCE, &[], call.clone())];
    gate.wait_for(1);
    waiting.extend((0..13).map(|_| greedy.start(MULTI_INFERENCE, &[], call.clone())));
    let queued = || running.sample("tidegate_queued_rows{model=\"m\",version=\"7\"}");
    eventually("what does not run waits", || queued() == ((13 + 14) * ROWS) as f64);
    let one = request("m", "value", &list(&[example(&[("a", floats(&[1.0]))])]));
    let refused = greedy.call(REGRESS, &[], &one);
    assert!(refused.message.contains("beside the 1792 that this connection has under way"), "{refused:?}");
    gate.open();
    assert_eq!(running.grpc().call(REGRESS, &[], &one).code, 0);
}

#[test]
fn what_comes_in_one_of_many_calls_that_wait_for_their_messages_is_noticed() {
    let running = Running::with(&Model::half_plus_two());
    let mut client = running.grpc();
    let mut head = grpc::frame(&predict_x(&[1.0]));
    let rest = head.split_off(7);
    let waiting: Vec<_> = (0..100).map(|_| client.open_ended(grpc::PREDICT, &[], head.clone())).collect();
    for (call, mut sending) in waiting.into_iter().rev() {
        sending.send_data(rest.clone().into(), true).unwrap();
        assert_eq!(client.finish(call).code, 0);
        assert_eq!(client.predict(&predict_x(&[1.0])).code, 0);
    }
}
