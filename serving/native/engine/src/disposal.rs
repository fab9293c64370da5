//! Large blocks of memory on their way back to the system, which takes milliseconds: a thread of its own does it, so that
//! no I/O thread need. They count as requests' memory until they are gone.

use std::any::Any;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::sync::lock;

/// Blocks of fewer bytes are kept by the allocator, and free at once.
pub const LARGE_BLOCK: usize = 4 << 20;

/// What is to be dropped.
pub type Disposed = Box<dyn Any + Send>;

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

    pub(crate) fn put(&self, what: Disposed) {
        if let Some(thread) = &*lock(&self.0) {
            // Without the thread it comes back, and is dropped here.
            let _ = thread.send(what);
        }
    }
}
