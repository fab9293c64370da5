//! The executor threads of one version: started when work comes, woken when there is more, ended when idle for long.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::sync::lock;

/// A thread without work for that long goes; the next request starts another.
const IDLE: Duration = Duration::from_secs(60);

/// A thread that is to end looks so often whether what waits can run.
const MOMENT: Duration = Duration::from_millis(1);

/// Whose threads these are.
pub trait ThreadStarter: Send + Sync {
    /// Starts one thread more, by `ExecutorPool::start`.
    fn start_thread(&self);
}

#[derive(Debug, Default)]
struct State {
    idle: usize,
    woken: usize,
    closed: bool,
    /// Threads that are there or starting, and how many there may be.
    present: usize,
    most: usize,
}

impl State {
    /// Whether one wake-up more would change nothing: all that sleep are woken, or one that is about to sleep will look
    /// again, and no thread more may start.
    fn is_awake(&self) -> bool {
        self.woken >= self.idle.max(1) && (self.present >= self.most || self.closed)
    }
}

/// What a thread of the pool is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Look for work.
    Work,
    /// End, once nothing waits: no more work will come.
    Finish,
    /// End now: the others do the work.
    Leave,
}

/// Sleeping and waking of one version's executor threads.
pub struct ExecutorPool {
    state: Mutex<State>,
    changed: Condvar,
    /// What `State::is_awake` says, for those who bring work: they need no lock as long as it holds.
    awake: AtomicBool,
    too_many: AtomicBool,
    /// What `State::present` is.
    present: AtomicUsize,
    idle: Duration,
    starter: Weak<dyn ThreadStarter>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for ExecutorPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExecutorPool").field("state", &self.state).finish_non_exhaustive()
    }
}

impl ExecutorPool {
    /// No thread yet, and none allowed.
    pub fn new(starter: Weak<dyn ThreadStarter>) -> ExecutorPool {
        let (state, threads) = (Mutex::default(), Mutex::default());
        let (awake, too_many, present) = (AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(0));
        ExecutorPool { state, changed: Condvar::new(), awake, too_many, present, idle: IDLE, starter, threads }
    }

    /// Work came: wakes one idle thread, has one started where all are at work and there may be more, or notes it for one
    /// that is about to sleep.
    pub fn wake(&self) {
        // The work is there before it is looked whether somebody will look for it; `tell` has the other half.
        fence(Ordering::SeqCst);
        if self.awake.load(Ordering::Relaxed) {
            return;
        }
        let mut state = lock(&self.state);
        let sleeping = state.idle > state.woken;
        if !sleeping && state.present < state.most && !state.closed {
            state.present += 1;
            self.tell(&state);
            drop(state);
            if let Some(starter) = self.starter.upgrade() {
                starter.start_thread();
            }
            return;
        }
        state.woken = (state.woken + 1).min(state.idle.max(1));
        self.tell(&state);
        drop(state);
        if sleeping {
            self.changed.notify_one();
        }
    }

    /// Tells those who bring work whether a thread will look for it, after each change.
    fn tell(&self, state: &State) {
        self.present.store(state.present, Ordering::Relaxed);
        self.awake.store(state.is_awake(), Ordering::Relaxed);
        // Who is told that nobody will look takes the lock; whose work came before is found by the look that follows.
        fence(Ordering::SeqCst);
    }

    /// What waits may run now: wakes all threads that sleep, or has one started where there is none.
    pub fn wake_all(&self) {
        let mut state = lock(&self.state);
        if state.idle == 0 {
            drop(state);
            return self.wake();
        }
        state.woken = state.idle;
        self.tell(&state);
        drop(state);
        self.changed.notify_all();
    }

