//! Work that takes long leaves the I/O thread: others are answered meanwhile, and no fault or stop is kept up by it.

use std::future::{Future, ready};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::examples::{CLASSIFY, example, list_with_context, request, strings};
use crate::support::grpc::{Client, PREDICT, frame};
use crate::support::inference::{CLASSIFY_METHOD, classes_and_scores, inputs, named, parses_itself};
use crate::support::messages::{Request, content, tensor};
use crate::support::{
    Gate, LONG, Model, Over, Running, answer, batching, column_of, eventually, far_less, publish, publish_with,
    scalar_signature,
};
use crate::support::{settings, signature, spec};
use flate2::Compression;
use flate2::write::GzEncoder;
use tidegate_codec::dtype::DType;
use tidegate_codec::status::Code;
use tidegate_codec::tensors::Tensor;
use tidegate_engine::batching::Batching;
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::sync::lock;
use tidegate_plane::aside::{Aside, AsideJobs, aside};
use tidegate_plane::pages::{About, Pages};
use tidegate_plane::security::access::Grant;
use tidegate_plane::settings::Settings;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

const MB: usize = 1 << 20;
const ONE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// Models `m`, which takes and gives a million rows, and `other`.
fn running() -> Running {
    let running = Running::start(&Settings { max_message_bytes: 64 * MB, ..settings() });
    let many = Batching { max_queued_rows: 1 << 24, max_batch_rows: 1 << 24, ..batching() };
    let other = publish("other", 1, &Model::half_plus_two(), scalar_signature());
    running.plane.apply(vec![publish_with("m", 1, &Model::half_plus_two(), scalar_signature(), many), other]).unwrap();
    running
}

