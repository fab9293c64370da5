//! What a model gave back and is not written as answers yet. It counts as its requests' memory, before the model runs where its
//! signature says how much it will be; and while there is much of it the model does not run, which may be faster than
//! its answers are written.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tidegate_codec::signatures::TensorSpec;
use tidegate_codec::status::Status;

use crate::batching::finished::Part;
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
    /// The model has run: this is what it gave.
    pub fn settle(&mut self, parts: &[Part]) {
        let outputs = parts.iter().filter_map(|part| part.outputs.as_ref().ok()).flatten();
        let bytes: usize = outputs.map(|output| output.column.byte_size()).sum();
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
