//! The access log and traces over real sockets: one line and one trace for each request, however it ends.

use std::fs::read_to_string;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::support;
use crate::support::grpc::{PREDICT, frame};
use crate::support::messages::predict_x;
use crate::support::process::FailsOnce;
use crate::support::{Gate, Model, Running, eventually, publish, scalar_signature, settings};
use tidegate_engine::request_id::Share;
use tidegate_engine::telemetry::{AccessLogOptions, TelemetryOptions};
use tidegate_plane::settings::Settings;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const BODY: &str = r#"{"instances":[1,2]}"#;

/// A file of its own for each test.
fn file(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tidegate-{}-{name}.jsonl", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

fn told(path: Option<PathBuf>, rate: f64, slow: Option<Duration>, traces: Option<f64>) -> Settings {
    let share = Share::new(rate).unwrap();
    let access_log = path.map(|path| AccessLogOptions { path: Some(path), share, slow, ..AccessLogOptions::default() });
    let telemetry = TelemetryOptions { access_log, traces: traces.map(|rate| Share::new(rate).unwrap()) };
    Settings { telemetry, ..settings() }
}

fn serving(settings: &Settings, model: &Arc<Model>) -> Running {
    let running = Running::start(settings);
    running.plane.apply(vec![publish("m", 1, model, scalar_signature())]).unwrap();
    running
}

/// The lines, once the plane has ended and so many are there: an end does not wait for long until they are written.
fn lines(running: &Running, path: &PathBuf, count: usize) -> Vec<String> {
    running.plane.stop();
    eventually("all is written", || read_to_string(path).unwrap().lines().count() >= count);
    let text = read_to_string(path).unwrap();
    std::fs::remove_file(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines().map(str::to_owned).collect()
}

/// The value behind a key, as it stands in the line.
fn value<'a>(line: &'a str, key: &str) -> &'a str {
    let from = line.find(&format!("\"{key}\":")).map(|at| &line[at + key.len() + 3..]);
    from.and_then(|from| from.split([',', '}']).next()).unwrap_or("").trim_matches('"')
}

fn values<'a>(line: &'a str, keys: &[&str]) -> Vec<&'a str> {
    keys.iter().map(|key| value(line, key)).collect()
}

