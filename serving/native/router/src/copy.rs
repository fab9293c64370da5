//! A model on one node: whether it answers there. One that lets deadlines pass while it answers nothing is asked by one request at
//! a time, after pauses, as long as the model is on others, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::links::tls::Protocol;
use crate::node::Node;
use crate::pause::Pause;

/// Who had less time than that says nothing about a node by its end.
const LEAST: Duration = Duration::from_millis(100);

/// A model on a node.
#[derive(Debug)]
pub struct ModelCopy {
    /// The node.
    pub node: Arc<Node>,
    late: Pause,
    asked: AtomicUsize,
    answers: AtomicU64,
}

/// A request that a copy has to answer, until it is dropped.
#[derive(Debug)]
pub struct Asking {
    copy: Arc<ModelCopy>,
    begun: Instant,
    until: Instant,
    /// Answers of the copy before; none once it has answered this.
    before: Option<u64>,
}

impl ModelCopy {
    /// Nothing is known of it yet.
    pub fn new(node: Arc<Node>) -> ModelCopy {
        let (asked, answers) = (AtomicUsize::new(0), AtomicU64::new(0));
        ModelCopy { node, late: Pause::default(), asked, answers }
    }

    /// A request goes to it, which is given up at this deadline.
    pub fn ask(self: &Arc<ModelCopy>, until: Instant) -> Asking {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let before = Some(self.answers.load(Ordering::Relaxed));
        Asking { copy: self.clone(), begun: Instant::now(), until, before }
    }

    /// Whether it is to be asked by this before others that are not.
    pub fn is_fit(&self, protocol: Protocol, now: Instant) -> bool {
        let waits = self.late.has_failed() && (self.late.lasts(now) || self.asked.load(Ordering::Relaxed) > 0);
        !waits && !self.node.pause(protocol).lasts(now)
    }
}

impl Asking {
    /// Something came of it.
    pub fn answered(&mut self) {
        self.before = None;
        self.copy.answers.fetch_add(1, Ordering::Relaxed);
        self.copy.late.end();
    }

    /// Nothing can come of it: the node was not reached.
    pub fn missed(&mut self) {
        self.before = None;
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.copy.asked.fetch_sub(1, Ordering::Relaxed);
        let now = Instant::now();
        let had_time = self.until.saturating_duration_since(self.begun) >= LEAST;
        if now >= self.until && had_time && self.before == Some(self.copy.answers.load(Ordering::Relaxed)) {
            self.copy.late.fail(now);
        }
    }
}
