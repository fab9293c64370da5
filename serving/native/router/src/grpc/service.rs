//! The gRPC endpoint of a router: calls that name a model go to a node that has it, all others are answered here, as by an
//! engine without models.

use std::sync::{Arc, OnceLock};

use http::HeaderMap;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::memory::Reservation;
use tidegate_engine::request::Tags;
use tidegate_engine::request_id::RequestId;
use tidegate_plane::control;
use tidegate_plane::endpoints::grpc::conversation::Conversation;
use tidegate_plane::endpoints::grpc::infer_methods::{self, Method};
use tidegate_plane::endpoints::grpc::methods::{self, GrpcMethods};
use tidegate_plane::endpoints::grpc::reply::GrpcReply;
use tidegate_plane::endpoints::grpc::service::{GrpcCall, GrpcService};
use tidegate_plane::endpoints::headers::ID_HEADER;
use tidegate_plane::endpoints::reply::AnyReply;
use tidegate_plane::security::access::Grant;
use tidegate_plane::security::gate::check_model;

use crate::grpc::conversation::converse;
use crate::grpc::names::{Named, named_by, splice};
use crate::grpc::outgoing::Outgoing;
use crate::lane::{Asked, Lane};
use crate::links::tls::Protocol;

/// Answers calls of one I/O thread.
pub struct GrpcForwarder {
    /// What they are forwarded with.
    pub lane: Arc<Lane>,
    /// What answers those that no node is asked for.
    pub local: GrpcMethods<AnyReply>,
}

impl GrpcService for GrpcForwarder {
    fn call(&self, call: GrpcCall, memory: &mut Option<Reservation>) {
        let path = call.head.uri.path();
        if is_about_models(path)
            && let Err(status) = self.lane.shared.routes.load().check()
        {
            return refuse(&self.lane, call.reply, &call.head.headers, &status);
        }
        let Some(named) = named_by(path) else {
            return match unanswerable(path) {
                Some(status) => refuse(&self.lane, call.reply, &call.head.headers, &status),
                None => self.local.call(call, memory),
            };
        };
        match self.asked(&call, named) {
            // How a model stands that is on no node is known here.
            Some(asked) if asked.model.is_cold() && path == methods::MODEL_STATUS => self.local.call(call, memory),
            Some(asked) if asked.model.is_cold() && !named.needs => {
                let status = on_no_node(&asked.model.name);
                refuse(&self.lane, call.reply, &call.head.headers, &status);
            }
            Some(asked) => drop(tokio::spawn(forward(self.lane.clone(), call, asked))),
            None if splice(&call.message, named.path).is_ok_and(|name| name.is_none_or(str::is_empty)) => {
                // Statistics of all models, above all: each node has its own.
                match unanswerable_without_model(path) {
                    Some(status) => refuse(&self.lane, call.reply, &call.head.headers, &status),
                    None => self.local.call(call, memory),
                }
            }
            None => self.local.call(call, memory),
        }
    }

    fn count_unread(&self, code: Code) {
        self.local.count_unread(code);
    }

    fn is_conversation(&self, path: &str) -> bool {
        self.local.is_conversation(path)
    }

    fn converse(&self, call: Conversation) {
        match named_by(call.head.uri.path()) {
            Some(named) => drop(tokio::spawn(converse(self.lane.clone(), call, named))),
            None => self.local.converse(call),
        }
    }

    fn stays(&self, path: &str) -> bool {
        named_by(path).is_some() || self.local.stays(path)
    }

    fn admit(&self, path: &str, headers: &HeaderMap, names: &[String]) -> Result<Option<Arc<Grant>>, Status> {
        self.local.admit(path, headers, names)
    }

    fn is_about_health(&self, path: &str) -> bool {
        self.local.is_about_health(path)
    }
}

impl GrpcForwarder {
    /// What is forwarded; none where the call has to be answered here: it names no model that is known, or is none at all.
    fn asked(&self, call: &GrpcCall, named: Named) -> Option<Asked> {
        let name = splice(&call.message, named.path).ok().flatten()?;
        check_model(&call.head, name).ok()?;
        let model = self.lane.shared.routes.load().find(name).cloned()?;
        Some(Asked {
            model,
            bytes: call.message.len(),
            deadline: Some(call.deadline),
            protocol: Protocol::Grpc,
            hedges: true,
        })
    }
}

/// Forwards one call, and answers it.
async fn forward(lane: Arc<Lane>, call: GrpcCall, asked: Asked) {
    let counts = asked.model.counts.clone();
    counts.begin();
    let GrpcCall { head, message, mut reply, .. } = call;
    reply.observation.note(|facts| facts.model = Some(asked.model.name.as_str().into()));
    let outgoing = Outgoing::new(head, message, asked.deadline, true, reply.lifeline());
    let answer = tokio::select! {
        biased;
        answer = lane.answer(&asked, |node| outgoing.send(lane.index, node)) => answer,
        // What is under way is dropped, which tells the node.
        () = reply.gone() => return,
    };
    let code = match answer {
        Ok(begun) => {
            reply.observation.note(|facts| facts.reached = true);
            begun.answer.pass(reply, asked.deadline, &OnceLock::new()).await
        }
        Err(status) => {
            refuse(&lane, reply, outgoing.headers(), &status);
            status.code
        }
    };
    counts.end(code);
}

/// Answers a call that no node is asked for with an error, which carries the call's id: by that clients tell it from a connection
/// that failed.
pub fn refuse(lane: &Lane, reply: GrpcReply, sent: &HeaderMap, status: &Status) {
    let id = RequestId::choose(sent.get(ID_HEADER), &lane.shared.state.engine.ids);
    reply.fail(status, Tags { version: None, id: Some(&id) });
}

/// Whether a method asks what only the fleet's routes tell: of one model, or which there are.
fn is_about_models(path: &str) -> bool {
    named_by(path).is_some() || infer_methods::method(path) == Some(Method::RepositoryIndex)
}

/// What is said of a model that is on no node where nobody needs it to be.
pub fn on_no_node(model: &str) -> Status {
    Status::new(Code::Unavailable, format!("model '{model}' is on no node: the first request for it has it loaded"))
}

/// Why a method that changes which models there are is not answered here.
fn unanswerable(path: &str) -> Option<Status> {
    control::METHODS.contains(&path).then(|| {
        let what = "a router has no models of its own: tell whoever places the fleet's models";
        Status::new(Code::Unimplemented, what)
    })
}

fn unanswerable_without_model(path: &str) -> Option<Status> {
    (infer_methods::method(path) == Some(Method::ModelStatistics)).then(|| all_models("statistics of all models"))
}

/// Why a router does not answer what is about all models.
pub fn all_models(what: &str) -> Status {
    Status::new(Code::Unimplemented, format!("a router does not gather {what}: ask for one model, or ask a node"))
}
