//! The budget in bytes for all that requests hold: bodies that come, inflated bytes, decoded rows that wait, and answers
//! that are not written yet. What is taken is taken before it is filled, and given back when its reservation is dropped.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tidegate_codec::status::Status;

use crate::disposal::Disposal;
use crate::per_thread::Sum;
use crate::sync::lock;

/// A request of at most this many bytes may use the reserve, so that it is served while large ones are refused.
pub const SMALL: usize = 64 << 10;

/// Threads keep so much of what they take and give back to themselves before they tell all others: a part of the limit,
/// and at most so many bytes.
const OF_LIMIT: usize = 4096;
const MOST_KEPT: usize = 64 << 10;

/// All memory that requests may hold.
#[derive(Debug)]
pub struct Memory {
    limit: usize,
    largest_message: usize,
    used: Sum,
    refused: AtomicU64,
    large_arrays: AtomicU64,
    models: Mutex<HashMap<String, Weak<Share>>>,
    logs: Mutex<HashMap<String, Weak<Share>>>,
    /// Where large blocks go.
    pub disposal: Disposal,
}

/// What one connection or one model may hold of it.
#[derive(Debug)]
pub struct Share {
    memory: Arc<Memory>,
    used: Used,
    limit: usize,
    /// Whose it is, for messages.
    owner: &'static str,
}

/// What a share has taken.
#[derive(Debug)]
enum Used {
    /// Of few threads at once.
    One(AtomicUsize),
    /// Of all I/O threads: none waits for what the others count.
    Many(Box<Sum>),
}

/// Memory that is taken until this is dropped.
#[derive(Debug)]
pub struct Reservation {
    share: Arc<Share>,
    bytes: usize,
}

impl Memory {
    /// A budget of this many bytes. A share is never so small that one message of the largest size does not fit.
    pub fn new(limit: usize, largest_message: usize) -> Memory {
        let (used, refused) = (sum_below(limit), AtomicU64::new(0));
        let (models, logs, disposal) = (Mutex::default(), Mutex::default(), Disposal::default());
        let large_arrays = AtomicU64::new(0);
        Memory { limit, largest_message, used, refused, large_arrays, models, logs, disposal }
    }

    /// Bytes that requests may hold.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes that requests hold.
    pub fn used(&self) -> usize {
        usize::try_from(self.used.exact()).unwrap_or(0)
    }

    /// Requests that were refused for want of memory.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// How often models made large outputs or took large inputs, in memory of their own.
    pub fn large_arrays(&self) -> u64 {
        self.large_arrays.load(Ordering::Relaxed)
    }

    /// Kept for small requests.
    fn reserve(&self) -> usize {
        self.limit / 8
    }

    fn share(self: &Arc<Memory>, limit: usize, owner: &'static str, used: Used) -> Arc<Share> {
        let large = self.limit - self.reserve();
        let limit = limit.max(self.largest_message.saturating_mul(2)).min(large);
        Arc::new(Share { memory: self.clone(), used, limit, owner })
    }

    /// The share of a new connection: a quarter.
    pub fn of_connection(self: &Arc<Memory>) -> Arc<Share> {
        self.share(self.limit / 4, "this connection's", Used::default())
    }

    /// The share of a model, which all its versions have in common: half.
    pub fn of_model(self: &Arc<Memory>, name: &str) -> Arc<Share> {
        let used = || Used::Many(Box::new(sum_below(self.limit / 2)));
        known_or(&self.models, name, || self.share(self.limit / 2, "the model's", used()))
    }

    /// What waits to be logged of a model, all its versions together. The log has a bound of its own for it.
    pub fn of_log(self: &Arc<Memory>, name: &str) -> Arc<Share> {
        known_or(&self.logs, name, || self.share(self.limit, "the log's", Used::default()))
    }

    #[cold]
    fn refuse(&self, bytes: usize, owner: &str, limit: usize) -> Status {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let all = self.limit;
        Status::exhausted(format!(
            "{owner} memory for requests is used up: {bytes} bytes more would pass the limit of {limit} bytes \
             (request_memory_bytes is {all}): send less at a time, read what is answered, or try again later"
        ))
    }
}

