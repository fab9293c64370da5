//! Large answers that are due at once: whoever asks for little meanwhile is answered between them.

use std::io::Write;
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use socket2::SockRef;
use tidegate_codec::dtype::DType;
use tidegate_codec::tensors::{Column, Strings, Tensor};
use tidegate_engine::batching::Batching;
use tidegate_plane::settings::Settings;

use crate::support;
use crate::support::grpc::{PREDICT, frame};
use crate::support::messages::predict_x;
use crate::support::{Model, Running, eventually, far_less, publish_with, settings, spec};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const CLIENTS: usize = 400;

/// Model `m`, which gives a megabyte for each row.
fn giving_much() -> Running {
    let running = Running::start(&Settings { max_connections: 4096, request_memory_bytes: 4 << 30, ..settings() });
    let model = Model::new(|work| {
        let mut strings = Strings::default();
        (0..work.rows).for_each(|_| strings.push(&vec![b'a'; 1 << 20]));
        Ok(support::answer(Tensor { column: Column::Strings(strings), shape: vec![work.rows] }))
    });
    let outputs = vec![spec("y", DType::String, &[-1])];
    let signature = support::signature(vec![spec("x", DType::Float32, &[-1])], outputs);
    let batching = Batching { max_batch_rows: 1024, ..support::batching() };
    running.plane.apply(vec![publish_with("m", 1, &model, signature, batching)]).unwrap();
    running
}

/// Asks for one row over HTTP/2, and lets nothing of the answer's message come yet.
fn ask(running: &Running) -> TcpStream {
    let mut socket = TcpStream::connect(running.plane.grpc_address().unwrap()).unwrap();
    let (path, kind) = (PREDICT.as_bytes(), b"application/grpc");
    let settings = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0];
    // POST, http, the path, authority "t" and the content type, as literals of HPACK.
    let head = [&[0x83, 0x86, 0x04, path.len() as u8], path, &[0x01, 1, b't', 0x0f, 0x10, kind.len() as u8], kind];
    let (head, message) = (head.concat(), frame(&predict_x(&[1.0])));
    let headers = [&[0, 0, head.len() as u8, 1, 4, 0, 0, 0, 1], &head[..]].concat();
    let data = [&[0, 0, message.len() as u8, 0, 1, 0, 0, 0, 1], &message[..]].concat();
    socket.write_all(&[PREFACE, &settings, &window(0), &headers, &data].concat()).unwrap();
    socket
}

/// Lets much come, of one stream or of all.
fn window(stream: u8) -> Vec<u8> {
    [0, 0, 4, 8, 0, 0, 0, 0, stream, 0x3f, 0xff, 0, 0].to_vec()
}

/// Whether some of the message has come.
fn has_come(client: &TcpStream) -> bool {
    let mut some = [MaybeUninit::uninit(); 4096];
    client.set_nonblocking(true).unwrap();
    SockRef::from(client).peek(&mut some).is_ok_and(|bytes| bytes == some.len())
}

/// The longest that a question about health takes while the large answers to all clients begin to go out, and how long that
/// takes.
fn beside_large_answers() -> (Duration, Duration) {
    let running = giving_much();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| ask(&running)).collect();
    let answered = "tidegate_requests_total{endpoint=\"grpc\",model=\"m\",version=\"1\",status=\"OK\"}";
    eventually("all wait to be taken", || running.sample(answered) == CLIENTS as f64);
    let (mut rest, mut longest) = (running.rest(), Duration::ZERO);
    let began = Instant::now();
    clients.iter_mut().for_each(|client| client.write_all(&window(1)).unwrap());
    while !clients.iter().all(has_come) {
        let asked = Instant::now();
        assert_eq!(rest.get("/v2/health/live").status, 200);
        longest = longest.max(asked.elapsed());
    }
    (longest, began.elapsed())
}

#[test]
fn who_asks_for_little_is_answered_between_large_answers_over_http2() {
    far_less(6, || {
        let (longest, whole) = beside_large_answers();
        (longest, whole / 3)
    });
}
