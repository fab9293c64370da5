//! Where finished batches wait for the I/O thread whose requests they answer.
//! Executor threads put; the I/O thread is woken once and takes all.

use std::sync::Mutex;

use tokio::sync::Notify;

use crate::batch::Finished;
use crate::lock;

#[derive(Debug, Default)]
struct Waiting {
    batches: Vec<Finished>,
    closed: bool,
}

/// Finished batches for one I/O thread.
#[derive(Debug, Default)]
pub struct Mailbox {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

impl Mailbox {
    /// Leaves a batch and wakes the I/O thread; drops it when that thread is gone, with everybody whom it could answer.
    pub fn put(&self, finished: Finished) {
        let mut waiting = lock(&self.waiting);
        if waiting.closed {
            drop(waiting);
            return drop(finished);
        }
        let first = waiting.batches.is_empty();
        waiting.batches.push(finished);
        drop(waiting);
        if first {
            self.arrived.notify_one();
        }
    }

    /// Takes all; waits until there is one. `taken` must come empty.
    pub async fn take(&self, taken: &mut Vec<Finished>) {
        loop {
            std::mem::swap(&mut lock(&self.waiting).batches, taken);
            if !taken.is_empty() {
                return;
            }
            self.arrived.notified().await;
        }
    }

    /// The I/O thread is gone.
    pub fn close(&self) {
        let mut waiting = lock(&self.waiting);
        waiting.closed = true;
        let left = std::mem::take(&mut waiting.batches);
        drop(waiting);
        drop(left);
    }
}
