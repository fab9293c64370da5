//! Where finished batches wait for the I/O thread whose requests they answer, if there is one.
//! Executor threads put; the I/O thread is woken once and takes all. A desk without a thread answers at once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use tokio::sync::Notify;

use crate::batch::Finished;
use crate::desk::Desk;
use crate::lock;

#[derive(Debug, Default)]
struct Waiting {
    batches: Vec<Finished>,
    closed: bool,
}

impl std::fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mailbox")
    }
}

/// Finished batches for one I/O thread.
#[derive(Default)]
pub struct Mailbox {
    waiting: Mutex<Waiting>,
    arrived: Notify,
    at_once: OnceLock<Weak<Desk>>,
}

impl Mailbox {
    /// Whoever puts a batch has this desk answer it.
    pub fn hand_out_at_once(&self, desk: &Arc<Desk>) {
        let _ = self.at_once.set(Arc::downgrade(desk));
    }

    /// Leaves a batch and wakes the I/O thread; drops it when that thread is gone, with everybody whom it could answer.
    pub fn put(&self, finished: Finished) {
        if let Some(desk) = self.at_once.get() {
            if let Some(desk) = desk.upgrade() {
                // A fault here must not end the executor thread.
                let _ = catch_unwind(AssertUnwindSafe(|| desk.answer_batch(finished)));
            }
            return;
        }
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
