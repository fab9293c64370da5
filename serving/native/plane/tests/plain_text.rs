//! Clients that speak another protocol than the port they connect to: each reads what it has to do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::support::messages::predict_x;
use crate::support::{LONG, Model, Running, eventually};

/// As gRPC's C core begins: the preface, and its settings right behind it.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const NO_HTTP2: &str = "this port speaks HTTP/1.1 alone: use that, or the gRPC port for gRPC";
const NO_HTTP1: &str = "this port speaks gRPC alone: REST has a port of its own, the engine's rest_address";

fn say(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.write_all(bytes).unwrap();
    socket
}

fn is_told(mut socket: TcpStream, why: &str) {
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer:?}");
    assert!(answer.ends_with(&format!("{{\"error\": \"{why}\"}}")), "{answer:?}");
}

fn still_serves(running: &Running) {
    let answer = running.grpc().predict(&predict_x(&[1.0]));
    assert_eq!((answer.code, answer.message.as_str()), (0, ""));
    assert_eq!(running.rest().predict(r#"{"instances":[1]}"#).body, r#"{"predictions":[2.5]}"#);
}

#[test]
fn a_client_of_http2_on_the_rest_port_is_told_so() {
    let running = Running::with(&Model::half_plus_two());
    is_told(say(running.plane.rest_address().unwrap(), PREFACE), NO_HTTP2);
    still_serves(&running);
}

#[test]
fn a_client_of_http1_on_the_grpc_port_is_told_so() {
    let running = Running::with(&Model::half_plus_two());
    for begin in ["POST /v1/models/m:predict HTTP/1.1\r\n", "GET / HTTP/1.0\r\n"] {
        let head = format!("{begin}host: t\r\n\r\n");
        is_told(say(running.plane.grpc_address().unwrap(), head.as_bytes()), NO_HTTP1);
    }
    still_serves(&running);
}

#[test]
fn who_was_told_may_go_on_sending_before_it_reads() {
    let running = Running::with(&Model::half_plus_two());
    let head = b"POST /v1/models/m:predict HTTP/1.1\r\nhost: t\r\ncontent-length: 65536\r\n\r\n";
    let (grpc, rest) = (running.plane.grpc_address().unwrap(), running.plane.rest_address().unwrap());
    for (address, begin, why) in [(grpc, &head[..], NO_HTTP1), (rest, PREFACE, NO_HTTP2)] {
        let mut socket = say(address, begin);
        assert_eq!(socket.peek(&mut [0]).unwrap(), 1, "the answer is there");
        for _ in 0..3 {
            socket.write_all(&[b' '; 8 << 10]).unwrap();
            still_serves(&running);
        }
        is_told(socket, why);
    }
}

#[test]
fn who_was_told_and_stays_is_left() {
    let running = Running::with(&Model::half_plus_two());
    let (grpc, rest) = (running.plane.grpc_address().unwrap(), running.plane.rest_address().unwrap());
    for (address, begin, name) in [(grpc, &b"GET / HTTP/1.0\r\n\r\n"[..], "grpc"), (rest, PREFACE, "rest")] {
        let socket = say(address, begin);
        assert_eq!(socket.peek(&mut [0]).unwrap(), 1, "the answer is there");
        let open = format!("tidegate_connections{{endpoint=\"{name}\"}}");
        eventually("the connection is closed", || running.sample(&open) == 0.0);
        drop(socket);
    }
}
