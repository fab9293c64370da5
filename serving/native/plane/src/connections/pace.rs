//! Connections that send much are read by turns, and those that take much are written by turns: between two looks at the
//! sockets they get so many bytes and so many calls together, so that everybody else is served meanwhile, however many of
//! them there are.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};

use tidegate_engine::request::Mixture;
use tidegate_engine::sync::lock;

use crate::supervision::spawn_task;

/// Bytes between two looks at the sockets: about half a millisecond's work.
const BETWEEN_LOOKS: usize = 256 << 10;
/// Calls between two looks at the sockets, or connections that end: a fifth of a millisecond's work, and less where a request
/// that comes alone would wait for it.
const CALLS_BETWEEN_LOOKS: usize = 32;
const CALLS_MIXED: usize = 8;
/// Who began more calls than that with what was read last has to wait for turns.
const CALLS_AT_ONCE: usize = 16;
const CALLS_AT_ONCE_MIXED: usize = 1;
/// A piece that is read is not smaller, in bytes.
const SMALLEST: usize = 512;

#[derive(Debug, Default)]
struct State {
    bytes: usize,
    calls: usize,
    /// Looks at the sockets that somebody noticed.
    looks: u64,
    next: u64,
    /// By the order in which they came.
    waiting: BTreeMap<u64, Waker>,
    /// Whether the first of them was woken and has not come.
    called: bool,
    /// Whether somebody looks after those who wait.
    tended: bool,
}

impl State {
    fn call_first(&mut self) {
        if let Some((_, first)) = self.waiting.first_key_value() {
            self.called = true;
            first.wake_by_ref();
        }
    }

    /// Whoever is at this number waits no longer.
    fn leave(&mut self, number: u64) {
        let is_first = self.waiting.first_key_value().is_some_and(|(first, _)| *first == number);
        self.waiting.remove(&number);
        if is_first && std::mem::take(&mut self.called) {
            self.call_first();
        }
    }
}

/// The reading of one I/O thread.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    state: Arc<Mutex<State>>,
    writing: Arc<Mutex<State>>,
    mixture: Mixture,
}

impl Pace {
    /// Of the I/O thread whose requests are mixed so.
    pub fn new(mixture: Mixture) -> Pace {
        Pace { mixture, ..Pace::default() }
    }

    /// That of the thread's writing, which has turns of its own.
    pub fn of_writing(&self) -> Pace {
        Pace { state: self.writing.clone(), ..self.clone() }
    }

    /// Whether a connection that began so many calls with what was read last waits for turns.
    #[inline]
    pub fn are_many(&self, calls: usize) -> bool {
        calls > CALLS_AT_ONCE_MIXED && (calls > CALLS_AT_ONCE || self.mixture.is_mixed())
    }

    /// The most bytes to read of a connection whose last bytes began so many calls, where they are to come in small pieces.
    pub fn piece(&self, bytes: usize, calls: usize) -> Option<usize> {
        (calls > CALLS_AT_ONCE_MIXED && self.mixture.is_mixed()).then(|| (bytes / calls * CALLS_MIXED).max(SMALLEST))
    }

    fn calls_between_looks(&self) -> usize {
        if self.mixture.is_mixed() { CALLS_MIXED } else { CALLS_BETWEEN_LOOKS }
    }

    /// Waits until one more of several requests that came together may begin: reading them did not need another look at
    /// the sockets, so nothing else would make whoever sends many at once wait. Must be awaited on the I/O thread.
    pub async fn begin_one_more(&self) {
        let mut turns = Turns::new(self.clone());
        poll_fn(|context| turns.poll_turn(context)).await;
        self.note(0, 1);
    }

    /// It has read or written so many bytes, and so many calls began with them.
    pub fn note(&self, bytes: usize, calls: usize) {
        let mut state = lock(&self.state);
        state.bytes += bytes;
        state.calls += calls;
    }

    /// Begins a new turn after each look at the sockets, until nobody reads much any more.
    async fn tend(self) {
        loop {
            // A task that yields runs again once the sockets were looked at.
            tokio::task::yield_now().await;
            let mut state = lock(&self.state);
            state.calls = 0;
            state.looks += 1;
            // Who was called and did not come waits for something else first.
            if std::mem::take(&mut state.called) {
                state.waiting.pop_first();
            }
            if std::mem::take(&mut state.bytes) == 0 && state.waiting.is_empty() {
                state.tended = false;
                return;
            }
            state.call_first();
        }
    }
}

/// One who waits for turns, again and again.
#[derive(Debug)]
pub struct Turns {
    /// Whose.
    pub pace: Pace,
    /// Its number among those who wait.
    waits: Option<u64>,
    /// Bytes of its last turn that it did not write, and the look after which it had that.
    left: usize,
    look: u64,
}

impl Turns {
    /// Waits for none yet.
    pub fn new(pace: Pace) -> Turns {
        Turns { pace, waits: None, left: 0, look: 0 }
    }

    /// Ready when so many bytes may be written: with a turn of its own, or what is left of the last one, which had so many
    /// in `all` and ends with the next look at the sockets.
    pub fn poll_write_turn(&mut self, context: &Context<'_>, bytes: usize, all: usize) -> Poll<()> {
        if self.left < bytes || lock(&self.pace.state).looks != self.look {
            ready!(self.poll_turn(context));
            (self.left, self.look) = (all, lock(&self.pace.state).looks);
        }
        Poll::Ready(())
    }

