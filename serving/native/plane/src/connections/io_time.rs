//! The time of one I/O thread: connections that took much of it lately, or hold much open, get so much together between
//! two looks at the sockets, those with less first. Everybody else is served meanwhile, whatever it is that takes long.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tidegate_engine::sync::lock;

use crate::supervision::spawn_task;

/// What connections that take much get together between two looks at the sockets: several times what it takes to read a
/// request of each of 64, since batches are made of what is read between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);
/// Who took more than that lately takes much: the share of somebody who asks a few hundred times in a second.
const MUCH: Duration = Duration::from_micros(300);
/// How long ago lately is: what was taken counts for less as time passes.
const LATELY: Duration = Duration::from_millis(100);
/// More is not counted of one piece of work: the system may have interrupted it, for longer than it took.
const COUNTED: Duration = Duration::from_micros(200);
/// While those who take much get less than that, one piece of work in so many is timed, and counts for all of them.
const TIMED: u32 = 8;
/// What an open call counts for: a connection that ends takes about so long for each.
const OPEN_CALL: Duration = Duration::from_micros(1);

/// Whether a connection with so many open calls takes much for these alone.
pub fn takes_much(open_calls: usize) -> bool {
    of_open_calls(open_calls) > MUCH
}

fn of_open_calls(open_calls: usize) -> Duration {
    OPEN_CALL.saturating_mul(u32::try_from(open_calls).unwrap_or(u32::MAX))
}

#[derive(Debug)]
struct State {
    began: Instant,
    /// What those who take much got since the last look that was noticed.
    taken: Duration,
    next: u64,
    /// By the order of their turns, and by their number.
    waiting: BTreeMap<(u64, u64), Waker>,
    /// Who was woken for its turn and has not come.
    called: Option<u64>,
}

impl State {
    fn call_first(&mut self) {
        if let Some(((_, number), waker)) = self.waiting.pop_first() {
            self.called = Some(number);
            waker.wake();
        }
    }

    /// Where somebody stands who took so much until now: behind those who took less, but before all who come much later.
    fn place(&self, taken: Duration, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.began).as_secs_f64() / LATELY.as_secs_f64();
        ((passed + taken.as_secs_f64().max(1e-9).ln() - 1e-9_f64.ln()) * 1e6) as u64
    }
}

#[derive(Debug)]
struct Shared {
    /// Whether somebody looks after those who wait, or soon may.
    tended: AtomicBool,
    state: Mutex<State>,
}

/// The time of one I/O thread.
#[derive(Clone, Debug)]
pub struct IoTime(Arc<Shared>);

/// What one connection took of it.
#[derive(Debug)]
pub struct TimeTaken {
    time: IoTime,
    lately: Duration,
    looked: Instant,
    /// Pieces of its work since one was timed.
    untimed: u32,
    /// Its place and number among those who wait.
    waits: Option<(u64, u64)>,
}

impl Default for IoTime {
    fn default() -> IoTime {
        let (began, taken, waiting) = (Instant::now(), Duration::ZERO, BTreeMap::new());
        let state = Mutex::new(State { began, taken, next: 0, waiting, called: None });
        IoTime(Arc::new(Shared { tended: AtomicBool::new(false), state }))
    }
}

impl IoTime {
    fn is_tended(&self) -> bool {
        self.0.tended.load(Ordering::Relaxed)
    }

    fn begin_to_tend(&self) {
        if !self.0.tended.swap(true, Ordering::Relaxed) {
            let time = self.clone();
            spawn_task(move || time.clone().tend());
        }
    }

    /// Begins a new turn after each look at the sockets, until nobody waits for one.
    async fn tend(self) {
        loop {
            // A task that yields runs again once the sockets were looked at.
            tokio::task::yield_now().await;
            let mut state = lock(&self.0.state);
            // Who was called and did not come has gone.
            state.called = None;
            state.taken = Duration::ZERO;
            if state.waiting.is_empty() {
                self.0.tended.store(false, Ordering::Relaxed);
                return;
            }
            state.call_first();
        }
    }
}

impl TimeTaken {
    /// Nothing yet.
    pub fn new(time: IoTime) -> TimeTaken {
        TimeTaken { time, lately: Duration::ZERO, looked: Instant::now(), untimed: 0, waits: None }
    }

