//! The end of a plane: not ready, no new connections, everything accepted answered, everything logged, threads gone.
//! And what happens to an address that cannot be had.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use crate::support::grpc::{PREDICT, frame};
use crate::support::messages::{float_values, outputs, predict_x};
use crate::support::{Gate, LONG, Model, Running, eventually, publish, refused, scalar_signature, settings};
use tidegate_engine::serving_map::Change;
use tidegate_plane::settings::Settings;

#[test]
fn a_drain_answers_what_was_accepted_and_refuses_what_comes_later() {
    let gate = Arc::new(Gate::default());
    let running = Running::with(&Model::gated(&gate));
    running.plane.apply(vec![Change::SetLog { model: "m".to_owned(), rate: 1.0 }]).unwrap();
    running.plane.set_ready(true, "yes");
    let (mut rest, mut grpc) = (running.rest(), running.grpc());
    rest.send_predict(r#"{"instances":[1]}"#);
    gate.wait_for(1);
    let call = grpc.start(PREDICT, &[], frame(&predict_x(&[2.0])));
    eventually("the second is queued", || running.m1("tidegate_queued_rows") == 1.0);
    let plane = running.plane.clone();
    let draining = std::thread::spawn(move || plane.drain(LONG));
    let address = running.plane.rest_address().unwrap();
    eventually("the endpoint is closed", || TcpStream::connect(address).is_err());
    assert!(!draining.is_finished(), "two requests are still out");
    gate.open();
    let answer = rest.receive();
    assert_eq!(answer.body, r#"{"predictions":[2.5]}"#);
    assert_eq!(float_values(&outputs(&grpc.finish(call).body)[0].1), [3.0]);
    assert!(draining.join().unwrap(), "all was answered");
    assert!(rest.is_closed());
    assert_eq!(running.log_rows("written", "primary"), 2.0, "the log is flushed");
    assert_eq!(running.sample("tidegate_connections{endpoint=\"grpc\"}"), 0.0);
    assert!(running.plane.drain(Duration::ZERO), "a second drain has nothing to do");
}

#[test]
fn a_drain_gives_up_at_its_deadline() {
    let gate = Arc::new(Gate::default());
    let running = Running::with(&Model::gated(&gate));
    let mut rest = running.rest();
    rest.send_predict(r#"{"instances":[1]}"#);
    gate.wait_for(1);
    assert!(!running.plane.drain(Duration::from_millis(100)), "the model, which is still at its gate, was waited for");
    gate.open();
}

#[test]
fn versions_can_be_retired_after_a_drain() {
    let model = Model::half_plus_two();
    let running = Running::with(&model);
    assert!(running.plane.drain(LONG));
    running.plane.apply(vec![Change::Retire { model: "m".to_owned(), version: 1 }]).unwrap();
    eventually("it is released", || running.hooks.released.lock().unwrap().len() == 1);
    assert_eq!(Arc::strong_count(&model), 1);
}

#[test]
fn stopping_ends_all_threads_and_tells_no_release() {
    let model = Model::half_plus_two();
    let running = Running::with(&model);
    let _open = (running.rest(), running.grpc());
    assert!(running.plane.stop_within(LONG));
    assert_eq!(Arc::strong_count(&model), 1);
    assert!(running.hooks.released.lock().unwrap().is_empty());
    assert!(running.plane.apply(vec![publish("m", 2, &model, scalar_signature())]).is_err());
}

#[test]
fn an_address_that_cannot_be_had_is_an_error_that_names_it() {
    for io_threads in [1, 2] {
        let running = Running::start(&Settings { io_threads, ..settings() });
        let taken = running.plane.grpc_address().unwrap().to_string();
        let again = Settings { grpc_address: Some(taken.clone()), io_threads, ..settings() };
        let why = refused(&again);
        assert!(why.contains(&taken), "{why}");
    }
    let nowhere = Settings { grpc_address: Some("nowhere.invalid:1".to_owned()), ..settings() };
    let why = refused(&nowhere);
    assert!(why.contains("nowhere.invalid:1"), "{why}");
}

#[test]
fn freed_memory_goes_back_now_and_then_until_the_plane_ends() {
    let running = Running::start(&settings());
    eventually("freed memory went back", || running.process.was_asked(&[("tg-memory", "return memory")]));
    assert!(running.plane.drain(LONG), "the thread that does it has ended");
}
