//! Connections that nothing is heard of, whose requests do not come or whose answers are not taken, and too many of them.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support;
use crate::support::{
    Gate, LONG, Model, Running, eventually, far_less, grpc, infer, patience, publish, rest, scalar_signature, settings,
    spec,
};
use tidegate_codec::dtype::DType;
use tidegate_codec::tensors::{Column, Strings, Tensor};
use tidegate_plane::endpoints::grpc::reflection::METHODS;
use tidegate_plane::settings::{Patience, Settings};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const GOAWAY: u8 = 7;
const PING: u8 = 6;
const HEADERS: u8 = 1;
const END_HEADERS: u8 = 4;
/// Beside what is waited for, long: a client that is to be in time is so on a busy machine, too.
const SHORT: Duration = Duration::from_secs(1);

fn serving(settings: &Settings) -> Running {
    let running = Running::start(settings);
    running.plane.apply(vec![publish("m", 1, &Model::half_plus_two(), scalar_signature())]).unwrap();
    running
}

fn with(patience: Patience) -> Running {
    serving(&Settings { patience, ..settings() })
}

/// A gRPC connection that says hello and nothing more.
fn silent(running: &Running) -> TcpStream {
    let mut socket = TcpStream::connect(running.plane.grpc_address().unwrap()).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.write_all(&[PREFACE, &SETTINGS].concat()).unwrap();
    socket
}

/// The kinds of the frames that come until the end, with the payload of the last.
fn frames(socket: &mut TcpStream) -> (Vec<u8>, Vec<u8>) {
    let (mut kinds, mut last) = (Vec::new(), Vec::new());
    let mut head = [0; 9];
    while socket.read_exact(&mut head).is_ok() {
        last = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        socket.read_exact(&mut last).unwrap();
        kinds.push(head[3]);
    }
    (kinds, last)
}

/// The head of a predict call, its fields written out.
fn call_head(stream: u32) -> Vec<u8> {
    let fields =
        [(":method", "POST"), (":scheme", "http"), (":path", grpc::PREDICT), ("content-type", "application/grpc")];
    let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    let block: Vec<u8> = fields.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect();
    [&[0, 0, block.len() as u8, HEADERS, END_HEADERS][..], &stream.to_be_bytes(), &block].concat()
}

/// How long it takes to be answered a hundred pings, one after the other, where nothing else is done meanwhile.
fn pinging(socket: &mut TcpStream) -> Duration {
    let times = (0..5).map(|_| {
        let began = Instant::now();
        for _ in 0..100 {
            socket.write_all(&[&[0, 0, 8, PING, 0, 0, 0, 0, 0][..], &[7; 8]].concat()).unwrap();
            let mut head = [0; 9];
            while head[3..5] != [PING, 1] {
                socket.read_exact(&mut head).unwrap();
                socket.read_exact(&mut vec![0; usize::from(head[2])]).unwrap();
            }
        }
        began.elapsed()
    });
    times.min().unwrap()
}

#[test]
fn calls_that_wait_for_their_messages_are_not_looked_at_until_something_comes() {
    let running = with(patience());
    far_less(4, || {
        let mut socket = silent(&running);
        let alone = pinging(&mut socket);
        let heads: Vec<u8> = (0..1000).flat_map(|call| call_head(1 + 2 * call)).collect();
        socket.write_all(&heads).unwrap();
        (pinging(&mut socket), 4 * alone)
    });
}

fn closed(running: &Running, endpoint: &str, reason: &str) -> f64 {
    running.sample(&format!("tidegate_closed_connections_total{{endpoint=\"{endpoint}\",reason=\"{reason}\"}}"))
}

fn open(running: &Running) -> f64 {
    let of = |endpoint| running.sample(&format!("tidegate_connections{{endpoint=\"{endpoint}\"}}"));
    of("grpc") + of("rest")
}