#[test]
fn every_request_has_one_line_however_it_ends() {
    let (path, gate) = (file("lines"), Arc::<Gate>::default());
    gate.open();
    let running = serving(&told(Some(path.clone()), 1.0, None, None), &Model::gated(&gate));
    let mut rest = running.rest();
    let local = rest.stream.local_addr().unwrap().to_string();
    assert_eq!(rest.predict(BODY).status, 200);
    assert_eq!(rest.post("/v1/models/none:predict", BODY).status, 404);
    assert_eq!(rest.post("/v1/models/m/versions/7:predict", BODY).status, 404);
    assert_eq!(rest.predict("{").status, 400);
    assert_eq!(rest.get("/v1/models/m/metadata").status, 200);
    assert_eq!(rest.get("/v2/health/live").status, 200);
    rest.send("GET", "/v2/health/live", "host: another\r\n", b"");
    assert_eq!(rest.receive().status, 400);
    let mut grpc = running.grpc();
    let answer = grpc.call(PREDICT, &[("x-request-id", "mine")], &predict_x(&[2.0, 4.0, 6.0]));
    assert_eq!(answer.code, 0);
    assert_eq!(grpc.call("/no.Service/Method", &[], b"").code, 12);
    let late = grpc.start(PREDICT, &[("grpc-timeout", "1n")], frame(&predict_x(&[2.0])));
    assert_eq!(grpc.finish(late).code, 4);
    let lines = lines(&running, &path, 10);
    let keys = ["protocol", "method", "path", "model", "version", "signature", "rows", "status", "http_status"];
    let seen: Vec<Vec<&str>> = lines.iter().map(|line| values(line, &keys)).collect();
    let ours = ["m", "1", "serving_default"];
    let predict = ["rest", "POST", "/v1/models/m:predict"];
    let nothing = ["", "", ""];
    let expected = [
        [&predict[..], &ours, &["2", "OK", "200"]].concat(),
        vec!["rest", "POST", "/v1/models/none:predict", "none", "", "", "", "NOT_FOUND", "404"],
        vec!["rest", "POST", "/v1/models/m/versions/7:predict", "m", "", "", "", "NOT_FOUND", "404"],
        [&predict[..], &nothing, &["", "INVALID_ARGUMENT", "400"]].concat(),
        [&["rest", "GET", "/v1/models/m/metadata"][..], &nothing, &["", "OK", "200"]].concat(),
        [&["rest", "GET", "/v2/health/live"][..], &nothing, &["", "OK", "200"]].concat(),
        [&["rest", "GET", "/v2/health/live"][..], &nothing, &["", "INVALID_ARGUMENT", "400"]].concat(),
        [&["grpc", "POST", PREDICT][..], &ours, &["3", "OK", ""]].concat(),
        [&["grpc", "POST", "/no.Service/Method"][..], &nothing, &["", "UNIMPLEMENTED", ""]].concat(),
        [&["grpc", "POST", PREDICT][..], &seen[9][3..7], &["DEADLINE_EXCEEDED", ""]].concat(),
    ];
    assert_eq!(seen, expected);
    let number = |line: &str, key: &str| value(line, key).parse::<u64>().unwrap();
    let (first, named) = (&lines[0], &lines[7]);
    assert_eq!(value(first, "peer"), local);
    assert_eq!((number(first, "bytes_in"), number(named, "bytes_in")), (19, predict_x(&[2.0, 4.0, 6.0]).len() as u64));
    assert_eq!((number(named, "bytes_out"), value(named, "request_id")), (answer.body.len() as u64, "mine"));
    let stages = ["decode_us", "queue_us", "run_us", "encode_us"].map(|stage| number(first, stage));
    assert!(stages.iter().sum::<u64>() <= number(first, "total_us"), "{first}");
    let time = value(first, "time");
    assert!(time.len() == 27 && time.ends_with('Z') && time.starts_with("20"), "{time}");
    eventually("all are counted", || running.sample("tidegate_access_log_written_lines_total") == 10.0);
    assert_eq!(running.sample("tidegate_access_log_dropped_lines_total"), 0.0);
}

#[test]
fn a_fault_of_the_thread_that_writes_the_access_log_does_not_end_the_log() {
    let path = file("fault");
    let fails = FailsOnce("tg-access", AtomicBool::new(false));
    let running = Running::within(&told(Some(path.clone()), 1.0, None, None), fails);
    assert_eq!(running.rest().get("/v2/health/live").status, 200);
    eventually("the line is written", || running.sample("tidegate_access_log_written_lines_total") == 1.0);
    assert!(running.sample("tidegate_background_restarts_total") >= 1.0);
    assert_eq!(lines(&running, &path, 1).len(), 1);
}

#[test]
fn refused_requests_have_so_many_lines_a_second_and_are_counted_beyond_it() {
    let (path, gate) = (file("refused"), Arc::<Gate>::default());
    gate.open();
    let mut settings = told(Some(path.clone()), 1.0, None, None);
    settings.telemetry.access_log.as_mut().unwrap().refused_per_second = Some(2);
    let running = serving(&settings, &Model::gated(&gate));
    let mut rest = running.rest();
    let begun = Instant::now();
    for _ in 0..50 {
        assert_eq!((rest.post("/v1/models/none:predict", BODY).status, rest.predict(BODY).status), (404, 200));
        assert_eq!(rest.get("/v2/health/live").status, 200);
    }
    let seconds = begun.elapsed().as_secs() as usize + 1;
    let left_out = running.sample("tidegate_access_log_left_out_lines_total") as usize;
    assert!(left_out >= 100 - 2 * seconds, "{left_out}");
    eventually("it is told how many", || read_to_string(&path).unwrap().contains("left_out"));
    let lines = lines(&running, &path, 50);
    let with = |key: &str, of: &str| lines.iter().filter(|line| value(line, key) == of).count();
    let untaken = with("status", "NOT_FOUND") + with("path", "/v2/health/live");
    assert_eq!((with("path", "/v1/models/m:predict"), untaken), (50, 100 - left_out));
    let counts: Vec<_> = lines.iter().filter(|line| line.contains("left_out")).collect();
    assert!(counts.iter().all(|line| value(line, "peer") == "127.0.0.1"), "{counts:?}");
    let counted = counts.iter().map(|line| value(line, "left_out").parse::<usize>().unwrap()).sum::<usize>();
    assert_eq!(counted, left_out);
}

