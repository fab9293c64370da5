//! Health, asked and watched, and what `/metrics` says of its families, of states and of Python's gauges.
//! Load balancers and monitoring see no more of an engine than this.

use std::time::Duration;

use crate::support::messages::{bytes_of, predict_x, varint_of};
use crate::support::{LONG, Model, Running, eventually, settings};
use tidegate_codec::protobuf::wire;
use tidegate_codec::status::{Code, Status};
use tidegate_codec::version_state::VersionState;
use tidegate_plane::settings::Settings;

const WATCH: &str = "/grpc.health.v1.Health/Watch";

fn health_request(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    wire::put_bytes(&mut message, 1, service.as_bytes());
    message
}

#[test]
fn grpc_health_is_watched_until_the_drain() {
    let running = Running::with(&Model::half_plus_two());
    let mut grpc = running.grpc();
    let mut known = grpc.open(WATCH, &[], &health_request(""));
    let mut unknown = grpc.open(WATCH, &[], &health_request("some.Service"));
    let status = |answer: Result<Vec<u8>, i32>| answer.map(|message| varint_of(&message, 1));
    assert_eq!(status(grpc.next(&mut known)), Ok(2));
    assert_eq!(status(grpc.next(&mut unknown)), Ok(3));
    running.plane.set_ready(false, "for another reason");
    running.plane.set_ready(true, "1 model");
    assert_eq!(status(grpc.next(&mut known)), Ok(1), "only what changes is said");
    assert_eq!(grpc.predict(&predict_x(&[1.0])).code, 0, "other calls of the connection go on");
    assert!(running.plane.drain(LONG), "nobody waits for a watch");
    assert_eq!((status(grpc.next(&mut known)), status(grpc.next(&mut known))), (Ok(2), Err(14)));
    assert_eq!(status(grpc.next(&mut unknown)), Err(14), "a service that is not known stays so");
}

#[test]
fn a_watch_of_health_ends_with_its_own_deadline_or_its_client_and_with_no_other() {
    let running = Running::start(&Settings { request_timeout: Duration::from_millis(50), ..settings() });
    let mut grpc = running.grpc();
    let mut endless = grpc.open(WATCH, &[], &health_request(""));
    let mut short = grpc.open(WATCH, &[("grpc-timeout", "1S")], &health_request(""));
    let gone = grpc.open(WATCH, &[], &health_request(""));
    drop(gone);
    assert!(grpc.next(&mut endless).is_ok() && grpc.next(&mut short).is_ok());
    assert_eq!(grpc.next(&mut short), Err(4));
    let name = "tidegate_requests_total{endpoint=\"grpc\",model=\"\",version=\"\",status=\"CANCELLED\"}";
    eventually("the watch that was left is over", || running.sample(name) == 1.0);
    running.plane.set_ready(true, "1 model");
    assert_eq!(grpc.next(&mut endless).map(|message| varint_of(&message, 1)), Ok(1));
    running.plane.limits().set(1 << 20, 256, LONG).unwrap();
    assert_eq!(grpc.call(WATCH, &[], &[0xff]).code, 3);
}

