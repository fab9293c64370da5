//! Tasks and threads that all requests depend on: one that panics begins again, and does not end for good.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidegate_engine::metrics::BACKGROUND_RESTARTS;
use tokio::task;

use crate::named_thread::spawn;

/// Whatever panics each time must not take all of a thread's time, nor fill the log: it waits for as long before it begins again,
/// and twice as long each time that it panics soon, up to the last of these.
const PAUSE: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(5)];

/// The pauses of one piece of work.
struct Pauses {
    next: Duration,
    begun: Instant,
}

impl Pauses {
    fn new() -> Pauses {
        Pauses { next: PAUSE[0], begun: Instant::now() }
    }

    /// How long to wait after a panic, which is counted. Work that went on for longer than the longest pause has a short one.
    fn after_panic(&mut self) -> Duration {
        BACKGROUND_RESTARTS.fetch_add(1, Ordering::Relaxed);
        let pause = if self.begun.elapsed() > PAUSE[1] { PAUSE[0] } else { self.next };
        self.next = (2 * pause).min(PAUSE[1]);
        self.begun = Instant::now() + pause;
        pause
    }
}

/// Spawns a task that begins again after a panic, which has been printed where it happened. It ends when it returns, or with
/// its runtime. Must be used on an I/O thread.
pub fn spawn_task<F>(mut begin: impl FnMut() -> F + Send + 'static) -> task::JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(async move {
        let mut pauses = Pauses::new();
        while tokio::spawn(begin()).await.is_err_and(|why| why.is_panic()) {
            tokio::time::sleep(pauses.after_panic()).await;
        }
    })
}

/// Starts a thread that begins its work again after a panic, and ends when the work returns.
pub fn spawn_thread(name: &str, mut work: impl FnMut() + Send + 'static) -> io::Result<JoinHandle<()>> {
    spawn(name, move || {
        let mut pauses = Pauses::new();
        while catch_unwind(AssertUnwindSafe(&mut work)).is_err() {
            std::thread::sleep(pauses.after_panic());
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Panics the first two times.
    fn panic_twice(times: &AtomicUsize) {
        assert!(times.fetch_add(1, Ordering::Relaxed) >= 2, "on purpose");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_task_begins_again_after_a_panic_and_ends_where_it_returns() {
        let times = Arc::new(AtomicUsize::new(0));
        let begun = times.clone();
        let task = spawn_task(move || {
            let times = begun.clone();
            async move { panic_twice(&times) }
        });
        task.await.unwrap();
        assert_eq!(times.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_thread_begins_again_after_a_panic_and_ends_where_it_returns() {
        let times = Arc::new(AtomicUsize::new(0));
        let begun = times.clone();
        spawn_thread("tg-test", move || panic_twice(&begun)).unwrap().join().unwrap();
        assert_eq!(times.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn what_panics_each_time_begins_again_less_and_less_often_and_each_time_is_counted() {
        let before = BACKGROUND_RESTARTS.load(Ordering::Relaxed);
        let mut pauses = Pauses::new();
        let waited: Vec<Duration> = (0..12).map(|_| pauses.after_panic()).collect();
        assert!(waited.windows(2).all(|two| two[1] == (2 * two[0]).min(PAUSE[1])), "{waited:?}");
        assert_eq!((waited[0], waited[11]), (PAUSE[0], PAUSE[1]));
        // Other tests of this process panic on purpose, too.
        assert!(BACKGROUND_RESTARTS.load(Ordering::Relaxed) >= before + 12);
        pauses.begun = Instant::now() - 2 * PAUSE[1];
        assert_eq!(pauses.after_panic(), PAUSE[0], "it had worked for long");
    }
}
