//! One request of more rows than its queue holds runs some rows at a time; its answer, its errors, its deadline and its log
//! are those of one request.

use std::sync::Arc;
use std::time::Duration;

use crate::support;
use crate::support::messages::{float_values, outputs, predict_x};
use crate::support::{
    Gate, Model, Running, answer, eventually, floats, grpc, half_plus_two, publish_with, scalar_signature, settings,
};
use proptest::prelude::*;
use tidegate_codec::signatures::{FirstAxis, Signature};
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::Tensor;
use tidegate_engine::batching::{Batching, Prediction};
use tidegate_engine::serving_map::Change;

fn narrow(max_batch_rows: usize, max_queued_rows: usize) -> Batching {
    Batching { max_batch_rows, max_queued_rows, ..support::batching() }
}

fn running(model: &Arc<Model>, batching: Batching) -> Running {
    let running = Running::start(&settings());
    running.plane.apply(vec![publish_with("m", 1, model, scalar_signature(), batching)]).unwrap();
    running
}

fn ramp(rows: usize) -> Vec<f32> {
    (0..rows).map(|value| value as f32).collect()
}

fn rows_of_runs(model: &Model) -> Vec<usize> {
    model.seen().iter().map(|offsets| *offsets.last().unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn the_answer_for_row_i_is_for_row_i(rows in 17usize..300, most in 1usize..16) {
        let model = Model::half_plus_two();
        let running = running(&model, narrow(most, 16));
        let found = running.grpc().predict(&predict_x(&ramp(rows)));
        prop_assert_eq!(found.code, 0, "{}", found.message);
        let expected: Vec<f32> = ramp(rows).iter().map(|value| value * 0.5 + 2.0).collect();
        prop_assert_eq!(float_values(&outputs(&found.body)[0].1), expected);
        let runs = rows_of_runs(&model);
        prop_assert!(runs.iter().all(|rows| *rows <= most), "{:?}", runs);
        prop_assert_eq!(runs.iter().sum::<usize>(), rows);
    }
}

#[test]
fn an_error_in_one_run_is_the_request_s_and_ends_it() {
    let model = Model::new(|work| match floats(&work.columns[0]).contains(&21.0) {
        true => Err(Status::new(Code::OutOfRange, "21 cannot be")),
        false => Ok(answer(half_plus_two(work))),
    });
    let running = running(&model, narrow(8, 16));
    let failed = running.grpc().predict(&predict_x(&ramp(100)));
    assert_eq!((failed.code, failed.message.as_str()), (Code::OutOfRange as i32, "21 cannot be"));
    assert_eq!(rows_of_runs(&model), [8, 8, 8]);
    assert_eq!(running.grpc().predict(&predict_x(&ramp(20))).code, 0);
}

#[test]
fn an_error_of_a_row_in_a_later_run_is_the_request_s() {
    let model = Model::new(|work| {
        let bad = floats(&work.columns[0]).iter().position(|value| *value == 21.0);
        let errors = bad.map(|row| (row, Status::new(Code::DataLoss, "21 is lost"))).into_iter().collect();
        Ok(Prediction { outputs: vec![Some(half_plus_two(work))], errors })
    });
    let running = running(&model, narrow(8, 16));
    let failed = running.grpc().predict(&predict_x(&ramp(100)));
    assert_eq!((failed.code, failed.message.as_str()), (Code::DataLoss as i32, "21 is lost"));
}

#[test]
fn it_is_given_up_between_two_runs_when_nobody_waits_any_more() {
    let model = Model::new(|work| {
        std::thread::sleep(Duration::from_millis(20));
        Ok(answer(half_plus_two(work)))
    });
    let running = running(&model, narrow(8, 16));
    let mut client = running.grpc();
    let late = client.call(grpc::PREDICT, &[("grpc-timeout", "100m")], &predict_x(&ramp(8000)));
    assert_eq!(late.code, Code::DeadlineExceeded as i32);
    drop(client.start(grpc::PREDICT, &[("grpc-timeout", "20S")], grpc::frame(&predict_x(&ramp(800)))));
    assert_eq!(client.predict(&predict_x(&[1.0])).code, 0);
    let runs = rows_of_runs(&model).len();
    assert!(runs < 400, "{runs} of 1100 runs for requests that nobody waits for");
}

#[test]
fn its_rows_are_logged_as_those_of_one_request() {
    let running = running(&Model::half_plus_two(), narrow(8, 16));
    running.plane.apply(vec![Change::SetLog { model: "m".to_owned(), rate: 1.0 }]).unwrap();
    assert_eq!(running.grpc().predict(&predict_x(&ramp(50))).code, 0);
    eventually("it is logged", || running.log_rows("written", "primary") == 50.0);
    let blocks = running.hooks.blocks.lock().unwrap();
    let logged: Vec<(f32, f32)> = blocks
        .iter()
        .flat_map(|block| floats(&block.inputs[0].values).into_iter().zip(floats(&block.outputs[0].values)))
        .collect();
    assert_eq!(logged, ramp(50).iter().map(|value| (*value, value * 0.5 + 2.0)).collect::<Vec<_>>());
}

#[test]
fn rows_that_only_seem_to_be_rows_run_together() {
    let model = Model::new(|work| {
        let sum: f32 = floats(&work.columns[0]).iter().sum();
        let output = Tensor { column: support::column_of(&vec![sum; work.rows]), shape: vec![work.rows] };
        Ok(answer(output))
    });
    let running = Running::start(&settings());
    let assumed = Signature { first_axis: FirstAxis::Assumed, ..scalar_signature() };
    running.plane.apply(vec![publish_with("m", 1, &model, assumed, narrow(8, 16))]).unwrap();
    let found = running.grpc().predict(&predict_x(&ramp(100)));
    assert_eq!(float_values(&outputs(&found.body)[0].1), [4950.0; 100]);
}

#[test]
fn others_have_their_turn_between_two_of_its_runs() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let running = running(&model, narrow(8, 16));
    let mut client = running.grpc();
    let many = client.start(grpc::PREDICT, &[], grpc::frame(&predict_x(&ramp(80))));
    gate.wait_for(1);
    let one = client.start(grpc::PREDICT, &[], grpc::frame(&predict_x(&[1.0])));
    eventually("the other waits", || running.m1("tidegate_queued_rows") == 1.0);
    gate.open();
    assert_eq!(float_values(&outputs(&client.finish(one).body)[0].1), [2.5]);
    assert_eq!(float_values(&outputs(&client.finish(many).body)[0].1).len(), 80);
    assert_eq!(rows_of_runs(&model), [8, 1, 8, 8, 8, 8, 8, 8, 8, 8, 8]);
}

#[test]
fn others_are_not_refused_for_the_time_that_it_takes() {
    let model = Model::new(|work| {
        std::thread::sleep(Duration::from_millis(20 * work.rows as u64));
        Ok(answer(half_plus_two(work)))
    });
    let running = running(&model, narrow(8, 64));
    let mut client = running.grpc();
    for rows in [1, 8, 1, 8, 1, 8] {
        assert_eq!(client.predict(&predict_x(&ramp(rows))).code, 0);
    }
    let start = |client: &mut grpc::Client, timeout, rows| {
        client.start(grpc::PREDICT, &[("grpc-timeout", timeout)], grpc::frame(&predict_x(&ramp(rows))))
    };
    let many = [start(&mut client, "20S", 400), start(&mut client, "20S", 400)];
    eventually("one of them runs", || rows_of_runs(&model).len() > 6);
    let others: Vec<grpc::Call> = (0..12).map(|_| start(&mut client, "10S", 2)).collect();
    for other in others {
        let found = client.finish(other);
        assert_eq!(found.code, 0, "{}", found.message);
    }
    drop(many);
}
