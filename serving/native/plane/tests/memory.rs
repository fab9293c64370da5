//! The budget in bytes: what is filled in, what arrives and what waits is counted, and refused at once where there is none.

use std::io::Write;
use std::sync::Arc;

use crate::support::infer::{STREAM_INFER, infer};
use crate::support::messages::{Request, predict_x, tensor};
use crate::support::{
    Gate, Model, Running, batching, eventually, grpc, publish, publish_with, scalar_signature, settings,
};
use crate::support::{answer, column_of, half_plus_two, signature, spec};
use tidegate_codec::dtype::DType;
use tidegate_codec::tensors::{Column, Tensor, Words};
use tidegate_engine::batching::Batching;
use tidegate_engine::memory::SMALL;
use tidegate_engine::serving_map::Change;
use tidegate_plane::endpoints::grpc::reflection;
use tidegate_plane::settings::Settings;

const MB: usize = 1 << 20;

fn bounded() -> Settings {
    Settings { request_memory_bytes: 80 * MB, max_message_bytes: 8 * MB, ..settings() }
}

fn used(running: &Running) -> f64 {
    running.sample("tidegate_request_memory_bytes")
}

/// A few bytes that become 4 MB, as the signature's inputs are filled with zeros.
fn filled() -> Vec<u8> {
    Request::new("m").input("x", tensor(DType::Float32.tensorflow(), &[500, 2000], &[])).encode()
}

