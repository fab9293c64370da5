//! Bytes that count as requests' memory for as long as they are there, wherever they are dropped.

use bytes::Bytes;
use tidegate_engine::disposal::LARGE_BLOCK;
use tidegate_engine::memory::Reservation;

/// A message or an answer. Large ones are disposed of.
#[derive(Debug)]
pub struct Held {
    bytes: Bytes,
    /// None once it is disposed of.
    memory: Option<Reservation>,
}

impl Held {
    /// Counted by what was taken for it.
    pub fn new(bytes: Bytes, memory: Reservation) -> Held {
        Held { bytes, memory: Some(memory) }
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take().filter(|memory| memory.bytes() >= LARGE_BLOCK) {
            memory.dispose(std::mem::take(&mut self.bytes));
        }
    }
}
