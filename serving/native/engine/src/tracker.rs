//! Counts open connections or requests, so that a drain can wait for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts what is open: connections of one I/O thread, or copies of requests that one dispatcher has queued.
#[derive(Debug, Default)]
pub struct Tracker {
    open: AtomicUsize,
    left: Notify,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct TrackerToken(Arc<Tracker>);

impl Tracker {
    /// One more.
    pub fn enter(self: &Arc<Tracker>) -> TrackerToken {
        self.open.fetch_add(1, Ordering::Relaxed);
        TrackerToken(self.clone())
    }

    /// Whether all have left.
    pub fn is_empty(&self) -> bool {
        self.open.load(Ordering::Relaxed) == 0
    }

    /// Waits until all have left.
    pub async fn empty(&self) {
        while !self.is_empty() {
            self.left.notified().await;
        }
    }
}

impl Drop for TrackerToken {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        self.0.left.notify_one();
    }
}
