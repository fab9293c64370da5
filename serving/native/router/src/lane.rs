//! What the requests of one I/O thread are forwarded with, and what all threads share.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tidegate_codec::status::{Code, Status};
use tidegate_plane::state::PlaneState;
use tidegate_plane::system::System;
use tokio::sync::watch;
use tokio::time::{sleep, timeout_at};

use crate::forward::{Copies, Missed, forward};
use crate::hedging::Hedging;
use crate::links::tls::Protocol;
use crate::node::Node;
use crate::routes::{Model, Routes};
use crate::waiting::{ColdRequests, Place};

/// How often connections are looked for that nobody uses.
const LOOK: Duration = Duration::from_secs(2);
/// A request without a deadline, which is one of many messages, waits for a node for so long.
const NO_DEADLINE: Duration = Duration::from_secs(24 * 3600);

/// What all I/O threads share.
pub struct Shared {
    /// An engine without models: limits, counters, readiness, and what it answers where no node is asked.
    pub state: Arc<PlaneState>,
    /// The process.
    pub system: Arc<dyn System>,
    /// Which model is on which nodes.
    pub routes: ArcSwap<Routes>,
    /// Why a model is not loaded for requests, by its name: what operators decided. Nodes that have it say so themselves.
    pub refused: ArcSwap<HashMap<String, String>>,
    /// Told whenever the routes, or what is refused, were swapped.
    pub changed: watch::Sender<()>,
    /// What waits for models that are on no node.
    pub cold: ColdRequests,
    /// When second copies go, if any do.
    pub hedging: Option<Hedging>,
    /// Whether the drain has taken its time.
    pub overdue: watch::Sender<bool>,
}

/// One I/O thread.
pub struct Lane {
    /// Its number.
    pub index: usize,
    /// What all share.
    pub shared: Arc<Shared>,
}

/// A request that waits for a node; once it does no more, as its client may have gone away, the next one tells again.
struct Waiting<'a> {
    model: Arc<Model>,
    _place: Place<'a>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.model.want_again();
    }
}

/// What is said of a request that is to be forwarded.
pub struct Asked {
    /// The model that it names, as it was when it came.
    pub model: Arc<Model>,
    /// Bytes that are kept for it.
    pub bytes: usize,
    /// When its answer is worth nothing any more, if that is known.
    pub deadline: Option<Instant>,
    /// What it is asked by.
    pub protocol: Protocol,
    /// Whether a second copy may go while the first is under way.
    pub hedges: bool,
}

impl Lane {
    /// The answer of a node, by whatever sends the request there; an error where none was reached in time.
    pub async fn answer<A, F, Fut>(&self, asked: &Asked, send: F) -> Result<A, Status>
    where
        F: Fn(Arc<Node>) -> Fut,
        Fut: Future<Output = Result<A, Missed<A>>>,
    {
        let shared = &self.shared;
        let until = asked.deadline.unwrap_or_else(|| Instant::now() + NO_DEADLINE);
        let work = async {
            let copies = match &shared.hedging {
                _ if !asked.hedges => Copies::Never,
                None => Copies::OfLost,
                Some(hedging) => Copies::AlsoOfLate(hedging),
            };
            let on_a_node = || shared.node_for(&asked.model.name, asked.bytes, until);
            if asked.model.is_cold() {
                let model = on_a_node().await?;
                return forward(&model, asked.protocol, copies, until, send, on_a_node).await;
            }
            forward(&asked.model, asked.protocol, copies, until, send, on_a_node).await
        };
        let mut overdue = shared.overdue.subscribe();
        tokio::select! {
            biased;
            answer = timeout_at(until.into(), work) => answer.unwrap_or_else(|_| {
                Err(Status::new(Code::DeadlineExceeded, "the deadline passed before a node answered"))
            }),
            _ = overdue.wait_for(|overdue| *overdue) => {
                Err(Status::new(Code::Unavailable, "the router stopped before the request was answered"))
            }
        }
    }

    /// Closes connections that nobody uses, for as long as the runtime lives.
    pub async fn close_idle(self: Arc<Lane>) {
        loop {
            sleep(LOOK).await;
            let (routes, now) = (self.shared.routes.load_full(), Instant::now());
            routes.nodes().for_each(|node| node.close_idle(self.index, now));
        }
    }
}

impl Shared {
    /// The model with the nodes that it is on, once it is on any; whoever places models is told that it is wanted.
    async fn node_for(&self, name: &str, bytes: usize, deadline: Instant) -> Result<Arc<Model>, Status> {
        let mut waiting: Option<Waiting<'_>> = None;
        let mut changed = self.changed.subscribe();
        let patience = self.cold.limits.patience;
        let until = deadline.min(Instant::now() + patience);
        loop {
            let found = self.routes.load().find(name).cloned();
            let model = found.ok_or_else(|| {
                Status::not_found(format!("model '{name}' was taken out of the fleet while the request waited for it"))
            })?;
            if !model.is_cold() {
                return Ok(model);
            }
            match &mut waiting {
                Some(waiting) => waiting.model = model.clone(),
                None => waiting = Some(Waiting { model: model.clone(), _place: self.cold.enter(bytes)? }),
            }
            if let Some(why) = self.refused.load().get(name) {
                return Err(Status::new(Code::Unavailable, format!("model '{name}' is switched off: {why}")));
            }
            if model.want() {
                self.cold.tell(name);
            }
            if timeout_at(until.into(), changed.changed()).await.is_err() {
                return Err(Status::new(
                    Code::Unavailable,
                    format!("model '{name}' is on no node yet: waited {patience:?} or until the deadline; try again"),
                ));
            }
        }
    }
}
