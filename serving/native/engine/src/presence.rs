//! Counts what is still here, so that a drain can wait until it is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts what is here: the open connections of one I/O thread, or the copies of requests that one dispatcher has queued.
#[derive(Debug, Default)]
pub struct Presence {
    open: AtomicUsize,
    left: Notify,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct Guest(Arc<Presence>);

impl Presence {
    /// One more.
    pub fn enter(self: &Arc<Presence>) -> Guest {
        self.open.fetch_add(1, Ordering::Relaxed);
        Guest(self.clone())
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

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        self.0.left.notify_one();
    }
}
