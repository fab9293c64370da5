//! Tasks and threads that all requests depend on: one that panics begins again, and does not end for good.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::task;

use crate::named_thread::spawn;

/// Whatever panics each time must not take all of a thread's time.
const PAUSE: Duration = Duration::from_millis(10);

/// Spawns a task that begins again after a panic, which has been printed where it happened. It ends when it returns, or with
/// its runtime. Must be used on an I/O thread.
pub fn spawn_task<F>(mut begin: impl FnMut() -> F + Send + 'static) -> task::JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(async move {
        while tokio::spawn(begin()).await.is_err_and(|why| why.is_panic()) {
            tokio::time::sleep(PAUSE).await;
        }
    })
}

/// Starts a thread that begins its work again after a panic, and ends when the work returns.
pub fn spawn_thread(name: &str, mut work: impl FnMut() + Send + 'static) -> io::Result<JoinHandle<()>> {
    spawn(name, move || {
        while catch_unwind(AssertUnwindSafe(&mut work)).is_err() {
            std::thread::sleep(PAUSE);
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
}
