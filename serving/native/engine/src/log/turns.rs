//! Short turns for long work on the log, so that requests which share its processor need not wait until it is done. The system
//! itself would part them at its next tick only, which is milliseconds away.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

/// So long the log works without a pause.
const TURN: Duration = Duration::from_micros(500);

/// As long as it takes to let others have the processor.
const PAUSE: Duration = Duration::from_micros(100);

/// The turns of one thread.
#[derive(Debug)]
pub struct Turns {
    began: Cell<Instant>,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { began: Cell::new(Instant::now()) }
    }
}

impl Turns {
    /// Pauses where a turn is over, unless so much waits that the log would not keep up. Returns whether it paused.
    pub fn give_way(&self, behind: impl FnOnce() -> bool) -> bool {
        if self.began.get().elapsed() < TURN {
            return false;
        }
        let pauses = !behind();
        if pauses {
            thread::sleep(PAUSE);
        }
        self.began.set(Instant::now());
        pauses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_when_it_has_been_long_and_the_log_keeps_up() {
        const LONG: Duration = Duration::from_secs(3600);
        let over = || Turns { began: Cell::new(Instant::now() - TURN) };
        assert!(!Turns { began: Cell::new(Instant::now() + LONG) }.give_way(|| false), "it has just begun");
        let (turns, before) = (over(), Instant::now());
        assert!(turns.give_way(|| false));
        assert!(turns.began.get() >= before, "the next one has not begun");
        assert!(!over().give_way(|| true), "what waits would be dropped");
    }
}
