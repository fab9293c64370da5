//! What an operator changes while requests come: splits, the switch of a model, queues and threads, limits, sockets.
//! Speaks over real sockets, because clients are whom it must not hurt.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support;
use crate::support::messages::{Request, answered_by, float_tensor};
use crate::support::{Gate, LONG, Model, Over, Running, eventually, publish, publish_with, scalar_signature, settings};
use tidegate_codec::status::Code;
use tidegate_engine::batching::Batching;
use tidegate_engine::serving_map::Change;
use tidegate_plane::settings::Settings;

fn split(shares: &[(i64, f64)], key: &str) -> Change {
    let shares: BTreeMap<i64, f64> = shares.iter().copied().collect();
    Change::SetSplit { model: "m".to_owned(), shares, key: key.to_owned() }
}

fn off(reason: Option<&str>) -> Change {
    Change::SetDisabled { model: "m".to_owned(), reason: reason.map(str::to_owned) }
}

fn request() -> Request {
    Request::new("m").input("x", float_tensor(&[1.0]))
}

fn with_versions(numbers: &[i64]) -> Running {
    let running = Running::start(&settings());
    let model = Model::half_plus_two();
    let all = numbers.iter().map(|number| publish("m", *number, &model, scalar_signature())).collect();
    running.plane.apply(all).unwrap();
    running
}

fn version_for(client: &mut support::grpc::Client, headers: &[(&str, &str)], request: &Request) -> i64 {
    let answer = client.call(support::grpc::PREDICT, headers, &request.encode());
    assert_eq!(answer.code, 0, "{}", answer.message);
    answered_by(&answer.body).0
}

#[test]
fn a_split_gives_each_version_about_its_share_and_the_same_id_the_same_version() {
    let running = with_versions(&[1, 2, 3]);
    running.plane.apply(vec![split(&[(1, 0.5), (2, 0.3), (3, 0.2)], "")]).unwrap();
    let mut client = running.grpc();
    let mut counts = HashMap::new();
    for number in 0..1000 {
        let id = format!("request-{number}");
        let version = version_for(&mut client, &[("x-request-id", &id)], &request());
        assert_eq!(version_for(&mut client, &[("x-request-id", &id)], &request()), version);
        *counts.entry(version).or_insert(0) += 1;
    }
    assert!((430..570).contains(&counts[&1]), "{counts:?}");
    assert!((240..360).contains(&counts[&2]), "{counts:?}");
    assert!((140..260).contains(&counts[&3]), "{counts:?}");
    assert_eq!(version_for(&mut client, &[], &request().version(2)), 2, "whoever names a version gets it");
}

