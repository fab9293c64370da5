//! The idle flush: closes the open batches of one I/O thread once its sockets have nothing more to read for them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::batching::Queue;
use crate::batching::append::DUE_AFTER;
use crate::sync::lock;

/// A queue with an open batch.
#[derive(Debug)]
struct Joined {
    queue: Arc<Queue>,
    /// When the first of its requests came.
    since: Instant,
    requests: usize,
    /// Requests when it was last looked at.
    before: usize,
}

/// Whether a request that was alone in its queue came lately beside those of other queues. Then work for these is done in
/// small pieces, so that such a request need not wait behind much of it.
#[derive(Clone, Debug, Default)]
pub struct Mixture(Arc<AtomicBool>);

impl Mixture {
    /// As if one came just now, and none will.
    pub fn mixed() -> Mixture {
        Mixture(Arc::new(AtomicBool::new(true)))
    }

    /// Whether one did.
    #[inline]
    pub fn is_mixed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// For so long after two queues were joined in turn, or after a request that was alone.
const LATELY: Duration = Duration::from_millis(20);

/// The queues of one lane that have an open batch.
#[derive(Debug, Default)]
pub(crate) struct IdleFlush {
    state: Mutex<State>,
    first: Notify,
    pub(crate) mixture: Mixture,
}

#[derive(Debug, Default)]
struct State {
    queues: Vec<Joined>,
    /// The queue that was joined last, which is only compared.
    last: Weak<Queue>,
    /// When another was joined than before.
    mixed: Option<Instant>,
    /// When a request was alone beside others.
    lone: Option<Instant>,
    /// The address of the queue whose batch went at once, and when: two in a row have company.
    sent: Option<(usize, Instant)>,
}

impl IdleFlush {
    /// A request that came then joined a batch of this queue. True if the batch is to go at once: the last request of
    /// this queue was alone, and others' are beside it, whose reading it would wait for.
    pub(crate) fn add(&self, queue: &Arc<Queue>, received: Instant) -> bool {
        let state = &mut *lock(&self.state);
        if !std::ptr::eq(state.last.as_ptr(), Arc::as_ptr(queue)) {
            state.last = Arc::downgrade(queue);
            state.mixed = Some(received);
        }
        let queues = &mut state.queues;
        if state.mixed.is_some() && queue.was_alone() && !queues.iter().any(|joined| Arc::ptr_eq(&joined.queue, queue))
        {
            let (before, at) = state.sent.replace((Arc::as_ptr(queue) as usize, received)).unwrap_or((0, received));
            let again = before == Arc::as_ptr(queue) as usize && received.saturating_duration_since(at) < DUE_AFTER;
            if !again {
                self.mixture.0.store(true, Ordering::Relaxed);
                state.lone = Some(received);
                return true;
            }
        }
        if queues.is_empty() {
            self.first.notify_one();
        }
        match queues.iter_mut().find(|joined| Arc::ptr_eq(&joined.queue, queue)) {
            Some(joined) => joined.requests += 1,
            None => queues.push(Joined { queue: queue.clone(), since: received, requests: 1, before: 0 }),
        }
        false
    }

    /// Closes batches for as long as the runtime lives.
    ///
    /// A yielding task runs again after all others and one look at the poller without waiting. A queue that nobody
    /// joined in that time need not wait for more, whatever other queues get; nor need one whose requests come one by one,
    /// or whose first request is due,
    /// since with much to read for others the next look may be long after this one. Acting at the thread's park instead
    /// would close batches one look earlier and make them smaller.
    pub(crate) async fn run(&self, lane: usize) {
        loop {
            while !self.flush_quiet(lane, Instant::now()) {
                tokio::task::yield_now().await;
            }
            self.first.notified().await;
        }
    }

