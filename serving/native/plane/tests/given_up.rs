//! Clients that give up while what they sent packed is unpacked: it is left, given back, and counted as cancelled.

use std::fs::{read_to_string, remove_file};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use socket2::SockRef;
use tidegate_engine::request_id::Share;
use tidegate_engine::telemetry::{AccessLogOptions, TelemetryOptions};
use tidegate_plane::settings::Settings;

use crate::support::grpc::{PREDICT, frame};
use crate::support::infer::STREAM_INFER;
use crate::support::rest::Client;
use crate::support::{Running, eventually, settings};

const MB: usize = 1 << 20;

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// A megabyte comes out soon, and nothing more for seconds.
fn long_to_unpack() -> Vec<u8> {
    [gzip(&vec![0; MB]), gzip(b"").repeat((60 * MB) / gzip(b"").len())].concat()
}

/// A plane with an access log of its own.
fn running(name: &str) -> (Running, PathBuf) {
    answering_within(settings().request_timeout, name)
}

fn answering_within(request_timeout: Duration, name: &str) -> (Running, PathBuf) {
    let path = std::env::temp_dir().join(format!("tidegate-{}-given-up-{name}.jsonl", std::process::id()));
    let log = AccessLogOptions { path: Some(path.clone()), share: Share::new(1.0).unwrap(), ..Default::default() };
    let telemetry = TelemetryOptions { access_log: Some(log), traces: None };
    (Running::start(&Settings { max_message_bytes: 128 * MB, telemetry, request_timeout, ..settings() }), path)
}

fn is_unpacking(running: &Running, packed: &[u8]) {
    let used = || running.sample("tidegate_request_memory_bytes");
    eventually("it is unpacked", || used() >= (packed.len() + MB) as f64);
}

/// All is given back, and the access log says that it was cancelled.
fn was_cancelled(running: &Running, path: &PathBuf) {
    eventually("its memory is given back", || running.sample("tidegate_request_memory_bytes") == 0.0);
    eventually("it has its line", || read_to_string(path).unwrap().ends_with('\n'));
    let line = read_to_string(path).unwrap();
    remove_file(path).unwrap();
    assert!(line.contains(r#""status":"CANCELLED""#) && line.lines().count() == 1, "{line}");
}

fn is_counted(running: &Running, endpoint: &str) {
    eventually("it is counted", || counted(running, endpoint, "CANCELLED") == 1.0);
}

fn counted(running: &Running, endpoint: &str, status: &str) -> f64 {
    let of = format!("endpoint=\"{endpoint}\",model=\"\",version=\"\",status=\"{status}\"");
    running.sample(&format!("tidegate_requests_total{{{of}}}"))
}

fn reset(client: Client) {
    SockRef::from(&client.stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
}

fn packed_frame(packed: &[u8]) -> Vec<u8> {
    [&[1][..], &frame(packed)[1..]].concat()
}

#[test]
fn a_call_that_is_reset() {
    for (name, method) in [("call", PREDICT), ("stream", STREAM_INFER)] {
        let ((running, path), packed) = (running(name), long_to_unpack());
        let mut client = running.grpc();
        let call = client.start(method, &[("grpc-encoding", "gzip")], packed_frame(&packed));
        is_unpacking(&running, &packed);
        drop(call);
        was_cancelled(&running, &path);
        if method == PREDICT {
            is_counted(&running, "grpc");
        }
        assert_eq!(client.call("/grpc.health.v1.Health/Check", &[], b"").code, 0, "its connection lives on");
    }
}

#[test]
fn a_call_whose_connection_ends() {
    let ((running, path), packed) = (running("connection"), long_to_unpack());
    let mut client = running.grpc();
    let call = client.start(PREDICT, &[("grpc-encoding", "gzip")], packed_frame(&packed));
    is_unpacking(&running, &packed);
    drop((call, client));
    was_cancelled(&running, &path);
    is_counted(&running, "grpc");
}

#[test]
fn a_request_over_rest_whose_connection_ends() {
    let ((running, path), packed) = (running("rest"), long_to_unpack());
    let mut client = running.rest();
    client.send("POST", "/v1/models/m:predict", "content-encoding: gzip\r\n", &packed);
    is_unpacking(&running, &packed);
    reset(client);
    was_cancelled(&running, &path);
    is_counted(&running, "rest");
}

#[test]
fn a_request_over_rest_whose_connection_ends_before_its_turn() {
    let ((running, path), packed) = (running("turn"), long_to_unpack());
    let small = gzip(b"").repeat((4 * MB) / gzip(b"").len());
    let (mut unpacked, mut waiting) = (running.rest(), running.rest());
    unpacked.send("POST", "/v1/models/m:predict", "content-encoding: gzip\r\n", &packed);
    is_unpacking(&running, &packed);
    waiting.send("POST", "/v1/models/m:predict", "content-encoding: gzip\r\n", &small);
    is_unpacking(&running, &[packed, small].concat());
    reset(waiting);
    is_counted(&running, "rest");
    reset(unpacked);
    eventually("both are counted", || counted(&running, "rest", "CANCELLED") == 2.0);
    remove_file(path).unwrap();
}

#[test]
fn a_request_over_rest_whose_deadline_passes_is_counted_as_what_its_client_sees() {
    let ((running, path), packed) = (answering_within(Duration::from_secs(5), "deadline"), long_to_unpack().repeat(2));
    let mut client = running.rest();
    client.send("POST", "/v1/models/m:predict", "content-encoding: gzip\r\n", &packed);
    is_unpacking(&running, &packed);
    assert_eq!(client.receive().status, 504);
    eventually("its memory is given back", || running.sample("tidegate_request_memory_bytes") == 0.0);
    eventually("it has its line", || read_to_string(&path).unwrap().ends_with('\n'));
    let line = read_to_string(&path).unwrap();
    remove_file(path).unwrap();
    assert!(line.contains(r#""status":"DEADLINE_EXCEEDED""#), "{line}");
    assert_eq!(["DEADLINE_EXCEEDED", "CANCELLED"].map(|status| counted(&running, "rest", status)), [1.0, 0.0]);
}