/// A sum that is to stay below a limit.
fn sum_below(limit: usize) -> Sum {
    Sum::new((limit / OF_LIMIT).min(MOST_KEPT))
}

fn known_or(shares: &Mutex<HashMap<String, Weak<Share>>>, name: &str, make: impl FnOnce() -> Arc<Share>) -> Arc<Share> {
    let mut shares = lock(shares);
    if let Some(share) = shares.get(name).and_then(Weak::upgrade) {
        return share;
    }
    shares.retain(|_, share| share.strong_count() > 0);
    let share = make();
    shares.insert(name.to_owned(), Arc::downgrade(&share));
    share
}

impl Default for Used {
    fn default() -> Used {
        Used::One(AtomicUsize::new(0))
    }
}

impl Used {
    /// Takes bytes, unless more than the limit would be taken then.
    #[inline]
    fn take(&self, bytes: usize, limit: usize) -> bool {
        let fits = match self {
            Used::One(used) => used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= limit,
            // A sum does not take every number.
            Used::Many(_) if bytes > limit => return false,
            Used::Many(sum) => fits(sum, bytes, limit),
        };
        if !fits {
            self.sub(bytes);
        }
        fits
    }

    fn add(&self, bytes: usize) {
        match self {
            Used::One(used) => _ = used.fetch_add(bytes, Ordering::Relaxed),
            Used::Many(sum) => _ = sum.add(bytes as i64),
        }
    }

    #[inline]
    fn sub(&self, bytes: usize) {
        match self {
            Used::One(used) => _ = used.fetch_sub(bytes, Ordering::Relaxed),
            Used::Many(sum) => _ = sum.add(-(bytes as i64)),
        }
    }

    fn exact(&self) -> usize {
        match self {
            Used::One(used) => used.load(Ordering::Relaxed),
            Used::Many(sum) => usize::try_from(sum.exact()).unwrap_or(0),
        }
    }
}

/// Adds to a sum. Whether it is no more than the limit now.
#[inline]
fn fits(sum: &Sum, bytes: usize, limit: usize) -> bool {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    sum.add(bytes as i64).saturating_add(sum.slack()) <= limit || sum.exact() <= limit
}

impl Share {
    /// Takes bytes for a request of `whole` bytes so far, or says which limit they would pass.
    #[inline]
    fn take(&self, bytes: usize, whole: usize) -> Result<(), Status> {
        let memory = &*self.memory;
        let small = whole <= SMALL;
        let (all, own) = match small {
            true => (memory.limit, self.limit.saturating_add(memory.reserve() / 2)),
            false => (memory.limit - memory.reserve(), self.limit),
        };
        if !self.used.take(bytes, own) {
            return Err(memory.refuse(bytes, self.owner, own));
        }
        if !fits(&memory.used, bytes, all) {
            self.give_back(bytes);
            return Err(memory.refuse(bytes, "the server's", all));
        }
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        self.used.sub(bytes);
        self.memory.used.add(-(bytes as i64));
    }

    /// Nothing yet.
    pub fn reservation(self: &Arc<Share>) -> Reservation {
        Reservation { share: self.clone(), bytes: 0 }
    }

    /// Bytes that it holds.
    pub fn used(&self) -> usize {
        self.used.exact()
    }

    /// A model made large outputs, or took large inputs, in memory of its own.
    pub fn count_large_arrays(&self) {
        self.memory.large_arrays.fetch_add(1, Ordering::Relaxed);
    }

    /// Drops a large block, of which so many bytes were written, on a thread of its own. It counts until then, unless
    /// large requests would find no room for as much.
    pub fn dispose(self: &Arc<Share>, block: impl Send + 'static, bytes: usize) {
        let memory = self.note_spare(bytes).unwrap_or_else(|| self.reservation());
        self.memory.disposal.put(Box::new((block, memory)));
    }

    /// Bytes that are there already, unless large requests would find no room for as much.
    pub fn note_spare(self: &Arc<Share>, bytes: usize) -> Option<Reservation> {
        let memory = &*self.memory;
        let free = (memory.limit - memory.reserve()).saturating_sub(memory.used());
        (bytes <= free).then(|| self.note(bytes))
    }

