//! Requests of one lane that wait for their answers, by slot. Each is taken out exactly once.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::batching::Place;
use crate::request::reply::{Reply, SILENT};
use crate::request_id::RequestId;
use crate::serving_map::HeldQueue;

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
    pub queue: HeldQueue,
    /// Its batch there, once it has one.
    pub place: Option<Place>,
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
    /// The generation of new slots: above that of any slot that was there before.
    first_generation: u32,
    /// Deadlines of requests that have a place, the earliest first, and of some that are answered already.
    deadlines: BinaryHeap<Reverse<(Instant, u64)>>,
    /// Those among them that pass within HORIZON, the earliest first.
    soon: VecDeque<Soon>,
    /// When the first of these is to be answered.
    due: Option<Instant>,
    /// So many of the first are known to be due.
    known_due: usize,
    /// The slot at which the next look for clients that have gone begins.
    next_look: usize,
}

/// A request whose deadline passes soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Soon {
    deadline: Instant,
    key: u64,
    /// Before this it is not answered, however many there are.
    earliest: Instant,
}

/// Where so many deadlines pass together that the last would be answered later than LATE behind its own, the first are
/// answered up to LEAD before theirs, or a tenth of their time.
const LATE: Duration = Duration::from_millis(7);
const LEAD: Duration = Duration::from_millis(12);

/// So far ahead it is looked for deadlines that pass together: LEAD, the pause between two looks, and what it takes to find
/// very many.
const HORIZON: Duration = Duration::from_millis(22);

/// So many deadlines of answered requests may be kept beside as many as there are requests that wait.
const STALE: usize = 64;

/// Slots that are kept when they are empty.
const KEPT: usize = 256;

/// A look for clients that have gone asks so many of them, and looks at no more slots than that.
const ASKED: usize = 256;
const LOOKED_AT: usize = 2048;

/// The clients of requests younger than this are not checked for being gone.
const SETTLED: Duration = Duration::from_millis(3);

impl<R> Default for Inflight<R> {
    fn default() -> Inflight<R> {
        Inflight {
            slots: Vec::new(),
            free: Vec::new(),
            first_generation: 0,
            deadlines: BinaryHeap::new(),
            soon: VecDeque::new(),
            due: None,
            known_due: 0,
            next_look: 0,
        }
    }
}