#[test]
fn a_silent_connection_is_pinged_and_closed_where_nobody_answers() {
    let running = with(Patience { keepalive: SHORT, ..patience() });
    let mut socket = silent(&running);
    let (kinds, _) = frames(&mut socket);
    assert!(kinds.contains(&PING), "{kinds:?}");
    eventually("it is counted", || closed(&running, "grpc", "keepalive") == 1.0);
    eventually("it is gone", || open(&running) == 0.0);
}

#[test]
fn a_client_that_answers_pings_stays() {
    let running = with(Patience { keepalive: SHORT, ..patience() });
    let mut client = running.grpc();
    let until = Instant::now() + SHORT * 5 / 2;
    eventually("some time has passed", || Instant::now() > until);
    assert_eq!(open(&running), 1.0);
    assert_eq!(client.predict(&support::messages::predict_x(&[2.0])).code, 0);
}

#[test]
fn a_connection_without_requests_is_closed_but_not_one_with_a_call() {
    let gate = Arc::new(Gate::default());
    // Who was told to leave has as long for it as a head may take.
    let patience = Patience { idle: SHORT, header: SHORT, ..patience() };
    let running = Running::start(&Settings { patience, ..settings() });
    running.plane.apply(vec![publish("m", 1, &Model::gated(&gate), scalar_signature())]).unwrap();
    let mut waiting = running.rest();
    waiting.send_predict(r#"{"instances":[1]}"#);
    gate.wait_for(1);
    let (mut rest, grpc) = (running.rest(), silent(&running));
    assert_eq!(rest.get("/v2/health/live").status, 200);
    assert!(rest.is_closed());
    let (kinds, _) = frames(&mut { grpc });
    assert!(kinds.contains(&GOAWAY), "{kinds:?}");
    eventually("it is counted", || closed(&running, "grpc", "idle") == 1.0);
    eventually("only the one that waits for its answer is left", || open(&running) == 1.0);
    gate.open();
    assert_eq!(waiting.receive().status, 200);
}

#[test]
fn a_connection_may_be_idle_for_longer_than_a_head_may_take() {
    let running = with(Patience { header: SHORT, ..patience() });
    let mut rest = running.rest();
    assert_eq!(rest.get("/v2/health/live").status, 200);
    let until = Instant::now() + SHORT * 3 / 2;
    eventually("some time has passed", || Instant::now() > until);
    assert_eq!(rest.get("/v2/health/live").status, 200);
    rest.stream.write_all(b"GET /v2/hea").unwrap();
    assert!(rest.is_closed(), "the head of a later request has to come in time, too");
    eventually("it is counted", || closed(&running, "rest", "header") == 1.0);
}

#[test]
fn a_block_of_headers_that_never_ends_is_given_up() {
    let running = with(Patience { header: SHORT, ..patience() });
    let mut socket = silent(&running);
    socket.write_all(&[0, 0, 1, 1, 0, 0, 0, 0, 1, 0x83]).unwrap();
    frames(&mut socket);
    eventually("it is counted", || closed(&running, "grpc", "header") == 1.0);
}

#[test]
fn a_rest_client_that_does_not_read_is_given_up() {
    let running = with(Patience { write: SHORT, ..patience() });
    let body = format!("{{\"instances\":[{}]}}", vec!["0.123456"; 80_000].join(","));
    let batching = tidegate_engine::batching::Batching {
        max_batch_rows: 1 << 17,
        max_queued_rows: 1 << 17,
        ..support::batching()
    };
    let change = support::publish_with("wide", 1, &Model::half_plus_two(), scalar_signature(), batching);
    running.plane.apply(vec![change]).unwrap();
    let mut client = running.rest();
    // The answers fill the buffers of both ends; then the server takes no further request, and gives up.
    for _ in 0..16 {
        let head =
            format!("POST /v1/models/wide:predict HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n", body.len());
        if client.stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).is_err() {
            break;
        }
    }
    eventually("it is given up", || closed(&running, "rest", "write") == 1.0);
    eventually("it is gone", || open(&running) == 0.0);
}

