//! How the I/O threads hear that they are to end.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use crate::connections::tended::Connections;

/// How an I/O thread is to end.
#[derive(Clone)]
pub struct Signals {
    /// Turns true when the drain begins.
    pub draining: watch::Sender<bool>,
    /// When the drain must be over; set before `draining`.
    pub until: watch::Sender<Option<Instant>>,
    /// Open connections of all I/O threads.
    pub connections: Arc<Connections>,
}

impl Signals {
    /// No drain yet.
    pub fn new(connections: Arc<Connections>) -> Signals {
        let (draining, until) = (watch::channel(false).0, watch::channel(None).0);
        Signals { draining, until, connections }
    }
}
