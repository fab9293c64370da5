//! Locking that ignores poison, so that one thread that panicked does not stop the others.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; a panic elsewhere must not take this part down too.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
