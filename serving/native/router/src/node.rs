//! A node of the fleet: where it answers, how much it has to do, and the connections to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::watch;

use crate::links::connect::Links;
use crate::links::http1::RestLinks;
use crate::links::http2::GrpcLinks;
use crate::links::tls::Protocol;
use crate::pause::Pause;

/// `host:port` of a node's endpoints, empty for one that is closed.
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
    /// Connections for gRPC, or why there can be none.
    pub grpc: Result<GrpcLinks, String>,
    /// Connections for REST.
    pub rest: RestLinks,
    grpc_pause: Pause,
    rest_pause: Pause,
    outstanding: AtomicUsize,
    lost: watch::Sender<bool>,
}

/// A request that a node works on, until its answer is passed on or given up.
#[derive(Debug)]
pub struct Outstanding(Arc<Node>);

impl Node {
    /// Without connections yet.
    pub fn new(id: &str, addresses: Addresses, links: &Links) -> Node {
        let grpc = GrpcLinks::new(&addresses.grpc, links);
        let grpc = grpc.ok_or_else(|| format!("node '{id}' has no gRPC endpoint: its address is '{}'", addresses.grpc));
        let (id, rest) = (id.to_owned(), RestLinks::new(&addresses.rest, links.lanes, links.connector.clone()));
        let (grpc_pause, rest_pause) = (Pause::default(), Pause::default());
        let (outstanding, lost) = (AtomicUsize::new(0), watch::Sender::new(false));
        Node { id, addresses, grpc, rest, grpc_pause, rest_pause, outstanding, lost }
    }

    /// While the address for this is left alone.
    pub fn pause(&self, protocol: Protocol) -> &Pause {
        match protocol {
            Protocol::Grpc => &self.grpc_pause,
            Protocol::Rest => &self.rest_pause,
        }
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
        if let Ok(grpc) = &self.grpc {
            grpc.close_idle(lane, now);
        }
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
