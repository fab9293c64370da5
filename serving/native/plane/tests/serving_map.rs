//! Publishing, retiring and labelling through `apply`, as clients see it: all or nothing, handles, releases.
//! Speaks over sockets where routing is meant, and to the hooks where releases are.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::support;
use crate::support::messages::{Request, answered_by, float_tensor};
use crate::support::{Gate, Model, Running, eventually, publish, scalar_signature, settings};
use tidegate_codec::status::Code;
use tidegate_engine::serving_map::Change;
use tidegate_plane::settings::Settings;

fn retire(version: i64) -> Change {
    Change::Retire { model: "m".to_owned(), version }
}

fn labels(pairs: &[(&str, i64)]) -> Change {
    let labels: HashMap<String, i64> = pairs.iter().map(|(label, version)| ((*label).to_owned(), *version)).collect();
    Change::SetLabels { model: "m".to_owned(), labels, waiting: HashSet::new() }
}

fn request() -> Request {
    Request::new("m").input("x", float_tensor(&[1.0]))
}

fn version_of(running: &Running, request: &Request) -> i64 {
    let answer = running.grpc().predict(&request.encode());
    assert_eq!(answer.code, 0, "{}", answer.message);
    let (version, signature) = answered_by(&answer.body);
    assert_eq!(answer.headers["x-tidegate-version"], version.to_string());
    assert_eq!(signature, "serving_default");
    version
}

fn two_versions() -> Running {
    let running = Running::start(&settings());
    let model = Model::half_plus_two();
    let both = vec![publish("m", 1, &model, scalar_signature()), publish("m", 2, &model, scalar_signature())];
    running.plane.apply(both).unwrap();
    running
}

