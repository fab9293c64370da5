//! Requests go to a node that has their model and come back as they are; what no node is asked for is answered by the router.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_codec::status::{Code, Status};
use tidegate_codec::version_state::VersionState;
use tidegate_engine::request_id::Share;
use tidegate_engine::telemetry::AccessLogOptions;
use tidegate_router::settings::RouterSettings;
use tokio::sync::Notify;

use crate::support::grpc::{PREDICT, frame};
use crate::support::{LONG, Mood, Node, Running, eventually, infer, placed, predict, settings};

#[test]
fn a_call_goes_to_a_node_with_its_model_and_comes_back_as_it_is() {
    let (a, b) = (Node::start("a"), Node::start("b"));
    let running = Running::start(&settings());
    running.apply(&[&a, &b], &[("m", &["a"]), ("n", &["b"])]);
    let mut client = running.grpc();
    for (model, node) in [("m", &a), ("n", &b)] {
        let message = predict(model, "x");
        let answer = client.call(PREDICT, &[("x-own", "1"), ("grpc-timeout", "5S")], &message);
        assert_eq!((answer.code, &answer.headers["x-node"]), (0, &node.name.parse().unwrap()));
        assert_eq!(answer.body, [node.name.as_bytes(), b"/", &message].concat());
        let seen = node.last();
        assert_eq!((seen.headers["x-own"].as_bytes(), seen.headers["te"].as_bytes()), (&b"1"[..], &b"trailers"[..]));
        let left: u64 = seen.headers["grpc-timeout"].to_str().unwrap().trim_end_matches('u').parse().unwrap();
        assert!((1_000_000..=5_000_000).contains(&left), "{left} us");
    }
    let answer = client.call("/inference.GRPCInferenceService/ModelInfer", &[], &infer("n", "y"));
    assert_eq!(answer.body, [b"b/", &infer("n", "y")[..]].concat());
    assert_eq!((a.asked(), b.asked()), (1, 2));
}

#[test]
fn a_request_goes_to_a_node_with_its_model_and_comes_back_as_it_is() {
    let (a, b) = (Node::start("a"), Node::start("b"));
    let running = Running::start(&settings());
    running.apply(&[&a, &b], &[("m", &["a"]), ("n/x", &["b"])]);
    let mut client = running.rest();
    for (path, node) in [("/v1/models/m:predict", &a), ("/v2/models/n%2Fx/infer?q=1", &b), ("/inference/m", &a)] {
        client.send("POST", path, "x-own: 1\r\nconnection: keep-alive, x-hop\r\nx-hop: 1\r\n", b"{\"a\": 1}");
        let answer = client.receive();
        assert_eq!((answer.status, answer.header("x-node")), (200, Some(node.name)));
        assert_eq!(answer.body, format!("{}/{{\"a\": 1}}", node.name));
        assert_eq!(answer.header("keep-alive"), None);
        let seen = node.last();
        assert_eq!((seen.path.as_str(), seen.headers["x-own"].as_bytes()), (path, &b"1"[..]));
        assert!(!seen.headers.contains_key("x-hop"));
    }
    assert_eq!(client.get("/v1/models/m").body, "a/");
}

#[test]
fn a_request_that_names_no_model_goes_to_the_only_one() {
    let node = Node::start("a");
    let running = Running::start(&settings());
    running.apply(&[&node], &[("n/x", &["a"])]);
    let mut client = running.rest();
    assert_eq!(client.post("/inference?q=1", "{}").body, "a/{}");
    assert_eq!(node.last().path, "/inference/n%2Fx?q=1");
    running.apply(&[&node], &[("n/x", &["a"]), ("m", &["a"])]);
    let answer = client.post("/inference", "{}");
    assert_eq!((answer.status, answer.body.contains("where NAME is one of m, n/x")), (400, true), "{}", answer.body);
    running.apply(&[&node], &[]);
    assert_eq!(client.post("/inference", "{}").status, 404);
    assert_eq!(node.asked(), 1);
}

#[test]
fn failures_of_a_node_pass_with_their_words() {
    let node = Node::start("a");
    let running = Running::before(&[&node]);
    for code in [3, 5, 8, 14] {
        node.set(Mood::Fail(code));
        let answer = running.grpc().predict(&predict("m", ""));
        assert_eq!((answer.code, answer.message.as_str()), (i32::from(code), "a"));
    }
    for status in [400, 404, 429, 503] {
        node.set(Mood::Fail(status));
        let answer = running.rest().predict("{}");
        assert_eq!((answer.status, answer.body.as_str()), (status, "a"));
    }
    assert_eq!(node.asked(), 8, "there is no other node, and none is asked twice");
    let (requests, errors, retried, ..) = running.router.stats()["m"];
    assert_eq!((requests, errors, retried), (8, 8, 0));
}

