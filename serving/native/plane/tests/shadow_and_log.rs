//! Copies for another version and rows for the log: who gets them, what is dropped, and that every row is counted.
//! Blocks are read as the hook gets them; drops are made by full queues and full buffers.

use std::collections::HashSet;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use crate::support;
use crate::support::{
    Gate, LONG, Model, Running, answer, column_of, eventually, floats, publish, publish_with, scalar_signature,
    settings,
};
use tidegate_codec::dtype::DType;
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::Tensor;
use tidegate_engine::batching::Batching;
use tidegate_engine::log::Logged;
use tidegate_engine::serving_map::Change;
use tidegate_plane::settings::Settings;

fn log_all() -> Change {
    Change::SetLog { model: "m".to_owned(), rate: 1.0 }
}

fn shadow_to(version: i64, fraction: f64) -> Change {
    Change::SetShadow { model: "m".to_owned(), version, fraction }
}

fn stable(version: i64) -> Change {
    Change::SetLabels {
        model: "m".to_owned(),
        labels: [("stable".to_owned(), version)].into(),
        waiting: HashSet::new(),
    }
}

/// One logged row: version, id, row, role, status, x, y.
type Row = (i64, String, u32, u8, u8, f32, Option<f32>);

fn rows(running: &Running) -> Vec<Row> {
    let blocks = running.hooks.blocks.lock().unwrap();
    let mut all = Vec::new();
    for block in blocks.iter() {
        let (x, y) = (floats(&block.inputs[0].values), floats(&block.outputs[0].values));
        assert_eq!((x.len(), block.request_id.len()), (block.rows, block.rows));
        let answered = |at| block.outputs[0].shapes.runs().find(|(end, _)| at < *end).unwrap().1.is_some();
        let mut y = y.into_iter();
        for (at, x) in x.into_iter().enumerate() {
            assert!(block.received_at_us[at] > 1_700_000_000_000_000);
            let id = String::from_utf8(block.request_id.get(at).to_vec()).unwrap();
            let answer = answered(at).then(|| y.next().unwrap());
            all.push((block.served.version, id, block.row[at], block.role[at], block.status[at], x, answer));
        }
        assert_eq!(y.next(), None);
    }
    all
}

fn settled(running: &Running, role: &str, eligible: f64) {
    eventually(&format!("{eligible} {role} rows are accounted for"), || {
        let done = running.log_rows("written", role) + running.log_rows("dropped", role);
        running.log_rows("eligible", role) == eligible && done == eligible
    });
}

fn predict_as(running: &Running, id: &str, body: &str) -> support::rest::Answer {
    let mut rest = running.rest();
    rest.send("POST", "/v1/models/m:predict", &format!("x-request-id: {id}\r\n"), body.as_bytes());
    rest.receive()
}

