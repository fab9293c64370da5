//! What the protocols ask of a request and clients get wrong: hosts, codings, chunks, time-outs, messages.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::support::grpc::{PREDICT, frame};
use crate::support::messages::predict_x;
use crate::support::rest::Answer;
use crate::support::{Model, Running};

/// What a server answers at once, although the request's body does not come.
fn ask(running: &Running, request: &str) -> Answer {
    let mut client = running.rest();
    let began = Instant::now();
    client.stream.write_all(request.as_bytes()).unwrap();
    let answer = client.receive();
    assert!(began.elapsed() < Duration::from_secs(5), "{request}");
    answer
}

const BODY: &str = r#"{"instances":[1]}"#;

#[test]
fn a_request_has_one_host() {
    let running = Running::with(&Model::half_plus_two());
    assert_eq!(ask(&running, "GET /v2/health/live HTTP/1.1\r\n\r\n").status, 400);
    assert_eq!(ask(&running, "GET /v2/health/live HTTP/1.1\r\nhost: a\r\nHost: b\r\n\r\n").status, 400);
    assert_eq!(ask(&running, "GET /v2/health/live HTTP/1.1\r\nhost: a\r\n\r\n").status, 200);
    assert_eq!(ask(&running, "GET /v2/health/live HTTP/1.0\r\n\r\n").status, 200, "HTTP/1.0 knows no hosts");
}

#[test]
fn a_body_comes_whole_or_in_chunks() {
    let running = Running::with(&Model::half_plus_two());
    let head = "POST /v1/models/m:predict HTTP/1.1\r\nhost: t\r\ntransfer-encoding: ";
    for codings in ["gzip, chunked", "chunked\r\ntransfer-encoding: chunked"] {
        let refused = ask(&running, &format!("{head}{codings}\r\n\r\n{:x}\r\n{BODY}\r\n0\r\n\r\n", BODY.len()));
        assert_eq!((refused.status, refused.header("connection")), (501, Some("close")), "{}", refused.body);
    }
    let (first, second) = BODY.split_at(5);
    let chunks = format!("{:x}\r\n{first}\r\n{:X};a=b\r\n{second}\r\n0\r\n\r\n", first.len(), second.len());
    assert_eq!(ask(&running, &format!("{head}Chunked\r\n\r\n{chunks}")).status, 200);
}

#[test]
fn a_chunk_that_is_announced_too_large_is_refused_at_once() {
    let running = Running::with(&Model::half_plus_two());
    let head = "POST /v1/models/m:predict HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n";
    for chunks in ["8000000000000000\r\n", "200000\r\n{", "1\r\n{\r\n7fffffffffffffff\r\n"] {
        let refused = ask(&running, &format!("{head}{chunks}"));
        assert_eq!((refused.status, refused.header("connection")), (413, Some("close")), "{chunks}: {}", refused.body);
    }
    let overflow = ask(&running, &format!("{head}fffffffffffffffff\r\n"));
    assert!([400, 413].contains(&overflow.status), "{}", overflow.status);
    let mut client = running.rest();
    client.stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(running.rest().predict(BODY).status, 200, "the head has come by now, as a rule");
    client.stream.write_all(b"8000000000000000\r\n").unwrap();
    assert_eq!(client.receive().status, 413, "also where the size comes later than the head");
}

#[test]
fn a_large_body_that_nobody_would_read_is_refused_before_it_comes() {
    let running = Running::with(&Model::half_plus_two());
    for (method, path, small, large, why) in [
        ("POST", "/nowhere", 404, 404, "no such path"),
        ("POST", "/v1/models/m:predcit", 400, 400, "Malformed request"),
        ("POST", "/v2/repository/models/m/load", 501, 501, "control port"),
        ("GET", "/v2/health/live", 200, 413, "send none"),
    ] {
        for body in ["content-length: 100000\r\n\r\n{", "transfer-encoding: chunked\r\n\r\n20000\r\n{"] {
            let refused = ask(&running, &format!("{method} {path} HTTP/1.1\r\nhost: t\r\n{body}"));
            assert_eq!((refused.status, refused.body.contains(why)), (large, true), "{path}: {}", refused.body);
            assert_eq!(
                (refused.header("connection"), refused.header("x-request-id").is_some()),
                (Some("close"), large != 413)
            );
        }
        let mut client = running.rest();
        for _ in 0..2 {
            client.send(method, path, "", b"{}");
            assert_eq!(client.receive().status, small, "a small one costs nobody its connection");
            let head = format!("{method} {path} HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n");
            client.stream.write_all(format!("{head}2\r\n{{}}\r\n0\r\n\r\n").as_bytes()).unwrap();
            assert_eq!(client.receive().status, small, "nor does one in chunks");
            client.send(method, path, "content-encoding: gzip\r\n", b"no gzip");
            assert_eq!(client.receive().status, small, "and a packed one is not unpacked");
        }
    }
}

