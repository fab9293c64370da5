//! Queues hold what can be answered in time: late requests count no longer, nothing is accepted that must come too late,
//! and a failing batch is not run again for requests whose deadlines have passed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support;
use crate::support::messages::predict_x;
use crate::support::{
    Gate, Model, Running, answer, eventually, grpc, half_plus_two, publish_with, scalar_signature, settings,
};
use tidegate_codec::status::{Code, Status};
use tidegate_engine::batching::Batching;

fn started(client: &mut grpc::Client, timeout: &str) -> grpc::Call {
    client.start(grpc::PREDICT, &[("grpc-timeout", timeout)], grpc::frame(&predict_x(&[1.0])))
}

fn running(model: &Arc<Model>, batching: Batching) -> Running {
    let running = Running::start(&settings());
    running.plane.apply(vec![publish_with("m", 1, model, scalar_signature(), batching)]).unwrap();
    running
}

#[test]
fn late_requests_do_not_take_the_queue_from_live_ones() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let running = running(&model, Batching { max_queued_rows: 3, ..support::batching() });
    let mut client = running.grpc();
    let first = started(&mut client, "20S");
    gate.wait_for(1);
    let late: Vec<_> = (0..3).map(|_| started(&mut client, "50m")).collect();
    for call in late {
        let refused = client.finish(call);
        assert_eq!(refused.code, Code::DeadlineExceeded as i32);
        assert!(refused.message.contains("waited in the batch queue"), "{}", refused.message);
    }
    assert_eq!(running.m1("tidegate_queued_rows"), 0.0);
    let live = started(&mut client, "20S");
    eventually("it is queued", || running.m1("tidegate_queued_rows") == 1.0);
    gate.open();
    assert_eq!((client.finish(first).code, client.finish(live).code), (0, 0));
    assert_eq!(running.m1("tidegate_deadline_drops_total"), 3.0);
    assert_eq!(running.m1("tidegate_queued_rows"), 0.0);
}

#[test]
fn what_cannot_be_answered_in_time_is_refused_at_once() {
    let model = Model::new(|work| {
        std::thread::sleep(Duration::from_millis(50));
        Ok(answer(half_plus_two(work)))
    });
    let running = running(&model, Batching { max_batch_rows: 1, ..support::batching() });
    let mut client = running.grpc();
    assert_eq!(client.predict(&predict_x(&[1.0])).code, 0);
    let calls: Vec<_> = (0..100).map(|_| started(&mut client, "1S")).collect();
    eventually("the rest is refused", || running.m1("tidegate_queue_rejections_total") >= 70.0);
    let ran = model.seen().len();
    assert!(ran < 15, "the model ran {ran} times before");
    let answers: Vec<_> = calls.into_iter().map(|call| client.finish(call)).collect();
    let served = answers.iter().filter(|answer| answer.code == 0).count();
    assert!((5..=25).contains(&served), "{served}");
    let refused = answers.iter().find(|answer| answer.code == Code::ResourceExhausted as i32).unwrap();
    assert!(refused.message.contains("rows wait, which takes about"), "{}", refused.message);
}

#[test]
fn a_batch_that_raises_is_not_run_again_for_requests_that_are_late() {
    let gate = Arc::new(Gate::default());
    let at = gate.clone();
    let model = Model::new(move |_| {
        at.pass();
        std::thread::sleep(Duration::from_millis(40));
        Err(Status::internal("it always raises"))
    });
    let running = running(&model, support::batching());
    let mut client = running.grpc();
    let first = started(&mut client, "20S");
    gate.wait_for(1);
    let calls: Vec<_> = (0..32).map(|_| started(&mut client, "500m")).collect();
    eventually("all wait", || running.m1("tidegate_queued_rows") == 32.0);
    gate.open();
    assert_eq!(client.finish(first).code, Code::Internal as i32);
    let codes: Vec<_> = calls.into_iter().map(|call| client.finish(call).code).collect();
    assert!(codes.contains(&(Code::DeadlineExceeded as i32)), "{codes:?}");
    // The executor is through with the batch once it takes another request.
    let after = started(&mut client, "20S");
    assert_eq!(client.finish(after).code, Code::Internal as i32);
    let runs = model.entries.load(Ordering::Relaxed);
    assert!(runs < 20, "{runs} runs for 32 requests that live for 500 ms");
}

#[test]
fn a_model_that_always_raises_is_given_up_after_few_runs() {
    let gate = Arc::new(Gate::default());
    let at = gate.clone();
    let model = Model::new(move |_| {
        at.pass();
        Err(Status::new(Code::OutOfRange, "it always raises"))
    });
    let running = running(&model, Batching { max_batch_rows: 1024, ..support::batching() });
    let mut client = running.grpc();
    let first = started(&mut client, "600S");
    gate.wait_for(1);
    let calls: Vec<_> = (0..256).map(|_| started(&mut client, "600S")).collect();
    eventually("all wait", || running.m1("tidegate_queued_rows") == 256.0);
    gate.open();
    for call in [first].into_iter().chain(calls) {
        let failed = client.finish(call);
        assert_eq!((failed.code, failed.message.as_str()), (Code::OutOfRange as i32, "it always raises"));
    }
    let runs = model.entries.load(Ordering::Relaxed);
    assert!(runs <= 2 + 2 * 8 + 8, "{runs} runs");
}

#[test]
fn requests_that_are_late_give_their_memory_back_although_the_model_hangs() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let running = running(&model, support::batching());
    let mut client = running.grpc();
    let first = started(&mut client, "20S");
    gate.wait_for(1);
    let before = running.sample("tidegate_request_memory_bytes");
    let calls: Vec<_> = (0..600).map(|_| started(&mut client, "3S")).collect();
    eventually("all wait", || running.m1("tidegate_queued_rows") == 600.0);
    assert!(running.sample("tidegate_request_memory_bytes") > before);
    for call in calls {
        assert_eq!(client.finish(call).code, Code::DeadlineExceeded as i32);
    }
    eventually("its memory is back", || running.sample("tidegate_request_memory_bytes") == before);
    assert_eq!(running.m1("tidegate_deadline_drops_total"), 600.0);
    gate.open();
    assert_eq!(client.finish(first).code, 0);
}
