//! A mutex that does not carry panics from one call to the next.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// `Mutex`, without poisoning: a panic is contained in the call that had it, and what we keep under locks is whole between any
/// two statements.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
