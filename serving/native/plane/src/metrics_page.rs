//! The page of all metrics: written aside, and once for all who wait for it.

use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::Bytes;
use tidegate_codec::status::Status;
use tidegate_engine::engine::Engine;
use tokio::sync::Mutex;

use crate::aside::{Aside, LARGE};

struct Written {
    /// When its writing began: who asked later wants newer numbers.
    begun: Instant,
    text: String,
}

/// Hands a page to a client without a copy.
struct Shared(Arc<Written>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.text.as_bytes()
    }
}

/// The page that was written last, for as long as a client still reads it.
#[derive(Default)]
pub struct MetricsPage(Mutex<Weak<Written>>);

impl MetricsPage {
    /// The metrics as they are now or later, or why they cannot be had by the deadline.
    /// `tensorflow_serving` adds what TensorFlow Serving's dashboards read.
    pub async fn get(
        &self,
        engine: &Arc<Engine>,
        tensorflow_serving: bool,
        aside: &Aside,
        deadline: Instant,
    ) -> Result<Bytes, Status> {
        let asked = Instant::now();
        let mut last = self.0.lock().await;
        let recent = last.upgrade().filter(|written| written.begun >= asked);
        let written = match recent {
            Some(written) => written,
            None => {
                let engine = engine.clone();
                let write = move || {
                    let begun = Instant::now();
                    Arc::new(Written { begun, text: engine.render_metrics(tensorflow_serving) })
                };
                aside.run(LARGE, deadline, write).await?
            }
        };
        *last = Arc::downgrade(&written);
        Ok(Bytes::from_owner(Shared(written)))
    }
}