#[test]
fn metrics_say_what_they_are_and_show_states_and_gauges_of_python() {
    let running = Running::with(&Model::half_plus_two());
    let state = |version, state| VersionState { version, state, status: Status::new(Code::Ok, "") };
    running.plane.set_states("m\"1", vec![state(2, 20), state(1, 30)]);
    let labels = |model: &str| vec![("model".to_owned(), model.to_owned()), ("gate".to_owned(), "a\\b".to_owned())];
    let help = "one \\ two\nthree";
    running.plane.set_gauges("tidegate_mine", help, vec![(labels("m"), 1.0), (labels("n"), 0.5)]).unwrap();
    running.plane.set_gauges("tidegate_bare", "", vec![(Vec::new(), 3.0)]).unwrap();
    let text = running.rest().get("/metrics").body;
    for lines in [
        "# HELP tidegate_version_state 1 for the state in which a version is.\n# TYPE tidegate_version_state gauge\n\
         tidegate_version_state{model=\"m\\\"1\",version=\"2\",state=\"LOADING\"} 1\n\
         tidegate_version_state{model=\"m\\\"1\",version=\"1\",state=\"AVAILABLE\"} 1\n",
        "# HELP tidegate_mine one \\\\ two\\nthree\n# TYPE tidegate_mine gauge\n\
         tidegate_mine{model=\"m\",gate=\"a\\\\b\"} 1\ntidegate_mine{model=\"n\",gate=\"a\\\\b\"} 0.5\n",
        "# TYPE tidegate_bare gauge\ntidegate_bare 3\n",
    ] {
        assert!(text.contains(lines), "{lines} in {text}");
    }
    let silent: Vec<_> = text.lines().filter(|line| line.starts_with("# HELP") && line.ends_with(' ')).collect();
    assert_eq!(silent, ["# HELP tidegate_bare "], "all others say what they are");
    assert_eq!(text.matches("# TYPE ").count(), text.matches("# HELP ").count(), "{text}");
    let of_n: Vec<_> = running.plane.stats(Some("n")).into_iter().map(|(name, _)| name).collect();
    assert!(of_n.iter().any(|name| name.starts_with("tidegate_mine{model=\"n\"")), "{of_n:?}");
    assert!(!of_n.iter().any(|name| name.contains("model=\"m")), "{of_n:?}");
    running.plane.set_gauges("tidegate_mine", "fewer", vec![(labels("n"), 1.0)]).unwrap();
    running.plane.set_gauges("tidegate_bare", "", Vec::new()).unwrap();
    let text = running.rest().get("/metrics").body;
    assert!(text.contains("tidegate_mine{model=\"n\"") && !text.contains("tidegate_mine{model=\"m\""), "{text}");
    assert!(!text.contains("tidegate_bare"), "{text}");
    for odd in ["", "1a", "a-b", "a{}"] {
        assert!(running.plane.set_gauges(odd, "", Vec::new()).is_err(), "{odd}");
        assert!(
            running.plane.set_gauges("a", "", vec![(vec![(odd.to_owned(), String::new())], 1.0)]).is_err(),
            "{odd}"
        );
    }
}

#[test]
fn grpc_health_is_the_readiness() {
    let running = Running::with(&Model::half_plus_two());
    let mut grpc = running.grpc();
    let mut check = |service: &str| {
        let mut message = Vec::new();
        wire::put_bytes(&mut message, 1, service.as_bytes());
        let answer = grpc.call("/grpc.health.v1.Health/Check", &[], &message);
        (answer.code, varint_of(&answer.body, 1))
    };
    assert_eq!(check(""), (0, 2));
    running.plane.set_ready(true, "1 model");
    for service in ["", "tensorflow.serving.PredictionService", "PredictionService", "ModelService"] {
        assert_eq!(check(service), (0, 1), "{service}");
    }
    assert_eq!(check("some.Service"), (5, 0));
}

#[test]
fn grpc_health_lists_every_service() {
    let running = Running::with(&Model::half_plus_two());
    let mut grpc = running.grpc();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    for (ready, status) in [(false, 2), (true, 1)] {
        running.plane.set_ready(ready, "1 model");
        let answer = grpc.call("/grpc.health.v1.Health/List", &[], &[]);
        let entry = |entry: &&[u8]| (text(bytes_of(entry, 1)[0]), varint_of(bytes_of(entry, 2)[0], 1));
        let services: Vec<_> = bytes_of(&answer.body, 1).iter().map(entry).collect();
        assert_eq!(answer.code, 0);
        for service in ["", "PredictionService", "tensorflow.serving.PredictionService"] {
            assert!(services.contains(&(service.to_owned(), status)), "{service:?} in {services:?}");
        }
    }
}
