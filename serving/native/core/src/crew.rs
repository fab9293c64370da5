//! The executor threads of one version: how they sleep, are woken, become more or fewer, and are told to go.
//! I/O threads call `wake` when their sockets run dry or a batch is full; executor threads wait here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use crate::lock;

#[derive(Debug, Default)]
struct State {
    idle: usize,
    woken: usize,
    dismissed: bool,
    /// Threads that are there or starting, and how many there should be.
    present: usize,
    wanted: usize,
}

/// What a thread of the crew is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Look for work.
    Work,
    /// End, once nothing waits: no more work will come.
    Finish,
    /// End now: the others do the work.
    Leave,
}

/// Sleeping and waking of one version's executor threads.
#[derive(Debug, Default)]
pub struct Crew {
    state: Mutex<State>,
    changed: Condvar,
    too_many: AtomicBool,
}

impl Crew {
    /// Work came: wakes one idle thread, or leaves word for one that is about to sleep.
    pub fn wake(&self) {
        let mut state = lock(&self.state);
        let sleeping = state.idle > state.woken;
        state.woken = (state.woken + 1).min(state.idle.max(1));
        drop(state);
        if sleeping {
            self.changed.notify_one();
        }
    }

    /// No more work will come: threads leave when their queues are empty.
    pub fn dismiss(&self) {
        lock(&self.state).dismissed = true;
        self.changed.notify_all();
    }

    /// So many threads are wanted from now on. Returns how many have to be started, which count as there already.
    pub fn resize(&self, wanted: usize) -> usize {
        let mut state = lock(&self.state);
        state.wanted = wanted;
        let missing = wanted.saturating_sub(state.present);
        state.present += missing;
        self.too_many.store(state.present > wanted, Ordering::Relaxed);
        drop(state);
        self.changed.notify_all();
        missing
    }

    /// Threads that `resize` counted could not be started.
    pub fn forget(&self, threads: usize) {
        lock(&self.state).present -= threads;
    }

    /// How many threads are wanted.
    pub fn wanted(&self) -> usize {
        lock(&self.state).wanted
    }

    /// Whether a thread that has just run a batch is one too many; if so, it is counted out.
    pub fn may_leave(&self) -> bool {
        self.too_many.load(Ordering::Relaxed) && self.count_out(&mut lock(&self.state))
    }

    /// Sleeps until woken or until `until`.
    pub fn wait(&self, until: Option<Instant>) -> Word {
        let mut state = lock(&self.state);
        state.idle += 1;
        while state.woken == 0 && !state.dismissed && state.present <= state.wanted {
            match until {
                None => state = self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner),
                Some(until) => {
                    let now = Instant::now();
                    if now >= until {
                        break;
                    }
                    let waited = self.changed.wait_timeout(state, until - now);
                    state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
                }
            }
        }
        state.idle -= 1;
        if state.dismissed {
            return Word::Finish;
        }
        if self.count_out(&mut state) {
            return Word::Leave;
        }
        state.woken = state.woken.saturating_sub(1);
        Word::Work
    }

    /// Counts the calling thread out where there are too many; its wake-up goes to another.
    fn count_out(&self, state: &mut State) -> bool {
        if state.dismissed || state.present <= state.wanted {
            return false;
        }
        state.present -= 1;
        self.too_many.store(state.present > state.wanted, Ordering::Relaxed);
        self.changed.notify_one();
        true
    }
}
