//! What clients' requests held goes back to the system, as an engine's does.

use crate::support::{Running, eventually, settings};

#[test]
fn freed_memory_goes_back_now_and_then_from_all_threads() {
    let running = Running::start(&settings());
    eventually("a thread of its own gives back what the others share", || {
        running.process.was_asked(&[
            ("tg-memory", "step back"),
            ("tg-memory", "return memory"),
            ("tg-io-0", "share memory"),
            ("tg-aside-0", "step back"),
            ("tg-aside-0", "share memory"),
            ("tg-aside-1", "share memory"),
        ])
    });
}