#[test]
fn what_names_no_known_model_is_answered_as_by_an_engine_without_models() {
    let node = Node::start("a");
    let running = Running::before(&[&node]);
    let (mut grpc, mut rest) = (running.grpc(), running.rest());
    let unknown = grpc.predict(&predict("n", ""));
    assert_eq!((unknown.code, unknown.message.as_str()), (5, "Servable not found for request: Latest(n)"));
    assert_eq!(grpc.predict(b"\xff").code, 3);
    assert_eq!(grpc.call("/x.Y/Z", &[], b"").code, 12);
    assert_eq!(grpc.call("/inference.GRPCInferenceService/ServerReady", &[], b"").body, [8, 1]);
    assert_eq!(grpc.call("/grpc.health.v1.Health/Check", &[], b"").body, [8, 1]);
    let unknown = rest.post("/v1/models/n:predict", "{\"instances\": [1]}");
    assert_eq!((unknown.status, unknown.body.contains("Servable not found for request: Latest(n)")), (404, true));
    assert_eq!(rest.get("/v2/health/ready").status, 200);
    assert_eq!(rest.get("/nowhere").status, 404);
    assert_eq!(node.asked(), 0);
}

#[test]
fn before_its_first_routes_a_router_knows_of_no_model_whether_it_is_there() {
    let (node, running) = (Node::start("a"), Running::start(&settings()));
    let (mut grpc, mut rest) = (running.grpc(), running.rest());
    let service = "/inference.GRPCInferenceService";
    let mut unknown = vec![grpc.predict(&predict("m", ""))];
    for (method, message) in [("ModelReady", infer("m", "")), ("RepositoryIndex", vec![]), ("ModelStatistics", vec![])]
    {
        unknown.push(grpc.call(&format!("{service}/{method}"), &[], &message));
    }
    unknown.push(grpc.call("/tensorflow.serving.ModelService/GetModelStatus", &[], &predict("m", "")));
    let stream = grpc.start(&format!("{service}/ModelStreamInfer"), &[], frame(&infer("m", "x")));
    unknown.push(grpc.finish(stream));
    for answer in unknown {
        assert_eq!(answer.code, 14, "{}", answer.message);
        assert!(answer.message.contains("has not read the fleet's routes yet"), "{}", answer.message);
        assert!(answer.headers.contains_key("x-request-id"), "clients tell it by that from a connection that failed");
    }
    for path in ["/v1/models/m", "/v2/models/m", "/v2/models/m/ready", "/v2/models"] {
        let answer = rest.get(path);
        assert_eq!(answer.status, 503, "{path}");
        assert!(answer.body.contains("has not read the fleet's routes yet"), "{}", answer.body);
    }
    for path in ["/v1/models/m:predict", "/v2/repository/index", "/inference"] {
        assert_eq!(rest.post(path, "{}").status, 503, "{path}");
    }
    assert_eq!((rest.get("/v2/health/live").status, rest.get("/v2/health/ready").status), (200, 503));
    running.apply(&[&node], &[]);
    assert_eq!(grpc.predict(&predict("m", "")).code, 5, "the fleet has no such model");
    assert_eq!((rest.get("/v1/models/m").status, rest.get("/v2/health/ready").status), (404, 200));
}

#[test]
fn what_only_each_node_knows_of_all_models_is_refused() {
    let running = Running::before(&[]);
    let (mut grpc, mut rest) = (running.grpc(), running.rest());
    for path in [
        "/tensorflow.serving.ModelService/HandleReloadConfigRequest",
        "/inference.GRPCInferenceService/ModelStatistics",
    ] {
        let answer = grpc.call(path, &[], b"");
        assert_eq!(answer.code, 12, "{path}");
        assert!(answer.message.contains("router"), "{}", answer.message);
    }
    for path in ["/v2/models/stats", "/openapi.json"] {
        assert_eq!(rest.get(path).status, 501, "{path}");
    }
}