#[test]
fn requests_that_a_model_took_and_was_too_slow_for_have_their_lines_always() {
    let (path, gate) = (file("slow_model"), Arc::<Gate>::default());
    let mut settings = told(Some(path.clone()), 1.0, None, None);
    settings.telemetry.access_log.as_mut().unwrap().refused_per_second = Some(1);
    let running = serving(&settings, &Model::gated(&gate));
    let mut grpc = running.grpc();
    let asked: Vec<_> =
        (0..10).map(|_| grpc.start(PREDICT, &[("grpc-timeout", "100m")], frame(&predict_x(&[2.0])))).collect();
    asked.into_iter().for_each(|call| assert_eq!(grpc.finish(call).code, 4));
    gate.open();
    assert_eq!(lines(&running, &path, 10).len(), 10);
    assert_eq!(running.sample("tidegate_access_log_left_out_lines_total"), 0.0);
}

#[test]
fn a_client_that_left_is_told_as_cancelled() {
    let (path, gate) = (file("gone"), Arc::<Gate>::default());
    let running = serving(&told(Some(path.clone()), 1.0, None, None), &Model::gated(&gate));
    let mut grpc = running.grpc();
    let call = grpc.start(PREDICT, &[], frame(&predict_x(&[2.0])));
    gate.wait_for(1);
    let mut rest = running.rest();
    rest.send_predict(BODY);
    eventually("the second waits", || running.m1("tidegate_queued_rows") >= 2.0);
    drop((call, rest, grpc));
    eventually("both are told", || read_to_string(&path).unwrap().lines().count() == 2);
    gate.open();
    let lines = lines(&running, &path, 2);
    let mut seen: Vec<_> = lines.iter().map(|line| values(line, &["protocol", "model", "status"])).collect();
    seen.sort_unstable();
    assert_eq!(seen, [["grpc", "m", "CANCELLED"], ["rest", "m", "CANCELLED"]]);
}

#[test]
fn sampling_goes_by_the_request_and_slow_ones_are_told_anyway() {
    let (path, gate) = (file("slow"), Arc::<Gate>::default());
    gate.open();
    let slow_from = Duration::from_millis(200);
    let running = serving(&told(Some(path.clone()), 0.5, Some(slow_from), None), &Model::gated(&gate));
    let mut rest = running.rest();
    let ids: Vec<String> = (0..40).map(|id| format!("r-{id}")).collect();
    let mut ask = |id: &str| {
        rest.send("POST", "/v1/models/m:predict", &format!("x-request-id: {id}\r\n"), BODY.as_bytes());
        assert_eq!(rest.receive().status, 200);
    };
    ids.iter().for_each(|id| ask(id));
    let half = Share::new(0.5).unwrap();
    let covered = |id: &str| half.covers(tidegate_engine::request_id::hash(id.as_bytes()));
    let left_out = ids.iter().find(|id| !covered(id)).unwrap();
    let opener = Arc::new(Gate::default());
    let waiting = opener.clone();
    let sleeper = Model::new(move |work| {
        waiting.pass();
        Ok(support::answer(support::half_plus_two(work)))
    });
    running.plane.apply(vec![publish("s", 1, &sleeper, scalar_signature())]).unwrap();
    let opening = std::thread::spawn(move || {
        opener.wait_for(1);
        std::thread::sleep(Duration::from_millis(250));
        opener.open();
    });
    let mut client = running.rest();
    client.send("POST", "/v1/models/s:predict", &format!("x-request-id: {left_out}\r\n"), BODY.as_bytes());
    assert_eq!(client.receive().status, 200);
    opening.join().unwrap();
    let expected: Vec<&str> = ids.iter().map(String::as_str).filter(|id| covered(id)).collect();
    let lines = lines(&running, &path, expected.len() + 1);
    let (last, others) = lines.split_last().unwrap();
    assert_eq!(values(last, &["model", "request_id", "slow"]), ["s", left_out, "true"]);
    // On a busy machine any of them may be slow.
    let was_slow = |line: &str| value(line, "total_us").parse::<u128>().unwrap() >= slow_from.as_micros();
    assert!(lines.iter().all(|line| was_slow(line) == line.contains("\"slow\":true")), "{lines:?}");
    let ids_of_others = others.iter().filter(|line| covered(value(line, "request_id")) || !was_slow(line));
    assert_eq!(ids_of_others.map(|line| value(line, "request_id")).collect::<Vec<_>>(), expected);
}

