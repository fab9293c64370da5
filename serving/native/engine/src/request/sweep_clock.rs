//! When the next deadline sweep is, and how long it takes to answer many.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::sync::lock;

/// An answer takes about so long at first, and no longer than that as far as the sweep goes by it.
const FIRST: Duration = Duration::from_micros(2);
const LONGEST: Duration = Duration::from_micros(10);

/// When the next sweep is.
pub(crate) struct SweepClock {
    next: Mutex<Instant>,
    sooner: Notify,
    pace: Mutex<Duration>,
}

impl Default for SweepClock {
    fn default() -> SweepClock {
        SweepClock { next: Mutex::new(Instant::now()), sooner: Notify::new(), pace: Mutex::new(FIRST) }
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

    /// Each of many answers took so long, with what else the thread did meanwhile.
    pub(crate) fn note_pace(&self, each: Duration) {
        let mut pace = lock(&self.pace);
        *pace = (*pace * 3 + each.min(LONGEST)) / 4;
    }

    /// How long an answer takes where there are many.
    pub(crate) fn pace(&self) -> Duration {
        *lock(&self.pace)
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