#[test]
fn a_split_by_key_keeps_a_user_on_one_version_over_both_endpoints_and_when_shares_grow() {
    let running = with_versions(&[1, 2]);
    running.plane.apply(vec![split(&[(1, 0.9), (2, 0.1)], "X-User")]).unwrap();
    let mut grpc = running.grpc();
    let users: Vec<String> = (0..200).map(|number| format!("user-{number}")).collect();
    let before: Vec<i64> = users.iter().map(|user| version_for(&mut grpc, &[("x-user", user)], &request())).collect();
    assert!(before.contains(&1) && before.contains(&2), "{before:?}");
    let mut rest = running.rest();
    for (user, version) in users.iter().zip(&before) {
        rest.send("POST", "/v1/models/m:predict", &format!("x-user: {user}\r\n"), br#"{"instances":[1]}"#);
        assert_eq!(rest.receive().header("x-tidegate-version"), Some(version.to_string().as_str()), "{user}");
    }
    running.plane.apply(vec![split(&[(1, 0.5), (2, 0.5)], "x-user")]).unwrap();
    for (user, version) in users.iter().zip(&before).filter(|(_, version)| **version == 2) {
        assert_eq!(version_for(&mut grpc, &[("x-user", user)], &request()), *version, "who had it keeps it");
    }
    let without: HashSet<i64> = (0..60).map(|_| version_for(&mut grpc, &[], &request())).collect();
    assert_eq!(without.len(), 2, "requests without the key go by their ids");
}

#[test]
fn whoever_has_a_canary_by_key_keeps_it_while_its_share_grows_whichever_version_is_older() {
    let running = with_versions(&[1, 2]);
    let mut client = running.grpc();
    let users: Vec<String> = (0..400).map(|number| format!("user-{number}")).collect();
    for (canary, serving) in [(2, 1), (1, 2)] {
        let mut had: HashSet<&String> = HashSet::new();
        for percent in [1, 5, 25, 100] {
            let share = f64::from(percent) / 100.0;
            running.plane.apply(vec![split(&[(canary, share), (serving, 1.0 - share)], "x-user")]).unwrap();
            let has: HashSet<&String> = users
                .iter()
                .filter(|user| version_for(&mut client, &[("x-user", user)], &request()) == canary)
                .collect();
            assert!(had.is_subset(&has), "version {canary} at {percent} %");
            assert!((has.len() as f64 - 400.0 * share).abs() < 40.0, "{} of 400 at {percent} %", has.len());
            had = has;
        }
        assert_eq!(had.len(), users.len());
    }
}

#[test]
fn the_part_of_a_version_that_is_not_there_goes_to_the_default_until_it_comes() {
    let running = with_versions(&[1]);
    running.plane.apply(vec![split(&[(1, 0.5), (7, 0.5)], "x-user")]).unwrap();
    let mut client = running.grpc();
    let users: Vec<String> = (0..40).map(|number| format!("user-{number}")).collect();
    let versions = |client: &mut support::grpc::Client| -> Vec<i64> {
        users.iter().map(|user| version_for(client, &[("x-user", user)], &request())).collect()
    };
    assert!(versions(&mut client).iter().all(|version| *version == 1));
    let model = Model::half_plus_two();
    running.plane.apply(vec![publish("m", 7, &model, scalar_signature())]).unwrap();
    let split_now = versions(&mut client);
    assert!(split_now.contains(&1) && split_now.contains(&7), "{split_now:?}");
    running.plane.apply(vec![Change::Retire { model: "m".to_owned(), version: 7 }]).unwrap();
    assert!(versions(&mut client).iter().all(|version| *version == 1));
    running.plane.apply(vec![split(&[], "")]).unwrap();
    eventually("the split holds no version", || running.hooks.released.lock().unwrap().len() == 1);
}

#[test]
fn the_draw_of_a_split_is_apart_from_the_samples_of_shadow_and_log() {
    let running = with_versions(&[1, 2]);
    let log = Change::SetLog { model: "m".to_owned(), rate: 0.2 };
    running.plane.apply(vec![split(&[(1, 0.5), (2, 0.5)], ""), log]).unwrap();
    let mut client = running.grpc();
    for _ in 0..400 {
        version_for(&mut client, &[], &request());
    }
    eventually("the sampled rows are logged", || {
        running.log_rows("written", "primary") == running.log_rows("eligible", "primary")
            && running.log_rows("written", "primary") > 40.0
    });
    let blocks = running.hooks.blocks.lock().unwrap();
    let of = |number| -> usize { blocks.iter().filter(|b| b.served.version == number).map(|b| b.rows).sum() };
    assert!(of(1) > 10 && of(2) > 10, "both versions are in the log: {} and {}", of(1), of(2));
}

#[test]
fn shares_that_cannot_be_are_refused_and_change_nothing() {
    let running = with_versions(&[1, 2]);
    for (shares, key, why) in [
        (&[(1, 0.5)][..], "", "sum to 0.5"),
        (&[(1, 1.5), (2, -0.5)][..], "", "version 1 a share of 1.5"),
        (&[(1, 1.0)][..], "no key", "key 'no key'"),
    ] {
        let refused = running.plane.apply(vec![split(shares, key)]).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    assert_eq!(version_for(&mut running.grpc(), &[], &request()), 2);
}

#[test]
fn a_model_that_is_switched_off_refuses_everything_and_keeps_its_versions() {
    let running = with_versions(&[1]);
    running.plane.apply(vec![off(Some("prices were wrong"))]).unwrap();
    let (mut grpc, mut rest) = (running.grpc(), running.rest());
    for wanted in [request(), request().version(1)] {
        let refused = grpc.predict(&wanted.encode());
        assert_eq!(refused.code, Code::Unavailable as i32);
        assert_eq!(refused.message, "model 'm' is switched off: prices were wrong");
    }
    let refused = rest.predict(r#"{"instances":[1]}"#);
    assert_eq!(refused.status, 503);
    assert!(refused.body.contains("prices were wrong"), "{}", refused.body);
    let off_now = rest.get("/v2/models/m/ready");
    let expected = r#"{"name":"m","ready":false,"error":"model 'm' is switched off: prices were wrong"}"#;
    assert_eq!((off_now.status, off_now.body.as_str()), (503, expected));
    assert_eq!(rest.get("/v2/models/nobody/ready").status, 404);
    let model = Model::half_plus_two();
    running.plane.apply(vec![publish("m", 2, &model, scalar_signature())]).unwrap();
    assert_eq!(rest.predict(r#"{"instances":[1]}"#).status, 503, "later versions are off as well");
    assert!(running.hooks.released.lock().unwrap().is_empty());
    running.plane.apply(vec![off(None)]).unwrap();
    assert_eq!(rest.predict(r#"{"instances":[1]}"#).status, 200);
    let ready = rest.get("/v2/models/m/ready");
    assert_eq!((ready.status, ready.body.as_str()), (200, r#"{"name":"m","ready":true}"#));
    assert_eq!(ready.header("x-tidegate-version"), Some("2"));
}

fn tuned(batching: Batching) -> Change {
    Change::SetBatching { model: "m".to_owned(), batching }
}

#[test]
fn queue_limits_change_under_waiting_requests_and_none_is_lost() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let running = Running::with(&model);
    let mut first = running.rest();
    first.send_predict(r#"{"instances":[0]}"#);
    gate.wait_for(1);
    let mut waiting: Vec<_> = (0..6).map(|_| running.rest()).collect();
    for (at, client) in waiting.iter_mut().enumerate() {
        client.send_predict(&format!(r#"{{"instances":[{at}]}}"#));
        eventually("it waits", || running.m1("tidegate_queued_rows") == (at + 1) as f64);
    }
    running
        .plane
        .apply(vec![tuned(Batching { max_batch_rows: 2, max_queued_rows: 6, ..support::batching() })])
        .unwrap();
    assert_eq!(running.rest().predict(r#"{"instances":[1]}"#).status, 429, "the queue is full by its new limit");
    running.plane.apply(vec![tuned(Batching { max_batch_rows: 2, ..support::batching() })]).unwrap();
    let mut later: Vec<_> = (0..4).map(|_| running.rest()).collect();
    for (at, client) in later.iter_mut().enumerate() {
        client.send_predict(r#"{"instances":[9]}"#);
        eventually("it waits", || running.m1("tidegate_queued_rows") == (at + 7) as f64);
    }
    gate.open();
    for (at, client) in waiting.iter_mut().enumerate() {
        assert_eq!(client.receive().body, format!(r#"{{"predictions":[{:?}]}}"#, at as f32 * 0.5 + 2.0));
    }
    assert!(later.iter_mut().all(|client| client.receive().status == 200));
    assert!(model.seen()[2..].iter().all(|offsets| *offsets.last().unwrap() <= 2), "{:?}", model.seen());
    let refused = running.plane.apply(vec![tuned(Batching { concurrency: 0, ..support::batching() })]).unwrap_err();
    assert_eq!(refused, "batching of model 'm': concurrency is 0: it must be at least 1");
}

#[test]
fn a_batch_that_was_to_wait_goes_when_the_timeout_is_taken_away() {
    let model = Model::half_plus_two();
    let running = Running::start(&settings());
    let patient = Batching { timeout_us: 60_000_000, ..support::batching() };
    running.plane.apply(vec![publish_with("m", 1, &model, scalar_signature(), patient)]).unwrap();
    let mut client = running.rest();
    client.send_predict(r#"{"instances":[1]}"#);
    eventually("it waits", || running.m1("tidegate_queued_rows") == 1.0);
    // Until the I/O thread has answered these, it has told the executor, who has looked and sleeps again.
    let mut other = running.rest();
    assert!((0..20).all(|_| other.get("/v2/health/live").status == 200));
    running.plane.apply(vec![tuned(support::batching())]).unwrap();
    assert_eq!(client.receive().body, r#"{"predictions":[2.5]}"#);
}

#[test]
fn threads_become_more_and_fewer_under_load() {
    let (inside, most, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), AtomicBool::new(false));
    let (counted, peak) = (inside.clone(), most.clone());
    let model = Model::new(move |work| {
        peak.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_micros(300));
        counted.fetch_sub(1, Ordering::SeqCst);
        Ok(support::answer(support::half_plus_two(work)))
    });
    let running = Running::with(&model);
    std::thread::scope(|scope| {
        let over = Over(&stop);
        for _ in 0..6 {
            scope.spawn(|| {
                let mut client = running.rest();
                while !stop.load(Ordering::Relaxed) {
                    let answer = client.predict(r#"{"instances":[2]}"#);
                    assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"predictions":[3.0]}"#));
                }
            });
        }
        let resize = |concurrency| {
            let narrow = Batching { concurrency, max_batch_rows: 1, ..support::batching() };
            running.plane.apply(vec![tuned(narrow)]).unwrap();
        };
        for round in [4, 1, 3, 1] {
            resize(round);
            // Threads that are too many leave after one run more.
            eventually("as many work as there are to be, and no more", || {
                most.store(inside.load(Ordering::SeqCst), Ordering::SeqCst);
                let before = model.entries.load(Ordering::Relaxed);
                eventually("it still answers", || model.entries.load(Ordering::Relaxed) > before + 50);
                most.load(Ordering::SeqCst) == round
            });
        }
        drop(over);
    });
}

#[test]
fn limits_change_while_the_endpoints_are_open() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let running = Running::with(&model);
    let (mut grpc, mut rest) = (running.grpc(), running.rest());
    running.plane.limits().set(60, 256, Duration::from_millis(80)).unwrap();
    let body = format!(r#"{{"instances":[{}1]}}"#, "1,".repeat(60));
    assert_eq!(rest.predict(&body).status, 413);
    let large = Request::new("m").input("x", float_tensor(&[1.0; 60]));
    assert_eq!(grpc.predict(&large.encode()).code, Code::ResourceExhausted as i32);
    assert_eq!(running.rest().predict(r#"{"instances":[1]}"#).status, 504, "the new default deadline counts");
    running.plane.limits().set(1 << 20, 2, LONG).unwrap();
    gate.open();
    assert_eq!(rest.predict(&body).status, 200, "connections that were there stay");
    eventually("the late one has gone", || running.sample("tidegate_connections{endpoint=\"rest\"}") == 1.0);
    assert_eq!(running.rest().predict(r#"{"instances":[1]}"#).status, 503, "a third is refused");
    let refused = running.plane.limits().set(0, 1, Duration::from_secs(1)).unwrap_err();
    assert_eq!(refused, "max_message_bytes is 0: it must be at least 1");
    assert_eq!(running.plane.limits().max_connections(), 2, "nothing of a refused change stays");
}

#[test]
fn grpc_answers_over_a_unix_socket_beside_tcp_or_alone() {
    let folder = std::env::temp_dir().join(format!("tidegate-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("grpc.sock");
    for (grpc_address, io_threads) in [(Some("127.0.0.1:0".to_owned()), 1), (None, 2)] {
        // A socket file that a crash left behind is no hindrance.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let alone = grpc_address.is_none();
        let given = Settings {
            grpc_address,
            rest_address: None,
            grpc_socket_path: Some(path.clone()),
            io_threads,
            ..settings()
        };
        let running = Running::start(&given);
        running.plane.apply(vec![publish("m", 1, &Model::half_plus_two(), scalar_signature())]).unwrap();
        for _ in 0..4 {
            assert_eq!(version_for(&mut support::grpc::Client::connect_unix(&path), &[], &request()), 1);
        }
        if !alone {
            assert_eq!(version_for(&mut running.grpc(), &[], &request()), 1);
        }
        let taken = support::refused(&given);
        assert!(taken.contains("grpc.sock"), "{taken}");
        assert!(running.plane.drain(LONG));
        drop(running);
        assert!(!path.exists(), "the socket goes with the plane");
    }
    std::fs::write(&path, "mine").unwrap();
    let given = Settings { grpc_socket_path: Some(path.clone()), ..settings() };
    let refused = support::refused(&given);
    assert!(refused.contains("no socket: move it away"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    std::fs::remove_dir_all(&folder).unwrap();
}