    /// No more work will come: threads leave when their queues are empty.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        self.tell(&state);
        drop(state);
        self.changed.notify_all();
    }

    /// Sets how many threads there may be; surplus ones leave.
    pub fn resize(&self, most: usize) {
        let mut state = lock(&self.state);
        state.most = most;
        self.too_many.store(state.present > most, Ordering::Relaxed);
        self.tell(&state);
        drop(state);
        self.changed.notify_all();
    }

    /// Starts a thread that was counted in already. Where it cannot, it is counted out, and `Ok` still means that
    /// another does the work.
    pub fn start(&self, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        // Held until the handle is there, so that a thread that goes at once finds it.
        let mut threads = lock(&self.threads);
        match thread::Builder::new().name("tg-exec".to_owned()).spawn(run) {
            Ok(thread) => threads.push(thread),
            Err(why) => {
                let mut state = lock(&self.state);
                state.present -= 1;
                state.woken = state.woken.max(1);
                self.tell(&state);
                if state.present == 0 {
                    return Err(why);
                }
            }
        }
        Ok(())
    }

    /// The calling thread ends although it was not told to.
    pub fn count_out(&self) {
        let mut state = lock(&self.state);
        state.present = state.present.saturating_sub(1);
        self.tell(&state);
        drop(state);
        // What it was woken for may still wait.
        self.wake();
    }

    /// The calling thread has left: a release need not wait for it.
    pub fn forget_current_thread(&self) {
        lock(&self.threads).retain(|thread| thread.thread().id() != thread::current().id());
    }

    /// The threads that have not left, to be waited for.
    pub fn take_threads(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *lock(&self.threads))
    }

    /// How many threads there may be.
    pub fn limit(&self) -> usize {
        lock(&self.state).most
    }

    /// How many threads there are.
    pub(super) fn present(&self) -> usize {
        self.present.load(Ordering::Relaxed)
    }

    /// Whether a thread that has just run a batch is one too many; if so, it is counted out.
    pub fn should_leave(&self) -> bool {
        self.too_many.load(Ordering::Relaxed) && self.remove_surplus(&mut lock(&self.state))
    }

    /// Sleeps until woken or until `until`; a thread that is not woken for long leaves.
    pub fn wait(&self, until: Option<Instant>) -> Instruction {
        let idle_end = Instant::now() + self.idle;
        let limit = until.map_or(idle_end, |until| until.min(idle_end));
        let mut state = lock(&self.state);
        state.idle += 1;
        self.tell(&state);
        let mut now = Instant::now();
        while state.woken == 0 && !state.closed && state.present <= state.most && now < limit {
            let waited = self.changed.wait_timeout(state, limit - now);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
            now = Instant::now();
        }
        state.idle -= 1;
        let instruction = self.instruct(&mut state, now >= idle_end && until.is_none());
        self.tell(&state);
        instruction
    }

    /// What a thread does that sleeps no longer; `rested` says that it slept for as long as it may.
    fn instruct(&self, state: &mut State, rested: bool) -> Instruction {
        if state.closed {
            return Instruction::Finish;
        }
        if self.remove_surplus(state) {
            return Instruction::Leave;
        }
        if state.woken == 0 && rested {
            state.present -= 1;
            return Instruction::Leave;
        }
        state.woken = state.woken.saturating_sub(1);
        Instruction::Work
    }

    /// Sleeps for a moment at most: what waits cannot run yet.
    pub fn pause(&self) {
        drop(self.changed.wait_timeout(lock(&self.state), MOMENT));
    }

    /// Counts the calling thread out where there are too many; its wake-up goes to another.
    fn remove_surplus(&self, state: &mut State) -> bool {
        if state.closed || state.present <= state.most {
            return false;
        }
        state.present -= 1;
        self.too_many.store(state.present > state.most, Ordering::Relaxed);
        self.tell(state);
        self.changed.notify_one();
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, OnceLock};

    use super::*;

    /// Counts starts; its threads wait once, say what they were told and leave.
    #[derive(Default)]
    struct Starter {
        started: AtomicUsize,
        pool: OnceLock<ExecutorPool>,
        instructions: Mutex<Vec<Instruction>>,
    }

    impl Starter {
        fn open(most: usize, idle: Duration) -> Arc<Starter> {
            let starter = Arc::new(Starter::default());
            let weak: Weak<Starter> = Arc::downgrade(&starter);
            let pool = ExecutorPool { idle, ..ExecutorPool::new(weak) };
            pool.resize(most);
            assert!(starter.pool.set(pool).is_ok());
            starter
        }

        fn pool(&self) -> &ExecutorPool {
            self.pool.get().unwrap_or_else(|| panic!("the starter has no pool"))
        }

        fn started(&self) -> usize {
            self.started.load(Ordering::SeqCst)
        }

        fn wait(self: &Arc<Starter>) -> JoinHandle<()> {
            let starter = self.clone();
            thread::spawn(move || {
                let instruction = starter.pool().wait(None);
                lock(&starter.instructions).push(instruction);
            })
        }
    }

    impl ThreadStarter for Starter {
        fn start_thread(&self) {
            self.started.fetch_add(1, Ordering::SeqCst);
        }
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn no_thread_starts_before_work_comes_and_never_more_than_allowed() {
        let starter = Starter::open(2, LONG);
        assert_eq!(starter.started(), 0);
        (0..5).for_each(|_| starter.pool().wake());
        assert_eq!(starter.started(), 2);
    }

    #[test]
    fn a_sleeping_thread_is_woken_instead_of_starting_another() {
        let starter = Starter::open(2, LONG);
        starter.pool().wake();
        let sleeper = starter.wait();
        while lock(&starter.pool().state).idle == 0 {
            thread::yield_now();
        }
        starter.pool().wake();
        assert!(sleeper.join().is_ok());
        assert_eq!((starter.started(), lock(&starter.instructions).as_slice()), (1, &[Instruction::Work][..]));
    }

    #[test]
    fn no_work_is_left_that_comes_while_a_thread_goes_to_sleep() {
        const ALL: usize = 100_000;
        let starter = Starter::open(1, LONG);
        starter.pool().wake();
        let work = AtomicUsize::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut done = 0;
                while done < ALL {
                    match work.swap(0, Ordering::Relaxed) {
                        0 => assert_eq!(starter.pool().wait(None), Instruction::Work, "{done} are done"),
                        found => done += found,
                    }
                }
            });
            for _ in 0..ALL {
                work.fetch_add(1, Ordering::Relaxed);
                starter.pool().wake();
            }
        });
    }

    #[test]
    fn who_brings_work_takes_no_lock_only_while_a_thread_will_look_for_it() {
        let starter = Starter::open(1, LONG);
        let awake = || starter.pool().awake.load(Ordering::Relaxed);
        starter.pool().wake();
        assert!(!awake(), "the thread that starts may look before more comes");
        starter.pool().wake();
        assert!(awake());
        assert_eq!(starter.pool().wait(None), Instruction::Work);
        assert!(!awake(), "it has begun to look");
        starter.pool().wake();
        assert_eq!(starter.pool().wait(None), Instruction::Work, "it was noted for the next sleep");
    }

    #[test]
    fn a_thread_idle_for_long_leaves_and_the_next_work_starts_another() {
        let starter = Starter::open(1, Duration::from_millis(1));
        starter.pool().wake();
        assert!(starter.wait().join().is_ok());
        assert_eq!(lock(&starter.instructions).as_slice(), [Instruction::Leave]);
        starter.pool().wake();
        assert_eq!(starter.started(), 2);
    }

    #[test]
    fn no_thread_starts_once_closed() {
        let starter = Starter::open(1, LONG);
        starter.pool().close();
        starter.pool().wake();
        assert_eq!(starter.started(), 0);
    }

    #[test]
    fn a_thread_that_left_is_not_waited_for() {
        let starter = Starter::open(1, LONG);
        let at = starter.clone();
        assert!(starter.pool().start(move || at.pool().forget_current_thread()).is_ok());
        while !lock(&starter.pool().threads).is_empty() {
            thread::yield_now();
        }
        assert!(starter.pool().take_threads().is_empty());
    }
}
