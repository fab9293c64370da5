//! The deadline sweep: answers requests whose deadline has passed, and forgets those whose client has gone.
//! It runs every few milliseconds while something waits, and earlier when a deadline asks for it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_codec::status::{Code, Status};

use crate::batching::Queue;
use crate::request::dispatcher::Dispatcher;
use crate::request::inflight::Pending;
use crate::request::reply::{Reply, Tags};
use crate::sync::lock;

/// The sweep looks this often while something waits, and otherwise.
const BUSY: Duration = Duration::from_millis(4);
const IDLE: Duration = Duration::from_millis(50);

impl<R: Reply> Dispatcher<R> {
    /// Sweeps for as long as the runtime lives.
    pub async fn run_sweep(&self) {
        loop {
            let pause = if lock(&self.inflight).is_empty() { IDLE } else { BUSY };
            self.sweep_clock.wait(pause).await;
            self.sweep_once(Instant::now());
        }
    }

    /// Answers requests that are too late, forgets those whose client has gone.
    pub fn sweep_once(&self, now: Instant) {
        let swept = lock(&self.inflight).sweep(now);
        let waiting = self.abandon(&swept.late, false);
        for (slot, pending) in swept.late {
            let place = if waiting.contains(&slot) { "waited in the batch queue" } else { "ran" };
            let late = Status::new(Code::DeadlineExceeded, format!("the deadline passed while the request {place}"));
            let endpoint = pending.reply.endpoint();
            pending.queue.served.metrics.answers.count(endpoint, late.code);
            self.engine.metrics.count_latency(endpoint, now.saturating_duration_since(pending.received));
            let version = Some(&pending.queue.served.version_header);
            pending.reply.fail(&late, Tags { version, id: Some(&pending.id) });
        }
        self.abandon(&swept.gone, true);
        for (_, pending) in swept.gone {
            pending.queue.served.metrics.answers.count(pending.reply.endpoint(), Code::Cancelled);
        }
    }

    /// Takes requests out of their queues' counts, each queue once. Returns those that were still waiting.
    fn abandon(&self, swept: &[(u64, Pending<R>)], cancelled: bool) -> HashSet<u64> {
        let mut queues: Vec<(&Arc<Queue>, HashSet<u64>)> = Vec::new();
        for (slot, pending) in swept {
            match queues.iter_mut().find(|(queue, _)| Arc::ptr_eq(queue, &pending.queue)) {
                Some((_, slots)) => _ = slots.insert(*slot),
                None => queues.push((&pending.queue, HashSet::from([*slot]))),
            }
        }
        queues.iter().flat_map(|(queue, slots)| queue.abandon(self.lane, slots, cancelled)).collect()
    }
}
