//! When the next deadline sweep is.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::sync::lock;

/// When the next sweep is.
pub(crate) struct SweepClock {
    next: Mutex<Instant>,
    sooner: Notify,
}

impl Default for SweepClock {
    fn default() -> SweepClock {
        SweepClock { next: Mutex::new(Instant::now()), sooner: Notify::new() }
    }
}

impl SweepClock {
    /// Wakes the sweep when it would come too late for this deadline.
    pub(crate) fn note(&self, deadline: Instant) {
        let mut next = lock(&self.next);
        if deadline < *next {
            *next = deadline;
            self.sooner.notify_one();
        }
    }

    /// From now on the next sweep is due after this pause, or sooner for a deadline that is noted.
    pub(crate) fn begin(&self, pause: Duration) {
        *lock(&self.next) = Instant::now() + pause;
    }

    /// Waits until the next sweep is due.
    pub(crate) async fn wait(&self) {
        loop {
            let next = *lock(&self.next);
            tokio::select! {
                () = tokio::time::sleep_until(next.into()) => return,
                () = self.sooner.notified() => {}
            }
        }
    }
}
