//! Tells every open connection that the plane is shutting down.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::watch;

/// Tells one connection that the plane drains.
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
