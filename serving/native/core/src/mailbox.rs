//! Where finished batches wait for the I/O thread whose requests they answer.
//! Executor threads put; the I/O thread is woken once and takes all.

use std::sync::Mutex;

use tokio::sync::Notify;

use crate::batch::Finished;
use crate::lock;

/// Finished batches for one I/O thread.
#[derive(Debug, Default)]
pub struct Mailbox {
    waiting: Mutex<Vec<Finished>>,
    arrived: Notify,
}

impl Mailbox {
    /// Leaves a batch and wakes the I/O thread.
    pub fn put(&self, finished: Finished) {
        let mut waiting = lock(&self.waiting);
        let first = waiting.is_empty();
        waiting.push(finished);
        drop(waiting);
        if first {
            self.arrived.notify_one();
        }
    }

    /// Takes all; waits until there is one. `taken` must come back empty.
    pub async fn take(&self, taken: &mut Vec<Finished>) {
        loop {
            std::mem::swap(&mut *lock(&self.waiting), taken);
            if !taken.is_empty() {
                return;
            }
            self.arrived.notified().await;
        }
    }
}
