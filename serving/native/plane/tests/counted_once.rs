//! However a request ends of which a head came, it is counted once, with the status that its client sees.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use h2::Reason;
use http::Request;
use socket2::SockRef;
use tidegate_plane::security::access::Access;
use tidegate_plane::settings::{Security, Settings};

use crate::support::grpc::{PREDICT, frame};
use crate::support::infer::{STREAM_INFER, infer};
use crate::support::messages::predict_x;
use crate::support::{Gate, LONG, Model, Running, eventually, publish, scalar_signature, settings};

const HEAD: &str = "POST /v1/models/m:predict HTTP/1.1\r\nhost: t\r\n";
const BODY: &str = r#"{"instances":[1]}"#;
/// Whoever waits so long for a count that does not come sees the next request.
const COUNTED: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_millis(300);

/// All answers that were counted, by status.
fn counted(running: &Running, endpoint: &str) -> Vec<(String, f64)> {
    let family = format!("tidegate_requests_total{{endpoint=\"{endpoint}\"");
    let stats = running.plane.stats(None).into_iter();
    let found = stats.filter(|(name, value)| name.starts_with(&family) && *value > 0.0);
    let status = |name: &str| name.split("status=\"").nth(1).unwrap().trim_end_matches("\"}").to_owned();
    found.map(|(name, value)| (status(&name), value)).collect()
}

/// What is wrong with what a plane counted of its only request, whose client has gone.
fn wrong(running: &Running, endpoint: &str, way: &str, status: &str) -> Option<String> {
    let connections = format!("tidegate_connections{{endpoint=\"{endpoint}\"}}");
    eventually("nobody is connected", || running.sample(&connections) == 0.0);
    let until = Instant::now() + COUNTED;
    while counted(running, endpoint).is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    let counted = counted(running, endpoint);
    (counted != [(status.to_owned(), 1.0)]).then(|| format!("{way}: {counted:?}, and not {status}"))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn open_to_nobody() -> Settings {
    let access = Access::new(Vec::new(), Vec::new()).unwrap();
    Settings { security: Security { tls: None, access: Some(Arc::new(access)) }, ..settings() }
}

fn impatient() -> Settings {
    Settings { request_timeout: SOON, ..settings() }
}

/// With the model behind a gate that stays shut.
fn start(settings: &Settings) -> (Running, Arc<Gate>) {
    let (running, gate) = (Running::start(settings), Arc::<Gate>::default());
    running.plane.apply(vec![publish("m", 1, &Model::gated(&gate), scalar_signature())]).unwrap();
    (running, gate)
}

/// What a client over REST does once it has sent what it sends.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    /// It reads until the server ends the connection.
    Reads,
    /// It says that it sends no more, and reads.
    Ends,
    /// It goes away once the server waits for its body.
    GoesInBody,
    /// It goes away while its model runs.
    GoesInModel,
    /// The model answers, and it reads.
    IsAnswered,
}

fn over_rest(way: &str, settings: &Settings, sent: &[u8], then: Then, status: &str) -> Option<String> {
    let (running, gate) = start(settings);
    let mut client = TcpStream::connect(running.plane.rest_address().unwrap()).unwrap();
    client.set_read_timeout(Some(LONG)).unwrap();
    client.write_all(sent).unwrap();
    match then {
        Then::Reads => {}
        Then::Ends => client.shutdown(Shutdown::Write).unwrap(),
        Then::GoesInBody => assert!(client.read(&mut [0; 64]).unwrap() > 0, "100 Continue"),
        Then::GoesInModel => gate.wait_for(1),
        Then::IsAnswered => gate.open(),
    }
    if matches!(then, Then::GoesInBody | Then::GoesInModel) {
        SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
    } else {
        assert!(client.read(&mut [0; 1 << 10]).unwrap() > 0, "{way}: no answer");
    }
    drop(client);
    let wrong = wrong(&running, "rest", way, status);
    gate.open();
    wrong
}