    /// So many bytes were written.
    pub fn note_written(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
        self.pace.note(bytes, 0);
    }

    /// Ready when a connection that sends or takes much may go on; it is woken when it is to ask again. Must be used on the
    /// I/O thread.
    pub fn poll_turn(&mut self, context: &Context<'_>) -> Poll<()> {
        let mut state = lock(&self.pace.state);
        if !state.tended {
            state.tended = true;
            let pace = self.pace.clone();
            spawn_task(move || pace.clone().tend());
        }
        // A connection is asked for other reasons too, such as answers to write: who waits for a turn goes before it then.
        let first = state.waiting.first_key_value().map(|(number, _)| *number);
        if first.is_none() || first == self.waits {
            state.called = false;
            if state.bytes < BETWEEN_LOOKS && state.calls < self.pace.calls_between_looks() {
                state.waiting.pop_first();
                self.waits = None;
                state.call_first();
                return Poll::Ready(());
            }
        }
        let number = self.waits.filter(|number| state.waiting.contains_key(number)).unwrap_or(state.next);
        state.next = state.next.max(number + 1);
        state.waiting.entry(number).or_insert_with(|| context.waker().clone()).clone_from(context.waker());
        self.waits = Some(number);
        Poll::Pending
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        if let Some(number) = self.waits {
            lock(&self.pace.state).leave(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use tokio::runtime::Builder;
    use tokio::task::{LocalSet, spawn_local, yield_now};

    use super::*;

    const PIECE: usize = 64 << 10;

    #[test]
    fn between_two_looks_greedy_readers_get_so_much_together_and_all_get_through() {
        const READERS: usize = 60;
        const PIECES: usize = 40;
        let runtime = Builder::new_current_thread().event_interval(1009).build().unwrap();
        let (pace, read, through) = (Pace::default(), Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let looks = LocalSet::new().block_on(&runtime, async {
            for _ in 0..READERS {
                let (pace, read, through) = (pace.clone(), read.clone(), through.clone());
                spawn_local(async move {
                    let mut turns = Turns::new(pace.clone());
                    for _ in 0..PIECES {
                        poll_fn(|context| turns.poll_turn(context)).await;
                        pace.note(PIECE, 0);
                        read.set(read.get() + PIECE);
                    }
                    through.set(through.get() + 1);
                });
            }
            let mut looks = 0;
            while through.get() < READERS {
                let before = read.get();
                yield_now().await;
                looks += 1;
                assert!(read.get() - before <= 2 * BETWEEN_LOOKS, "{} at once", read.get() - before);
            }
            looks
        });
        assert!(looks >= READERS * PIECES * PIECE / BETWEEN_LOOKS / 2, "{looks}");
    }

    #[test]
    fn between_two_looks_so_many_requests_begin_that_came_together() {
        let runtime = Builder::new_current_thread().event_interval(1009).build().unwrap();
        let (pace, begun) = (Pace::default(), Rc::new(Cell::new(0)));
        LocalSet::new().block_on(&runtime, async {
            for _ in 0..50 {
                let (pace, begun) = (pace.clone(), begun.clone());
                spawn_local(async move {
                    for _ in 0..20 {
                        pace.begin_one_more().await;
                        begun.set(begun.get() + 1);
                    }
                });
            }
            while begun.get() < 50 * 20 {
                let before = begun.get();
                yield_now().await;
                assert!(begun.get() - before <= 2 * CALLS_BETWEEN_LOOKS, "{} at once", begun.get() - before);
            }
        });
    }

    #[test]
    fn whoever_waits_has_a_turn_although_another_always_asks_for_the_next() {
        const LOOKS: usize = 12;
        let runtime = Builder::new_current_thread().event_interval(1009).build().unwrap();
        let (pace, through) = (Pace::default(), Rc::new(Cell::new(0)));
        LocalSet::new().block_on(&runtime, async {
            let greedy = pace.clone();
            spawn_local(async move {
                loop {
                    greedy.begin_one_more().await;
                    greedy.note(1, CALLS_BETWEEN_LOOKS);
                }
            });
            yield_now().await;
            for _ in 0..3 {
                let (pace, through) = (pace.clone(), through.clone());
                spawn_local(async move {
                    pace.begin_one_more().await;
                    through.set(through.get() + 1);
                });
            }
            for _ in 0..LOOKS {
                yield_now().await;
            }
        });
        assert_eq!(through.get(), 3, "they wait while another is served again and again");
    }

    #[test]
    fn whoever_leaves_while_it_waits_keeps_nobody_waiting() {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let pace = Pace::default();
            pace.note(BETWEEN_LOOKS, 0);
            let mut leaving: Vec<_> = (0..1000).map(|_| Turns::new(pace.clone())).collect();
            let context = Context::from_waker(Waker::noop());
            assert!(leaving.iter_mut().all(|turns| turns.poll_turn(&context).is_pending()));
            let mut looks = 0;
            let through = async {
                tokio::join!(biased; pace.begin_one_more(), async { drop(leaving) });
            };
            tokio::select! {
                () = through => {}
                () = async { loop { yield_now().await; looks += 1; } } => {}
            }
            assert!(looks < 5, "it waited {looks} looks for those who left");
        });
    }
}
