//! The idle flush: closes the open batches of one I/O thread once its sockets have nothing more to read.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::batching::Queue;
use crate::sync::lock;

/// The queues of one lane that have an open batch.
#[derive(Debug, Default)]
pub(crate) struct IdleFlush {
    queues: Mutex<Vec<Arc<Queue>>>,
    requests: AtomicUsize,
    first: Notify,
}

impl IdleFlush {
    /// A request joined a batch of this queue.
    pub(crate) fn add(&self, queue: &Arc<Queue>) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut queues = lock(&self.queues);
        if queues.is_empty() {
            self.first.notify_one();
        }
        if !queues.iter().any(|other| Arc::ptr_eq(other, queue)) {
            queues.push(queue.clone());
        }
    }

    /// Closes batches for as long as the runtime lives.
    ///
    /// A yielding task runs again after all others and one look at the poller without waiting. When nobody joined in
    /// that time the thread is about to park. Acting at the park itself would close batches one look earlier and make
    /// them smaller.
    pub(crate) async fn run(&self, lane: usize) {
        loop {
            self.first.notified().await;
            let mut before = usize::MAX;
            while before != self.requests.load(Ordering::Relaxed) {
                before = self.requests.load(Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
            self.flush(lane);
        }
    }

    /// Closes the open batches now.
    pub(crate) fn flush(&self, lane: usize) {
        for queue in lock(&self.queues).drain(..) {
            queue.release_open(lane);
            queue.executors.wake();
        }
    }
}
