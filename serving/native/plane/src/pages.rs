//! Pages about all models, written aside. Whoever asks for one that others wait for already has it together with them, so
//! that a crowd costs about as much as one who asks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use tidegate_codec::status::Status;
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::sync::lock;
use tokio::sync::oneshot;

use crate::aside::Aside;
use crate::security::access::Grant;

/// What a page tells of all models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum About {
    /// All versions, or those that are ready.
    Index {
        /// Whether only those that are ready.
        ready: bool,
    },
    /// The names of those that are ready.
    Names,
    /// How they are called.
    OpenApi,
    /// What they were asked.
    Statistics,
    /// What a fleet's router counts of them.
    Metrics,
}

/// A page as it is sent, or why there is none.
pub type Written = Result<Bytes, Status>;

/// Whose pages are the same: of one endpoint, and with one grant, by its address, which whoever writes keeps.
type Key = (About, u8, usize);
type Waiting = HashMap<Key, Vec<oneshot::Sender<Written>>>;

/// Who waits for which page.
#[derive(Debug, Default)]
pub struct Pages(Arc<Mutex<Waiting>>);

impl Pages {
    /// A page of which nothing was written before it was asked for; `write` may be another's who asked for the same.
    pub async fn get(
        &self,
        aside: &Arc<Aside>,
        (about, endpoint): (About, Endpoint),
        grant: Option<Arc<Grant>>,
        deadline: Instant,
        write: impl FnOnce(Option<&Grant>) -> Written + Send + 'static,
    ) -> Written {
        let key = (about, endpoint as u8, grant.as_ref().map_or(0, |grant| Arc::as_ptr(grant).addr()));
        let (sender, page) = oneshot::channel();
        let is_first = {
            let mut waiting = lock(&self.0);
            let own = waiting.entry(key).or_default();
            own.push(sender);
            own.len() == 1
        };
        if is_first {
            let (asked, aside) = (Asked { waiting: self.0.clone(), key: Some(key) }, aside.clone());
            tokio::spawn(async move {
                if let Ok(turn) = aside.list_turn().await {
                    turn.begin(move || asked.answer(|| write(grant.as_deref())));
                }
            });
        }
        aside.told(page, deadline).await?
    }
}

/// Those who wait for a page that is not begun; where this is dropped they learn that it never will be.
struct Asked {
    waiting: Arc<Mutex<Waiting>>,
    key: Option<Key>,
}

impl Asked {
    /// Writes the page, unless all have gone. Who comes from now on waits for the next one.
    fn answer(mut self, write: impl FnOnce() -> Written) {
        let mut waiting = self.take();
        waiting.retain(|one| !one.is_closed());
        if waiting.is_empty() {
            return;
        }
        let written = write();
        for one in waiting {
            let _ = one.send(written.clone());
        }
    }

    fn take(&mut self) -> Vec<oneshot::Sender<Written>> {
        let own = self.key.take().and_then(|key| lock(&self.waiting).remove(&key));
        own.unwrap_or_default()
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        drop(self.take());
    }
}
