//! Clients whose request is refused before its body was read, and which send on without a look at the answer, as proxies do.

use std::io::Write;
use std::time::Duration;

use crate::support::rest::Client;
use crate::support::{LONG, Model, Running, eventually, far_less};

const LARGE: usize = 16 << 20;
const PATH: &str = "POST /v1/models/m:predict HTTP/1.1\r\nhost: t\r\n";

fn begin(running: &Running, rest_of_head: &str) -> Client {
    let mut client = running.rest();
    client.stream.set_write_timeout(Some(LONG)).unwrap();
    client.stream.write_all(format!("{PATH}{rest_of_head}\r\n\r\n").as_bytes()).unwrap();
    assert_eq!(client.stream.peek(&mut [0]).unwrap(), 1, "it is answered before the body comes");
    client
}

fn open(running: &Running) -> f64 {
    running.sample("tidegate_connections{endpoint=\"rest\"}")
}

#[test]
fn whoever_sends_all_of_it_before_reading_sees_why() {
    let running = Running::with(&Model::half_plus_two());
    let length = format!("content-length: {LARGE}");
    let coded = format!("transfer-encoding: gzip, chunked\r\n{length}");
    for (head, status) in [(&*length, 413), ("transfer-encoding: chunked\r\n\r\n7fffffff", 413), (&coded, 501)] {
        let mut client = begin(&running, head);
        client.stream.write_all(&vec![b' '; LARGE]).unwrap();
        let refused = client.receive();
        assert_eq!(refused.status, status, "{head}: {}", refused.body);
        assert!(client.is_closed());
    }
    assert_eq!(running.rest().predict(r#"{"instances":[1]}"#).status, 200);
}

#[test]
fn whoever_sends_on_for_ever_is_left() {
    let running = Running::with(&Model::half_plus_two());
    let mut client = begin(&running, &format!("content-length: {}", usize::MAX >> 1));
    while client.stream.write_all(&[b' '; LARGE >> 4]).is_ok() {}
    drop(client);
    eventually("the connection is closed", || open(&running) == 0.0);
}

#[test]
fn a_drain_does_not_wait_for_them() {
    far_less(5, || {
        let running = Running::with(&Model::half_plus_two());
        let client = begin(&running, &format!("content-length: {LARGE}"));
        let begun = std::time::Instant::now();
        assert!(running.plane.drain(LONG));
        drop(client);
        (begun.elapsed(), Duration::from_secs(5))
    });
}