    /// Bytes that are there already, such as an answer that was just written.
    pub fn note(self: &Arc<Share>, bytes: usize) -> Reservation {
        self.used.add(bytes);
        self.memory.used.add(bytes as i64);
        Reservation { share: self.clone(), bytes }
    }
}

impl Reservation {
    /// Takes bytes more, for a request of `whole` bytes with them.
    #[inline]
    pub fn grow(&mut self, bytes: usize, whole: usize) -> Result<(), Status> {
        if bytes > 0 {
            self.share.take(bytes, whole)?;
            self.bytes += bytes;
        }
        Ok(())
    }

    /// Counts bytes more that are there already.
    pub fn note(&mut self, bytes: usize) {
        self.bytes += std::mem::take(&mut self.share.note(bytes).bytes);
    }

    /// Gives some back.
    #[inline]
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        if bytes > 0 {
            self.share.give_back(bytes);
            self.bytes -= bytes;
        }
    }

    /// Takes a part out, which goes back on its own.
    pub fn split(&mut self, bytes: usize) -> Reservation {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Reservation { share: self.share.clone(), bytes }
    }

    /// Adds another of the same share.
    pub fn join(&mut self, mut other: Reservation) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// What it is a part of.
    pub fn share(&self) -> Arc<Share> {
        self.share.clone()
    }

    /// Drops the block that this was taken for on a thread of its own.
    pub fn dispose(self, block: impl Send + 'static) {
        let share = self.share.clone();
        share.memory.disposal.put(Box::new((block, self)));
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    fn memory() -> Arc<Memory> {
        Arc::new(Memory::new(80 * MB, MB))
    }

    #[test]
    fn what_is_taken_is_given_back_when_dropped() {
        let memory = memory();
        let mut taken = memory.of_model("m").reservation();
        taken.grow(3 * MB, 3 * MB).unwrap();
        let half = taken.split(MB);
        assert_eq!((memory.used(), taken.bytes(), half.bytes()), (3 * MB, 2 * MB, MB));
        drop((taken, half));
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn one_connection_gets_a_quarter_one_model_half_and_all_large_ones_leave_a_reserve() {
        let memory = memory();
        let connection = memory.of_connection();
        let mut taken = connection.reservation();
        taken.grow(20 * MB, 20 * MB).unwrap();
        let refused = taken.grow(MB, 21 * MB).unwrap_err();
        assert!(refused.message.contains("limit of 20971520 bytes"), "{}", refused.message);
        let mut rows = memory.of_model("m").reservation();
        rows.grow(40 * MB, 40 * MB).unwrap();
        assert!(memory.of_model("m").reservation().grow(MB, MB).is_err(), "both are of one model");
        let mut others = memory.of_model("n").reservation();
        others.grow(10 * MB, 10 * MB).unwrap();
        assert!(others.grow(MB, 11 * MB).is_err(), "the reserve is for small requests");
        others.grow(SMALL, SMALL).unwrap();
        assert_eq!((memory.refused(), memory.used()), (3, 70 * MB + SMALL));
    }

    #[test]
    fn many_threads_together_get_what_there_is_and_no_more() {
        // A model has half, and half of the reserve for small requests.
        for (models, limit) in [(8, 80 * MB), (1, 45 * MB)] {
            let memory = memory();
            let of_model: Vec<_> = (0..models).map(|at| memory.of_model(&format!("m{at}"))).collect();
            let held = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8)
                    .map(|at| {
                        let mut taken = of_model[at % models].reservation();
                        scope.spawn(move || {
                            while taken.grow(SMALL, SMALL).is_ok() {}
                            taken
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            });
            let taken: usize = held.iter().map(Reservation::bytes).sum();
            assert_eq!((memory.used(), of_model.iter().map(|share| share.used()).sum()), (taken, taken));
            assert!((limit - 8 * SMALL..=limit).contains(&taken), "{taken}");
            drop(held);
            assert_eq!((memory.used(), of_model[0].used()), (0, 0));
        }
    }

    #[test]
    fn a_share_takes_one_largest_message_and_its_rows_on_a_small_machine() {
        let memory = Arc::new(Memory::new(80 * MB, 32 * MB));
        assert!(memory.of_connection().reservation().grow(64 * MB, 64 * MB).is_ok());
    }
}
