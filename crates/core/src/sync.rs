//! A mutex that does not carry panics from one call to the next.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A `Mutex` without poisoning. A panic is contained in the call that had it, and the values under our locks are whole between any two
/// statements.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// Makes a lock around a value.
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Locks, also after a panic of another holder.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