/// How long the work takes, and the longest that a small request takes meanwhile.
fn beside(running: &Running, work: impl FnOnce() + Send) -> (Duration, Duration) {
    let done = AtomicBool::new(false);
    let mut small = running.rest();
    std::thread::scope(|scope| {
        let working = scope.spawn(|| {
            let (began, _over) = (Instant::now(), Over(&done));
            work();
            began.elapsed()
        });
        let mut longest = Duration::ZERO;
        while !done.load(Ordering::Acquire) {
            let began = Instant::now();
            assert_eq!(small.post("/v1/models/other:predict", r#"{"instances":[1]}"#).body, "{\"predictions\":[2.5]}");
            longest = longest.max(began.elapsed());
        }
        (working.join().unwrap(), longest)
    })
}

/// A small request takes far less than work of a second.
fn must_not_wait(running: &Running, mut work: impl FnMut() + Send) {
    far_less(5, || {
        let (whole, longest) = beside(running, &mut work);
        (longest, whole / 5)
    });
}

fn numbers(count: usize) -> String {
    format!("{{\"instances\":[{}1]}}", "1,".repeat(count - 1))
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn nobody_waits_for_a_large_body_to_be_read_and_its_answer_to_be_written() {
    let running = running();
    let body = numbers(MB / 2);
    must_not_wait(&running, || {
        let answer = running.rest().predict(&body);
        assert_eq!((answer.status, answer.body.len()), (200, MB * 2 + 17));
    });
}

#[test]
fn nobody_waits_for_a_small_body_to_become_large() {
    let running = running();
    let body = gzip(format!("{{\"instances\":[{}1]}}", " ".repeat(48 * MB)).as_bytes());
    assert!(body.len() < 64 << 10);
    must_not_wait(&running, || {
        let mut client = running.rest();
        client.send("POST", "/v1/models/m:predict", "content-encoding: gzip\r\n", &body);
        assert_eq!(client.receive().body, "{\"predictions\":[2.5]}");
    });
    let message = Request::new("m").input("x", tensor(DType::Float32.tensorflow(), &[1], &content(&vec![0; 48 * MB])));
    let mut framed = frame(&gzip(&message.encode()));
    framed[0] = 1;
    must_not_wait(&running, || {
        let mut client = running.grpc();
        let call = client.start(PREDICT, &[("grpc-encoding", "gzip")], framed.clone());
        let answer = client.finish(call);
        assert_eq!(answer.code, 3, "{}", answer.message);
    });
}

/// A model that takes examples as they are, and a small request that becomes 150 MB with its context.
fn with_context(running: &Running) -> Vec<u8> {
    let many = Batching { max_queued_rows: 1 << 24, max_batch_rows: 1 << 24, ..batching() };
    let signature = named("serving_default", CLASSIFY_METHOD, inputs(), classes_and_scores());
    running.plane.apply(vec![publish_with("examples", 1, &parses_itself(), signature, many)]).unwrap();
    let input = list_with_context(&example(&[("a", strings(&[&[0; 30_000]]))]), &vec![example(&[]); 5_000]);
    assert!(input.len() < 64 << 10);
    request("examples", "", &input)
}

fn with_context_in_json() -> String {
    format!(r#"{{"context":{{"a":"{}"}},"examples":[{}{{}}]}}"#, "a".repeat(30_000), "{},".repeat(4_999))
}

#[test]
fn nobody_waits_for_examples_to_become_large_with_their_context() {
    let running = running();
    let message = with_context(&running);
    must_not_wait(&running, || assert_eq!(running.grpc().call(CLASSIFY, &[], &message).code, 0));
    let body = with_context_in_json();
    must_not_wait(&running, || {
        let answer = running.rest().post("/v1/models/examples:classify", &body);
        assert_eq!(answer.status, 200, "{}", answer.body);
    });
}

#[test]
fn examples_of_clients_that_went_before_their_turn_are_not_read() {
    let running = running();
    let message = with_context(&running);
    let body = with_context_in_json();
    let used = || running.sample("tidegate_request_memory_bytes");
    let half_of_them = (20 * message.len()) as f64;
    let given_up = || {
        let began = Instant::now();
        eventually("nothing is held", || used() == 0.0);
        began.elapsed()
    };
    far_less(5, || {
        let began = Instant::now();
        assert_eq!(running.grpc().call(CLASSIFY, &[], &message).code, 0);
        let one = began.elapsed();
        // What nobody reads of the first answers would fill a usual connection's window, and keep that of the check out.
        let mut client = Client::connect_wide(running.plane.grpc_address().unwrap());
        let calls: Vec<_> = (0..100).map(|_| client.start(CLASSIFY, &[], frame(&message))).collect();
        assert_eq!(client.call("/grpc.health.v1.Health/Check", &[], &[]).code, 0, "the others were read before");
        drop((calls, client));
        (given_up(), one * 10)
    });
    far_less(5, || {
        let began = Instant::now();
        assert_eq!(running.rest().post("/v1/models/examples:classify", &body).status, 200);
        let one = began.elapsed();
        let mut clients: Vec<_> = (0..60).map(|_| running.rest()).collect();
        clients.iter_mut().for_each(|client| client.send("POST", "/v1/models/examples:classify", "", body.as_bytes()));
        eventually("they wait", || used() > half_of_them);
        drop(clients);
        (given_up(), one * 10)
    });
}

#[test]
fn examples_that_wait_to_be_read_count_to_their_connection() {
    let (gate, few) = (Arc::default(), Settings { request_memory_bytes: 32 * MB, max_message_bytes: MB, ..settings() });
    let running = Running::held(&few, &gate);
    let examples = signature(vec![spec("a", DType::String, &[-1])], vec![spec("y", DType::Float32, &[-1])]);
    running.plane.apply(vec![publish("examples", 1, &Model::half_plus_two(), examples)]).unwrap();
    let input = list_with_context(&example(&[("a", strings(&[&[0; 20_000]]))]), &vec![example(&[]); 350]);
    let message = request("examples", "", &input);
    let mut client = running.grpc();
    let calls: Vec<_> = (0..600).map(|_| client.start(CLASSIFY, &[], frame(&message))).collect();
    eventually("some are refused", || running.sample("tidegate_request_memory_refusals_total") > 0.0);
    gate.open();
    let answers: Vec<_> = calls.into_iter().map(|call| client.finish(call).message).collect();
    assert!(answers.iter().any(|message| message.contains("this connection's memory")), "{:?}", answers.last());
}

#[test]
fn what_unpacks_to_more_than_the_limit_is_refused() {
    let running = Running::start(&Settings { max_message_bytes: MB, ..settings() });
    let body = gzip(&vec![b' '; MB + 1]);
    let mut client = running.rest();
    client.send("POST", "/v1/models/m:predict", "content-encoding: gzip\r\n", &body);
    let refused = client.receive();
    assert_eq!(refused.status, 413, "{}", refused.body);
    assert!(refused.body.contains("limit of 1048576 bytes once it is decompressed"), "{}", refused.body);
    client.send("POST", "/v1/models/m:predict", "content-encoding: br\r\n", b"x");
    let unknown = client.receive();
    assert_eq!(unknown.status, 415, "{}", unknown.body);
}

#[test]
fn nobody_waits_for_the_answers_of_a_model_to_be_written() {
    let running = running();
    let long = signature(vec![spec("x", DType::Float32, &[-1])], vec![spec("y", DType::Float32, &[-1, -1])]);
    let model = Model::new(|_| Ok(answer(Tensor { column: column_of(&vec![0.1; MB / 2]), shape: vec![1, MB / 2] })));
    running.plane.apply(vec![publish("long", 1, &model, long)]).unwrap();
    must_not_wait(&running, || {
        let answer = running.rest().post("/v1/models/long:predict", r#"{"instances":[1]}"#);
        assert_eq!((answer.status, answer.body.len()), (200, 2 * MB + 19));
    });
}

#[test]
fn nobody_waits_for_metrics_and_who_asks_at_the_same_time_gets_the_same_page() {
    let running = running();
    for number in 0..2_000 {
        running.plane.metrics().version(&format!("model-{number}"), 1);
    }
    let ask = |count: usize| {
        let began = Instant::now();
        let mut clients: Vec<_> = (0..count).map(|_| running.rest()).collect();
        clients.iter_mut().for_each(|client| client.send("GET", "/metrics", "", b""));
        for client in &mut clients {
            assert!(client.receive().body.contains("tidegate_batches_total{model=\"model-1999\",version=\"1\"} 0\n"));
        }
        began.elapsed()
    };
    must_not_wait(&running, || {
        ask(8);
    });
    far_less(5, || {
        let one = ask(1);
        (ask(8), one * 5)
    });
}

#[test]
fn a_stop_does_not_wait_for_a_body_that_is_read() {
    // Refused once all of it is read.
    let body = format!("{{\"instances\":[{}\"a\"]}}", "1,".repeat(16 * MB));
    let sent = |running: &Running| {
        let mut client = running.rest();
        client.send_predict(&body);
        eventually("it is read", || running.sample("tidegate_request_memory_bytes") > (33 * MB) as f64);
        (client, Instant::now())
    };
    far_less(5, || {
        let reads = running();
        let (mut client, began) = sent(&reads);
        assert_eq!(client.receive().status, 400);
        let whole = began.elapsed();
        let stops = running();
        let (mut client, began) = sent(&stops);
        assert!(!stops.plane.drain(Duration::ZERO));
        let took = began.elapsed();
        assert_eq!(client.receive().status, 503);
        (took, whole / 2)
    });
}

#[test]
fn a_drain_answers_what_is_still_read() {
    let running = running();
    let mut client = running.rest();
    client.send_predict(&numbers(MB / 8));
    eventually("it has come", || running.sample("tidegate_request_memory_bytes") >= (MB / 4) as f64);
    std::thread::scope(|scope| {
        let drained = scope.spawn(|| running.plane.drain(LONG));
        assert_eq!(client.receive().status, 200);
        assert!(drained.join().unwrap());
    });
}

fn threads(count: usize) -> (Runtime, Aside, Arc<AsideJobs>) {
    let (aside, jobs) = aside(count);
    let jobs = Arc::new(jobs);
    for _ in 0..count {
        let jobs = jobs.clone();
        std::thread::spawn(move || jobs.run(&|| ()));
    }
    (Builder::new_current_thread().enable_all().build().unwrap(), aside, jobs)
}

fn soon() -> Instant {
    Instant::now() + LONG
}

#[test]
fn a_fault_is_told_and_the_threads_go_on() {
    let (runtime, aside, _jobs) = threads(2);
    for _ in 0..3 {
        let faulty = runtime.block_on(aside.run(1, soon(), || panic!("as planned")));
        assert_eq!(faulty.map(|()| Code::Ok).unwrap_err().code, Code::Internal);
    }
    assert_eq!(runtime.block_on(aside.run(1, soon(), || 7)), Ok(7));
}

#[test]
fn work_learns_that_nobody_waits_for_it_any_more() {
    let (runtime, aside, _jobs) = threads(2);
    let (sender, ended) = channel();
    let work = move |is_unwanted: &mut dyn FnMut() -> bool| {
        while !is_unwanted() {
            std::thread::yield_now();
        }
        sender.send(()).unwrap();
    };
    runtime.block_on(async {
        let mut asked = Box::pin(aside.run_while_awaited(1, soon(), work));
        assert!(is_pending(asked.as_mut()).await);
    });
    ended.recv_timeout(LONG).unwrap();
}

#[test]
fn huge_work_leaves_a_thread_and_whoever_waits_too_long_is_told() {
    let (runtime, aside, _jobs) = threads(2);
    let gate = Arc::new(Gate::default());
    let (passing, entered) = (gate.clone(), gate.clone());
    runtime.block_on(async {
        let first = aside.turn(2 * MB).await.unwrap();
        first.begin(move || passing.pass());
        entered.wait_for(1);
        let late = aside.run(2 * MB, Instant::now() + Duration::from_millis(20), || ()).await;
        assert_eq!(late.unwrap_err().code, Code::DeadlineExceeded);
        assert_eq!(aside.run(100 << 10, soon(), || 7).await, Ok(7));
        gate.open();
        assert_eq!(aside.run(2 * MB, soon(), || 8).await, Ok(8));
    });
}

#[test]
fn however_many_ask_about_all_models_a_thread_is_left_for_requests() {
    let (runtime, aside, _jobs) = threads(2);
    let gate = Arc::new(Gate::default());
    let (aside, pages) = (Arc::new(aside), Pages::default());
    let list = |about, deadline, page: &'static str| {
        let gate = gate.clone();
        let write = move |_: Option<&Grant>| {
            gate.pass();
            Ok(page.into())
        };
        pages.get(&aside, (about, Endpoint::Rest), None, deadline, write)
    };
    runtime.block_on(async {
        let (mut first, mut second) = (pin!(list(About::Names, soon(), "1")), pin!(list(About::OpenApi, soon(), "2")));
        assert!(is_pending(&mut first).await && is_pending(&mut second).await, "the gate is closed");
        assert_eq!(aside.run(100 << 10, soon(), || 7).await, Ok(7));
        let late = list(About::Statistics, Instant::now() + Duration::from_millis(20), "").await;
        assert_eq!(late.unwrap_err().code, Code::DeadlineExceeded);
        gate.open();
        assert_eq!(tokio::join!(first, second), (Ok("1".into()), Ok("2".into())));
        aside.close();
        assert_eq!(list(About::Names, soon(), "3").await.unwrap_err().code, Code::Unavailable);
    });
}

#[test]
fn who_asks_about_all_models_while_others_wait_has_their_page_and_none_is_written_before_or_for_those_who_have_gone() {
    let (runtime, aside, _jobs) = threads(2);
    let (aside, pages) = (Arc::new(aside), Pages::default());
    let (gate, written) = (Arc::<Gate>::default(), Arc::<AtomicUsize>::default());
    let ask = |about| {
        let (gate, written) = (gate.clone(), written.clone());
        let write = move |_: Option<&Grant>| {
            gate.pass();
            Ok(written.fetch_add(1, Ordering::Relaxed).to_string().into())
        };
        pages.get(&aside, (about, Endpoint::Rest), None, soon(), write)
    };
    runtime.block_on(async {
        let mut first = pin!(ask(About::OpenApi));
        assert!(is_pending(&mut first).await);
        yield_now().await;
        gate.wait_for(1);
        let mut others: Vec<_> = (0..100).map(|_| Box::pin(ask(About::OpenApi))).collect();
        for other in &mut others {
            assert!(is_pending(other.as_mut()).await);
        }
        let mut gone = Box::pin(ask(About::Statistics));
        assert!(is_pending(gone.as_mut()).await);
        drop(gone);
        gate.open();
        assert_eq!(first.await, Ok("0".into()));
        for other in others {
            assert_eq!(other.await, Ok("1".into()));
        }
        assert_eq!(ask(About::Names).await, Ok("2".into()));
    });
}

/// Whether it is still to come, after a look at it.
async fn is_pending<T>(one: impl Future<Output = T>) -> bool {
    tokio::select! {
        biased;
        _ = one => false,
        () = ready(()) => true,
    }
}

#[test]
fn beginnings_of_tls_leave_a_thread_and_end_with_the_server() {
    let (runtime, aside, _jobs) = threads(2);
    let gate = Arc::new(Gate::default());
    let begin = |result: u32| {
        let gate = gate.clone();
        aside.begin_tls(ONE, false, move || {
            gate.pass();
            result
        })
    };
    runtime.block_on(async {
        let (mut first, mut second) = (pin!(begin(1)), pin!(begin(2)));
        tokio::select! {
            biased;
            _ = &mut first => unreachable!("the gate is closed"),
            _ = &mut second => unreachable!("the gate is closed"),
            () = ready(()) => (),
        }
        assert_eq!(aside.run(1, soon(), || 7).await, Ok(7), "a thread is left, though both have begun");
        gate.open();
        assert_eq!(tokio::join!(first, second), (Some(1), Some(2)));
        assert_eq!(aside.begin_tls(ONE, false, || panic!("as planned")).await.map(|()| 0), None);
        aside.close();
        assert_eq!(begin(3).await, None);
    });
}

#[test]
fn a_flood_of_tls_from_one_address_leaves_turns_to_others() {
    let (runtime, aside, _jobs) = threads(2);
    let (aside, gate, order) = (Arc::new(aside), Arc::new(Gate::default()), Arc::new(Mutex::new(Vec::new())));
    let begin = |peer: IpAddr| {
        let (aside, gate, order) = (aside.clone(), gate.clone(), order.clone());
        runtime.spawn(async move {
            let work = move || {
                gate.pass();
                lock(&order).push(peer);
            };
            aside.begin_tls(peer, false, work).await.unwrap();
        })
    };
    let mut all: Vec<_> = (0..30).map(|_| begin(ONE)).collect();
    all.push(begin(OTHER));
    runtime.block_on(async {
        yield_now().await;
        gate.open();
        for one in all {
            one.await.unwrap();
        }
    });
    let place = lock(&order).iter().position(|peer| *peer == OTHER).unwrap();
    assert!(place <= 2, "it came behind {place} others");
}

#[test]
fn each_thread_lets_others_have_its_memory_once_it_has_nothing_to_do() {
    let (aside, jobs) = aside(2);
    let (jobs, (sender, idle)) = (Arc::new(jobs), channel());
    for _ in 0..2 {
        let (jobs, sender) = (jobs.clone(), sender.clone());
        std::thread::spawn(move || jobs.run(&|| sender.send(std::thread::current().id()).unwrap()));
    }
    let next = || idle.recv_timeout(LONG).unwrap();
    let (first, second) = (next(), next());
    assert_ne!(first, second);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let worked = runtime.block_on(aside.run(1, soon(), || std::thread::current().id())).unwrap();
    assert_eq!(next(), worked, "once after work, and not again");
    assert!(idle.try_recv().is_err());
}

#[test]
fn after_the_end_nothing_begins_and_the_threads_end() {
    let (runtime, aside, jobs) = threads(2);
    let (sender, ended) = channel();
    std::thread::spawn(move || {
        jobs.run(&|| ());
        sender.send(()).unwrap();
    });
    assert!(!aside.close(), "nothing was under way");
    ended.recv_timeout(LONG).unwrap();
    assert_eq!(runtime.block_on(aside.run(1, soon(), || 7)).unwrap_err().code, Code::Unavailable);
}