#[test]
fn a_grpc_client_that_opens_no_window_is_given_up() {
    let running = with(Patience { write: SHORT, idle: SHORT, header: SHORT, ..patience() });
    let mut socket = TcpStream::connect(running.plane.grpc_address().unwrap()).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let no_window = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0];
    let path = b"/tensorflow.serving.PredictionService/Predict";
    let kind = b"application/grpc";
    // POST, http, the path, authority "t" and the content type, as literals of HPACK.
    let block =
        [&[0x83, 0x86, 0x04, path.len() as u8], &path[..], &[0x01, 1, b't', 0x0f, 0x10, kind.len() as u8], kind]
            .concat();
    let message = support::grpc::frame(&support::messages::predict_x(&[2.0]));
    let headers = [&[0, 0, block.len() as u8, 1, 4, 0, 0, 0, 1], &block[..]].concat();
    let data = [&[0, 0, message.len() as u8, 0, 1, 0, 0, 0, 1], &message[..]].concat();
    socket.write_all(&[PREFACE, &no_window, &headers, &data].concat()).unwrap();
    let (kinds, _) = frames(&mut socket);
    assert!(kinds.contains(&3), "the stream is reset: {kinds:?}");
    eventually("it is gone", || open(&running) == 0.0);
}

#[test]
fn the_first_frame_has_to_be_settings() {
    let running = with(patience());
    let mut socket = TcpStream::connect(running.plane.grpc_address().unwrap()).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.write_all(&[PREFACE, &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]].concat()).unwrap();
    let (kinds, last) = frames(&mut socket);
    assert_eq!((kinds.last(), last.get(4..8)), (Some(&GOAWAY), Some(&[0, 0, 0, 1][..])), "{kinds:?}");
    eventually("it is gone", || open(&running) == 0.0);
}

#[test]
fn who_changes_its_settings_all_the_time_is_told_to_calm_down() {
    let running = with(patience());
    let mut socket = silent(&running);
    socket.write_all(&SETTINGS.repeat(100)).unwrap();
    let (kinds, last) = frames(&mut socket);
    assert_eq!((kinds.last(), last.get(4..8)), (Some(&GOAWAY), Some(&[0, 0, 0, 11][..])), "{kinds:?}");
    eventually("it is counted", || closed(&running, "grpc", "settings") == 1.0);
    eventually("it is gone", || open(&running) == 0.0);
}

