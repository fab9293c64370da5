//! A process that writes down what is asked of it, and on which thread. Stands in for the extension's allocator and the
//! system's priorities.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_plane::system::System;

/// What was asked so far.
#[derive(Default)]
pub struct Process(Mutex<HashSet<(String, &'static str)>>);

/// One that fails the first time that it is asked for anything by a thread of this name.
pub struct FailsOnce(pub &'static str, pub AtomicBool);

impl System for FailsOnce {
    fn give_way(&self) {
        let is_it = std::thread::current().name() == Some(self.0);
        assert!(!is_it || self.1.swap(true, Ordering::Relaxed), "on purpose");
    }
}

impl Process {
    fn note(&self, what: &'static str) {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        self.0.lock().unwrap().insert((thread, what));
    }

    /// Whether all this was asked: the thread, and what.
    pub fn was_asked(&self, all: &[(&str, &'static str)]) -> bool {
        let asked = self.0.lock().unwrap();
        all.iter().all(|(thread, what)| asked.contains(&((*thread).to_owned(), *what)))
    }
}

impl System for Process {
    fn give_way(&self) {
        self.note("give way");
    }

    fn step_back(&self) {
        self.note("step back");
    }

    fn return_memory(&self) {
        self.note("return memory");
    }

    fn share_memory(&self) {
        self.note("share memory");
    }
}
