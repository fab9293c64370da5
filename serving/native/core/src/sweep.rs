//! The sweep of one I/O thread's waiting requests: who is too late is told, whose client has gone is forgotten.
//! It runs every few milliseconds while something waits, and earlier when a deadline asks for it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::desk::Desk;
use crate::grpc_reply::Tags;
use crate::lock;
use crate::status::{Code, Status};

/// The sweep looks this often while something waits, and otherwise.
const BUSY: Duration = Duration::from_millis(4);
const IDLE: Duration = Duration::from_millis(50);

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
    pub(crate) fn mind(&self, deadline: Instant) {
        let mut next = lock(&self.next);
        if deadline < *next {
            *next = deadline;
            self.sooner.notify_one();
        }
    }

    async fn wait(&self, pause: Duration) {
        *lock(&self.next) = Instant::now() + pause;
        loop {
            let next = *lock(&self.next);
            tokio::select! {
                () = tokio::time::sleep_until(next.into()) => return,
                () = self.sooner.notified() => {}
            }
        }
    }
}

impl Desk {
    /// Sweeps for as long as the runtime lives.
    pub async fn sweep(&self) {
        loop {
            let pause = if lock(&self.inflight).is_empty() { IDLE } else { BUSY };
            self.sweep_clock.wait(pause).await;
            self.sweep_once(Instant::now());
        }
    }

    /// Answers who is too late, forgets who has gone.
    pub(crate) fn sweep_once(&self, now: Instant) {
        let swept = lock(&self.inflight).sweep(now);
        for (slot, pending) in swept.late {
            let waiting = pending.served.queue.waits(self.index, slot);
            let place = if waiting { "waited in the batch queue" } else { "ran" };
            let late = Status::new(Code::DeadlineExceeded, format!("the deadline passed while the request {place}"));
            let endpoint = pending.reply.endpoint();
            pending.served.metrics.answers.count(endpoint, late.code);
            self.shared.metrics.count_latency(endpoint, now.saturating_duration_since(pending.received));
            let version = pending.version_header();
            pending.reply.fail(&late, Tags { version: Some(&version), id: Some(&pending.id) });
        }
        for (slot, pending) in swept.gone {
            pending.served.queue.cancel(self.index, slot);
            pending.served.metrics.answers.count(pending.reply.endpoint(), Code::Cancelled);
        }
    }
}
