//! Requests whose model is on no node: they wait for one, within bounds, and whoever places models is told.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use tidegate_codec::status::Status;
use tidegate_engine::sync::lock;

use crate::settings::ColdLimits;

/// All that wait.
#[derive(Debug)]
pub struct ColdRequests {
    /// What is bounded.
    pub limits: ColdLimits,
    requests: AtomicUsize,
    bytes: AtomicUsize,
    wanted: Mutex<Option<Sender<String>>>,
}

/// The place of a request that waits.
pub struct Place<'a> {
    cold: &'a ColdRequests,
    bytes: usize,
}

impl ColdRequests {
    /// None waits; names of models that are wanted go to the sender.
    pub fn new(limits: ColdLimits, wanted: Sender<String>) -> ColdRequests {
        let (requests, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        ColdRequests { limits, requests, bytes, wanted: Mutex::new(Some(wanted)) }
    }

    /// A place for a request of so many bytes, or why there is none.
    pub fn enter(&self, bytes: usize) -> Result<Place<'_>, Status> {
        let requests = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let all = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let place = Place { cold: self, bytes };
        let ColdLimits { requests: most, bytes: most_bytes, .. } = self.limits;
        if requests > most || all > most_bytes {
            drop(place);
            return Err(Status::exhausted(format!(
                "too many requests wait for models that no node has loaded: the limits are {most} requests \
                 (cold_requests) and {most_bytes} bytes (cold_bytes)"
            )));
        }
        Ok(place)
    }

    /// Tells that a model is wanted.
    pub fn tell(&self, model: &str) {
        if let Some(wanted) = &*lock(&self.wanted) {
            // Whoever hears it ends only when the router does.
            let _ = wanted.send(model.to_owned());
        }
    }

    /// Tells no more; the thread that hears it ends.
    pub fn close(&self) {
        lock(&self.wanted).take();
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.cold.requests.fetch_sub(1, Ordering::Relaxed);
        self.cold.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