#[test]
fn what_is_filled_in_is_counted_before_and_small_requests_go_on() {
    let running = Running::start(&bounded());
    let gate = Arc::new(Gate::default());
    let wide = signature(vec![spec("x", DType::Float32, &[-1, 2000])], vec![spec("y", DType::Float32, &[-1])]);
    let many = Batching { max_queued_rows: 1 << 20, ..batching() };
    let at = gate.clone();
    let model = Model::new(move |work| {
        at.pass();
        Ok(answer(Tensor { column: column_of(&vec![0.0; work.rows]), shape: vec![work.rows] }))
    });
    running.plane.apply(vec![publish_with("m", 1, &model, wide, many)]).unwrap();
    running.plane.apply(vec![publish("n", 1, &Model::half_plus_two(), scalar_signature())]).unwrap();
    let mut client = running.grpc();
    let calls: Vec<_> = (0..40).map(|_| client.start(grpc::PREDICT, &[], grpc::frame(&filled()))).collect();
    eventually("most are refused", || running.sample("tidegate_request_memory_refusals_total") >= 30.0);
    assert!(used(&running) <= (40 * MB) as f64, "a model has half: {}", used(&running));
    assert_eq!(running.rest().post("/v1/models/n:predict", r#"{"instances": [2]}"#).status, 200);
    let row = Request::new("m").input("x", tensor(DType::Float32.tensorflow(), &[1, 2000], &[])).encode();
    let small = client.start(grpc::PREDICT, &[], grpc::frame(&row));
    gate.open();
    assert_eq!(client.finish(small).code, 0);
    let answers: Vec<_> = calls.into_iter().map(|call| client.finish(call)).collect();
    let refused: Vec<_> = answers.iter().filter(|answer| answer.code != 0).collect();
    assert!((30..=31).contains(&refused.len()), "{}", refused.len());
    assert!(refused.iter().all(|answer| answer.code == 8), "{refused:?}");
    assert!(refused[0].message.contains("request_memory_bytes is 83886080"), "{}", refused[0].message);
    eventually("all is given back", || used(&running) == 0.0);
}

#[test]
fn bodies_are_counted_as_they_come_and_given_back_when_their_senders_go() {
    let running = Running::start(&bounded());
    running.plane.apply(vec![publish("n", 1, &Model::half_plus_two(), scalar_signature())]).unwrap();
    let mut senders: Vec<_> = (0..16).map(|_| running.rest()).collect();
    for sender in &mut senders {
        let head = format!("POST /v1/models/n:predict HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n", 7 * MB);
        // A sender that is refused may find its connection closed.
        let _ = sender.stream.write_all(head.as_bytes());
        let _ = sender.stream.write_all(&vec![b' '; 7 * MB - 1]);
    }
    eventually("some are refused", || running.sample("tidegate_request_memory_refusals_total") >= 4.0);
    let whole = (80 * MB) as f64;
    assert!(used(&running) > whole / 2.0 && used(&running) < whole, "{}", used(&running));
    assert_eq!(running.rest().post("/v1/models/n:predict", r#"{"instances": [2]}"#).status, 200);
    drop(senders);
    eventually("all is given back", || used(&running) == 0.0);
}

#[test]
fn one_connection_has_a_quarter_for_messages_that_are_not_complete() {
    let running = Running::start(&bounded());
    running.plane.apply(vec![publish("n", 1, &Model::half_plus_two(), scalar_signature())]).unwrap();
    let mut client = running.grpc();
    let mut half = grpc::frame(&vec![0; 6 * MB]);
    half.truncate(5 * MB);
    let calls: Vec<_> = (0..12).map(|_| client.open_ended(grpc::PREDICT, &[], half.clone())).collect();
    eventually("some are refused", || running.sample("tidegate_request_memory_refusals_total") >= 1.0);
    // What began last may still hold its first bytes, which come out of the reserve for small requests.
    let most = 20 * MB + calls.len() * SMALL;
    assert!(used(&running) <= most as f64, "{}", used(&running));
    assert_eq!(running.rest().post("/v1/models/n:predict", r#"{"instances": [2]}"#).status, 200);
    drop(calls);
    drop(client);
    eventually("all is given back", || used(&running) == 0.0);
}

#[test]
fn the_copy_for_the_log_is_counted_and_left_out_where_there_is_no_memory() {
    let running = Running::start(&Settings { request_memory_bytes: 8 * MB, ..settings() });
    let gate = Arc::new(Gate::default());
    let at = gate.clone();
    let model = Model::new(move |work| {
        if work.rows > 100_000 {
            at.pass();
        }
        Ok(answer(half_plus_two(work)))
    });
    let many = Batching { max_queued_rows: 1 << 20, max_batch_rows: 1 << 20, concurrency: 2, ..batching() };
    running.plane.apply(vec![publish_with("m", 1, &model, scalar_signature(), many)]).unwrap();
    running.plane.apply(vec![Change::SetLog { model: "m".to_owned(), rate: 1.0 }]).unwrap();
    let mut client = running.grpc();
    let mut start = |rows| client.start(grpc::PREDICT, &[], grpc::frame(&predict_x(&vec![1.0; rows])));
    // The model may hold 4 MB: these rows, their copy and what it will answer, twice, and the same of the next request
    // but for the copy.
    let first = start(225_000);
    gate.wait_for(1);
    eventually("rows, copy and answers are counted", || used(&running) == 3_600_000.0);
    let second = start(45_000);
    assert_eq!(client.finish(second).code, 0, "it is answered all the same");
    eventually("it is left out of the log", || running.log_rows("dropped", "primary") == 45e3);
    assert_eq!(running.log_rows("eligible", "primary"), 45e3);
    gate.open();
    assert_eq!(client.finish(first).code, 0);
    eventually("the others are logged", || running.log_rows("written", "primary") == 225e3);
    eventually("all is given back", || used(&running) == 0.0);
}

#[test]
fn a_batch_closes_before_its_answers_are_very_large() {
    const WIDTH: usize = 1 << 20;
    let running = Running::start(&Settings { max_message_bytes: 64 * MB, ..settings() });
    let gate = Arc::new(Gate::default());
    let at = gate.clone();
    let model = Model::new(move |work| {
        at.pass();
        let mut zeros = Words::default();
        zeros.grow_zeros(work.rows * WIDTH * 4);
        Ok(answer(Tensor { column: Column::Raw(zeros), shape: vec![work.rows, WIDTH] }))
    });
    let wide = spec("y", DType::Float32, &[-1, WIDTH as i64]);
    let narrow = signature(vec![spec("x", DType::Float32, &[-1])], vec![wide]);
    running.plane.apply(vec![publish("m", 1, &model, narrow)]).unwrap();
    let mut client = running.grpc();
    let row = Request::new("m").input("x", tensor(DType::Float32.tensorflow(), &[1], &[])).encode();
    let first = client.start(grpc::PREDICT, &[], grpc::frame(&row));
    gate.wait_for(1);
    let calls: Vec<_> = (0..40).map(|_| client.start(grpc::PREDICT, &[], grpc::frame(&row))).collect();
    eventually("all the others wait", || running.m1("tidegate_queued_rows") == 40.0);
    gate.open();
    let sizes = || model.seen().iter().map(|offsets| offsets.len() - 1).collect::<Vec<_>>();
    eventually("all ran", || sizes().iter().sum::<usize>() == 41);
    assert!(sizes().iter().all(|rows| *rows <= 3) && sizes().len() <= 16, "{:?}", sizes());
    drop((first, calls));
}

#[test]
fn a_model_does_not_run_for_answers_that_no_memory_would_hold() {
    const WIDTH: usize = 1 << 20;
    let running = Running::start(&bounded());
    let model = Model::new(move |work| {
        let mut zeros = Words::default();
        zeros.grow_zeros(work.rows * WIDTH * 4);
        Ok(answer(Tensor { column: Column::Raw(zeros), shape: vec![work.rows, WIDTH] }))
    });
    let wide = spec("y", DType::Float32, &[-1, WIDTH as i64]);
    let narrow = signature(vec![spec("x", DType::Float32, &[-1])], vec![wide]);
    running.plane.apply(vec![publish("m", 1, &model, narrow)]).unwrap();
    let mut client = running.grpc();
    let call = client.start(grpc::PREDICT, &[], grpc::frame(&predict_x(&[1.0; 500])));
    let refused = client.finish(call);
    assert_eq!((refused.code, model.seen().len()), (8, 0), "{}", refused.message);
    assert!(refused.message.contains("request_memory_bytes is 83886080"), "{}", refused.message);
    let call = client.start(grpc::PREDICT, &[], grpc::frame(&predict_x(&[1.0])));
    assert_eq!((client.finish(call).code, model.seen().len()), (0, 1));
    eventually("all is given back", || used(&running) == 0.0);
}

fn tight() -> Settings {
    Settings { request_memory_bytes: 2 * MB, max_message_bytes: 64 << 10, ..settings() }
}

#[test]
fn heads_whose_messages_do_not_come_are_counted() {
    let running = Running::start(&tight());
    running.plane.apply(vec![publish("n", 1, &Model::half_plus_two(), scalar_signature())]).unwrap();
    let (mut client, long) = (running.grpc(), "x".repeat(8000));
    let calls: Vec<_> = (0..100).map(|_| client.open_ended(grpc::PREDICT, &[("a", &long)], Vec::new())).collect();
    eventually("most are refused", || running.sample("tidegate_request_memory_refusals_total") >= 50.0);
    assert!(used(&running) > (MB / 4) as f64 && used(&running) <= (MB / 2) as f64, "{}", used(&running));
    assert_eq!(running.rest().post("/v1/models/n:predict", r#"{"instances": [2]}"#).status, 200);
    drop((calls, client));
    eventually("all is given back", || used(&running) == 0.0);
}

#[test]
fn calls_that_stay_are_counted_until_they_end() {
    let running = Running::start(&tight());
    let mut client = running.grpc();
    let mut watches: Vec<_> = (0..40).map(|_| client.open("/grpc.health.v1.Health/Watch", &[], &[])).collect();
    for watch in &mut watches {
        assert!(client.next(watch).is_ok());
    }
    assert!(used(&running) >= 40.0 * 4096.0, "{}", used(&running));
    let talk = |client: &mut grpc::Client| client.open_ended(STREAM_INFER, &[], vec![]);
    let talks: Vec<_> = (0..150).map(|_| talk(&mut client)).collect();
    eventually("some are refused", || running.sample("tidegate_request_memory_refusals_total") >= 30.0);
    drop((watches, talks, client));
    eventually("all is given back", || used(&running) == 0.0);
}

#[test]
fn what_comes_of_a_stream_while_nobody_reads_it_is_counted() {
    const MUCH: usize = 900 << 10;
    let (running, gate) = (Running::start(&bounded()), Arc::<Gate>::default());
    let batching = Batching { max_queued_rows: 1024, ..batching() };
    running.plane.apply(vec![publish_with("m", 1, &Model::gated(&gate), scalar_signature(), batching)]).unwrap();
    let mut client = running.grpc();
    let mut large = grpc::frame(&vec![0; 6 * MB]);
    large.truncate(MUCH);
    let sent = [grpc::frame(&infer(&[1.0])).repeat(40), large].concat();
    let stream = client.open_ended(STREAM_INFER, &[], sent);
    gate.wait_for(1);
    eventually("all of it is counted", || used(&running) >= MUCH as f64);
    gate.open();
    drop((stream, client));
    eventually("all is given back", || used(&running) == 0.0);
}

#[test]
fn what_is_told_of_all_models_is_counted_until_it_is_read() {
    let running = Running::start(&bounded());
    let one = |number| publish(&format!("n{number}"), 1, &Model::half_plus_two(), scalar_signature());
    running.plane.apply((0..500).map(one).collect()).unwrap();
    let (mut clients, mut rest) = ((0..60).map(|_| running.grpc()).collect::<Vec<_>>(), running.rest());
    let statistics = "/inference.GRPCInferenceService/ModelStatistics";
    // Two on each connection: the end of the second does not fit into what its client takes unread.
    let ask = |client: &mut grpc::Client| [(); 2].map(|()| client.start(statistics, &[], grpc::frame(&[])));
    let calls: Vec<_> = clients.iter_mut().map(ask).collect();
    eventually("answers of calls are counted", || used(&running) > MB as f64);
    drop((calls, clients));
    eventually("they are given back", || used(&running) == 0.0);
    (0..40).for_each(|_| rest.send("GET", "/openapi.json", "", b""));
    let page = rest.receive().body.len();
    eventually("so is a page that waits to be read", || used(&running) >= page as f64);
    drop(rest);
    eventually("all is given back", || used(&running) == 0.0);
}

#[test]
fn a_page_that_many_calls_of_a_connection_have_is_counted_once() {
    const CALLS: usize = 60;
    let statistics = "/inference.GRPCInferenceService/ModelStatistics";
    let (gate, settings) = (Arc::<Gate>::default(), bounded());
    let running = Running::held(&settings, &gate);
    let one = |number| publish(&format!("n{number}"), 1, &Model::half_plus_two(), scalar_signature());
    running.plane.apply((0..500).map(one).collect()).unwrap();
    let (mut client, mut other) = (running.grpc(), running.grpc());
    let calls: Vec<_> = (0..CALLS).map(|_| client.start(statistics, &[], grpc::frame(&[]))).collect();
    eventually("all wait", || used(&running) >= CALLS as f64 * 4096.0);
    let call = used(&running) / CALLS as f64;
    assert!((4096.0..8192.0).contains(&call), "{call} bytes for a call that waits");
    gate.open();
    let ok = "tidegate_requests_total{endpoint=\"grpc\",model=\"\",version=\"\",status=\"OK\"}";
    eventually("all are answered", || running.sample(ok) == CALLS as f64);
    let kept = used(&running);
    let page = other.call(statistics, &[], &[]).body.len() as f64;
    assert!(page > 16_384.0, "{page}");
    assert!((page..=CALLS as f64 * call + 2.0 * page).contains(&kept), "{kept} bytes of a page of {page}");
    drop((calls, client));
    eventually("all is given back", || used(&running) == 0.0);
}

#[test]
fn few_bytes_are_told_of_models_also_where_large_requests_have_all_that_is_theirs() {
    const LARGE: usize = 7 * MB / 8;
    let running = Running::start(&Settings { request_memory_bytes: 8 * MB, ..settings() });
    running.plane.apply(vec![publish("n", 1, &Model::half_plus_two(), scalar_signature())]).unwrap();
    let mut senders: Vec<_> = (0..8).map(|_| running.rest()).collect();
    for sender in &mut senders {
        let head = format!("POST /v1/models/n:predict HTTP/1.1\r\nhost: t\r\ncontent-length: {LARGE}\r\n\r\n");
        sender.stream.write_all(&[head.as_bytes(), &vec![b' '; LARGE - 1]].concat()).unwrap();
    }
    eventually("they hold it", || used(&running) >= (8 * LARGE) as f64);
    let mut rest = running.rest();
    for (path, status) in [("/v2/models", 200), ("/v2/models/n/stats", 200), ("/openapi.json", 429)] {
        let answer = rest.get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
    }
    let index = "/inference.GRPCInferenceService/RepositoryIndex";
    assert_eq!(running.grpc().call(index, &[], &[]).code, 0);
}

#[test]
fn messages_that_wait_for_python_are_counted() {
    const MESSAGE: usize = 60_000;
    let (running, gate) = (Running::start(&tight()), Arc::<Gate>::default());
    *running.hooks.control_gate.lock().unwrap() = Some(gate.clone());
    let mut client = running.grpc();
    let method = tidegate_plane::control::METHODS[0];
    let calls: Vec<_> = (0..60).map(|_| client.start(method, &[], grpc::frame(&[0; MESSAGE]))).collect();
    gate.wait_for(1);
    eventually("some are refused", || running.sample("tidegate_request_memory_refusals_total") >= 40.0);
    assert!((8.0 * MESSAGE as f64..=MB as f64).contains(&used(&running)), "{}", used(&running));
    gate.open();
    let refused = calls.into_iter().map(|call| client.finish(call).code).filter(|code| *code == 8).count();
    assert!((40..=52).contains(&refused), "{refused} were refused");
    eventually("all is given back", || used(&running) == 0.0);
}

#[test]
fn what_the_server_tells_of_itself_is_counted_until_it_is_read() {
    const ANSWER: usize = 100_000;
    const CALLS: usize = 20;
    let running = Running::start(&bounded());
    running.hooks.answers.lock().unwrap().extend((0..CALLS).map(|_| Ok(vec![0; ANSWER])));
    let mut client = running.grpc();
    let ask = |_| client.open_ended(reflection::METHODS[0], &[], grpc::frame(b"what"));
    let calls: Vec<_> = (0..CALLS).map(ask).collect();
    eventually("what its client does not take is counted", || used(&running) > ((CALLS - 1) * ANSWER) as f64);
    drop((calls, client));
    eventually("all is given back", || used(&running) == 0.0);
}

#[test]
fn a_watch_of_health_keeps_no_message() {
    const NAME: usize = 60_000;
    let running = Running::start(&tight());
    let mut client = running.grpc();
    let unknown = [&[0x0a, 0xe0, 0xd4, 3][..], &[b'x'; NAME]].concat();
    let mut watch = client.open("/grpc.health.v1.Health/Watch", &[], &unknown);
    assert!(client.next(&mut watch).is_ok());
    let used = used(&running);
    assert!((1.0..NAME as f64).contains(&used), "{used}");
}
