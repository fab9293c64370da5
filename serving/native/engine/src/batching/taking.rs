//! The memory that one request takes while it is decoded.

use tidegate_codec::status::Status;
use tidegate_codec::tensors::Room;

use crate::memory::Reservation;

/// Decoding takes memory in steps of at least this much.
const STEP: usize = 16 << 10;

/// The memory that one request takes while it is decoded.
pub(crate) struct Taking<'a> {
    memory: &'a mut Reservation,
    asked: usize,
    taken: usize,
    most: usize,
    /// Whether the request wanted more than it may have here.
    pub(crate) passed: bool,
}

impl<'a> Taking<'a> {
    /// Nothing yet; a request that wants more than `most` bytes is stopped.
    pub(crate) fn new(memory: &'a mut Reservation, most: usize) -> Taking<'a> {
        Taking { memory, asked: 0, taken: 0, most, passed: false }
    }

    /// The request is decoded and takes just this much.
    #[inline]
    pub(crate) fn settle(self, bytes: usize) -> Result<(), Status> {
        if bytes <= self.taken {
            self.memory.shrink(self.taken - bytes);
            return Ok(());
        }
        let grown = self.memory.grow(bytes - self.taken, bytes);
        if grown.is_err() {
            self.memory.shrink(self.taken);
        }
        grown
    }
}

impl Room for Taking<'_> {
    fn take(&mut self, bytes: usize) -> Result<(), Status> {
        self.asked = self.asked.saturating_add(bytes);
        if self.asked > self.most {
            self.passed = true;
            return Err(Status::internal("the request is decoded elsewhere"));
        }
        if self.asked > self.taken.max(STEP) {
            let more = (self.asked - self.taken).max(STEP);
            self.memory.grow(more, self.asked)?;
            self.taken += more;
        }
        Ok(())
    }
}
