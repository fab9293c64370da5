//! Rare calls that Python answers: none of a client that has gone keeps others waiting.

use std::sync::Arc;

use crate::support::grpc::{Call, Client, frame};
use crate::support::{Gate, Running, eventually, settings};
use tidegate_plane::control::METHODS;

const LIVE: &str = "/inference.GRPCInferenceService/ServerLive";

/// A call that the server has read.
fn received(client: &mut Client, message: &[u8]) -> Call {
    let call = client.start(METHODS[0], &[], frame(message));
    assert_eq!(client.call(LIVE, &[], b"").code, 0);
    call
}

#[test]
fn python_is_not_asked_for_clients_who_went_while_they_waited() {
    let (running, gate) = (Running::start(&settings()), Arc::<Gate>::default());
    *running.hooks.control_gate.lock().unwrap() = Some(gate.clone());
    let (mut client, mut leaver) = (running.grpc(), running.grpc());
    let first = received(&mut client, b"first");
    gate.wait_for(1);
    drop(received(&mut client, b"reset"));
    let left = received(&mut leaver, b"left");
    drop((left, leaver));
    let cancelled = || {
        let stats = running.plane.stats(None);
        let of_them =
            stats.iter().filter(|(name, _)| name.starts_with("tidegate_requests_total") && name.contains("CANCELLED"));
        of_them.map(|(_, count)| count).sum::<f64>()
    };
    eventually("both are seen to be gone", || cancelled() == 2.0);
    let last = received(&mut client, b"last");
    gate.open();
    client.finish(first);
    client.finish(last);
    let asked: Vec<_> = running.hooks.asked.lock().unwrap().iter().map(|(_, message)| message.clone()).collect();
    assert_eq!(asked, [b"first".to_vec(), b"last".to_vec()]);
}
