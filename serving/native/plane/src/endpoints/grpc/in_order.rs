//! Calls of one connection that must reach their models in the order in which they came: while the message of one is read
//! aside, those behind it wait.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

/// Those of a connection. They take their turns in the order in which they first wait for them.
#[derive(Default)]
pub struct InOrder(Arc<Mutex<()>>);

/// The place of one call among them.
pub struct Place(Arc<Mutex<()>>);

impl InOrder {
    /// Whether one is read aside, or waits for one that is.
    pub fn is_busy(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// A place behind all others.
    pub fn place(&self) -> Place {
        Place(self.0.clone())
    }
}

impl Place {
    /// The call's turn, which is over when this is dropped.
    pub async fn turn(self) -> (Place, OwnedMutexGuard<()>) {
        let guard = self.0.clone().lock_owned().await;
        (self, guard)
    }
}
