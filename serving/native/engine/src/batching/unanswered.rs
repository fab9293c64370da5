//! What a model gave back and is not written as answers yet. It counts as its requests' memory, before the model runs where its
//! signature says how much it will be; and while there is much of it the model does not run, which may be faster than
//! its answers are written.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tidegate_codec::signatures::TensorSpec;
use tidegate_codec::status::Status;

use crate::batching::limits::OUTPUT_BYTES;
use crate::memory::{Reservation, Share};
use crate::sync::lock;

/// Outputs of a run that are not counted: the next answers are written from them at once.
const FEW: usize = 16 << 10;

/// Outputs of a run whose memory the model's allocator may keep.
const LARGE: usize = 1 << 20;

/// The model has its outputs in memory of its own until they are copied.
const COPIES: usize = 2;

/// Outputs of one signature.
#[derive(Debug)]
pub struct Unanswered {
    share: Arc<Share>,
    /// Bytes of one row, where the signature says so.
    row: Option<usize>,
    bytes: AtomicUsize,
    waiting: Mutex<()>,
    fewer: Condvar,
}

/// The outputs of one run, counted until this is dropped.
#[derive(Debug)]
pub struct Outputs {
    home: Arc<Unanswered>,
    memory: Reservation,
    bytes: usize,
}

impl Unanswered {
    /// None yet; they count to this share.
    pub fn new(share: Arc<Share>, outputs: &[TensorSpec]) -> Arc<Unanswered> {
        let row = row_bytes(outputs);
        let (bytes, waiting, fewer) = (AtomicUsize::new(0), Mutex::new(()), Condvar::new());
        Arc::new(Unanswered { share, row, bytes, waiting, fewer })
    }

    /// Waits until no more than the outputs of one batch are to be answered.
    pub fn wait(&self) {
        if self.bytes.load(Ordering::Acquire) <= OUTPUT_BYTES {
            return;
        }
        let mut waiting = lock(&self.waiting);
        while self.bytes.load(Ordering::Acquire) > OUTPUT_BYTES {
            waiting = self.fewer.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes memory for the outputs of so many rows of so many requests, as far as their size is known.
    pub fn expect(self: &Arc<Unanswered>, rows: usize, requests: usize) -> Result<Outputs, Status> {
        let bytes = self.row.unwrap_or(0).saturating_mul(rows).saturating_mul(COPIES);
        let mut memory = self.share.reservation();
        if bytes > COPIES * FEW {
            memory.grow(bytes, bytes / requests.max(1))?;
        }
        Ok(Outputs { home: self.clone(), memory, bytes: 0 })
    }
}

/// Bytes of one row of all outputs; none where only the model knows.
fn row_bytes(outputs: &[TensorSpec]) -> Option<usize> {
    outputs.iter().try_fold(0_usize, |row, spec| {
        let inner = spec.fixed_inner()?;
        Some(row.saturating_add(inner.iter().fold(spec.dtype.size(), |bytes, dim| bytes.saturating_mul(*dim))))
    })
}

impl Outputs {
    /// The model has run and gave back so much.
    pub fn settle(&mut self, bytes: usize) {
        let bytes = if bytes > FEW { bytes } else { 0 };
        match self.memory.bytes() {
            more if more >= bytes => self.memory.shrink(more - bytes),
            fewer => self.memory.note(bytes - fewer),
        }
        if bytes > LARGE {
            self.home.share.count_large_outputs();
        }
        if bytes > 0 {
            self.bytes = bytes;
            self.home.bytes.fetch_add(bytes, Ordering::AcqRel);
        }
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        if self.bytes > 0 && self.home.bytes.fetch_sub(self.bytes, Ordering::AcqRel) > OUTPUT_BYTES {
            // Whoever is about to wait has not looked yet, or waits by now.
            drop(lock(&self.home.waiting));
            self.home.fewer.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use tidegate_codec::dtype::DType;

    use super::*;
    use crate::memory::Memory;

    const MB: usize = 1 << 20;

    /// Of rows of 4 MB, or of rows whose size nobody knows.
    fn unanswered(memory: &Arc<Memory>, width: i64) -> Arc<Unanswered> {
        Unanswered::new(memory.of_model("m"), &[TensorSpec::new("y", DType::Float32, [-1, width])])
    }

    #[test]
    fn what_a_run_will_give_back_must_find_memory_before() {
        let memory = Arc::new(Memory::new(80 * MB, MB));
        let unanswered = unanswered(&memory, MB as i64);
        let mut outputs = unanswered.expect(4, 1).unwrap();
        assert_eq!(memory.used(), 32 * MB, "the model's own, and ours");
        outputs.settle(16 * MB);
        assert_eq!(memory.used(), 16 * MB);
        let refused = unanswered.expect(4, 1).unwrap_err();
        assert!(refused.message.contains("limit of 41943040 bytes"), "{}", refused.message);
        assert!(unanswered.expect(usize::MAX, 1).is_err());
        drop(outputs);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn what_only_the_model_knows_counts_once_it_is_there() {
        let memory = Arc::new(Memory::new(80 * MB, MB));
        let mut outputs = unanswered(&memory, -1).expect(4, 1).unwrap();
        assert_eq!(memory.used(), 0);
        outputs.settle(3 * MB);
        assert_eq!(memory.used(), 3 * MB);
    }

    #[test]
    fn a_model_waits_while_two_batches_are_to_be_answered() {
        let memory = Arc::new(Memory::new(1 << 30, MB));
        let unanswered = unanswered(&memory, MB as i64);
        let given = || {
            let mut outputs = unanswered.expect(4, 1).unwrap();
            outputs.settle(16 * MB);
            outputs
        };
        let first = given();
        unanswered.wait();
        let second = given();
        let (sender, went_on) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                unanswered.wait();
                sender.send(()).unwrap();
            });
            assert!(went_on.recv_timeout(Duration::from_millis(50)).is_err(), "it did not wait");
            drop(first);
            went_on.recv_timeout(Duration::from_secs(10)).unwrap();
        });
        drop(second);
    }
}
