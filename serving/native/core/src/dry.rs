//! Closes one I/O thread's open batches when its sockets run dry, which is when there is nothing left to join them.
//! The desk says which queues got requests; once the poller finds no more of them, their executors are woken.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::lock;
use crate::version::ServedSignature;

/// The queues of one lane that have an open batch.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    served_signatures: Mutex<Vec<Arc<ServedSignature>>>,
    requests: AtomicUsize,
    first: Notify,
}

impl Touched {
    /// A request joined a batch of this queue.
    pub(crate) fn add(&self, served: &Arc<ServedSignature>) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut served_signatures = lock(&self.served_signatures);
        if served_signatures.is_empty() {
            self.first.notify_one();
        }
        if !served_signatures.iter().any(|other| Arc::ptr_eq(other, served)) {
            served_signatures.push(served.clone());
        }
    }

    /// Closes batches for as long as the runtime lives.
    ///
    /// A yielding task runs again after all others and one look at the poller without waiting. When nobody joined in
    /// that time the thread is about to park. Acting at the park itself would close batches one look earlier and make
    /// them smaller.
    pub(crate) async fn close_when_dry(&self, lane: usize) {
        loop {
            self.first.notified().await;
            let mut before = usize::MAX;
            while before != self.requests.load(Ordering::Relaxed) {
                before = self.requests.load(Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
            self.close(lane);
        }
    }

    /// Closes the open batches now.
    pub(crate) fn close(&self, lane: usize) {
        for served in lock(&self.served_signatures).drain(..) {
            served.queue.ripen(lane);
            served.crew.wake();
        }
    }
}
