//! Large blocks of memory on their way back to the system, which takes milliseconds: a thread of its own does it, so that
//! no I/O thread need. They count as requests' memory until they are gone.

use std::any::Any;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::memory::Reservation;
use crate::sync::lock;

/// Blocks of fewer bytes are kept by the allocator, and free at once.
pub const LARGE_BLOCK: usize = 4 << 20;

/// What is to be dropped, and what it takes until then.
pub struct Disposed {
    _what: Box<dyn Any + Send>,
    _memory: Reservation,
}

/// The way to the thread that drops; whatever comes while there is none is dropped at once.
#[derive(Debug, Default)]
pub struct Disposal(Mutex<Option<Sender<Disposed>>>);

impl Disposal {
    /// The thread's end: it need only drop what comes.
    pub fn open(&self) -> Receiver<Disposed> {
        let (sender, receiver) = channel();
        *lock(&self.0) = Some(sender);
        receiver
    }

    /// No more goes there; the thread hears of it.
    pub fn close(&self) {
        lock(&self.0).take();
    }

    pub(crate) fn put(&self, what: Box<dyn Any + Send>, memory: Reservation) {
        if let Some(thread) = &*lock(&self.0) {
            // Without the thread it comes back, and is dropped here.
            let _ = thread.send(Disposed { _what: what, _memory: memory });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::memory::Memory;

    #[test]
    fn a_block_counts_until_the_thread_drops_it_and_without_one_it_is_dropped_at_once() {
        let memory = Arc::new(Memory::new(1 << 30, 1 << 20));
        let freed = memory.disposal.open();
        let mut taken = memory.of_connection().reservation();
        taken.grow(100, 100).unwrap();
        taken.dispose(vec![0; 100]);
        memory.of_connection().dispose(vec![0; 7], 7);
        assert_eq!(memory.used(), 107);
        memory.disposal.close();
        let late = Arc::new(());
        memory.of_connection().dispose(late.clone(), 9);
        assert_eq!((memory.used(), Arc::strong_count(&late)), (107, 1));
        assert_eq!(freed.iter().count(), 2);
        assert_eq!(memory.used(), 0);
    }
}
