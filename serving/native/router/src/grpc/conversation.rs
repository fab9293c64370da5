//! A call of many messages, forwarded both ways at once. The first message names the model, whose node gets all of them.

use std::future::pending;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use h2::{Reason, SendStream};
use tidegate_codec::protobuf::frame::frame;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::request::Tags;
use tidegate_engine::request_id::RequestId;
use tidegate_plane::endpoints::grpc::conversation::{Conversation, Messages, send};
use tidegate_plane::endpoints::grpc::reply::{GrpcReply, trailers_of};
use tidegate_plane::endpoints::headers::ID_HEADER;
use tidegate_plane::security::gate::check_model;
use tokio::time::timeout;

use crate::grpc::names::{Named, splice};
use crate::grpc::outgoing::Outgoing;
use crate::lane::{Asked, Lane};
use crate::links::tls::Protocol;

/// Forwards a call until either side ends it.
pub async fn converse(lane: Arc<Lane>, call: Conversation, named: Named) {
    let Conversation { head, mut messages, deadline, patience, mut reply } = call;
    let id = RequestId::choose(head.headers.get(ID_HEADER), &lane.shared.state.engine.ids);
    messages.allow(lane.shared.state.engine.limits.max_message_bytes());
    let first = tokio::select! {
        first = timeout(patience, messages.next()) => first.unwrap_or_else(|_| Err(silent())),
        () = reply.gone() => return,
    };
    let first = match first {
        Ok(Some(first)) => first,
        Ok(None) => return end(reply, &id, &Status::new(Code::Ok, "")),
        Err(status) => return end(reply, &id, &status),
    };
    let found = splice(&first, named.path).and_then(|name| {
        let name = name.unwrap_or_default();
        check_model(&head, name)?;
        let routes = lane.shared.routes.load();
        routes.check()?;
        let model = routes.find(name).cloned();
        model.ok_or_else(|| Status::not_found(format!("Servable not found for request: Latest({name})")))
    });
    let model = match found {
        Ok(model) => model,
        Err(status) => return end(reply, &id, &status),
    };
    reply.note_due(true);
    let counts = model.counts.clone();
    counts.begin();
    let asked = Asked { model, bytes: first.len(), deadline, protocol: Protocol::Grpc, hedges: false };
    let outgoing = Outgoing::new(head, first, deadline, false, reply.lifeline());
    let begun = tokio::select! {
        biased;
        begun = lane.answer(&asked, |node| outgoing.send(lane.index, node)) => begun,
        () = reply.gone() => return,
    };
    let code = match begun {
        Ok(begun) => {
            reply.observation.note(|facts| facts.reached = true);
            let unread = OnceLock::new();
            tokio::select! {
                code = begun.answer.pass(reply, deadline, &unread) => code,
                // It never ends.
                code = send_on(messages, begun.messages, &unread) => code,
            }
        }
        Err(status) => {
            end(reply, &id, &status);
            status.code
        }
    };
    counts.end(code);
}

fn silent() -> Status {
    Status::new(Code::DeadlineExceeded, "the call's first message did not come in time")
}

/// Ends a call for which no node was asked.
fn end(reply: GrpcReply, id: &RequestId, status: &Status) {
    let tags = Tags { version: None, id: Some(id) };
    if status.code != Code::Ok {
        return reply.fail(status, tags);
    }
    if let Some((mut stream, _open)) = reply.begin(tags) {
        let _ = stream.send_trailers(trailers_of(status));
    }
}

/// Sends what the client sends on to the node, as fast as that takes it, and then waits for ever: the node ends the call.
/// Where a message cannot be read, `unread` says why, and the node still answers what came before.
async fn send_on(mut messages: Messages, mut node: SendStream<Bytes>, unread: &OnceLock<Status>) -> Code {
    loop {
        match messages.next().await {
            Ok(Some(message)) => {
                if !send_patiently(&mut node, frame(&message)).await {
                    break;
                }
            }
            Ok(None) => {
                let _ = node.send_data(Bytes::new(), true);
                break;
            }
            Err(gone) if gone.code == Code::Cancelled => {
                node.send_reset(Reason::CANCEL);
                break;
            }
            Err(status) => {
                unread.get_or_init(|| status);
                let _ = node.send_data(Bytes::new(), true);
                break;
            }
        }
    }
    pending().await
}

/// A node may take nothing for as long as it has enough to do; one that does not live loses its connection, and a call with a
/// deadline ends then.
async fn send_patiently(node: &mut SendStream<Bytes>, framed: Bytes) -> bool {
    const DAY: std::time::Duration = std::time::Duration::from_secs(24 * 3600);
    send(node, framed, DAY).await
}
