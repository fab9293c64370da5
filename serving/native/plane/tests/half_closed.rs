//! Clients over REST that close their side of the connection when they have asked, and wait for the answer.

use std::io::Write;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Instant;

use flate2::Compression;
use flate2::write::GzEncoder;
use tidegate_engine::request::reply::SILENT;
use tidegate_plane::settings::Settings;

use crate::support::rest::Client;
use crate::support::{Gate, Model, Running, eventually, settings};

const ONE: &str = r#"{"instances":[1]}"#;
const POST: &str = "POST /v1/models/m:predict HTTP/1.1\r\nhost: t\r\n";

/// Closes the client's side; the server has seen it.
fn close_side(running: &Running, client: &Client) {
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(running.rest().get("/v2/health/live").status, 200);
}

fn ask(running: &Running, bytes: &str) -> Client {
    let mut client = running.rest();
    client.stream.write_all(bytes.as_bytes()).unwrap();
    close_side(running, &client);
    client
}

#[test]
fn whoever_closes_its_side_while_its_request_runs_is_answered() {
    let gate = Arc::new(Gate::default());
    let running = Running::with(&Model::gated(&gate));
    let mut client = running.rest();
    client.send_predict(ONE);
    gate.wait_for(1);
    close_side(&running, &client);
    gate.open();
    let answer = client.receive();
    assert_eq!((answer.status, &*answer.body), (200, r#"{"predictions":[2.5]}"#));
    assert!(client.is_closed());
}

#[test]
fn all_that_came_before_the_end_is_answered() {
    let running = Running::with(&Model::half_plus_two());
    let whole = format!("{POST}content-length: {}\r\n\r\n{ONE}", ONE.len());
    let chunked = format!("{POST}transfer-encoding: chunked\r\n\r\n{:x}\r\n{ONE}\r\n0\r\n\r\n", ONE.len());
    for (bytes, answers) in [(whole.repeat(5), 5), (chunked, 1)] {
        let mut client = ask(&running, &bytes);
        for _ in 0..answers {
            assert_eq!(client.receive().body, r#"{"predictions":[2.5]}"#);
        }
        assert!(client.is_closed());
    }
}

#[test]
fn a_request_that_waits_counts_as_given_up_and_says_so() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let running = Running::with(&model);
    let (mut first, mut silent) = (running.rest(), running.rest());
    first.send_predict(ONE);
    gate.wait_for(1);
    silent.send_predict(ONE);
    eventually("the second is queued", || running.m1("tidegate_queued_rows") == 1.0);
    close_side(&running, &silent);
    let refused = silent.receive();
    let why = "waited in the batch queue of model 'm' version 1 when its client closed its side of the connection";
    assert_eq!((refused.status, refused.body.contains(why)), (499, true), "{}", refused.body);
    gate.open();
    assert_eq!(first.receive().status, 200);
    assert_eq!((model.seen().len(), running.m1("tidegate_cancelled_total")), (1, 1.0));
}

#[test]
fn a_body_that_ends_too_early_is_refused() {
    let running = Running::with(&Model::half_plus_two());
    let mut client = ask(&running, &format!("{POST}content-length: 100\r\n\r\n{ONE}"));
    let refused = client.receive();
    assert_eq!((refused.status, refused.body.contains("cannot be read")), (400, true), "{}", refused.body);
    assert!(client.is_closed());
}

#[test]
fn a_connection_without_a_request_ends_with_its_clients_side() {
    let running = Running::with(&Model::half_plus_two());
    let mut asked = running.rest();
    assert_eq!(asked.predict(ONE).status, 200);
    close_side(&running, &asked);
    for mut client in [asked, ask(&running, ""), ask(&running, POST)] {
        assert!(client.is_closed());
    }
    eventually("all are counted out", || running.sample("tidegate_connections{endpoint=\"rest\"}") == 0.0);
}

#[test]
fn what_takes_long_to_unpack_is_left_once_its_client_has_closed_its_side() {
    let running = Running::start(&Settings { max_message_bytes: 64 << 20, ..settings() });
    let (head, nothing) = ("POST /v1/models/m:predict HTTP/1.1\r\nhost: t\r\ncontent-encoding: gzip\r\n", gzip(b""));
    let packed = nothing.repeat((60 << 20) / nothing.len());
    let mut client = running.rest();
    client.stream.write_all(format!("{head}content-length: {}\r\n\r\n", packed.len()).as_bytes()).unwrap();
    client.stream.write_all(&packed).unwrap();
    close_side(&running, &client);
    let refused = client.receive();
    let why = format!("body of {} bytes for /v1/models/m:predict was not unpacked yet", packed.len());
    assert_eq!((refused.status, refused.body.contains(&why)), (499, true), "{}", refused.body);
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn who_has_closed_its_side_is_told_of_all_models_as_others_are() {
    let gate = Arc::<Gate>::default();
    let running = Running::held(&settings(), &gate);
    let get = "GET /v2/models HTTP/1.1\r\nhost: t\r\n\r\n";
    let (mut silent, began) = (ask(&running, get), Instant::now());
    eventually("it looks like one that has gone", || began.elapsed() > SILENT);
    gate.open();
    assert_eq!(silent.receive().status, 200);
}
