//! The executor threads of one version: hired when work comes, they sleep, are woken, and go when there is none for long.
//! I/O threads call `wake` when their sockets run dry or a batch is full; executor threads wait here.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::lock;

/// A thread without work for that long goes; the next request hires another.
const IDLE: Duration = Duration::from_secs(60);

/// Whose threads these are.
pub trait Employer: Send + Sync {
    /// Starts one thread more, by `Crew::start`.
    fn hire(&self);
}

#[derive(Debug, Default)]
struct State {
    idle: usize,
    woken: usize,
    dismissed: bool,
    /// Threads that are there or starting, and how many there may be.
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
pub struct Crew {
    state: Mutex<State>,
    changed: Condvar,
    too_many: AtomicBool,
    idle: Duration,
    employer: Weak<dyn Employer>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for Crew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crew").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Crew {
    /// Nobody yet, and nobody wanted.
    pub fn new(employer: Weak<dyn Employer>) -> Crew {
        let (state, threads) = (Mutex::default(), Mutex::default());
        Crew { state, changed: Condvar::new(), too_many: AtomicBool::new(false), idle: IDLE, employer, threads }
    }

    /// Work came: wakes one idle thread, has one hired where all are at work and there may be more, or leaves word for
    /// one that is about to sleep.
    pub fn wake(&self) {
        let mut state = lock(&self.state);
        let sleeping = state.idle > state.woken;
        if !sleeping && state.present < state.wanted && !state.dismissed {
            state.present += 1;
            drop(state);
            if let Some(employer) = self.employer.upgrade() {
                employer.hire();
            }
            return;
        }
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

    /// So many threads there may be from now on; those too many go.
    pub fn resize(&self, wanted: usize) {
        let mut state = lock(&self.state);
        state.wanted = wanted;
        self.too_many.store(state.present > wanted, Ordering::Relaxed);
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
                if state.present == 0 {
                    return Err(why);
                }
            }
        }
        Ok(())
    }

    /// The calling thread has left and needs nobody to wait for it.
    pub fn let_go(&self) {
        lock(&self.threads).retain(|thread| thread.thread().id() != thread::current().id());
    }

    /// The threads that have not left, to be waited for.
    pub fn take_threads(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *lock(&self.threads))
    }

    /// How many threads there may be.
    pub fn wanted(&self) -> usize {
        lock(&self.state).wanted
    }

    /// Whether a thread that has just run a batch is one too many; if so, it is counted out.
    pub fn may_leave(&self) -> bool {
        self.too_many.load(Ordering::Relaxed) && self.count_out(&mut lock(&self.state))
    }

    /// Sleeps until woken or until `until`; a thread that nobody wakes for long leaves.
    pub fn wait(&self, until: Option<Instant>) -> Word {
        let bored = Instant::now() + self.idle;
        let limit = until.map_or(bored, |until| until.min(bored));
        let mut state = lock(&self.state);
        state.idle += 1;
        let mut now = Instant::now();
        while state.woken == 0 && !state.dismissed && state.present <= state.wanted && now < limit {
            let waited = self.changed.wait_timeout(state, limit - now);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
            now = Instant::now();
        }
        state.idle -= 1;
        if state.dismissed {
            return Word::Finish;
        }
        if self.count_out(&mut state) {
            return Word::Leave;
        }
        if state.woken == 0 && now >= bored && until.is_none() {
            state.present -= 1;
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Arc, OnceLock};

    use super::*;

    /// Hires threads that wait once, say what they were told and leave.
    #[derive(Default)]
    struct Shop {
        hired: AtomicUsize,
        crew: OnceLock<Crew>,
        words: Mutex<Vec<Word>>,
    }

    impl Shop {
        fn open(wanted: usize, idle: Duration) -> Arc<Shop> {
            let shop = Arc::new(Shop::default());
            let weak: Weak<Shop> = Arc::downgrade(&shop);
            let crew = Crew { idle, ..Crew::new(weak) };
            crew.resize(wanted);
            assert!(shop.crew.set(crew).is_ok());
            shop
        }

        fn crew(&self) -> &Crew {
            self.crew.get().unwrap_or_else(|| panic!("the shop has no crew"))
        }

        fn hired(&self) -> usize {
            self.hired.load(Ordering::SeqCst)
        }

        fn wait(self: &Arc<Shop>) -> JoinHandle<()> {
            let shop = self.clone();
            thread::spawn(move || {
                let word = shop.crew().wait(None);
                lock(&shop.words).push(word);
            })
        }
    }

    impl Employer for Shop {
        fn hire(&self) {
            self.hired.fetch_add(1, Ordering::SeqCst);
        }
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn nobody_is_hired_before_work_comes_and_never_more_than_wanted() {
        let shop = Shop::open(2, LONG);
        assert_eq!(shop.hired(), 0);
        (0..5).for_each(|_| shop.crew().wake());
        assert_eq!(shop.hired(), 2);
    }

    #[test]
    fn who_sleeps_is_woken_instead_of_hiring_another() {
        let shop = Shop::open(2, LONG);
        shop.crew().wake();
        let sleeper = shop.wait();
        while lock(&shop.crew().state).idle == 0 {
            thread::yield_now();
        }
        shop.crew().wake();
        assert!(sleeper.join().is_ok());
        assert_eq!((shop.hired(), lock(&shop.words).as_slice()), (1, &[Word::Work][..]));
    }

    #[test]
    fn who_has_no_work_for_long_leaves_and_the_next_work_hires_again() {
        let shop = Shop::open(1, Duration::from_millis(1));
        shop.crew().wake();
        assert!(shop.wait().join().is_ok());
        assert_eq!(lock(&shop.words).as_slice(), [Word::Leave]);
        shop.crew().wake();
        assert_eq!(shop.hired(), 2);
    }

    #[test]
    fn nobody_is_hired_once_dismissed() {
        let shop = Shop::open(1, LONG);
        shop.crew().dismiss();
        shop.crew().wake();
        assert_eq!(shop.hired(), 0);
    }

    #[test]
    fn a_thread_that_left_is_not_waited_for() {
        let shop = Shop::open(1, LONG);
        let at = shop.clone();
        assert!(shop.crew().start(move || at.crew().let_go()).is_ok());
        while !lock(&shop.crew().threads).is_empty() {
            thread::yield_now();
        }
        assert!(shop.crew().take_threads().is_empty());
    }
}