#[test]
fn a_trace_goes_on_from_its_caller_and_comes_back_in_the_answer() {
    let running = serving(&told(None, 1.0, None, Some(0.0)), &Model::half_plus_two());
    let parent = |flags: &str| format!("00-{TRACE}-00f067aa0ba902b7-{flags}");
    let mut rest = running.rest();
    let mut ask = |headers: &str| {
        rest.send("POST", "/v1/models/m:predict", headers, BODY.as_bytes());
        rest.receive().header("traceparent").unwrap().to_owned()
    };
    let sampled = ask(&format!("traceparent: {}\r\n", parent("01")));
    let unsampled = ask(&format!("traceparent: {}\r\n", parent("00")));
    let broken = ask(&format!("traceparent: {}\r\n", parent("01").to_uppercase()));
    let twice = ask(&format!("traceparent: {0}\r\ntraceparent: {0}\r\n", parent("01")));
    assert!(sampled.starts_with(&format!("00-{TRACE}-")) && sampled.ends_with("-01"), "{sampled}");
    assert!(!sampled.contains("00f067aa0ba902b7"), "the span is the server's own: {sampled}");
    assert!(unsampled.starts_with(&format!("00-{TRACE}-")) && unsampled.ends_with("-00"), "{unsampled}");
    for new in [&broken, &twice] {
        assert!(!new.contains(TRACE) && new.ends_with("-00"), "{new}");
    }
    let mut grpc = running.grpc();
    let answer = grpc.call(PREDICT, &[("traceparent", &parent("01"))], &predict_x(&[2.0]));
    let sent = answer.headers.get("traceparent").unwrap().to_str().unwrap().to_owned();
    assert!(sent.starts_with(&format!("00-{TRACE}-")) && sent.ends_with("-01"), "{sent}");
    running.plane.stop();
    eventually("both are counted", || running.sample("tidegate_traces_exported_total") == 2.0);
    let traces = running.hooks.traces.lock().unwrap();
    let own: Vec<String> = traces.iter().map(|ended| ended.facts.trace.header()).collect();
    assert_eq!(own, [sampled, sent]);
    for ended in traces.iter() {
        let stages = ended.stages();
        let names: Vec<&str> = stages.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names, ["read", "decode", "queue", "run", "encode"]);
        assert!(stages.windows(2).all(|pair| pair[0].2 == pair[1].1), "one stage after the other");
        assert!(stages.iter().all(|(_, begin, end)| begin <= end) && stages[4].2 == ended.at);
    }
}

#[test]
fn nothing_is_told_and_no_header_sent_where_nobody_asked() {
    let running = Running::with(&Model::half_plus_two());
    let mut rest = running.rest();
    rest.send(
        "POST",
        "/v1/models/m:predict",
        &format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n"),
        BODY.as_bytes(),
    );
    assert_eq!(rest.receive().header("traceparent"), None);
}

#[test]
fn an_access_log_that_cannot_be_written_is_said_at_the_start() {
    let path = std::env::temp_dir().join("tidegate-no-such-folder/access.jsonl");
    let why = support::refused(&told(Some(path), 1.0, None, None));
    assert!(why.contains("tidegate-no-such-folder/access.jsonl"), "{why}");
}
