//! What a model gave back and is not written as answers yet. It counts as its requests' memory, before the model runs where its
//! signature says how much it will be; and while there is much of it the model, which may be faster than its answers are
//! written, runs only what gives back little.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_codec::signatures::TensorSpec;
use tidegate_codec::status::Status;

use crate::batching::executor_pool::ExecutorPool;
use crate::batching::limits::OUTPUT_BYTES;
use crate::memory::{Reservation, Share};

/// Outputs of a run that are not counted: the next answers are written from them at once.
const FEW: usize = 16 << 10;

/// Inputs or outputs of a run whose memory the model's allocator may keep.
pub(super) const LARGE: usize = 1 << 20;

/// The model has its outputs in memory of its own until they are copied.
const COPIES: usize = 2;

/// Outputs of one signature.
#[derive(Debug)]
pub struct Unanswered {
    share: Arc<Share>,
    /// Bytes of one row, where the signature says so.
    row: Option<usize>,
    /// Bytes of the largest row so far; 0 before there was one.
    largest_row: AtomicUsize,
    bytes: AtomicUsize,
    executors: Arc<ExecutorPool>,
}

/// The outputs of one run, counted until this is dropped.
#[derive(Debug)]
pub struct Outputs {
    home: Arc<Unanswered>,
    memory: Reservation,
    rows: usize,
    bytes: usize,
}

impl Unanswered {
    /// None yet; they count to this share. The threads are woken when there is no longer much.
    pub fn new(share: Arc<Share>, outputs: &[TensorSpec], executors: Arc<ExecutorPool>) -> Arc<Unanswered> {
        let row = row_bytes(outputs);
        let (largest_row, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Unanswered { share, row, largest_row, bytes, executors })
    }

    /// Whether more than the outputs of one batch are to be answered.
    #[inline]
    pub fn is_much(&self) -> bool {
        self.bytes.load(Ordering::Acquire) > OUTPUT_BYTES
    }

    /// Whether so many rows give back so little that their answers are written at once; not where nobody knows.
    pub fn is_little(&self, rows: usize) -> bool {
        let row = self.row.or_else(|| Some(self.largest_row.load(Ordering::Relaxed)).filter(|row| *row > 0));
        row.is_some_and(|row| row.saturating_mul(rows) <= FEW)
    }

    /// Takes memory for the outputs of so many rows of so many requests, as far as their size is known.
    pub fn expect(self: &Arc<Unanswered>, rows: usize, requests: usize) -> Result<Outputs, Status> {
        let bytes = self.row.unwrap_or(0).saturating_mul(rows).saturating_mul(COPIES);
        let mut memory = self.share.reservation();
        if bytes > COPIES * FEW {
            memory.grow(bytes, bytes / requests.max(1))?;
        }
        Ok(Outputs { home: self.clone(), memory, rows, bytes: 0 })
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
        if self.home.row.is_none() {
            self.home.largest_row.fetch_max(bytes.div_ceil(self.rows.max(1)), Ordering::Relaxed);
        }
        let bytes = if bytes > FEW { bytes } else { 0 };
        match self.memory.bytes() {
            more if more >= bytes => self.memory.shrink(more - bytes),
            fewer => self.memory.note(bytes - fewer),
        }
        if bytes > LARGE {
            self.home.share.count_large_arrays();
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
            self.home.executors.wake_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use tidegate_codec::dtype::DType;

    use super::*;
    use crate::batching::ThreadStarter;
    use crate::memory::Memory;

    const MB: usize = 1 << 20;

    struct Nobody;

    impl ThreadStarter for Nobody {
        fn start_thread(&self) {}
    }

    /// Of rows of so many floats, or of rows whose size nobody knows.
    fn unanswered(memory: &Arc<Memory>, width: i64) -> Arc<Unanswered> {
        let nobody: Weak<Nobody> = Weak::new();
        let pool = Arc::new(ExecutorPool::new(nobody));
        Unanswered::new(memory.of_model("m"), &[TensorSpec::new("y", DType::Float32, [-1, width])], pool)
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
    fn two_large_batches_that_are_to_be_answered_are_much() {
        let memory = Arc::new(Memory::new(1 << 30, MB));
        let unanswered = unanswered(&memory, MB as i64);
        let given = || {
            let mut outputs = unanswered.expect(4, 1).unwrap();
            outputs.settle(16 * MB);
            outputs
        };
        let first = given();
        assert!(!unanswered.is_much());
        let second = given();
        assert!(unanswered.is_much());
        drop(first);
        assert!(!unanswered.is_much());
        drop(second);
    }

    #[test]
    fn how_much_rows_give_back_is_what_the_signature_says_or_what_the_largest_were() {
        let memory = Arc::new(Memory::new(1 << 30, MB));
        let told = unanswered(&memory, 4);
        assert!(told.is_little(FEW / 16) && !told.is_little(FEW / 16 + 1));
        let learned = unanswered(&memory, -1);
        assert!(!learned.is_little(1), "nobody knows");
        for (rows, bytes) in [(10, 160), (1000, 32_000), (10, 160)] {
            learned.expect(rows, 1).unwrap().settle(bytes);
        }
        assert!(learned.is_little(FEW / 32) && !learned.is_little(FEW / 32 + 1));
    }
}