#[test]
fn a_request_goes_where_version_label_or_neither_say() {
    let running = two_versions();
    assert_eq!(version_of(&running, &request()), 2, "without labels the newest");
    running.plane.apply(vec![labels(&[("stable", 1), ("canary", 2)])]).unwrap();
    assert_eq!(version_of(&running, &request()), 1, "stable, where it exists");
    assert_eq!(version_of(&running, &request().label("canary")), 2);
    assert_eq!(version_of(&running, &request().version(2)), 2);
    let mut rest = running.rest();
    let answered = |rest: &mut support::rest::Client, path| {
        let answer = rest.post(path, r#"{"instances":[1]}"#);
        answer.header("x-tidegate-version").map(str::to_owned)
    };
    assert_eq!(answered(&mut rest, "/v1/models/m:predict").as_deref(), Some("1"));
    assert_eq!(answered(&mut rest, "/v1/models/m/labels/canary:predict").as_deref(), Some("2"));
    assert_eq!(answered(&mut rest, "/v1/models/m/versions/2:predict").as_deref(), Some("2"));
}

#[test]
fn what_is_not_there_is_refused_as_in_tensorflow_serving() {
    let running = two_versions();
    let mut grpc = running.grpc();
    let mut refused = |request: Request| {
        let answer = grpc.predict(&request.encode());
        (answer.code, answer.message)
    };
    let x = || float_tensor(&[1.0]);
    let not_found = Code::NotFound as i32;
    assert_eq!(
        refused(Request::new("n").input("x", x())),
        (not_found, "Servable not found for request: Latest(n)".to_owned())
    );
    assert_eq!(refused(request().version(7)), (not_found, "Servable not found for request: Specific(m, 7)".to_owned()));
    let label = (Code::InvalidArgument as i32, "Unrecognized servable version label: nope".to_owned());
    assert_eq!(refused(request().label("nope")), label);
    assert_eq!(refused(Request::new("").input("x", x())).1, "ModelSpec has no name specified.");
    let signature = (Code::FailedPrecondition as i32, "Serving signature key \"other\" not found.".to_owned());
    assert_eq!(refused(request().signature("other")), signature);
    assert_eq!(running.rest().post("/v1/models/n:predict", r#"{"instances":[1]}"#).status, 404);
    let filter = refused(request().only("z"));
    assert!(filter.1.starts_with("output tensor alias not found in signature: z"), "{}", filter.1);
}

#[test]
fn apply_is_all_or_nothing() {
    let running = two_versions();
    let model = Model::half_plus_two();
    let refused = |changes: Vec<Change>, text: &str| {
        let why = running.plane.apply(changes).unwrap_err();
        assert!(why.contains(text), "{why}");
        assert_eq!(version_of(&running, &request()), 2, "nothing changed");
    };
    let third = || publish("m", 3, &model, scalar_signature());
    refused(vec![third(), labels(&[("stable", 4)])], "label 'stable' of model 'm' names version 4");
    refused(vec![third(), retire(9)], "version 9 is not published");
    refused(vec![third(), publish("m", 2, &model, scalar_signature())], "version 2 is published already");
    let shadow = Change::SetShadow { model: "m".to_owned(), version: 9, fraction: 0.5 };
    refused(vec![third(), shadow], "shadow of model 'm' names version 9");
    refused(vec![third(), Change::SetLog { model: "m".to_owned(), rate: 1.5 }], "must be between 0 and 1");
    running.plane.apply(vec![labels(&[("stable", 2)])]).unwrap();
    refused(vec![retire(2)], "label 'stable' of model 'm' names version 2");
    assert!(running.hooks.released.lock().unwrap().is_empty(), "a version that never served is not released");
}

#[test]
fn a_label_moves_in_the_same_apply_as_its_version() {
    let running = two_versions();
    running.plane.apply(vec![labels(&[("stable", 1)])]).unwrap();
    let third = publish("m", 3, &Model::half_plus_two(), scalar_signature());
    running.plane.apply(vec![labels(&[("stable", 3)]), third, retire(1)]).unwrap();
    assert_eq!(version_of(&running, &request()), 3);
}

#[test]
fn nobody_lands_on_another_version_while_stable_waits_for_its_own() {
    let running = two_versions();
    let waiting = |waits: &[&str]| Change::SetLabels {
        model: "m".to_owned(),
        labels: HashMap::new(),
        waiting: waits.iter().map(|label| (*label).to_owned()).collect(),
    };
    running.plane.apply(vec![waiting(&["stable"])]).unwrap();
    let refused = running.grpc().predict(&request().encode());
    assert_eq!(refused.code, Code::Unavailable as i32, "{}", refused.message);
    assert!(refused.message.contains("label 'stable' of model 'm' waits for its version"), "{}", refused.message);
    assert_eq!(running.rest().post("/v1/models/m:predict", r#"{"instances":[1]}"#).status, 503);
    assert_eq!(version_of(&running, &request().version(2)), 2, "a version by number is still there");
    running.plane.apply(vec![waiting(&["canary"])]).unwrap();
    assert_eq!(version_of(&running, &request()), 2, "only stable decides where ordinary clients go");
}

#[test]
fn a_preferred_version_stands_before_stable_and_the_newest_until_it_leaves() {
    let running = two_versions();
    let prefer = |version| Change::SetDefault { model: "m".to_owned(), version };
    running.plane.apply(vec![prefer(Some(1))]).unwrap();
    assert_eq!(version_of(&running, &request()), 1);
    running.plane.apply(vec![labels(&[("stable", 2)])]).unwrap();
    assert_eq!(version_of(&running, &request()), 1, "whoever prefers one knows the label");
    let waiting = HashSet::from(["stable".to_owned()]);
    running.plane.apply(vec![Change::SetLabels { model: "m".to_owned(), labels: HashMap::new(), waiting }]).unwrap();
    assert_eq!(version_of(&running, &request()), 1);
    running.plane.apply(vec![labels(&[])]).unwrap();
    assert_eq!(version_of(&running, &request()), 1);
    running.plane.apply(vec![retire(1)]).unwrap();
    assert_eq!(version_of(&running, &request()), 2);
    running.plane.apply(vec![publish("m", 1, &Model::half_plus_two(), scalar_signature())]).unwrap();
    assert_eq!(version_of(&running, &request()), 2, "it was preferred as long as it was there");
    running.plane.apply(vec![prefer(Some(1))]).unwrap();
    running.plane.apply(vec![prefer(None)]).unwrap();
    assert_eq!(version_of(&running, &request()), 2);
}

#[test]
fn a_version_is_released_on_its_own_thread_when_its_last_handle_is_gone() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let running = Running::with(&model);
    let mut client = running.rest();
    client.send_predict(r#"{"instances":[1]}"#);
    gate.wait_for(1);
    let mut queued = running.rest();
    queued.send_predict(r#"{"instances":[2]}"#);
    eventually("one waits", || running.m1("tidegate_queued_rows") == 1.0);
    running.plane.apply(vec![retire(1)]).unwrap();
    assert_eq!(running.rest().predict(r#"{"instances":[1]}"#).status, 404, "not routed to any more");
    assert!(running.hooks.released.lock().unwrap().is_empty(), "two requests hold it");
    gate.open();
    assert_eq!((client.receive().status, queued.receive().status), (200, 200), "what was accepted is answered");
    eventually("it is released", || !running.hooks.released.lock().unwrap().is_empty());
    let released = running.hooks.released.lock().unwrap().clone();
    assert_eq!(released, [("m".to_owned(), 1, Some("tg-released".to_owned()))]);
    assert_eq!(Arc::strong_count(&model), 1, "the executor is gone before its release is told");
}

#[test]
fn versions_come_and_go_under_load_without_one_failed_request() {
    let running = two_versions();
    running.plane.apply(vec![labels(&[("stable", 1)])]).unwrap();
    let (done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut rest = running.rest();
                while !done.load(Ordering::Relaxed) {
                    let answer = rest.predict(r#"{"instances":[2]}"#);
                    assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"predictions":[3.0]}"#));
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let model = Model::half_plus_two();
        for version in 3..60 {
            let before = answered.load(Ordering::Relaxed);
            let next = vec![publish("m", version, &model, scalar_signature()), labels(&[("stable", version)])];
            running.plane.apply(next).unwrap();
            running.plane.apply(vec![retire(version - 2)]).unwrap();
            eventually("some were answered meanwhile", || answered.load(Ordering::Relaxed) > before + 5);
        }
        done.store(true, Ordering::Relaxed);
    });
    eventually("57 versions are released", || running.hooks.released.lock().unwrap().len() == 57);
}

#[test]
fn while_a_server_starts_what_is_not_there_may_come_yet() {
    let running = Running::start(&Settings { starting: true, ..settings() });
    let asks = || {
        let by_label = Request::new("m").input("x", float_tensor(&[1.0])).label("stable");
        let grpc = [request(), by_label].map(|one| running.grpc().predict(&one.encode()));
        let rest = running.rest().predict(r#"{"instances":[1]}"#);
        (grpc.each_ref().map(|answer| answer.code), rest.status, grpc[0].message.clone(), rest.body)
    };
    let (codes, status, message, body) = asks();
    assert_eq!((codes, status), ([Code::Unavailable as i32; 2], 503), "{message}; {body}");
    let why = "Servable not found for request: Latest(m): the server is starting, so ask again";
    assert_eq!((message.as_str(), body.contains(why)), (why, true), "{body}");
    running.plane.apply(vec![publish("other", 1, &Model::half_plus_two(), scalar_signature())]).unwrap();
    assert_eq!(running.rest().post("/v1/models/other:predict", r#"{"instances":[1]}"#).status, 200);
    assert_eq!(asks().1, 503, "a change of other models is not the end of the start");
    running.plane.started();
    let (codes, status, message, body) = asks();
    assert_eq!((codes, status), ([Code::NotFound as i32; 2], 404), "{message}; {body}");
    assert_eq!(running.rest().post("/v1/models/other:predict", r#"{"instances":[1]}"#).status, 200);
}
