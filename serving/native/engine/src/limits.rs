//! Limits that may change while the plane runs: message size, connections, the deadline of requests without one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::memory::Memory;

/// Limits that can change at any time; what was let in before stays.
#[derive(Debug)]
pub struct Limits {
    max_message_bytes: AtomicUsize,
    max_connections: AtomicUsize,
    request_timeout_us: AtomicU64,
    header_timeout: Duration,
    /// What requests may hold.
    pub memory: Arc<Memory>,
}

impl Limits {
    /// Those given.
    pub fn new(
        max_message_bytes: usize,
        max_connections: usize,
        request_timeout: Duration,
        header_timeout: Duration,
        request_memory_bytes: usize,
    ) -> Limits {
        Limits {
            max_message_bytes: AtomicUsize::new(max_message_bytes),
            max_connections: AtomicUsize::new(max_connections),
            request_timeout_us: AtomicU64::new(request_timeout.as_micros() as u64),
            header_timeout,
            memory: Arc::new(Memory::new(request_memory_bytes, max_message_bytes)),
        }
    }

    /// Changes those that can change, all or none; the text of the error names the one that cannot be.
    pub fn set(
        &self,
        max_message_bytes: usize,
        max_connections: usize,
        request_timeout: Duration,
    ) -> Result<(), String> {
        let positive = [
            ("max_message_bytes", max_message_bytes),
            ("max_connections", max_connections),
            ("request_timeout_ms", request_timeout.as_millis() as usize),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(format!("{name} is 0: it must be at least 1"));
        }
        self.max_message_bytes.store(max_message_bytes, Ordering::Relaxed);
        self.max_connections.store(max_connections, Ordering::Relaxed);
        self.request_timeout_us.store(request_timeout.as_micros() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Largest request body or message, in bytes.
    pub fn max_message_bytes(&self) -> usize {
        self.max_message_bytes.load(Ordering::Relaxed)
    }

    /// Most open connections over all endpoints.
    pub fn max_connections(&self) -> usize {
        self.max_connections.load(Ordering::Relaxed)
    }

    /// Deadline of requests that bring none.
    pub fn request_timeout(&self) -> Duration {
        Duration::from_micros(self.request_timeout_us.load(Ordering::Relaxed))
    }

    /// A request's head must be complete within this time.
    pub fn header_timeout(&self) -> Duration {
        self.header_timeout
    }
}
