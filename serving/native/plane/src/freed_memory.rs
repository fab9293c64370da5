//! Freed memory on its way back to the system, which no I/O thread waits for: a thread of its own gives it back, and I/O
//! threads let that one have what they keep.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidegate_engine::disposal::Disposed;
use tidegate_engine::engine::Engine;
use tidegate_engine::memory::Memory;
use tidegate_engine::metrics::LogMetrics;
use tidegate_engine::spare::SPARE;

use crate::endpoints::reply::PlaneDispatcher;
use crate::supervision::spawn_thread;
use crate::system::System;

/// How often freed memory goes back to the system; and after how many times that at the latest while the log is written, as
/// the next block soon wants again what the last one took.
const PURGE_EVERY: Duration = Duration::from_secs(1);
const LATEST: u32 = 5;

/// How often an I/O thread lets others have memory that it freed.
const SHARE_EVERY: Duration = Duration::from_secs(1);

/// The part of what requests may hold that freed large blocks may take while they wait to be used again.
const OF_LIMIT: usize = 8;

/// The thread that gives freed memory back.
pub struct FreedMemory {
    memory: Arc<Memory>,
    thread: JoinHandle<()>,
}

impl FreedMemory {
    /// Starts it; it drops what is disposed of, too.
    pub fn start(engine: &Engine, system: Arc<dyn System>) -> io::Result<FreedMemory> {
        let memory = engine.limits.memory.clone();
        let (disposed, of_models, metrics) = (memory.disposal.open(), memory.clone(), engine.metrics.clone());
        let thread = spawn_thread("tg-memory", move || {
            system.step_back();
            let keeping = SPARE.keep(of_models.limit() / OF_LIMIT);
            return_memory(&disposed, &of_models, &metrics.log, &*system);
            drop(keeping);
            system.return_memory();
        })?;
        Ok(FreedMemory { memory, thread })
    }

    /// Has it end, once all that was disposed of is dropped; it is to be waited for.
    pub fn end(self) -> JoinHandle<()> {
        self.memory.disposal.close();
        self.thread
    }
}

/// Keeps little of what is freed on this I/O thread, for as long as its runtime lives.
pub async fn share_memory(dispatcher: Arc<PlaneDispatcher>, system: Arc<dyn System>) {
    loop {
        tokio::time::sleep(SHARE_EVERY).await;
        dispatcher.shrink();
        system.share_memory();
    }
}

/// Drops large blocks as they come, and has the allocator give back what else was freed every now and then.
fn return_memory(disposed: &Receiver<Disposed>, memory: &Memory, log: &LogMetrics, system: &dyn System) {
    let mut due = Instant::now() + PURGE_EVERY;
    let (mut seen, mut owed) = (memory.large_arrays(), false);
    let mut purge = Purge::default();
    loop {
        match disposed.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(block) => drop(block),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if Instant::now() >= due {
            if purge.is_due(log.written_rows()) {
                system.return_memory();
            }
            let made = memory.large_arrays();
            match made != seen {
                true => (seen, owed) = (made, true),
                false if std::mem::take(&mut owed) => system.return_model_memory(),
                false => {}
            }
            due = Instant::now() + PURGE_EVERY;
        }
    }
}

/// When freed memory goes back to the system.
#[derive(Debug, Default)]
struct Purge {
    /// Rows that the log had written when it was asked last.
    logged: u64,
    put_off: u32,
}

impl Purge {
    /// Asked every now and then, with how many rows the log has written so far.
    fn is_due(&mut self, written: u64) -> bool {
        let quiet = std::mem::replace(&mut self.logged, written) == written;
        self.put_off += 1;
        let due = quiet || self.put_off == LATEST;
        if due {
            self.put_off = 0;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_back_at_once_where_no_log_is_written_and_now_and_then_while_one_is() {
        let mut purge = Purge::default();
        let due = [0, 0, 1, 2, 3, 4, 5, 6, 6, 7].map(|written| purge.is_due(written));
        assert_eq!(due, [true, true, false, false, false, false, true, false, true, false]);
    }
}