#[test]
fn lists_of_all_models_are_answered_here() {
    let node = Node::start("a");
    let running = Running::before(&[&node]);
    running.apply(&[&node], &[("m", &["a"]), ("cold", &[])]);
    let state = |version, state, status| VersionState { version, state, status };
    let cold = state(3, 50, Status::new(Code::Unavailable, "it is on no node"));
    let states = [("m", state(1, 30, Status::new(Code::Ok, ""))), ("cold", cold)];
    running.router.set_states(states.into_iter().map(|(name, state)| (name.to_owned(), vec![state])).collect());
    let mut rest = running.rest();
    assert_eq!(
        rest.post("/v2/repository/index", "{}").body,
        r#"[{"name":"cold","version":"3","state":"UNAVAILABLE","reason":"it is on no node"},{"name":"m","version":"1","state":"READY","reason":""}]"#
    );
    assert_eq!(rest.get("/v2/models").body, r#"{"models":["m"]}"#);
    let status = rest.get("/v1/models/cold");
    assert!(status.status == 200 && status.body.contains("END") && status.body.contains("no node"), "{}", status.body);
    let index = running.grpc().call("/inference.GRPCInferenceService/RepositoryIndex", &[], b"");
    assert_eq!(index.code, 0);
    running.router.set_states(HashMap::new());
    assert_eq!(rest.get("/v2/models").body, r#"{"models":[]}"#);
    assert_eq!(node.asked(), 0);
}

#[test]
fn answers_belong_to_their_requests() {
    const CALLS: usize = 500;
    const AT_ONCE: usize = 50;
    let (a, b) = (Node::start("a"), Node::start("b"));
    let running = Running::before(&[&a, &b]);
    let mut client = running.grpc();
    for first in (0..CALLS).step_by(AT_ONCE) {
        let start = |index: usize| client.start(PREDICT, &[], frame(&predict("m", &index.to_string())));
        let calls: Vec<_> = (first..first + AT_ONCE).map(start).collect();
        for (index, call) in (first..).zip(calls) {
            let answer = client.finish(call);
            assert_eq!(&answer.body[2..], predict("m", &index.to_string()), "{answer:?}");
        }
    }
    assert_eq!(a.asked() + b.asked(), CALLS);
    assert!(a.asked() > CALLS / 4 && b.asked() > CALLS / 4, "{} and {}", a.asked(), b.asked());
}

#[test]
fn routes_are_swapped_whole_and_not_at_all_where_they_cannot_be() {
    let (a, b) = (Node::start("a"), Node::start("b"));
    let running = Running::start(&settings());
    assert_eq!(running.rest().get("/v2/health/ready").status, 503);
    running.apply(&[&a], &[("m", &["a"])]);
    assert_eq!(running.rest().predict("1").body, "a/1");
    let refused = running.router.apply(HashMap::new(), placed(&[("m", &["a"])])).unwrap_err();
    assert!(refused.contains("model 'm' is on node 'a'"), "{refused}");
    assert_eq!(running.rest().predict("2").body, "a/2");
    running.apply(&[&b], &[("m", &["b"])]);
    assert_eq!(running.rest().predict("3").body, "b/3");
    assert_eq!(running.router.stats()["m"].0, 3, "what was counted stays");
    running.apply(&[], &[]);
    assert_eq!(running.rest().predict("{\"instances\": [1]}").status, 404);
}

#[test]
fn forwarded_requests_are_in_the_access_log_with_their_model() {
    let node = Node::start("a");
    let path = std::env::temp_dir().join(format!("tidegate-router-{}.jsonl", std::process::id()));
    let mut settings = settings();
    let share = Share::new(1.0).unwrap();
    settings.plane.telemetry.access_log =
        Some(AccessLogOptions { path: Some(path.clone()), share, ..AccessLogOptions::default() });
    let running = Running::start(&settings);
    running.apply(&[&node], &[("m", &["a"])]);
    assert_eq!((running.grpc().predict(&predict("m", "x")).code, running.rest().predict("1").status), (0, 200));
    running.router.stop(LONG);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(text.matches("\"model\":\"m\"").count(), 2, "{text}");
}

#[test]
fn a_client_that_asks_for_little_has_a_connection_to_the_node_apart_from_one_that_asks_for_much() {
    let (node, told) = (Node::start("a"), Arc::<Notify>::default());
    let running = Running::before(&[&node]);
    node.set(Mood::Wait(told.clone()));
    let mut greedy = running.grpc();
    let calls: Vec<_> = (0..20).map(|_| greedy.start(PREDICT, &[], frame(&predict("m", "")))).collect();
    eventually("all reached the node, and wait", || Arc::strong_count(&told) > calls.len());
    node.set(Mood::Echo);
    let ports: Vec<u16> = node.seen.lock().unwrap().iter().map(|seen| seen.port).collect();
    let of_much = ports.iter().max_by_key(|port| ports.iter().filter(|other| other == port).count());
    let port_of = |message: &[u8]| {
        assert_eq!(running.grpc().predict(message).code, 0);
        node.last().port
    };
    assert_ne!(Some(&port_of(&predict("m", "x"))), of_much, "little");
    assert_eq!(Some(&port_of(&predict("m", &"x".repeat(8 << 10)))), of_much, "much");
    told.notify_waiters();
    assert!(calls.into_iter().all(|call| greedy.finish(call).code == 0));
}

#[test]
fn what_a_router_cannot_do_is_refused() {
    let refused = |change: fn(&mut RouterSettings)| {
        let mut changed = settings();
        change(&mut changed);
        changed.check().unwrap_err()
    };
    assert!(refused(|settings| settings.plane.shared_memory = true).starts_with("shared_memory is set"));
    let traces: fn(&mut RouterSettings) = |settings| settings.plane.telemetry.traces = Share::new(0.5);
    assert!(refused(traces).starts_with("trace_sampling_rate is set"));
    assert!(refused(|settings| settings.connections_per_node = 0).starts_with("connections_per_node is 0"));
    assert!(refused(|settings| settings.hedge_after = Some(Duration::ZERO)).starts_with("hedge_after_ms is 0"));
}