    /// Does a part of the work of a connection with so many open calls, and notes how long it took; pending where others
    /// have their turn first. Must be used on the I/O thread.
    pub fn spend<T>(
        &mut self,
        context: &mut Context<'_>,
        open_calls: usize,
        work: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let open = of_open_calls(open_calls);
        self.untimed += 1;
        let each = open > MUCH || self.waits.is_some() || self.time.is_tended();
        if !each && self.untimed < TIMED {
            return work(context);
        }
        let pieces = std::mem::take(&mut self.untimed);
        let began = Instant::now();
        self.forget(began);
        let counts = self.lately + open;
        let much = counts > MUCH || self.waits.is_some();
        if much && self.poll_turn(context, counts, began).is_pending() {
            return Poll::Pending;
        }
        let done = work(context);
        self.looked = Instant::now();
        let taken = self.looked.saturating_duration_since(began);
        let all = (taken * pieces).min(COUNTED);
        self.lately += all;
        if much {
            self.note(taken.max(all));
        }
        done
    }

    fn forget(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.looked).min(LATELY);
        self.lately = self.lately.mul_f64(1.0 - passed.as_secs_f64() / LATELY.as_secs_f64());
        self.looked = now;
    }

    fn poll_turn(&mut self, context: &Context<'_>, counts: Duration, now: Instant) -> Poll<()> {
        let mut state = lock(&self.time.0.state);
        if let Some(waits) = self.waits {
            // It is asked for other reasons too, such as answers to write.
            if state.waiting.contains_key(&waits) {
                return Poll::Pending;
            }
            self.waits = None;
            if state.called == Some(waits.1) {
                state.called = None;
                return Poll::Ready(());
            }
            // It was called, and came so late that others were called after it.
        }
        if state.waiting.is_empty() && state.called.is_none() && state.taken < BETWEEN_LOOKS {
            return Poll::Ready(());
        }
        let (place, number) = (state.place(counts, now), state.next);
        state.next += 1;
        state.waiting.insert((place, number), context.waker().clone());
        self.waits = Some((place, number));
        self.time.begin_to_tend();
        Poll::Pending
    }

    fn note(&self, taken: Duration) {
        let mut state = lock(&self.time.0.state);
        state.taken += taken;
        if state.taken > BETWEEN_LOOKS / 2 {
            // The next look at the sockets is to be noticed, so that what was taken before it does not count after it.
            self.time.begin_to_tend();
        }
        if state.called.is_none() && state.taken < BETWEEN_LOOKS {
            state.call_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::rc::Rc;
    use std::sync::atomic::AtomicUsize;

    use tokio::runtime::{Builder, Runtime};
    use tokio::task::{LocalSet, spawn_local, yield_now};

    use super::*;

    /// What one piece of work takes at least.
    const PIECE: Duration = Duration::from_micros(150);

    fn runtime() -> Runtime {
        Builder::new_current_thread().event_interval(1009).build().unwrap()
    }

    fn work(_: &mut Context<'_>) -> Poll<()> {
        let began = Instant::now();
        while began.elapsed() < PIECE {
            std::hint::spin_loop();
        }
        Poll::Ready(())
    }

    /// Works so many times for a connection that holds much open; each time it could go on at once.
    async fn work_often(time: IoTime, pieces: usize, done: Rc<Cell<usize>>) {
        let mut taken = TimeTaken::new(time);
        for _ in 0..pieces {
            poll_fn(|context| taken.spend(context, 1000, work)).await;
            done.set(done.get() + 1);
            poll_once_more().await;
        }
    }

    /// As a socket does that has more to be read: its task runs again, without a look at the others.
    async fn poll_once_more() {
        let mut again = false;
        poll_fn(|context| {
            if std::mem::replace(&mut again, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    #[test]
    fn between_two_looks_those_who_take_much_get_so_much_together_and_all_get_through() {
        const TASKS: usize = 40;
        const PIECES: usize = 5;
        let (time, done) = (IoTime::default(), Rc::new(Cell::new(0)));
        LocalSet::new().block_on(&runtime(), async {
            for _ in 0..TASKS {
                spawn_local(work_often(time.clone(), PIECES, done.clone()));
            }
            while done.get() < TASKS * PIECES {
                let before = done.get();
                yield_now().await;
                let most = BETWEEN_LOOKS.as_micros().div_ceil(PIECE.as_micros()) as usize;
                assert!(done.get() - before <= 2 * most, "{} pieces at once", done.get() - before);
            }
        });
    }

    #[test]
    fn who_takes_little_never_waits_for_those_who_take_much() {
        let (time, done) = (IoTime::default(), Rc::new(Cell::new(0)));
        LocalSet::new().block_on(&runtime(), async {
            for _ in 0..20 {
                spawn_local(work_often(time.clone(), 10, done.clone()));
            }
            let mut little = TimeTaken::new(time.clone());
            while done.get() < 200 {
                let asked = poll_fn(|context| Poll::Ready(little.spend(context, 1, |_| Poll::Ready(())))).await;
                assert!(asked.is_ready());
                yield_now().await;
            }
        });
    }

    #[test]
    fn whoever_goes_while_it_waits_keeps_nobody_from_a_turn() {
        let (time, done) = (IoTime::default(), Rc::new(Cell::new(0)));
        LocalSet::new().block_on(&runtime(), async {
            let tasks: Vec<_> = (0..40).map(|_| spawn_local(work_often(time.clone(), 3, done.clone()))).collect();
            yield_now().await;
            tasks.iter().step_by(2).for_each(tokio::task::JoinHandle::abort);
            for task in tasks.into_iter().skip(1).step_by(2) {
                task.await.unwrap();
            }
        });
        assert!(lock(&time.0.state).waiting.is_empty());
    }

    #[test]
    fn connections_that_hold_much_open_end_by_turns_behind_those_that_hold_less() {
        let (time, order) = (IoTime::default(), Rc::new(std::cell::RefCell::new(Vec::new())));
        LocalSet::new().block_on(&runtime(), async {
            let mut tasks = Vec::new();
            for open_calls in [5000, 4000, 1000, 3000, 2000, 6000, 1500] {
                let (mut taken, order) = (TimeTaken::new(time.clone()), order.clone());
                tasks.push(spawn_local(async move {
                    let end = |context: &mut Context<'_>| {
                        order.borrow_mut().push(open_calls);
                        (0..16).map(|_| work(context)).fold(Poll::Ready(()), |_, done| done)
                    };
                    poll_fn(|context| taken.spend(context, open_calls, end)).await;
                }));
            }
            for task in tasks {
                let before = order.borrow().len();
                yield_now().await;
                assert!(order.borrow().len() - before <= 2, "one look's time is over with one of them");
                task.await.unwrap();
            }
        });
        // The first comes while nobody waits.
        assert_eq!(*order.borrow(), [5000, 1000, 1500, 2000, 3000, 4000, 6000]);
    }

    #[test]
    fn whoever_comes_late_when_it_is_called_has_a_turn_all_the_same() {
        const EVENT_INTERVAL: usize = 61;
        let runtime =
            Builder::new_current_thread().event_interval(EVENT_INTERVAL as u32).enable_time().build().unwrap();
        let (time, done) = (IoTime::default(), Arc::new(AtomicUsize::new(0)));
        runtime.block_on(async {
            let tasks: Vec<_> = (0..20)
                .map(|_| {
                    let (mut taken, done) = (TimeTaken::new(time.clone()), done.clone());
                    tokio::spawn(async move {
                        for _ in 0..5 {
                            poll_fn(|context| taken.spend(context, 1000, work)).await;
                            done.fetch_add(1, Ordering::Relaxed);
                            poll_once_more().await;
                        }
                    })
                })
                .collect();
            // So many others run that the sockets are looked at before whoever was called has come.
            for _ in 0..10 * EVENT_INTERVAL {
                let done = done.clone();
                tokio::spawn(async move {
                    while done.load(Ordering::Relaxed) < 100 {
                        poll_once_more().await;
                    }
                });
            }
            for task in tasks {
                tokio::time::timeout(Duration::from_secs(30), task).await.expect("its turn was lost").unwrap();
            }
        });
    }

    #[test]
    fn who_was_interrupted_once_has_not_taken_much() {
        let mut taken = TimeTaken::new(IoTime::default());
        let mut context = Context::from_waker(Waker::noop());
        let interrupted = |_: &mut Context<'_>| {
            std::thread::sleep(Duration::from_millis(20));
            Poll::Ready(())
        };
        for _ in 0..TIMED {
            assert!(taken.spend(&mut context, 1, interrupted).is_ready());
        }
        assert!(taken.lately > Duration::ZERO && taken.lately < MUCH);
    }

    #[test]
    fn those_who_take_little_of_each_look_never_wait() {
        let time = IoTime::default();
        LocalSet::new().block_on(&runtime(), async {
            let mut taken = TimeTaken::new(time.clone());
            for _ in 0..100 {
                let looked = Instant::now();
                for _ in 0..BETWEEN_LOOKS.as_micros() / PIECE.as_micros() / 4 {
                    let asked = poll_fn(|context| Poll::Ready(taken.spend(context, 1000, work))).await;
                    // The system may interrupt it.
                    assert!(asked.is_ready() || looked.elapsed() > BETWEEN_LOOKS / 2, "it was to wait");
                }
                yield_now().await;
                yield_now().await;
            }
        });
    }
}
