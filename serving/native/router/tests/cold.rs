//! A model that is on no node is wanted once, and what asks for it waits within bounds.

use std::time::Duration;

use crate::support::grpc::{PREDICT, frame};
use crate::support::{Node, Running, eventually, infer, predict, settings};

#[test]
fn requests_wait_for_a_model_that_comes_and_it_is_wanted_once() {
    let node = Node::start("a");
    let running = Running::start(&settings());
    running.apply(&[&node], &[("m", &[]), ("n", &["a"])]);
    let (mut grpc, mut rest) = (running.grpc(), running.rest());
    let calls: Vec<_> = (0..3).map(|_| grpc.start(PREDICT, &[], frame(&predict("m", "x")))).collect();
    rest.send_predict("1");
    eventually("all came", || running.router.stats()["m"].0 == 4);
    eventually("it is wanted", || !running.wanted().is_empty());
    running.apply(&[&node], &[("m", &[]), ("n", &["a"])]);
    assert_eq!(grpc.call(PREDICT, &[], &predict("n", "")).code, 0, "others do not wait");
    running.apply(&[&node], &[("m", &["a"])]);
    for call in calls {
        assert_eq!(grpc.finish(call).code, 0);
    }
    assert_eq!(rest.receive().body, "a/1");
    assert_eq!(running.wanted(), ["m"]);
    running.apply(&[&node], &[("m", &[])]);
    let call = grpc.start(PREDICT, &[], frame(&predict("m", "x")));
    eventually("it is wanted anew", || running.wanted() == ["m", "m"]);
    running.apply(&[&node], &[("m", &["a"])]);
    assert_eq!(grpc.finish(call).code, 0);
}

#[test]
fn who_waits_too_long_hears_so_and_the_next_one_asks_again() {
    let mut settings = settings();
    settings.cold.patience = Duration::from_millis(20);
    let running = Running::start(&settings);
    running.apply(&[], &[("m", &[])]);
    for times in 1..3 {
        let answer = running.grpc().predict(&predict("m", ""));
        assert_eq!(answer.code, 14);
        assert!(answer.message.contains("model 'm' is on no node yet"), "{}", answer.message);
        eventually("it is wanted", || running.wanted().len() == times);
    }
    assert_eq!(running.rest().predict("1").status, 503);
    assert_eq!(running.router.stats()["m"].1, 3);
}

#[test]
fn the_next_one_asks_again_where_a_client_gives_up_first() {
    let running = Running::start(&settings());
    running.apply(&[], &[("m", &[])]);
    let gives_up = || running.rest().send_predict("1");
    for times in 1..3 {
        eventually("it is wanted", || {
            gives_up();
            running.wanted().len() >= times
        });
    }
}

#[test]
fn clients_that_give_up_while_it_is_told_have_it_told_once_more() {
    let running = Running::start(&settings());
    running.apply(&[], &[("m", &[])]);
    let hearing = running.wanted.lock().unwrap();
    eventually("many came", || {
        running.rest().send_predict("1");
        running.router.stats()["m"].0 >= 40
    });
    drop(hearing);
    running.router.stop(Duration::ZERO);
    assert!((1..=3).contains(&running.wanted().len()), "{:?}", running.wanted());
}

#[test]
fn so_many_wait_and_no_more() {
    let node = Node::start("a");
    let running = Running::start(&settings());
    running.apply(&[&node], &[("m", &[])]);
    let mut grpc = running.grpc();
    let calls: Vec<_> = (0..4).map(|_| grpc.start(PREDICT, &[], frame(&predict("m", "x")))).collect();
    eventually("all came", || running.router.stats()["m"].0 == 4);
    let refused = grpc.predict(&predict("m", ""));
    assert_eq!(refused.code, 8);
    assert!(refused.message.contains("4 requests (cold_requests)"), "{}", refused.message);
    running.apply(&[&node], &[("m", &["a"])]);
    for call in calls {
        assert_eq!(grpc.finish(call).code, 0);
    }
    running.apply(&[&node], &[("m", &[])]);
    let more = grpc.start(PREDICT, &[], frame(&predict("m", "x")));
    eventually("it has a place again", || running.wanted().len() == 2);
    running.apply(&[&node], &[("m", &["a"])]);
    assert_eq!(grpc.finish(more).code, 0);
}

#[test]
fn so_many_bytes_wait_and_no_more() {
    let running = Running::start(&settings());
    running.apply(&[], &[("m", &[])]);
    let refused = running.grpc().predict(&predict("m", &"x".repeat(1 << 20)));
    assert_eq!(refused.code, 8);
    assert!(refused.message.contains("1048576 bytes (cold_bytes)"), "{}", refused.message);
    assert!(running.wanted().is_empty());
}

#[test]
fn a_model_that_is_taken_out_while_it_is_waited_for_is_not_found() {
    let running = Running::start(&settings());
    running.apply(&[], &[("m", &[])]);
    let mut grpc = running.grpc();
    let call = grpc.start(PREDICT, &[], frame(&predict("m", "x")));
    eventually("it is wanted", || running.wanted() == ["m"]);
    running.apply(&[], &[]);
    assert_eq!(grpc.finish(call).code, 5);
}

#[test]
fn whoever_only_asks_how_a_model_is_does_not_have_it_loaded() {
    let running = Running::start(&settings());
    running.apply(&[], &[("m", &[])]);
    let status = running.grpc().call("/inference.GRPCInferenceService/ModelReady", &[], &infer("m", ""));
    assert_eq!(status.code, 14);
    assert!(status.message.contains("model 'm' is on no node"), "{}", status.message);
    for path in ["/v2/models/m/ready", "/v2/models/m/stats"] {
        assert_eq!(running.rest().get(path).status, 503, "{path}");
    }
    assert!(running.wanted().is_empty());
}

#[test]
fn what_operators_switched_off_is_loaded_for_nobody_who_hear_at_once_why() {
    let node = Node::start("a");
    let running = Running::start(&settings());
    running.apply(&[&node], &[("m", &[]), ("n", &["a"])]);
    let mut grpc = running.grpc();
    let waiting = grpc.start(PREDICT, &[], frame(&predict("m", "x")));
    eventually("it is wanted", || running.wanted() == ["m"]);
    running.router.set_refused(["m", "n"].map(|name| (name.to_owned(), "by anna: late".to_owned())).into());
    let refused = grpc.finish(waiting);
    assert_eq!((refused.code, refused.message.as_str()), (14, "model 'm' is switched off: by anna: late"));
    assert!(running.rest().predict("1").body.contains("model 'm' is switched off: by anna: late"));
    assert_eq!(running.wanted(), ["m"], "only before");
    assert_eq!(grpc.predict(&predict("n", "")).code, 0, "its node says what it wants");
    running.router.set_refused([].into());
    let again = grpc.start(PREDICT, &[], frame(&predict("m", "x")));
    running.apply(&[&node], &[("m", &["a"])]);
    assert_eq!(grpc.finish(again).code, 0);
}
