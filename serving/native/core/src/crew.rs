//! The executor threads of one version: how they sleep, are woken and are told to go.
//! I/O threads call `wake` when their sockets run dry or a batch is full; executor threads wait here.

use std::sync::{Condvar, Mutex};
use std::time::Instant;

use crate::lock;

#[derive(Debug, Default)]
struct State {
    idle: usize,
    woken: usize,
    dismissed: bool,
}

/// Sleeping and waking of one version's executor threads.
#[derive(Debug, Default)]
pub struct Crew {
    state: Mutex<State>,
    changed: Condvar,
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

    /// Sleeps until woken or until `until`. False when dismissed.
    pub fn wait(&self, until: Option<Instant>) -> bool {
        let mut state = lock(&self.state);
        state.idle += 1;
        while state.woken == 0 && !state.dismissed {
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
        state.woken = state.woken.saturating_sub(1);
        !state.dismissed
    }
}
