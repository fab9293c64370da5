//! One thread: started with a name, and waited for, but never without limit.

use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How often an end that has a limit is looked for.
const LOOK: Duration = Duration::from_millis(1);

/// Starts a thread with a name; the error has it, too.
pub fn spawn<T: Send + 'static>(name: &str, run: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(run).map_err(|why| named(name, &why))
}

/// The error with the thread's name.
pub fn named(name: &str, why: &io::Error) -> io::Error {
    io::Error::new(why.kind(), format!("cannot start thread {name}: {why}"))
}

/// Waits for a thread that was told to end; gives it back where it has not ended by then.
pub fn join(thread: JoinHandle<()>, until: Instant) -> Result<(), JoinHandle<()>> {
    while !thread.is_finished() {
        if Instant::now() >= until {
            return Err(thread);
        }
        std::thread::sleep(LOOK);
    }
    let _ = thread.join();
    Ok(())
}