#[test]
fn over_rest_however_it_ends() {
    let all = |head: &str, body: &[u8]| {
        let head = format!("{HEAD}{head}content-length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let begun = |head: &str| format!("{HEAD}{head}\r\n\r\n").into_bytes();
    let chunks = |body: &str| format!("{HEAD}transfer-encoding: chunked\r\n\r\n{body}").into_bytes();
    let bomb = gzip(&vec![b' '; 4 << 20]);
    let field = "a".repeat(70 << 10);
    let usual = settings();
    let rows: [(&str, &Settings, Vec<u8>, Then, &str); 20] = [
        ("it is answered", &usual, all("", BODY.as_bytes()), Then::IsAnswered, "OK"),
        ("no such path", &usual, b"GET /v9 HTTP/1.1\r\nhost: t\r\n\r\n".to_vec(), Then::Reads, "NOT_FOUND"),
        ("no JSON", &usual, all("", b"{"), Then::Reads, "INVALID_ARGUMENT"),
        ("its length is too large", &usual, begun("content-length: 2000000"), Then::Reads, "RESOURCE_EXHAUSTED"),
        ("its chunk is too large", &usual, chunks("7fffffff\r\n"), Then::Reads, "RESOURCE_EXHAUSTED"),
        ("it unpacks to too much", &usual, all("content-encoding: gzip\r\n", &bomb), Then::Reads, "RESOURCE_EXHAUSTED"),
        ("no such packing", &usual, all("content-encoding: br\r\n", b"x"), Then::Reads, "UNIMPLEMENTED"),
        (
            "no such packing of much",
            &usual,
            all("content-encoding: br\r\n", field.as_bytes()),
            Then::Reads,
            "UNIMPLEMENTED",
        ),
        ("it is no packing", &usual, all("content-encoding: gzip\r\n", b"x"), Then::Reads, "INVALID_ARGUMENT"),
        ("nobody may ask", &open_to_nobody(), all("", BODY.as_bytes()), Then::Reads, "UNAUTHENTICATED"),
        ("the body is late", &impatient(), begun("content-length: 9"), Then::Reads, "DEADLINE_EXCEEDED"),
        ("the model is late", &impatient(), all("", BODY.as_bytes()), Then::Reads, "DEADLINE_EXCEEDED"),
        ("no chunk", &usual, chunks("zz\r\n"), Then::Reads, "INVALID_ARGUMENT"),
        ("the body is cut short", &usual, begun("content-length: 9"), Then::Ends, "INVALID_ARGUMENT"),
        ("no such coding", &usual, begun("transfer-encoding: gzip, chunked"), Then::Reads, "UNIMPLEMENTED"),
        ("no host", &usual, b"GET /v1/models/m HTTP/1.1\r\n\r\n".to_vec(), Then::Reads, "INVALID_ARGUMENT"),
        ("no HTTP", &usual, b"NONSENSE\r\n\r\n".to_vec(), Then::Reads, "INVALID_ARGUMENT"),
        ("its head is too large", &usual, begun(&format!("x-a: {field}")), Then::Reads, "INVALID_ARGUMENT"),
        (
            "it goes in its body",
            &usual,
            begun("expect: 100-continue\r\ncontent-length: 9"),
            Then::GoesInBody,
            "CANCELLED",
        ),
        ("it goes in the model", &usual, all("", BODY.as_bytes()), Then::GoesInModel, "CANCELLED"),
    ];
    let wrong =
        rows.iter().filter_map(|(way, settings, sent, then, status)| over_rest(way, settings, sent, *then, status));
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn bodies_that_there_is_no_memory_for_and_those_that_have_it() {
    const CLIENTS: usize = 20;
    let settings = Settings { request_memory_bytes: 80 << 20, max_message_bytes: 8 << 20, ..settings() };
    let (running, _gate) = start(&settings);
    let part = [format!("{HEAD}content-length: 8000000\r\n\r\n").as_bytes(), &vec![b' '; 7 << 20]].concat();
    let connect = |_| TcpStream::connect(running.plane.rest_address().unwrap()).unwrap();
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(connect).collect();
    clients.iter_mut().for_each(|client| client.write_all(&part).unwrap());
    let of =
        |status: &str| counted(&running, "rest").iter().find(|(name, _)| name == status).map_or(0.0, |(_, of)| *of);
    eventually("some are refused", || of("RESOURCE_EXHAUSTED") > 0.0);
    for client in &clients {
        SockRef::from(client).set_linger(Some(Duration::ZERO)).unwrap();
    }
    drop(clients);
    eventually("nobody is connected", || running.sample("tidegate_connections{endpoint=\"rest\"}") == 0.0);
    let (refused, gone) = (of("RESOURCE_EXHAUSTED"), of("CANCELLED"));
    assert!(gone > 0.0 && refused + gone == CLIENTS as f64, "{refused} refused, {gone} gone");
}

/// A call over gRPC: the way that it ends, its metadata, what is sent, and the status.
type Row<'a> = (&'a str, &'a Settings, &'a [(&'a str, &'a str)], (Vec<u8>, Does), &'a str);

const GZIPPED: (&str, &str) = ("grpc-encoding", "gzip");
const TIMEOUT: (&str, &str) = ("grpc-timeout", "300m");

/// A message that says that it is packed.
fn packed(bytes: &[u8]) -> Vec<u8> {
    [&[1][..], &frame(bytes)[1..]].concat()
}

/// The head of a message that is too large.
fn too_large() -> Vec<u8> {
    vec![0, 0, 0x7f, 0, 0]
}

/// What a client over gRPC does with its call.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    /// It sends all, and reads.
    Sends,
    /// It sends no end, and reads.
    Waits,
    /// It resets the call once the server waits for the rest.
    Resets,
    /// It ends the connection then.
    Goes,
}

async fn call(running: &Running, path: &str, headers: &[(&str, &str)], sent: Vec<u8>, does: Does) {
    let socket = tokio::net::TcpStream::connect(running.plane.grpc_address().unwrap()).await.unwrap();
    let (sender, connection) = h2::client::handshake(socket).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::post(format!("http://t{path}"));
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).body(()).unwrap();
    let mut sender = sender.ready().await.unwrap();
    let (response, mut body) = sender.send_request(request, false).unwrap();
    // A call that is refused by its head may be over already.
    let _ = body.send_data(Bytes::from(sent), does == Does::Sends);
    if matches!(does, Does::Sends | Does::Waits) {
        let mut answer = tokio::time::timeout(LONG, response).await.unwrap().unwrap().into_body();
        while let Some(Ok(_)) = answer.data().await {}
        let _ = answer.trailers().await;
    } else {
        let _response = response;
        let held = || running.sample("tidegate_request_memory_bytes") > 0.0;
        while !held() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if does == Does::Resets {
            body.send_reset(Reason::CANCEL);
        } else {
            connection.abort();
        }
    }
    drop((sender, body));
    let _ = connection.await;
}

/// What is wrong where a call of this method ends so.
fn over_grpc(path: &str, (way, settings, headers, (sent, does), status): &Row<'_>) -> Option<String> {
    let (running, gate) = start(settings);
    gate.open();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let headers = [&[("te", "trailers"), ("content-type", "application/grpc")], *headers].concat();
    let plain = headers.iter().any(|(name, value)| *name == "content-type" && *value == "text/plain");
    let headers = if plain { &headers[2..] } else { &headers[..] };
    let called = async { tokio::time::timeout(LONG, call(&running, path, headers, sent.clone(), *does)).await };
    runtime.block_on(called).unwrap_or_else(|_| panic!("{way}: the call does not end"));
    drop(runtime);
    wrong(&running, "grpc", way, status)
}

#[test]
fn over_grpc_however_it_ends() {
    let predict = || frame(&predict_x(&[1.0]));
    let (bomb, field) = (packed(&gzip(&vec![0; 4 << 20])), "a".repeat(20 << 10));
    let usual = settings();
    let cut = || predict()[..9].to_vec();
    let rows: &[Row<'_>] = &[
        ("it is answered", &usual, &[], (predict(), Does::Sends), "OK"),
        ("no gRPC", &usual, &[("content-type", "text/plain")], (predict(), Does::Sends), "UNIMPLEMENTED"),
        ("its metadata are too large", &usual, &[("a", &field)], (predict(), Does::Sends), "RESOURCE_EXHAUSTED"),
        ("nobody may ask", &open_to_nobody(), &[], (predict(), Does::Sends), "UNAUTHENTICATED"),
        ("no time-out", &usual, &[("grpc-timeout", "soon")], (predict(), Does::Sends), "INTERNAL"),
        ("its length is too large", &usual, &[], (too_large(), Does::Waits), "RESOURCE_EXHAUSTED"),
        ("it has two messages", &usual, &[], (predict().repeat(2), Does::Sends), "UNIMPLEMENTED"),
        ("its message is cut short", &usual, &[], (cut(), Does::Sends), "INVALID_ARGUMENT"),
        ("its message is late", &usual, &[TIMEOUT], (cut(), Does::Waits), "DEADLINE_EXCEEDED"),
        ("it is reset in its message", &usual, &[], (cut(), Does::Resets), "CANCELLED"),
        ("its client goes in its message", &usual, &[], (cut(), Does::Goes), "CANCELLED"),
        ("it unpacks to too much", &usual, &[GZIPPED], (bomb, Does::Sends), "RESOURCE_EXHAUSTED"),
        ("it is no packing", &usual, &[GZIPPED], (packed(b"x"), Does::Sends), "INVALID_ARGUMENT"),
        ("no packing is named", &usual, &[], (packed(b"x"), Does::Sends), "INTERNAL"),
    ];
    let wrong: Vec<String> = rows.iter().filter_map(|row| over_grpc(PREDICT, row)).collect();
    assert_eq!(wrong, [""; 0]);
    let unknown: Row<'_> = ("no such method", &usual, &[], (predict(), Does::Sends), "UNIMPLEMENTED");
    assert_eq!(over_grpc("/no/Method", &unknown), None);
}

#[test]
fn in_a_stream_of_requests_however_it_ends() {
    let (usual, bomb) = (settings(), packed(&gzip(&vec![0; 4 << 20])));
    let (infer, cut) = (|| frame(&infer(&[1.0])), || frame(&infer(&[1.0]))[..9].to_vec());
    let rows: &[Row<'_>] = &[
        ("it is answered", &usual, &[], (infer(), Does::Sends), "OK"),
        ("no message", &usual, &[], (frame(b"\xff"), Does::Sends), "INVALID_ARGUMENT"),
        ("its length is too large", &usual, &[], (too_large(), Does::Waits), "RESOURCE_EXHAUSTED"),
        ("its message is cut short", &usual, &[], (cut(), Does::Sends), "INVALID_ARGUMENT"),
        ("no message comes", &usual, &[TIMEOUT], (Vec::new(), Does::Waits), "DEADLINE_EXCEEDED"),
        ("it is reset in its message", &usual, &[], (cut(), Does::Resets), "CANCELLED"),
        ("its client goes in its message", &usual, &[], (cut(), Does::Goes), "CANCELLED"),
        ("it unpacks to too much", &usual, &[GZIPPED], (bomb, Does::Sends), "RESOURCE_EXHAUSTED"),
        ("it is no packing", &usual, &[GZIPPED], (packed(b"x"), Does::Sends), "INVALID_ARGUMENT"),
    ];
    let wrong: Vec<String> = rows.iter().filter_map(|row| over_grpc(STREAM_INFER, row)).collect();
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn a_stream_that_asks_nothing_when_the_plane_drains_is_no_request() {
    let (running, gate) = start(&settings());
    gate.open();
    let mut client = running.grpc();
    let (call, _sending) = client.open_ended(STREAM_INFER, &[], frame(&infer(&[1.0])));
    let (cut, _rest) = client.open_ended(STREAM_INFER, &[], frame(&infer(&[1.0]))[..9].to_vec());
    let mut answers = client.answers(call);
    client.next(&mut answers).unwrap();
    eventually("a part is read", || running.sample("tidegate_request_memory_bytes") > 0.0);
    assert!(running.plane.drain(LONG));
    assert_eq!(client.next(&mut answers), Err(14), "it is told");
    assert_eq!(client.finish(cut).code, 14);
    assert_eq!(counted(&running, "grpc"), [("UNAVAILABLE".to_owned(), 1.0), ("OK".to_owned(), 1.0)]);
}
