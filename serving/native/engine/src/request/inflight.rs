//! Requests of one lane that wait for their answers, by slot. Each is taken out exactly once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::batching::Queue;
use crate::request::reply::Reply;
use crate::request_id::RequestId;

/// A request that waits.
#[derive(Debug)]
pub struct Pending<R> {
    /// The way back.
    pub reply: R,
    /// Its identity.
    pub id: RequestId,
    /// When its last byte had come.
    pub received: Instant,
    /// When it is answered as too late.
    pub deadline: Instant,
    /// Where it waits or runs.
    pub queue: Arc<Queue>,
}

#[derive(Debug)]
struct Slot<R> {
    generation: u32,
    pending: Option<Pending<R>>,
}

/// All waiting requests of one I/O thread.
#[derive(Debug)]
pub struct Inflight<R> {
    slots: Vec<Slot<R>>,
    free: Vec<u32>,
}

/// The clients of requests younger than this are not checked for being gone.
const SETTLED: Duration = Duration::from_millis(3);

impl<R> Default for Inflight<R> {
    fn default() -> Inflight<R> {
        Inflight { slots: Vec::new(), free: Vec::new() }
    }
}

impl<R: Reply> Inflight<R> {
    /// Puts a request in; the key takes it out once.
    pub fn insert(&mut self, pending: Pending<R>) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, pending: None });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.pending = Some(pending);
        u64::from(slot.generation) << 32 | u64::from(index)
    }

    /// Takes a request out, unless it was taken before.
    pub fn take(&mut self, key: u64) -> Option<Pending<R>> {
        let index = key as u32;
        let slot = self.slots.get_mut(index as usize)?;
        if u64::from(slot.generation) != key >> 32 {
            return None;
        }
        let pending = slot.pending.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        Some(pending)
    }

    /// Takes all out.
    pub fn take_all(&mut self) -> Vec<Pending<R>> {
        let keys = self.slots.iter().enumerate();
        let keys: Vec<u64> = keys.map(|(index, slot)| u64::from(slot.generation) << 32 | index as u64).collect();
        keys.into_iter().filter_map(|key| self.take(key)).collect()
    }

    /// Number of waiting requests.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes out those that are too late, and those whose client has gone.
    pub fn sweep(&mut self, now: Instant) -> Swept<R> {
        let mut swept = Swept { late: Vec::new(), gone: Vec::new() };
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            let Some(pending) = &mut slot.pending else { continue };
            let late = pending.deadline <= now;
            if !late && (now.saturating_duration_since(pending.received) < SETTLED || !pending.reply.is_gone()) {
                continue;
            }
            let key = u64::from(slot.generation) << 32 | index as u64;
            if let Some(pending) = self.take(key) {
                let list = if late { &mut swept.late } else { &mut swept.gone };
                list.push((key, pending));
            }
        }
        swept
    }
}

/// What a sweep took out.
#[derive(Debug)]
pub struct Swept<R> {
    /// To be answered DEADLINE_EXCEEDED.
    pub late: Vec<(u64, Pending<R>)>,
    /// Their clients have gone.
    pub gone: Vec<(u64, Pending<R>)>,
}
