//! Remembers facts about the machine for a moment.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A fact about the machine that takes long to find and seldom changes.
#[derive(Debug, Default)]
pub(super) struct Remembered<T>(Mutex<Option<(Instant, Arc<T>)>>);

/// Time for which a fact is remembered. A toolchain that was just installed is visible to programs after this time.
const REMEMBERED_FOR: Duration = Duration::from_secs(2);

impl<T> Remembered<T> {
    /// Returns the fact; finds it if it is unknown or too old.
    pub(super) fn get(&self, find: impl FnOnce() -> T) -> Arc<T> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((found_at, found)) = &*known
            && found_at.elapsed() < REMEMBERED_FOR
        {
            return found.clone();
        }
        let found = Arc::new(find());
        *known = Some((Instant::now(), found.clone()));
        found
    }
}
