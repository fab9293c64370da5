//! A node of the fleet: where it answers, how much it has to do, and the connections to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::watch;

use crate::links::connect::Links;
use crate::links::http1::RestLinks;
use crate::links::http2::GrpcLinks;
use crate::pause::Pause;

/// `host:port` of a node's endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// For gRPC.
    pub grpc: String,
    /// For REST.
    pub rest: String,
}

/// One node. It stays the same, with its connections, for as long as its addresses do.
#[derive(Debug)]
pub struct Node {
    /// Its name in the fleet.
    pub id: String,
    /// Where it answers.
    pub addresses: Addresses,
    /// Connections for gRPC.
    pub grpc: GrpcLinks,
    /// Connections for REST.
    pub rest: RestLinks,
    /// While it is left alone.
    pub pause: Pause,
    outstanding: AtomicUsize,
    lost: watch::Sender<bool>,
}

/// A request that a node works on, until its answer is passed on or given up.
#[derive(Debug)]
pub struct Outstanding(Arc<Node>);

impl Node {
    /// Without connections yet.
    pub fn new(id: &str, addresses: Addresses, links: &Links) -> Result<Node, String> {
        let grpc = GrpcLinks::new(&addresses.grpc, links);
        let grpc = grpc.ok_or_else(|| {
            format!("node '{id}' has gRPC address '{}': use host:port, such as 10.0.0.7:8500", addresses.grpc)
        })?;
        let (id, rest) = (id.to_owned(), RestLinks::new(&addresses.rest, links.lanes, links.connector.clone()));
        let (pause, outstanding, lost) = (Pause::default(), AtomicUsize::new(0), watch::Sender::new(false));
        Ok(Node { id, addresses, grpc, rest, pause, outstanding, lost })
    }

    /// The fleet has no such node any more: what waits for its answer may wait for ever.
    pub fn lose(&self) {
        self.lost.send_replace(true);
    }

    /// Ends once the fleet has no such node any more.
    pub async fn lost(&self) {
        // The sender is this node's own, so that the wait cannot end for want of one.
        let _ = self.lost.subscribe().wait_for(|lost| *lost).await;
    }

    /// A request goes to it.
    pub fn begin(self: &Arc<Node>) -> Outstanding {
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        Outstanding(self.clone())
    }

    /// Requests that it works on.
    pub fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Relaxed)
    }

    /// Closes connections that nobody has used for long.
    pub fn close_idle(&self, lane: usize, now: Instant) {
        self.grpc.close_idle(lane, now);
        self.rest.close_idle(lane, now);
    }
}

impl Outstanding {
    /// The node.
    pub fn node(&self) -> &Arc<Node> {
        &self.0
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.0.outstanding.fetch_sub(1, Ordering::Relaxed);
    }
}
