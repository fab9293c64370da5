//! The word that the plane is draining, and who is still here.
//! The plane gives it once; connections poll their watch, and the I/O threads wait until theirs are closed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::sync::{Notify, watch};

/// One connection's ear for the drain.
pub struct DrainWatch {
    receiver: watch::Receiver<bool>,
    listening: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl DrainWatch {
    /// Listens to the plane's word.
    pub fn new(receiver: watch::Receiver<bool>) -> DrainWatch {
        DrainWatch { receiver, listening: None }
    }

    /// Ready once draining. Cheap while it is not: the waker is registered at the first call only, so that all calls
    /// must come from one task.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if *self.receiver.borrow() {
            return Poll::Ready(());
        }
        if self.listening.is_none() {
            let mut receiver = self.receiver.clone();
            let mut listening: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
                let _ = receiver.wait_for(|draining| *draining).await;
            });
            let heard = listening.as_mut().poll(context);
            self.listening = Some(listening);
            return heard;
        }
        Poll::Pending
    }
}

/// Counts what is here: the open connections of one I/O thread, or the copies of requests that one desk has queued.
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
