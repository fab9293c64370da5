//! The bytes of a request as they arrive, and of an answer until it is written, counted against the memory for requests.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_codec::status::Status;
use tidegate_engine::disposal::LARGE_BLOCK;
use tidegate_engine::memory::{Reservation, SMALL, Share};

use crate::connections::held::Held;

/// Answers of at most this many bytes are not counted.
pub const UNCOUNTED: usize = 4 << 10;

/// Memory is taken this far ahead of what has come, at most.
const STEP: usize = 1 << 20;

/// From here on there is a buffer for all that is expected: memory that is not written yet costs nothing, and copying does.
const LARGE: usize = 64 << 10;

/// What a client can do where it sends more than there may be.
pub const LESS: &str = "send less at once, or have the engine's operator raise max_message_bytes";

/// A body or a message that arrives in pieces. What comes in one piece is used at once and not counted.
#[derive(Debug, Default)]
pub struct Arriving {
    whole: Option<Bytes>,
    pieces: Vec<u8>,
    memory: Option<Reservation>,
}

impl Arriving {
    /// What has come so far.
    #[inline]
    pub fn so_far(&self) -> &[u8] {
        self.whole.as_deref().unwrap_or(&self.pieces)
    }

    /// Adds a piece; the first one is only counted by `wait`.
    pub fn push(&mut self, piece: Bytes, expected: usize, share: &Arc<Share>) -> Result<(), Status> {
        if self.whole.is_none() && self.pieces.is_empty() {
            self.whole = Some(piece);
            return Ok(());
        }
        self.wait(expected, share)?;
        self.append(&piece, expected, share)
    }

    /// More is to come, `expected` bytes in all where that is known: what is there must be counted, in a buffer of its
    /// own, since a slice would keep all of the connection's buffer.
    pub fn wait(&mut self, expected: usize, share: &Arc<Share>) -> Result<(), Status> {
        match self.whole.take() {
            Some(first) => self.append(&first, expected, share),
            None => Ok(()),
        }
    }

    fn append(&mut self, piece: &[u8], expected: usize, share: &Arc<Share>) -> Result<(), Status> {
        let needed = self.pieces.len() + piece.len();
        let memory = self.memory.get_or_insert_with(|| share.reservation());
        if needed > memory.bytes() {
            let ahead = memory.bytes() + memory.bytes().min(STEP);
            let counted = needed.max(ahead.min(expected));
            memory.grow(counted - memory.bytes(), counted)?;
        }
        if needed > self.pieces.capacity() {
            let capacity = if needed > LARGE { expected } else { (2 * self.pieces.capacity()).min(expected) };
            let capacity = capacity.max(needed);
            self.pieces.reserve_exact(capacity - self.pieces.len());
        }
        self.pieces.extend_from_slice(piece);
        Ok(())
    }

    /// All that has come, and what must be kept for as long as it is used.
    pub fn finish(mut self) -> (Bytes, Option<Reservation>) {
        let (whole, pieces, memory) = (self.whole.take(), std::mem::take(&mut self.pieces), self.memory.take());
        let bytes = whole.unwrap_or_else(|| match &memory {
            Some(memory) if pieces.capacity() >= LARGE_BLOCK => {
                Bytes::from_owner(Block { bytes: pieces.into(), share: memory.share() })
            }
            _ => pieces.into(),
        });
        (bytes, memory)
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take().filter(|_| self.pieces.capacity() >= LARGE_BLOCK) {
            memory.dispose(std::mem::take(&mut self.pieces));
        }
    }
}

/// A large block, wherever it is dropped.
struct Block {
    bytes: Bytes,
    share: Arc<Share>,
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let bytes = self.bytes.len();
        self.share.dispose(std::mem::take(&mut self.bytes), bytes);
    }
}

/// An answer that is counted until it is written or its client has gone.
#[inline]
pub fn held(bytes: Bytes, share: &Arc<Share>) -> Bytes {
    if bytes.len() <= UNCOUNTED {
        return bytes;
    }
    let memory = share.note(bytes.len());
    counted(bytes, memory)
}

/// What counts a message that waits to be read: what is `taken` for it already, and the rest of it. Very many may wait, so
/// that none has anything of what is kept for small requests.
pub fn stays<'s>(
    taken: Option<Reservation>,
    message: &Bytes,
    share: impl FnOnce() -> &'s Arc<Share>,
) -> Result<Reservation, Status> {
    let of_large = taken.filter(|taken| taken.bytes() > SMALL);
    let mut memory = of_large.unwrap_or_else(|| share().reservation());
    memory.grow(message.len().saturating_sub(memory.bytes()), usize::MAX)?;
    Ok(memory)
}

/// An answer that is counted until its client has taken it, with nothing of what is kept for small requests: very many may
/// be asked for and not taken.
pub fn kept(bytes: Bytes, share: &Arc<Share>) -> Result<Bytes, Status> {
    if bytes.len() <= UNCOUNTED {
        return Ok(bytes);
    }
    let mut memory = share.reservation();
    memory.grow(bytes.len(), usize::MAX)?;
    Ok(counted(bytes, memory))
}

/// A message that is counted, by what was taken for it, for as long as it is there.
pub fn counted(bytes: Bytes, memory: Reservation) -> Bytes {
    Bytes::from_owner(Held::new(bytes, memory))
}