#[test]
fn silent_connections_make_room_for_others() {
    let running = serving(&Settings { max_connections: 8, ..settings() });
    let mut known = running.rest();
    assert_eq!(known.predict(r#"{"instances":[1]}"#).status, 200);
    let crowd: Vec<TcpStream> = (0..40).map(|_| silent(&running)).collect();
    assert_eq!(known.predict(r#"{"instances":[1]}"#).status, 200, "who was there stays");
    let comes_in = || running.rest().predict(r#"{"instances":[1]}"#).status == 200;
    eventually("who asks something comes in", comes_in);
    assert!(closed(&running, "grpc", "evicted") > 0.0, "somebody had to go");
    assert_eq!(running.grpc().predict(&support::messages::predict_x(&[2.0])).code, 0);
    drop(crowd);
}

#[test]
fn where_all_are_needed_there_is_room_for_questions_about_health_alone() {
    // However long anything takes on a busy machine, nobody goes for being idle.
    let long = Duration::from_secs(120);
    let patience = Patience { header: long, idle: long, keepalive: long, write: long };
    let running = serving(&Settings { max_connections: 2, patience, ..settings() });
    let (mut one, mut two) = (running.rest(), running.rest());
    assert_eq!((one.get("/v2/health/live").status, two.get("/v2/health/live").status), (200, 200));
    let mut third = running.rest();
    assert_eq!(third.get("/v2/health/live").status, 200);
    let refused = third.predict(r#"{"instances":[1]}"#);
    assert_eq!((refused.status, refused.header("connection")), (503, Some("close")));
    assert!(refused.body.contains("the limit is 2"), "{}", refused.body);
    let mut grpc = running.grpc();
    assert_eq!(grpc.call("/grpc.health.v1.Health/Check", &[], &[]).code, 0);
    let refused = grpc.predict(&support::messages::predict_x(&[2.0]));
    assert_eq!((refused.code, refused.message.contains("the limit is 2")), (14, true));
    let of_grpc = || running.sample("tidegate_connections{endpoint=\"grpc\"}");
    eventually("its connection ends, so that the next one may have a place", || of_grpc() == 0.0);
    drop(grpc);
    let crowd: Vec<rest::Client> = (0..40).map(|_| running.rest()).collect();
    assert_eq!(running.rest().get("/v2/health/live").status, 200, "also beside a crowd of those who ask nothing");
    eventually("who was closed has gone", || open(&running) <= 2.0 + 17.0);
    drop(crowd);
}

#[test]
fn whoever_has_calls_open_and_no_answer_due_makes_room_for_others() {
    let long = Duration::from_secs(120);
    let patience = Patience { header: SHORT, idle: long, keepalive: long, write: long };
    let running = serving(&Settings { max_connections: 8, patience, ..settings() });
    let mut crowd: Vec<grpc::Client> = (0..6).map(|_| running.grpc()).collect();
    let (watching, sending) = crowd.split_at_mut(3);
    let watch = |one: &mut grpc::Client| one.open("/grpc.health.v1.Health/Watch", &[], &[]);
    let send = |one: &mut grpc::Client| one.open_ended(grpc::PREDICT, &[("grpc-timeout", "1H")], vec![]);
    let calls: (Vec<_>, Vec<_>) = (watching.iter_mut().map(watch).collect(), sending.iter_mut().map(send).collect());
    let mut bodies: Vec<rest::Client> = (0..2).map(|_| running.rest()).collect();
    for body in &mut bodies {
        body.stream.write_all(b"POST /v1/models/m:predict HTTP/1.1\r\nhost: t\r\ncontent-length: 9\r\n\r\n{").unwrap();
    }
    let others = RefCell::new(Vec::new());
    for _ in 0..8 {
        eventually("one makes room", || {
            let mut other = running.rest();
            let comes_in = other.predict(r#"{"instances":[1]}"#).status == 200;
            others.borrow_mut().extend(comes_in.then_some(other));
            comes_in
        });
    }
    drop((calls, bodies));
}

#[test]
fn whoever_is_idle_for_longest_makes_room_for_others_and_whoever_waits_for_an_answer_stays() {
    let long = Duration::from_secs(120);
    let patience = Patience { header: SHORT, idle: long, keepalive: long, write: long };
    let running = serving(&Settings { max_connections: 4, patience, ..settings() });
    let gate = Arc::new(Gate::default());
    running.plane.apply(vec![publish("slow", 1, &Model::gated(&gate), scalar_signature())]).unwrap();
    let mut waiting = running.rest();
    waiting.send("POST", "/v1/models/slow:predict", "", br#"{"instances":[2]}"#);
    gate.wait_for(1);
    let mut idle: Vec<rest::Client> = (0..3).map(|_| running.rest()).collect();
    assert!(idle.iter_mut().all(|one| one.predict(r#"{"instances":[1]}"#).status == 200));
    eventually("one makes room", || running.rest().predict(r#"{"instances":[1]}"#).status == 200);
    gate.open();
    assert_eq!(waiting.receive().status, 200);
}

/// Newcomers ask something each and stay until three have made room for others; meanwhile somebody goes on between them.
fn others_make_room(running: &Running, mut goes_on: impl FnMut()) {
    let (mut others, mut last) = (Vec::new(), Instant::now());
    let until = last + LONG;
    while closed(running, "rest", "evicted") + closed(running, "grpc", "evicted") < 3.0 {
        assert!(Instant::now() < until, "nobody makes room");
        if last.elapsed() > SHORT / 20 {
            last = Instant::now();
            goes_on();
        }
        let mut other = running.rest();
        others.extend((other.predict(r#"{"instances":[1]}"#).status == 200).then_some(other));
    }
    goes_on();
}

/// Few connections, and half a second at most without an answer due.
fn few() -> Settings {
    let long = Duration::from_secs(120);
    let patience = Patience { header: 2 * SHORT, idle: long, keepalive: long, write: long };
    Settings { max_connections: 4, patience, max_message_bytes: 256 << 20, ..settings() }
}

#[test]
fn a_stream_of_requests_that_are_answered_fast_is_not_idle() {
    let running = serving(&few());
    let mut client = running.grpc();
    let request = || grpc::frame(&infer::infer(&[2.0]));
    let (call, mut sending) = client.open_ended(infer::STREAM_INFER, &[], request());
    let mut answers = client.answers(call);
    client.next(&mut answers).unwrap();
    others_make_room(&running, || {
        sending.send_data(request().into(), false).unwrap();
        client.next(&mut answers).unwrap();
    });
}

#[test]
fn whoever_takes_a_large_answer_slowly_is_not_idle() {
    const LARGE: usize = 64 << 20;
    let running = serving(&few());
    let large = Model::new(|_| {
        let mut strings = Strings::default();
        strings.push(&vec![b'a'; LARGE]);
        Ok(support::answer(Tensor { column: Column::Strings(strings), shape: vec![1] }))
    });
    let outputs = vec![spec("y", DType::String, &[-1])];
    let signature = support::signature(vec![spec("x", DType::Float32, &[-1])], outputs);
    running.plane.apply(vec![publish("large", 1, &large, signature)]).unwrap();
    let mut client = running.rest();
    client.send("POST", "/v1/models/large:predict", "", br#"{"instances":[1]}"#);
    let (mut taken, mut piece) = (0, vec![0; 256 << 10]);
    let mut take = || {
        let bytes = client.stream.read(&mut piece).unwrap();
        taken += bytes;
        bytes > 0 && taken < LARGE
    };
    assert!(take());
    others_make_room(&running, || assert!(take()));
    while take() {}
    assert!(taken >= LARGE, "{taken}");
}

#[test]
fn whoever_sends_a_large_request_slowly_is_not_idle() {
    let running = serving(&few());
    let (mut client, mut grpc, mut left) = (running.rest(), running.grpc(), 32 << 20);
    let head = format!("POST /v1/models/m:predict HTTP/1.1\r\nhost: t\r\ncontent-length: {left}\r\n\r\n");
    client.stream.write_all(head.as_bytes()).unwrap();
    let (_call, mut sending) = grpc.open_ended(infer::STREAM_INFER, &[], vec![0, 8, 0, 0, 0]);
    let piece = vec![b' '; 32 << 10];
    others_make_room(&running, || {
        client.stream.write_all(&piece).unwrap();
        left -= piece.len();
        sending.send_data(piece.clone().into(), false).unwrap();
    });
    client.stream.write_all(&vec![b' '; left]).unwrap();
    assert_eq!(client.receive().status, 400, "it has come in full");
    assert_eq!(grpc.predict(&support::messages::predict_x(&[2.0])).code, 0);
}

#[test]
fn whoever_waits_to_learn_what_the_server_offers_is_not_idle() {
    let running = serving(&few());
    let gate = Arc::new(Gate::default());
    *running.hooks.control_gate.lock().unwrap() = Some(gate.clone());
    let mut client = running.grpc();
    let (call, _sending) = client.open_ended(METHODS[0], &[], grpc::frame(b"what"));
    let mut answers = client.answers(call);
    gate.wait_for(1);
    others_make_room(&running, || {});
    gate.open();
    assert_eq!(client.next(&mut answers), Err(5), "the hooks know nothing of it");
}

#[test]
fn whoever_is_one_too_many_and_idle_goes_soon() {
    let (short, long) = (Duration::from_secs(3), Duration::from_secs(120));
    let patience = Patience { header: short, idle: long, keepalive: long, write: long };
    let running = serving(&Settings { max_connections: 1, patience, ..settings() });
    let mut one = running.rest();
    assert_eq!(one.get("/v2/health/live").status, 200);
    let mut more = running.rest();
    assert_eq!(more.get("/v2/health/live").status, 200);
    eventually("it has gone", || open(&running) == 1.0);
    assert_eq!(one.get("/v2/health/live").status, 200, "who was there stays");
}
