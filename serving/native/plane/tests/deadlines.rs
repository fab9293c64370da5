//! Queues hold what can be answered in time: late requests count no longer, nothing is accepted that must come too late,
//! and a failing batch is not run again for requests whose deadlines have passed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
    eventually("none waits", || running.m1("tidegate_queued_rows") == 0.0);
    let live = started(&mut client, "20S");
    eventually("it is queued", || running.m1("tidegate_queued_rows") == 1.0);
    gate.open();
    assert_eq!((client.finish(first).code, client.finish(live).code), (0, 0));
    eventually("the late ones are counted", || running.m1("tidegate_deadline_drops_total") == 3.0);
    eventually("none waits", || running.m1("tidegate_queued_rows") == 0.0);
}

#[test]
fn what_cannot_be_answered_in_time_is_refused_at_once() {
    let gate = Arc::new(Gate::default());
    let at = gate.clone();
    let runs = AtomicUsize::new(0);
    let model = Model::new(move |work| {
        match runs.fetch_add(1, Ordering::Relaxed) {
            0..3 => std::thread::sleep(Duration::from_millis(50)),
            _ => at.pass(),
        }
        Ok(answer(half_plus_two(work)))
    });
    let running = running(&model, Batching { max_batch_rows: 1, ..support::batching() });
    let mut client = running.grpc();
    for _ in 0..3 {
        assert_eq!(client.predict(&predict_x(&[1.0])).code, 0);
    }
    let _runs = started(&mut client, "60S");
    gate.wait_for(1);
    // A run took 50 ms, or longer on a busy machine.
    let calls: Vec<_> = (0..300).map(|_| started(&mut client, "10S")).collect();
    let refused = || running.m1("tidegate_queue_rejections_total");
    eventually("each waits or is refused while the model runs", || {
        running.m1("tidegate_queued_rows") + refused() == 300.0
    });
    let waiting = 300.0 - refused();
    assert!(waiting <= 210.0, "{waiting}");
    let last = client.finish(calls.into_iter().next_back().unwrap());
    assert_eq!(last.code, Code::ResourceExhausted as i32);
    let (rows, seconds) = told(&last.message);
    let fit = 10.0 * rows / seconds;
    assert!((fit * 0.7 - 2.0..fit * 1.3 + 2.0).contains(&waiting), "{waiting} wait, {fit} fit: {}", last.message);
    gate.open();
}

/// How many rows wait, and the seconds that they take, as a refusal says it.
fn told(message: &str) -> (f64, f64) {
    let numbers: Vec<f64> = message.split(' ').filter_map(|word| word.parse().ok()).collect();
    (numbers[0], numbers[1] / 1000.0)
}

#[test]
fn a_batch_that_raises_is_not_run_again_for_requests_that_are_late() {
    let gate = Arc::new(Gate::default());
    let at = gate.clone();
    let model = Model::new(move |_| {
        at.pass();
        std::thread::sleep(Duration::from_millis(160));
        Err(Status::internal("it always raises"))
    });
    let running = running(&model, support::batching());
    let mut client = running.grpc();
    let first = started(&mut client, "20S");
    gate.wait_for(1);
    let calls: Vec<_> = (0..32).map(|_| started(&mut client, "2S")).collect();
    eventually("all wait", || running.m1("tidegate_queued_rows") == 32.0);
    gate.open();
    assert_eq!(client.finish(first).code, Code::Internal as i32);
    let codes: Vec<_> = calls.into_iter().map(|call| client.finish(call).code).collect();
    assert!(codes.contains(&(Code::DeadlineExceeded as i32)), "{codes:?}");
    // The executor is through with the batch once it takes another request.
    let after = started(&mut client, "20S");
    assert_eq!(client.finish(after).code, Code::Internal as i32);
    let runs = model.entries.load(Ordering::Relaxed);
    assert!(runs < 20, "{runs} runs for 32 requests that live for 2 s");
}

#[test]
fn a_model_that_always_raises_is_given_up_after_few_runs() {
    let model = Model::new(|_| Err(Status::new(Code::OutOfRange, "it always raises")));
    // One batch of all; a row of it runs first, as nothing is known of the model.
    let running = running(&model, Batching { max_batch_rows: 256, timeout_us: 60_000_000, ..support::batching() });
    let mut client = running.grpc();
    let calls: Vec<_> = (0..256).map(|_| started(&mut client, "600S")).collect();
    for call in calls {
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
    let calls: Vec<_> = (0..300).map(|_| started(&mut client, "4S")).collect();
    eventually("all wait", || running.m1("tidegate_queued_rows") == 300.0);
    assert!(running.sample("tidegate_request_memory_bytes") > before);
    for call in calls {
        assert_eq!(client.finish(call).code, Code::DeadlineExceeded as i32);
    }
    eventually("its memory is back", || running.sample("tidegate_request_memory_bytes") == before);
    assert_eq!(running.m1("tidegate_deadline_drops_total"), 300.0);
    gate.open();
    assert_eq!(client.finish(first).code, 0);
}