#[test]
fn a_malformed_timeout_is_an_error() {
    let running = Running::with(&Model::half_plus_two());
    let mut client = running.grpc();
    for malformed in ["5", "S", "+5S", "1.5S", "123456789S", "5s", "-1S"] {
        let answer = client.call(PREDICT, &[("grpc-timeout", malformed)], &predict_x(&[2.0]));
        assert_eq!(
            (answer.code, answer.message.contains("grpc-timeout")),
            (13, true),
            "{malformed}: {}",
            answer.message
        );
    }
    for known in ["99999999H", "5M", "5S", "5000m", "5000000u"] {
        assert_eq!(client.call(PREDICT, &[("grpc-timeout", known)], &predict_x(&[2.0])).code, 0, "{known}");
    }
}

#[test]
fn a_call_has_one_message() {
    let running = Running::with(&Model::half_plus_two());
    let mut client = running.grpc();
    let one = frame(&predict_x(&[2.0]));
    for more in [one.clone(), vec![0], vec![7; 100]] {
        let call = client.start(PREDICT, &[], [one.clone(), more].concat());
        let answer = client.finish(call);
        assert_eq!((answer.code, answer.message.contains("one message")), (12, true), "{}", answer.message);
    }
    let half = client.start(PREDICT, &[], one[..7].to_vec());
    assert_eq!(client.finish(half).code, 3);
    assert_eq!(client.predict(&predict_x(&[2.0])).code, 0);
}

#[test]
fn metadata_beyond_the_limit_are_refused_as_grpc_does_and_the_connection_goes_on() {
    let running = Running::with(&Model::half_plus_two());
    let mut client = running.grpc();
    for size in [17 << 10, 40 << 10, 60 << 10] {
        let answer = client.call(PREDICT, &[("x-a", &"a".repeat(size))], &predict_x(&[2.0]));
        assert_eq!(answer.code, 8, "{size}: {}", answer.message);
        assert!(answer.message.contains("metadata take") && answer.message.contains("16384"), "{}", answer.message);
    }
    assert_eq!(client.call(PREDICT, &[("x-a", &"a".repeat(15 << 10))], &predict_x(&[2.0])).code, 0);
}

#[test]
fn a_client_or_a_load_balancer_may_ask_for_methods() {
    let running = Running::with(&Model::half_plus_two());
    for (path, allowed) in [
        ("*", "GET, HEAD, OPTIONS, POST"),
        ("/", "GET, HEAD, OPTIONS"),
        ("/v2/health/ready", "GET, HEAD, OPTIONS"),
        ("/metrics", "GET, HEAD, OPTIONS"),
        ("/v1/models/m", "GET, HEAD, OPTIONS"),
        ("/v1/models/m:predict", "OPTIONS, POST"),
        ("/v2/models/nobody/infer", "OPTIONS, POST"),
    ] {
        let answer = ask(&running, &format!("OPTIONS {path} HTTP/1.1\r\nhost: t\r\n\r\n"));
        assert_eq!((answer.status, answer.header("allow")), (200, Some(allowed)), "{path}: {}", answer.body);
    }
    assert_eq!(ask(&running, "OPTIONS / HTTP/1.0\r\n\r\n").status, 200, "as HAProxy asks for health");
    assert_eq!(ask(&running, "OPTIONS /nothing HTTP/1.1\r\nhost: t\r\n\r\n").status, 404);
    assert_eq!(ask(&running, "GET * HTTP/1.1\r\nhost: t\r\n\r\n").status, 404);
}
