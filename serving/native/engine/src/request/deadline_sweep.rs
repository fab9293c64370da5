//! The deadline sweep: answers requests whose deadline has passed, and forgets those whose client has gone. Of very many
//! whose deadlines pass together it answers some a little sooner, so that none has to wait for long.
//! It wakes for the earliest deadline, and every few milliseconds while something waits to look for clients.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_codec::status::{Code, Status};

use crate::batching::Queue;
use crate::request::dispatcher::Dispatcher;
use crate::request::inflight::Pending;
use crate::request::reply::{self, Reply, Tags};
use crate::sync::lock;

/// The sweep looks this often while something waits, and otherwise.
const BUSY: Duration = Duration::from_millis(4);
const IDLE: Duration = Duration::from_millis(50);

/// So many requests are answered before other work of the I/O thread has its turn.
const SLICE: usize = 256;

/// Of so many at once it is found out whose answers go out together.
const GATHERED: usize = 4096;

/// So many at once tell how long one takes.
const MANY: usize = 1024;

impl<R: Reply> Dispatcher<R> {
    /// Sweeps for as long as the runtime lives.
    pub async fn run_sweep(self: Arc<Self>) {
        loop {
            let pause = if lock(&self.inflight).is_empty() { IDLE } else { BUSY };
            self.sweep_clock.begin(pause);
            // Looked at after the clock has begun, so that a deadline which comes now is not missed.
            if let Some(deadline) = lock(&self.inflight).earliest() {
                self.sweep_clock.note(deadline);
            }
            self.sweep_clock.wait().await;
            loop {
                let began = Instant::now();
                let late = self.late(began);
                for slice in late.chunks(SLICE) {
                    self.answer_late(slice, Instant::now());
                    tokio::task::yield_now().await;
                }
                if late.len() >= MANY {
                    self.sweep_clock.note_pace(began.elapsed() / late.len() as u32);
                }
                if late.is_empty() {
                    break;
                }
            }
            self.forget_gone(Instant::now());
        }
    }

    /// Answers all requests that are too late, and forgets those whose client has gone.
    pub fn sweep_once(&self, now: Instant) {
        loop {
            let late = self.late(now);
            self.answer_late(&late, now);
            if late.is_empty() {
                break;
            }
        }
        self.forget_gone(now);
    }

    fn late(&self, now: Instant) -> Vec<u64> {
        lock(&self.inflight).late(now, GATHERED, self.sweep_clock.pace())
    }

    /// Answers requests that are too late, where nobody has done so by now.
    fn answer_late(&self, late: &[u64], now: Instant) {
        let status =
            |place| Status::new(Code::DeadlineExceeded, format!("the deadline passed while the request {place}"));
        let (in_queue, in_model) = (status("waited in the batch queue"), status("ran"));
        let mut queues: Vec<Arc<Queue>> = Vec::new();
        for key in late {
            let pending = lock(&self.inflight).take(*key);
            let Some(pending) = pending else { continue };
            note(&mut queues, &pending.queue);
            let waited = pending.place.as_ref().is_none_or(|place| pending.queue.abandon(place, None));
            let late = if waited { &in_queue } else { &in_model };
            // A fault in one answer must not end the sweep; it has been printed where it happened.
            let _ = catch_unwind(AssertUnwindSafe(|| self.fail_late(pending, late, now)));
        }
        queues.iter().for_each(|queue| queue.drop_dead(self.lane));
    }

    fn fail_late(&self, pending: Pending<R>, late: &Status, now: Instant) {
        let Pending { reply, id, received, queue, .. } = pending;
        reply::note(&reply, |facts| facts.reached = true);
        let endpoint = reply.endpoint();
        queue.served.metrics.count_answer(endpoint, late.code);
        self.engine.metrics.count_latency(endpoint, now.saturating_duration_since(received));
        reply.fail(late, Tags { version: Some(&queue.served.version_header), id: Some(&id) });
    }

    /// Forgets requests whose client has gone.
    fn forget_gone(&self, now: Instant) {
        let gone = lock(&self.inflight).take_gone(now);
        let mut queues: Vec<Arc<Queue>> = Vec::new();
        for (slot, pending) in gone {
            note(&mut queues, &pending.queue);
            if let Some(place) = &pending.place {
                pending.queue.abandon(place, Some(slot));
            }
            let _ = catch_unwind(AssertUnwindSafe(|| give_up(pending)));
        }
        queues.iter().for_each(|queue| queue.drop_dead(self.lane));
    }
}

/// One that has only closed its side reads it.
fn give_up(pending: Pending<impl Reply>) {
    let Pending { reply, id, queue, .. } = pending;
    let served = &queue.served;
    served.metrics.count_answer(reply.endpoint(), Code::Cancelled);
    let tags = Tags { version: Some(&served.version_header), id: Some(&id) };
    reply.fail(&reply::given_up(&served.model, served.version), tags);
}

fn note(queues: &mut Vec<Arc<Queue>>, queue: &Arc<Queue>) {
    if !queues.iter().any(|known| Arc::ptr_eq(known, queue)) {
        queues.push(queue.clone());
    }
}