impl<R: Reply> Inflight<R> {
    /// Puts a request in; the key takes it out once.
    pub fn insert(&mut self, pending: Pending<R>) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: self.first_generation, pending: None });
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
        if let (Some(all), Some(place)) = (pending.reply.rows_under_way(), &pending.place) {
            all.fetch_sub(place.rows, Ordering::Relaxed);
        }
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

    /// Gives memory back that a flood needed, as far as nobody waits in it. Low slots are used first from now on, so that
    /// high ones come free.
    pub fn shrink(&mut self) {
        if self.slots.len() <= KEPT.max(4 * self.len()) {
            return;
        }
        while let Some(last) = self.slots.pop_if(|slot| slot.pending.is_none()) {
            self.first_generation = self.first_generation.max(last.generation);
            if self.slots.len() <= KEPT {
                break;
            }
        }
        let left = self.slots.len() as u32;
        self.free.retain(|index| *index < left);
        self.free.sort_unstable_by_key(|index| Reverse(*index));
        self.slots.shrink_to(2 * self.slots.len());
        self.free.shrink_to(2 * self.slots.len());
        self.deadlines.shrink_to(2 * self.deadlines.len() + STALE);
        self.soon.shrink_to(2 * self.soon.len() + STALE);
    }

    /// A request has its place: from now on it is answered when its deadline passes. Nothing happens to one that is
    /// answered already.
    pub fn place(&mut self, key: u64, place: Place) {
        let Some(pending) = self.find(key) else { return };
        if let Some(all) = pending.reply.rows_under_way() {
            all.fetch_add(place.rows, Ordering::Relaxed);
        }
        pending.place = Some(place);
        let deadline = pending.deadline;
        self.deadlines.push(Reverse((deadline, key)));
        if self.deadlines.len() > 2 * self.len() + STALE {
            let slots = &self.slots;
            self.deadlines.retain(|Reverse((_, key))| {
                let slot = slots.get(*key as u32 as usize);
                slot.is_some_and(|slot| slot.pending.is_some() && u64::from(slot.generation) == key >> 32)
            });
        }
    }

    /// The connection of a request, while it waits.
    pub fn connection_of(&mut self, key: u64) -> Option<usize> {
        self.find(key).map(|pending| pending.reply.connection())
    }

    fn find(&mut self, key: u64) -> Option<&mut Pending<R>> {
        let slot = self.slots.get_mut(key as u32 as usize)?;
        slot.pending.as_mut().filter(|_| u64::from(slot.generation) == key >> 32)
    }

    /// When the next request is to be answered as too late; perhaps one that is answered already.
    pub fn earliest(&self) -> Option<Instant> {
        let deadline = self.deadlines.peek().map(|Reverse((deadline, _))| *deadline);
        self.due.into_iter().chain(deadline).min()
    }

    /// Keys of the requests that are to be answered as too late now, the earliest first, but at most so many, and those of
    /// one connection after each other. They are told once. An answer takes `each`.
    pub fn late(&mut self, now: Instant, most: usize, each: Duration) -> Vec<u64> {
        self.look_ahead(now + HORIZON);
        if self.known_due == 0 {
            self.known_due = self.count_due(now, each);
        }
        let due = self.known_due.min(most);
        self.known_due -= due;
        let mut late = Vec::with_capacity(due);
        for Soon { deadline, key, earliest } in self.soon.drain(..due).collect::<Vec<_>>() {
            let Some(pending) = self.find(key) else { continue };
            if now < earliest {
                self.deadlines.push(Reverse((deadline, key)));
                continue;
            }
            match pending.reply.stream().and_then(|stream| stream.deadline()).filter(|moved| *moved > now) {
                Some(moved) => self.deadlines.push(Reverse((moved, key))),
                None => late.push((pending.reply.connection(), key)),
            }
        }
        self.due = match due == most {
            true => Some(now),
            false => self.due,
        };
        late.sort_by_key(|(connection, _)| *connection);
        late.into_iter().map(|(_, key)| key).collect()
    }

    /// Finds those whose deadlines pass by then.
    fn look_ahead(&mut self, until: Instant) {
        let last = self.soon.back().copied();
        let mut sorted = true;
        while self.deadlines.peek().is_some_and(|Reverse((deadline, _))| *deadline <= until) {
            let Some(Reverse((deadline, key))) = self.deadlines.pop() else { break };
            let Some(pending) = self.find(key) else { continue };
            let lead = match pending.reply.stream() {
                Some(_) => Duration::ZERO,
                None => LEAD.min(deadline.saturating_duration_since(pending.received) / 10),
            };
            let soon = Soon { deadline, key, earliest: deadline.checked_sub(lead).unwrap_or(deadline) };
            sorted &= last.is_none_or(|last| last <= soon);
            self.soon.push_back(soon);
        }
        if !sorted {
            self.soon.make_contiguous().sort_unstable();
        }
    }

    /// How many of the first are to be answered now, and when the next one is.
    fn count_due(&mut self, now: Instant, each: Duration) -> usize {
        let mut latest: Option<Instant> = None;
        let mut due = 0;
        self.due = None;
        for (at, soon) in self.soon.iter().enumerate().rev() {
            let in_time = soon.deadline + LATE;
            let begin = latest.and_then(|latest| latest.checked_sub(each)).map_or(in_time, |begin| begin.min(in_time));
            latest = Some(begin);
            let moment = begin.min(soon.deadline).max(soon.earliest);
            if moment <= now {
                due = at + 1;
                break;
            }
            self.due = Some(moment);
        }
        due
    }

    /// Takes out requests whose clients have gone. Each look asks some of them, and the next one goes on behind those.
    pub fn take_gone(&mut self, now: Instant) -> Vec<(u64, Pending<R>)> {
        let (mut gone, mut asked) = (Vec::new(), 0);
        for _ in 0..self.slots.len().min(LOOKED_AT) {
            let index = self.next_look % self.slots.len();
            self.next_look = index + 1;
            let slot = &mut self.slots[index];
            let Some(pending) = &mut slot.pending else { continue };
            let age = now.saturating_duration_since(pending.received);
            if age < SETTLED {
                continue;
            }
            asked += 1;
            let waits = age >= SILENT && pending.place.as_ref().is_some_and(Place::waits);
            if pending.reply.is_gone(waits) {
                let key = u64::from(slot.generation) << 32 | index as u64;
                gone.extend(self.take(key).map(|pending| (key, pending)));
            }
            if asked == ASKED {
                break;
            }
        }
        gone
    }
}
