//! The batch queue through real sockets: who joins which batch, what is refused, bisected, too late or given up.
//! A gated model holds the first batch, so that each test decides what waits behind it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support;
use crate::support::messages::{Request, content, float_tensor, float_values, outputs, predict_x, tensor};
use crate::support::{
    Gate, LONG, Model, Running, answer, eventually, floats, half_plus_two, publish, publish_with, scalar_signature,
    settings, signature, spec,
};
use tidegate_codec::dtype::DType;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::batching::{Batching, Prediction};
use tidegate_engine::serving_map::Change;
use tidegate_plane::settings::Settings;

/// A plane whose first batch, of one row, stands at the gate.
fn held(executor: &Arc<Model>, gate: &Gate, batching: Batching) -> (Running, support::rest::Client) {
    let running = Running::start(&settings());
    running.plane.apply(vec![publish_with("m", 1, executor, scalar_signature(), batching)]).unwrap();
    let mut first = running.rest();
    first.send_predict(r#"{"instances":[0]}"#);
    gate.wait_for(1);
    (running, first)
}

fn queued(running: &Running, rows: f64) {
    eventually("rows are queued", || running.m1("tidegate_queued_rows") == rows);
}

#[test]
fn a_lone_request_does_not_wait() {
    let model = Model::half_plus_two();
    let running = Running::with(&model);
    let answer = running.rest().predict(r#"{"instances":[1,2]}"#);
    assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"predictions":[2.5,3.0]}"#));
    assert_eq!(model.seen(), [[0, 2]]);
}

#[test]
fn what_waits_behind_a_running_batch_joins_one_batch_and_each_gets_its_rows() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let (running, mut first) = held(&model, &gate, support::batching());
    let mut clients: Vec<_> = (0..8).map(|_| running.rest()).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        let rows: Vec<String> = (0..=index % 3).map(|row| format!("{}", 100 * index + row)).collect();
        client.send_predict(&format!(r#"{{"instances":[{}]}}"#, rows.join(",")));
    }
    queued(&running, 15.0);
    gate.open();
    assert_eq!(first.receive().body, r#"{"predictions":[2.0]}"#);
    for (index, client) in clients.iter_mut().enumerate() {
        let rows: Vec<String> =
            (0..=index % 3).map(|row| format!("{:?}", (100 * index + row) as f32 * 0.5 + 2.0)).collect();
        assert_eq!(client.receive().body, format!(r#"{{"predictions":[{}]}}"#, rows.join(",")));
    }
    let seen = model.seen();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!((seen[1].len(), seen[1].last()), (9, Some(&15)));
    assert_eq!(running.m1("tidegate_python_entries_total"), running.m1("tidegate_batches_total"));
}

#[test]
fn a_batch_never_has_more_rows_than_its_limit_unless_one_request_does() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let (running, _first) = held(&model, &gate, Batching { max_batch_rows: 4, ..support::batching() });
    let mut clients: Vec<_> = (0..4).map(|_| running.rest()).collect();
    for (client, rows) in clients.iter_mut().zip(["1,2,3", "4,5", "6,7,8,9,10,11", "12"]) {
        let before = running.m1("tidegate_queued_rows");
        client.send_predict(&format!(r#"{{"instances":[{rows}]}}"#));
        eventually("it is queued", || running.m1("tidegate_queued_rows") > before);
    }
    gate.open();
    let bodies: Vec<String> = clients.iter_mut().map(|client| client.receive().body).collect();
    assert_eq!(bodies[1], r#"{"predictions":[4.0,4.5]}"#);
    assert_eq!(bodies[3], r#"{"predictions":[8.0]}"#);
    assert_eq!(model.seen()[1..], [vec![0, 3], vec![0, 2], vec![0, 6], vec![0, 1]]);
}

/// Behind a running batch, `first` waits; `last` cannot join it and nothing comes after. Both bodies.
fn last_behind(running: &Running, gate: &Gate, first: &str, last: &str) -> [String; 2] {
    let mut clients = [running.rest(), running.rest()];
    for (client, instances) in clients.iter_mut().zip([first, last]) {
        let before = running.m1("tidegate_queued_rows");
        client.send_predict(&format!(r#"{{"instances":{instances}}}"#));
        eventually("it is queued", || running.m1("tidegate_queued_rows") > before);
    }
    gate.open();
    clients.map(|mut client| client.receive().body)
}

#[test]
fn the_last_request_runs_although_it_did_not_fit_into_the_batch_before_it() {
    let gate = Arc::new(Gate::default());
    let (running, _first) = held(&Model::gated(&gate), &gate, Batching { max_batch_rows: 4, ..support::batching() });
    let bodies = last_behind(&running, &gate, "[1,2,3]", "[4,5]");
    assert_eq!(bodies, [r#"{"predictions":[2.5,3.0,3.5]}"#, r#"{"predictions":[4.0,4.5]}"#]);
}

#[test]
fn the_last_request_runs_although_its_inner_shape_is_another() {
    let gate = Arc::new(Gate::default());
    let running = Running::start(&settings());
    let ragged = signature(vec![spec("x", DType::Float32, &[-1, -1])], vec![spec("y", DType::Float32, &[-1, -1])]);
    running.plane.apply(vec![publish_with("m", 1, &Model::gated(&gate), ragged, support::batching())]).unwrap();
    let mut held = running.rest();
    held.send_predict(r#"{"instances":[[0]]}"#);
    gate.wait_for(1);
    let bodies = last_behind(&running, &gate, "[[1]]", "[[1,2]]");
    assert_eq!(bodies, [r#"{"predictions":[[2.5]]}"#, r#"{"predictions":[[2.5,3.0]]}"#]);
}

#[test]
fn a_full_queue_refuses_at_once_and_says_its_limit() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let (running, _first) = held(&model, &gate, Batching { max_queued_rows: 3, ..support::batching() });
    let mut waiting = running.rest();
    waiting.send_predict(r#"{"instances":[1,2]}"#);
    queued(&running, 2.0);
    let refused = running.rest().predict(r#"{"instances":[1,2]}"#);
    assert_eq!(refused.status, 429);
    assert!(refused.body.contains("limit of 3 rows"), "{}", refused.body);
    let over_grpc = running.grpc().predict(&predict_x(&[1.0, 2.0]));
    assert_eq!(over_grpc.code, Code::ResourceExhausted as i32);
    assert!(over_grpc.message.contains("limit of 3 rows"), "{}", over_grpc.message);
    assert_eq!(running.m1("tidegate_queue_rejections_total"), 2.0);
    queued(&running, 2.0);
    gate.open();
    assert_eq!(waiting.receive().body, r#"{"predictions":[2.5,3.0]}"#);
    assert_eq!(running.rest().predict(r#"{"instances":[4]}"#).status, 200);
}

#[test]
fn rows_of_different_inner_shape_are_not_joined() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let running = Running::start(&settings());
    let ragged = signature(vec![spec("x", DType::Float32, &[-1, -1])], vec![spec("y", DType::Float32, &[-1, -1])]);
    running.plane.apply(vec![publish_with("m", 1, &model, ragged, support::batching())]).unwrap();
    let mut clients: Vec<_> = (0..5).map(|_| running.rest()).collect();
    let bodies = ["[[1]]", "[[1,2]]", "[[3,4]]", "[[5]]", "[[6],[7]]"];
    for (index, (client, rows)) in clients.iter_mut().zip(bodies).enumerate() {
        client.send_predict(&format!(r#"{{"instances":{rows}}}"#));
        if index == 0 {
            gate.wait_for(1);
        }
        let rows = [0.0, 1.0, 2.0, 3.0, 5.0][index];
        queued(&running, rows);
    }
    gate.open();
    let answers: Vec<String> = clients.iter_mut().map(|client| client.receive().body).collect();
    assert_eq!(answers[2], r#"{"predictions":[[3.5,4.0]]}"#);
    assert_eq!(answers[4], r#"{"predictions":[[5.0],[5.5]]}"#);
    assert_eq!(model.seen(), [vec![0, 1], vec![0, 1, 2], vec![0, 1, 3]]);
}

/// Raises whenever a negative value is in the batch.
fn touchy(gate: &Arc<Gate>) -> Arc<Model> {
    let gate = gate.clone();
    Model::new(move |work| {
        gate.pass();
        let values = floats(&work.columns[0]);
        match values.iter().find(|value| **value < 0.0) {
            Some(value) => Err(Status::new(Code::OutOfRange, format!("{value} is negative"))),
            None => Ok(answer(half_plus_two(work))),
        }
    })
}

#[test]
fn one_bad_request_fails_alone() {
    let gate = Arc::new(Gate::default());
    let model = touchy(&gate);
    let (running, _first) = held(&model, &gate, support::batching());
    let mut clients: Vec<_> = (0..16).map(|_| running.rest()).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        let value = if index == 5 || index == 11 { -(index as i64) } else { index as i64 };
        client.send_predict(&format!(r#"{{"instances":[{value},{value}]}}"#));
    }
    queued(&running, 32.0);
    gate.open();
    for (index, client) in clients.iter_mut().enumerate() {
        let answer = client.receive();
        if index == 5 || index == 11 {
            assert_eq!((answer.status, answer.body), (400, format!(r#"{{"error":"-{index} is negative"}}"#)));
        } else {
            let value = index as f32 * 0.5 + 2.0;
            assert_eq!(answer.body, format!(r#"{{"predictions":[{value:?},{value:?}]}}"#));
        }
    }
    assert!(running.m1("tidegate_bisections_total") >= 1.0);
    assert_eq!(running.m1("tidegate_batches_total"), running.m1("tidegate_python_entries_total"));
}

#[test]
fn of_large_requests_in_one_batch_each_gets_its_rows_and_is_logged_as_it_came() {
    const WIDE: usize = 20_000;
    let gate = Arc::new(Gate::default());
    let model = touchy(&gate);
    let running = Running::start(&settings());
    let wide = |name| spec(name, DType::Float32, &[-1, WIDE as i64]);
    let one = publish("m", 1, &model, signature(vec![wide("x")], vec![wide("y")]));
    running.plane.apply(vec![one, Change::SetLog { model: "m".to_owned(), rate: 1.0 }]).unwrap();
    let message = |value: f32| {
        let bytes = value.to_le_bytes().repeat(WIDE);
        let x = tensor(DType::Float32.tensorflow(), &[1, WIDE as i64], &content(&bytes));
        support::grpc::frame(&Request::new("m").input("x", x).encode())
    };
    let sent = [0.0, 1.0, -2.0, 3.0, 4.0];
    let start = |value| {
        let mut client = running.grpc();
        let call = client.start(support::grpc::PREDICT, &[], message(value));
        (client, call)
    };
    let mut calls = vec![start(sent[0])];
    gate.wait_for(1);
    calls.extend(sent[1..].iter().map(|value| start(*value)));
    queued(&running, 4.0);
    gate.open();
    for ((client, call), value) in calls.into_iter().zip(sent) {
        let answer = client.finish(call);
        if value < 0.0 {
            assert_eq!((answer.code, answer.message.as_str()), (11, "-2 is negative"));
        } else {
            let (_, y) = outputs(&answer.body).remove(0);
            assert_eq!(float_values(&y), [value * 0.5 + 2.0].repeat(WIDE));
        }
    }
    assert_eq!(model.seen()[1], [0, 1, 2, 3, 4]);
    eventually("all is logged", || running.log_rows("written", "primary") == sent.len() as f64);
    let blocks = running.hooks.blocks.lock().unwrap();
    let logged: Vec<f32> = blocks.iter().flat_map(|block| floats(&block.inputs[0].values)).collect();
    let mut first: Vec<f32> = logged.chunks(WIDE).map(|row| row[0]).collect();
    assert!(logged.chunks(WIDE).all(|row| row.iter().all(|value| *value == row[0])));
    first.sort_by(f32::total_cmp);
    assert_eq!(first, [-2.0, 0.0, 1.0, 3.0, 4.0]);
}

#[test]
fn errors_by_row_fail_their_request_only() {
    let model = Model::new(|work| {
        let output = half_plus_two(work);
        let bad = floats(&work.columns[0]).iter().position(|value| *value < 0.0);
        let errors = bad.map(|row| (row, Status::new(Code::DataLoss, format!("row {row}")))).into_iter().collect();
        Ok(Prediction { outputs: vec![Some(output)], errors })
    });
    let running = Running::with(&model);
    let mut grpc = running.grpc();
    let refused = grpc.predict(&predict_x(&[1.0, -1.0]));
    assert_eq!((refused.code, refused.message.as_str()), (Code::DataLoss as i32, "row 1"));
    assert_eq!(float_values(&outputs(&grpc.predict(&predict_x(&[1.0])).body)[0].1), [2.5]);
}

#[test]
fn a_model_that_answers_wrongly_is_named_by_its_output() {
    type Run = fn(&tidegate_engine::batching::executor::Work) -> Prediction;
    let wrong: [(&str, Run); 3] = [
        ("did not return output 'y'", |_| Prediction { outputs: vec![None], errors: Vec::new() }),
        ("output 'y' of shape [1] for 2 rows", |work| {
            let mut output = half_plus_two(work);
            output.shape = vec![1];
            answer(output)
        }),
        ("output 'y' that is not of dtype float32", |work| {
            let mut output = half_plus_two(work);
            output.column.truncate(4);
            answer(output)
        }),
    ];
    for (text, run) in wrong {
        let model = Model::new(move |work| Ok(run(work)));
        let running = Running::with(&model);
        let answer = running.rest().predict(r#"{"instances":[1,2]}"#);
        assert_eq!(answer.status, 500);
        assert!(answer.body.contains(text), "{}", answer.body);
        assert_eq!(model.seen().len(), 1, "a wrong answer is no reason to run again");
    }
    let model = Model::new(|_| panic!("on purpose"));
    let running = Running::with(&model);
    assert_eq!(running.rest().predict(r#"{"instances":[1]}"#).status, 500);
    assert_eq!(running.rest().predict(r#"{"instances":[1]}"#).status, 500, "the thread lives on");
}

#[test]
fn a_deadline_that_passes_in_the_queue_is_answered_in_time_and_not_computed() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let (running, _first) = held(&model, &gate, support::batching());
    let mut grpc = running.grpc();
    let (mut asked, mut in_time) = (0.0, 0);
    // On a busy machine any thread may be late; most of so many must be in time.
    while asked < 25.0 && in_time < 5 {
        let started = Instant::now();
        let call =
            grpc.start(support::grpc::PREDICT, &[("grpc-timeout", "60m")], support::grpc::frame(&predict_x(&[9.0])));
        let late = grpc.finish(call);
        let took = started.elapsed();
        assert_eq!(late.code, Code::DeadlineExceeded as i32, "{}", late.message);
        assert!(late.message.contains("waited in the batch queue"), "{}", late.message);
        assert!(took >= Duration::from_millis(60), "{took:?}");
        asked += 1.0;
        in_time += usize::from(took < Duration::from_millis(160));
    }
    assert_eq!(in_time, 5, "of {asked}");
    gate.open();
    eventually("the dead are dropped", || running.m1("tidegate_deadline_drops_total") == asked);
    assert_eq!(running.rest().predict(r#"{"instances":[1]}"#).status, 200);
    assert!(model.seen().iter().all(|offsets| *offsets == [0, 1]), "{:?}", model.seen());
    assert_eq!(model.seen().len(), 2);
}

#[test]
fn a_short_deadline_behind_a_long_one_is_kept_too() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let (running, _first) = held(&model, &gate, support::batching());
    let mut grpc = running.grpc();
    let mut start = |timeout| {
        grpc.start(support::grpc::PREDICT, &[("grpc-timeout", timeout)], support::grpc::frame(&predict_x(&[9.0])))
    };
    // The client waits for less than the long one.
    let (long, short) = (start("120S"), start("30m"));
    assert_eq!(grpc.finish(short).code, Code::DeadlineExceeded as i32);
    gate.open();
    assert_eq!(grpc.finish(long).code, 0);
}

#[test]
fn a_rest_request_has_the_deadline_of_the_settings() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let running = Running::start(&Settings { request_timeout: Duration::from_millis(50), ..settings() });
    running.plane.apply(vec![support::publish("m", 1, &model, scalar_signature())]).unwrap();
    let late = running.rest().predict(r#"{"instances":[1]}"#);
    assert_eq!(late.status, 504);
    assert!(late.body.contains("the deadline passed while the request"), "{}", late.body);
    gate.open();
}

#[test]
fn a_client_that_went_away_is_not_computed_for() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let (running, _first) = held(&model, &gate, support::batching());
    let mut gone_rest = running.rest();
    gone_rest.send_predict(r#"{"instances":[7,7]}"#);
    let mut grpc = running.grpc();
    let gone_grpc = grpc.start(support::grpc::PREDICT, &[], support::grpc::frame(&predict_x(&[8.0])));
    let mut leaving = running.grpc();
    let _unheard = leaving.start(support::grpc::PREDICT, &[], support::grpc::frame(&predict_x(&[9.0])));
    let mut stays = running.rest();
    stays.send_predict(r#"{"instances":[1]}"#);
    queued(&running, 5.0);
    drop(gone_rest);
    drop(gone_grpc);
    drop(leaving);
    let cancelled = |endpoint| {
        running.sample(&format!(
            "tidegate_requests_total{{endpoint=\"{endpoint}\",model=\"m\",version=\"1\",status=\"CANCELLED\"}}"
        ))
    };
    eventually("all are seen to be gone", || cancelled("rest") + cancelled("grpc") == 3.0);
    gate.open();
    assert_eq!(stays.receive().body, r#"{"predictions":[2.5]}"#);
    assert_eq!(model.seen(), [[0, 1], [0, 1]]);
    assert_eq!(running.m1("tidegate_cancelled_total"), 3.0);
}

/// A plane whose batches of three rows wait so long for more.
fn patient(model: &Arc<Model>, timeout: Duration) -> Running {
    let running = Running::start(&settings());
    let batching = Batching { timeout_us: timeout.as_micros() as u64, max_batch_rows: 3, ..support::batching() };
    running.plane.apply(vec![publish_with("m", 1, model, scalar_signature(), batching)]).unwrap();
    running
}

#[test]
fn a_batch_goes_once_it_has_waited_for_its_timeout() {
    let model = Model::half_plus_two();
    let running = patient(&model, Duration::from_millis(300));
    let mut client = running.rest();
    let started = Instant::now();
    assert_eq!(client.predict(r#"{"instances":[1]}"#).status, 200);
    assert!(started.elapsed() >= Duration::from_millis(300), "{:?}", started.elapsed());
}

#[test]
fn a_batch_that_is_full_does_not_wait_for_its_timeout() {
    let model = Model::half_plus_two();
    // Longer than the clients wait.
    let running = patient(&model, LONG * 2);
    let (mut one, mut two) = (running.rest(), running.rest());
    one.send_predict(r#"{"instances":[1]}"#);
    queued(&running, 1.0);
    two.send_predict(r#"{"instances":[2,3]}"#);
    assert_eq!((one.receive().status, two.receive().status), (200, 200));
    assert_eq!(model.seen(), [[0, 1, 3]]);
}

#[test]
fn several_io_threads_and_executor_threads_answer_everyone_rightly() {
    let model = Model::half_plus_two();
    let running = Running::start(&Settings { io_threads: 3, ..settings() });
    let batching = Batching { concurrency: 2, max_batch_rows: 5, ..support::batching() };
    running.plane.apply(vec![publish_with("m", 1, &model, scalar_signature(), batching)]).unwrap();
    std::thread::scope(|scope| {
        for client in 0..12 {
            let running = &running;
            scope.spawn(move || {
                let (mut rest, mut grpc) = (running.rest(), running.grpc());
                for round in 0..50 {
                    let value = (client * 1000 + round) as f32;
                    let expected = value * 0.5 + 2.0;
                    let body = rest.predict(&format!(r#"{{"instances":[{value}]}}"#)).body;
                    assert_eq!(body, format!(r#"{{"predictions":[{expected:?}]}}"#));
                    let answer = grpc.predict(&Request::new("m").input("x", float_tensor(&[value])).encode());
                    assert_eq!(float_values(&outputs(&answer.body)[0].1), [expected]);
                }
            });
        }
    });
    assert_eq!(running.m1("tidegate_rows_total"), 1200.0);
    assert_eq!(running.m1("tidegate_batches_total"), model.seen().len() as f64);
}