#[test]
fn answers_are_logged_with_inputs_outputs_and_the_request_s_id() {
    let running = Running::with(&Model::half_plus_two());
    running.plane.apply(vec![log_all()]).unwrap();
    let answer = predict_as(&running, "mine", r#"{"instances":[1,2]}"#);
    assert_eq!(answer.header("x-request-id"), Some("mine"));
    let made_up = running.rest().predict(r#"{"instances":[3]}"#);
    settled(&running, "primary", 3.0);
    let id = made_up.header("x-request-id").unwrap().to_owned();
    let expected = [
        (1, "mine".into(), 0, 0, 0, 1.0, Some(2.5)),
        (1, "mine".into(), 1, 0, 0, 2.0, Some(3.0)),
        (1, id, 0, 0, 0, 3.0, Some(3.5)),
    ];
    assert_eq!(rows(&running), expected);
    let refused = running.rest().predict(r#"{"instances":["a"]}"#);
    assert_eq!(refused.status, 400);
    assert_eq!(running.log_rows("eligible", "primary"), 3.0, "what never ran is no answer of the model");
}

#[test]
fn a_failed_request_is_logged_with_its_status_and_without_outputs() {
    let model = Model::new(|work| {
        let x = floats(&work.columns[0]);
        if x.contains(&-1.0) {
            return Err(Status::new(Code::Aborted, "no"));
        }
        Ok(answer(support::half_plus_two(work)))
    });
    let running = Running::with(&model);
    running.plane.apply(vec![log_all()]).unwrap();
    predict_as(&running, "bad", r#"{"instances":[-1]}"#);
    settled(&running, "primary", 1.0);
    assert_eq!(rows(&running), [(1, "bad".into(), 0, 0, Code::Aborted as u8, -1.0, None)]);
}

#[test]
fn the_sampling_rate_is_a_hash_of_the_id() {
    let running = Running::with(&Model::half_plus_two());
    let ids: Vec<String> = (0..200).map(|number| format!("request-{number}")).collect();
    let rate = |rate| running.plane.apply(vec![Change::SetLog { model: "m".to_owned(), rate }]).unwrap();
    let mut known = 0;
    let mut sampled = || -> Vec<String> {
        rate(0.3);
        for id in &ids {
            assert_eq!(predict_as(&running, id, r#"{"instances":[1]}"#).status, 200);
        }
        // Records come in the order of requests, so that all are there when the last one is.
        rate(1.0);
        predict_as(&running, "last", r#"{"instances":[1]}"#);
        eventually("the last is logged", || rows(&running)[known..].iter().any(|row| row.1 == "last"));
        let new: Vec<String> = rows(&running).into_iter().skip(known).map(|row| row.1).collect();
        known += new.len();
        new
    };
    let first = sampled();
    assert!((35..85).contains(&first.len()), "{}", first.len());
    let again = sampled();
    assert_eq!(first, again, "the same requests are sampled again");
}

#[test]
fn a_copy_reaches_the_other_version_and_joins_the_primary_by_its_id() {
    let running = Running::start(&settings());
    let (old, new) = (
        Model::half_plus_two(),
        Model::new(|work| {
            let values: Vec<f32> = floats(&work.columns[0]).iter().map(|value| -value).collect();
            Ok(answer(Tensor { column: column_of(&values), shape: vec![work.rows] }))
        }),
    );
    let both = vec![publish("m", 1, &old, scalar_signature()), publish("m", 2, &new, scalar_signature())];
    running.plane.apply(both).unwrap();
    running.plane.apply(vec![stable(1), shadow_to(2, 1.0), log_all()]).unwrap();
    assert_eq!(predict_as(&running, "a", r#"{"instances":[4]}"#).body, r#"{"predictions":[4.0]}"#);
    let mut direct = running.rest();
    direct.send("POST", "/v1/models/m/versions/2:predict", "x-request-id: b\r\n", br#"{"instances":[5]}"#);
    assert_eq!(direct.receive().body, r#"{"predictions":[-5.0]}"#, "no copy of what the version answers itself");
    settled(&running, "primary", 2.0);
    settled(&running, "shadow", 1.0);
    let mut logged = rows(&running);
    logged.sort_by(|left, right| (&left.1, left.0).cmp(&(&right.1, right.0)));
    let expected = [
        (1, "a".into(), 0, 0, 0, 4.0, Some(4.0)),
        (2, "a".into(), 0, 1, 0, 4.0, Some(-4.0)),
        (2, "b".into(), 0, 0, 0, 5.0, Some(-5.0)),
    ];
    assert_eq!(logged, expected);
    assert_eq!(running.sample("tidegate_shadow_copied_total{model=\"m\",version=\"2\"}"), 1.0);
    running.plane.apply(vec![shadow_to(2, 0.0)]).unwrap();
    predict_as(&running, "c", r#"{"instances":[4]}"#);
    settled(&running, "primary", 3.0);
    assert_eq!(running.sample("tidegate_shadow_copied_total{model=\"m\",version=\"2\"}"), 1.0, "0 stops it");
}

#[test]
fn a_full_or_failing_copy_never_delays_or_fails_the_primary() {
    let gate = Arc::new(Gate::default());
    let running = Running::start(&settings());
    let stuck = Model::gated(&gate);
    let narrow = Batching { max_queued_rows: 2, ..support::batching() };
    let both = vec![
        publish("m", 1, &Model::half_plus_two(), scalar_signature()),
        publish_with("m", 2, &stuck, scalar_signature(), narrow),
    ];
    running.plane.apply(both).unwrap();
    running.plane.apply(vec![stable(1), shadow_to(2, 1.0)]).unwrap();
    let mut rest = running.rest();
    for _ in 0..20 {
        assert_eq!(rest.predict(r#"{"instances":[2]}"#).body, r#"{"predictions":[3.0]}"#);
    }
    let shadow = |name: &str| running.sample(&format!("tidegate_shadow_{name}_total{{model=\"m\",version=\"2\"}}"));
    assert_eq!(shadow("copied") + shadow("dropped"), 20.0);
    assert!(shadow("dropped") >= 15.0, "{}", shadow("dropped"));
    gate.open();
    let other = support::signature(
        vec![support::spec("z", DType::Float32, &[-1])],
        vec![support::spec("y", DType::Float32, &[-1])],
    );
    running.plane.apply(vec![publish("m", 3, &Model::half_plus_two(), other), shadow_to(3, 1.0)]).unwrap();
    assert_eq!(rest.predict(r#"{"instances":[{"x":2}]}"#).status, 200);
    assert_eq!(running.sample("tidegate_shadow_failed_total{model=\"m\",version=\"3\"}"), 1.0);
}

#[test]
fn full_buffers_and_failing_writers_drop_rows_and_count_each() {
    let running = Running::start(&Settings { log_buffer_bytes: 4096, log_block_rows: 8, ..settings() });
    running.plane.apply(vec![publish("m", 1, &Model::half_plus_two(), scalar_signature()), log_all()]).unwrap();
    let gate = Arc::new(Gate::default());
    *running.hooks.log_gate.lock().unwrap() = Some(gate.clone());
    let mut rest = running.rest();
    for _ in 0..300 {
        assert_eq!(rest.predict(r#"{"instances":[1,2,3]}"#).status, 200, "a request never waits for its log");
    }
    // The record of a request is counted after its answer is written.
    eventually("all 900 rows are counted", || running.log_rows("eligible", "primary") == 900.0);
    assert!(running.log_rows("dropped", "primary") > 0.0);
    gate.open();
    settled(&running, "primary", 900.0);
    assert!(running.log_rows("written", "primary") > 0.0);
    assert_eq!(rows(&running).len() as f64, running.log_rows("written", "primary"));
    eventually("nothing waits any more", || running.sample("tidegate_log_waiting_bytes") == 0.0);
    let before = running.log_rows("dropped", "primary");
    running.hooks.refuse_blocks.store(true, std::sync::atomic::Ordering::Relaxed);
    rest.predict(r#"{"instances":[1]}"#);
    settled(&running, "primary", 901.0);
    assert_eq!(running.log_rows("dropped", "primary"), before + 1.0, "a block that fails is dropped");
}

#[test]
fn a_busy_model_drops_its_own_rows_and_not_those_of_a_quiet_one() {
    let running = Running::start(&Settings { log_buffer_bytes: 1 << 14, log_block_rows: 8, ..settings() });
    let publish = |model: &str| publish(model, 1, &Model::half_plus_two(), scalar_signature());
    let logged = |model: &str| Change::SetLog { model: model.to_owned(), rate: 1.0 };
    running.plane.apply(vec![publish("m"), publish("quiet"), logged("m"), logged("quiet")]).unwrap();
    let gate = Arc::new(Gate::default());
    *running.hooks.log_gate.lock().unwrap() = Some(gate.clone());
    let mut rest = running.rest();
    let body = format!("{{\"instances\":[{}1]}}", "1,".repeat(15));
    let mut eligible = 0.0;
    while running.log_rows("dropped", "primary") < 1600.0 {
        assert_eq!(rest.predict(&body).status, 200);
        eligible += 16.0;
    }
    eventually("all rows are counted", || running.log_rows("eligible", "primary") == eligible);
    assert!(running.sample("tidegate_request_memory_bytes") >= 4096.0, "what waits is counted");
    let dropped = running.log_rows("dropped", "primary");
    for _ in 0..3 {
        assert_eq!(rest.post("/v1/models/quiet:predict", r#"{"instances":[1]}"#).status, 200);
    }
    eventually("all are accounted for", || running.log_rows("eligible", "primary") == eligible + 3.0);
    assert_eq!(running.log_rows("dropped", "primary"), dropped, "none of the quiet model's");
    gate.open();
    settled(&running, "primary", eligible + 3.0);
    let blocks = running.hooks.blocks.lock().unwrap();
    let quiet = blocks.iter().filter(|block| &*block.served.model == "quiet").map(|block| block.rows);
    assert_eq!(quiet.sum::<usize>(), 3);
    drop(blocks);
    eventually("all is given back", || running.sample("tidegate_request_memory_bytes") == 0.0);
}

#[test]
fn blocks_have_at_most_their_rows_and_the_last_one_comes_with_the_drain() {
    let long = Settings { log_block_rows: 10, log_block_interval: Duration::from_secs(3600), ..settings() };
    let running = Running::start(&long);
    running.plane.apply(vec![publish("m", 1, &Model::half_plus_two(), scalar_signature()), log_all()]).unwrap();
    let mut rest = running.rest();
    for _ in 0..25 {
        rest.predict(r#"{"instances":[1]}"#);
    }
    drop(rest);
    assert!(running.plane.drain(LONG));
    let sizes: Vec<usize> = running.hooks.blocks.lock().unwrap().iter().map(|block| block.rows).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 25);
    assert!(sizes.iter().all(|rows| *rows <= 10 || sizes.len() == 1), "{sizes:?}");
    assert_eq!(running.log_rows("written", "primary"), 25.0);
}

#[test]
fn a_drain_waits_for_copies_when_all_clients_have_their_answers() {
    let gate = Arc::new(Gate::default());
    let running = Running::start(&settings());
    let slow = Model::gated(&gate);
    let both =
        vec![publish("m", 1, &Model::half_plus_two(), scalar_signature()), publish("m", 2, &slow, scalar_signature())];
    running.plane.apply(both).unwrap();
    running.plane.apply(vec![stable(1), shadow_to(2, 1.0), log_all()]).unwrap();
    for number in 1..=3 {
        predict_as(&running, &format!("r{number}"), r#"{"instances":[4]}"#);
        gate.wait_for(1);
    }
    let address = running.plane.rest_address().unwrap();
    let plane = running.plane.clone();
    let draining = std::thread::spawn(move || plane.drain(LONG));
    eventually("the endpoint is closed", || TcpStream::connect(address).is_err());
    assert!(!draining.is_finished(), "three copies are still out");
    gate.open();
    assert!(draining.join().unwrap());
    settled(&running, "shadow", 3.0);
    assert_eq!(running.log_rows("written", "shadow"), 3.0);
}

#[test]
fn a_copy_that_never_comes_back_is_told_of_at_the_end() {
    let gate = Arc::new(Gate::default());
    let running = Running::start(&settings());
    let stuck = Model::gated(&gate);
    let both =
        vec![publish("m", 1, &Model::half_plus_two(), scalar_signature()), publish("m", 2, &stuck, scalar_signature())];
    running.plane.apply(both).unwrap();
    running.plane.apply(vec![stable(1), shadow_to(2, 1.0)]).unwrap();
    predict_as(&running, "r", r#"{"instances":[4]}"#);
    gate.wait_for(1);
    assert!(!running.plane.drain(Duration::from_millis(100)), "the version cannot be unloaded beneath its call");
    assert_eq!(running.plane.running_calls().len(), 1);
    gate.open();
    assert!(running.plane.drain(LONG), "it has come back");
}

#[test]
fn rows_of_different_lengths_are_one_block_and_those_that_failed_have_no_outputs() {
    let model = Model::new(|work| {
        let x = floats(&work.columns[0]);
        match x.contains(&-1.0) {
            true => Err(Status::new(Code::Aborted, "no")),
            false => Ok(answer(Tensor { shape: vec![work.rows, x.len() / work.rows], column: column_of(&x) })),
        }
    });
    let long = Settings { log_block_interval: Duration::from_secs(3600), ..settings() };
    let running = Running::start(&long);
    let lists = support::signature(
        vec![support::spec("x", DType::Float32, &[-1, -1])],
        vec![support::spec("y", DType::Float32, &[-1, -1])],
    );
    running.plane.apply(vec![publish("m", 1, &model, lists), log_all()]).unwrap();
    let mut rest = running.rest();
    for body in ["[[1,2],[3,4]]", "[[5]]", "[[-1,6,7]]", "[[]]", "[[8]]"] {
        rest.predict(&format!("{{\"instances\":{body}}}"));
    }
    drop(rest);
    assert!(running.plane.drain(LONG));
    let blocks = running.hooks.blocks.lock().unwrap();
    let [block] = &blocks[..] else { panic!("{} blocks", blocks.len()) };
    let runs = |logged: &Logged| -> Vec<(usize, Option<Vec<usize>>)> {
        logged.shapes.runs().map(|(end, inner)| (end, inner.map(<[usize]>::to_vec))).collect()
    };
    let of = |size: usize| Some(vec![size]);
    assert_eq!(runs(&block.inputs[0]), [(2, of(2)), (3, of(1)), (4, of(3)), (5, of(0)), (6, of(1))]);
    assert_eq!(runs(&block.outputs[0]), [(2, of(2)), (3, of(1)), (4, None), (5, of(0)), (6, of(1))]);
    assert_eq!(floats(&block.inputs[0].values), [1.0, 2.0, 3.0, 4.0, 5.0, -1.0, 6.0, 7.0, 8.0]);
    assert_eq!(floats(&block.outputs[0].values), [1.0, 2.0, 3.0, 4.0, 5.0, 8.0]);
}