    /// Closes the open batches that nobody joined since the last look or that are due. True when there are no others.
    fn flush_quiet(&self, lane: usize, now: Instant) -> bool {
        let state = &mut *lock(&self.state);
        let long_ago = |moment: &mut Instant| now.saturating_duration_since(*moment) > LATELY;
        state.mixed.take_if(long_ago);
        if state.lone.take_if(long_ago).is_some() {
            self.mixture.0.store(false, Ordering::Relaxed);
        }
        let queues = &mut state.queues;
        queues.retain_mut(|joined| {
            let due = now.saturating_duration_since(joined.since) > DUE_AFTER;
            // Who was alone last time has no company to wait for, however long the look is that others make so.
            let alone = joined.requests == 1 && joined.queue.was_alone();
            let quiet = due || alone || joined.before == joined.requests;
            joined.before = joined.requests;
            if quiet {
                // A fault in one queue must not keep the others' requests; it has been printed where it happened.
                let _ = catch_unwind(AssertUnwindSafe(|| {
                    joined.queue.note_company(joined.requests);
                    release(&joined.queue, lane);
                }));
            }
            !quiet
        });
        queues.is_empty()
    }

    /// Closes the open batches now.
    pub(crate) fn flush(&self, lane: usize) {
        for joined in lock(&self.state).queues.drain(..) {
            release(&joined.queue, lane);
        }
    }
}

fn release(queue: &Queue, lane: usize) {
    queue.release_open(lane);
    queue.executors.wake();
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use http::HeaderValue;
    use tidegate_codec::dtype::DType;
    use tidegate_codec::signatures::{Signature, TensorSpec};
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::batching::{Batching, ExecutorPool, ServedSignature, ThreadStarter, Unanswered};
    use crate::memory::Memory;

    /// Counts the threads that are wanted; none can be started where it is faulty.
    #[derive(Default)]
    struct Starter {
        faulty: bool,
        wanted: AtomicUsize,
    }

    impl ThreadStarter for Starter {
        fn start_thread(&self) {
            self.wanted.fetch_add(1, Ordering::Relaxed);
            assert!(!self.faulty, "on purpose");
        }
    }

    fn queue(starter: &Arc<Starter>) -> Arc<Queue> {
        let spec = |name| vec![TensorSpec::new(name, DType::Float32, [-1])];
        let signature = Signature::new("s".to_owned(), String::new(), spec("x"), spec("y")).unwrap();
        let memory = Arc::new(Memory::new(1 << 20, 1 << 20));
        let weak: Weak<Starter> = Arc::downgrade(starter);
        let pool = Arc::new(ExecutorPool::new(weak));
        pool.resize(1);
        let served = ServedSignature {
            model: "m".into(),
            version: 1,
            version_header: HeaderValue::from(1),
            unanswered: Unanswered::new(memory.of_model("m"), &signature.outputs, pool.clone()),
            signature,
            memory: memory.of_model("m"),
            log: memory.of_log("m"),
            metrics: Arc::default(),
            times: Arc::default(),
        };
        let batching = Batching {
            max_batch_rows: 8,
            timeout_us: 0,
            max_queued_rows: 8,
            waits_when_full: false,
            concurrency: 1,
            allowed_batch_sizes: Arc::new([]),
            pad_variable_length_inputs: false,
            priority_levels: 0,
            default_priority_level: 0,
        };
        Arc::new(Queue::new(Arc::new(served), pool, &batching, 1))
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_fault_in_one_queue_keeps_no_request_of_another_waiting() {
        let (faulty, sound) = (Arc::new(Starter { faulty: true, ..Starter::default() }), Arc::<Starter>::default());
        let queues = [queue(&faulty), queue(&sound)];
        let flush = Arc::new(IdleFlush::default());
        let flushing = flush.clone();
        tokio::spawn(async move { flushing.run(0).await });
        queues.iter().for_each(|queue| assert!(!flush.add(queue, Instant::now())));
        let flushed = async {
            while [&faulty, &sound].iter().any(|starter| starter.wanted.load(Ordering::Relaxed) == 0) {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(20), flushed).await.unwrap();
    }
}
