//! Answers that calls of one connection have in common, such as a page about all models: each is counted once, for as long as
//! one of them waits to be taken.

use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use tidegate_codec::status::Status;
use tidegate_engine::memory::Share;
use tidegate_engine::sync::lock;

use crate::connections::held::Held;

/// Those of a connection.
#[derive(Debug, Default)]
pub struct SharedAnswers(Mutex<Vec<Weak<Held>>>);

/// An answer in one call's hands.
struct Handed(Arc<Held>);

impl AsRef<[u8]> for Handed {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl SharedAnswers {
    /// An answer that is counted to the connection's share until its client has taken it, or was before for another call.
    /// Nothing of what is kept for small requests is there for it: very many may be asked for and not taken.
    pub fn keep(&self, bytes: Bytes, share: &Arc<Share>) -> Result<Bytes, Status> {
        let mut known = lock(&self.0);
        known.retain(|one| one.strong_count() > 0);
        // As long as one is kept, nothing else is where it is.
        let same = |one: &Arc<Held>| std::ptr::eq((**one).as_ref(), &*bytes);
        let found = known.iter().filter_map(Weak::upgrade).find(same);
        let counted = match found {
            Some(counted) => counted,
            None => {
                let mut memory = share.reservation();
                memory.grow(bytes.len(), usize::MAX)?;
                let counted = Arc::new(Held::new(bytes, memory));
                known.push(Arc::downgrade(&counted));
                counted
            }
        };
        Ok(Bytes::from_owner(Handed(counted)))
    }
}
