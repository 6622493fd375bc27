//! Answers about the machine that are good for a moment.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Something about the machine that takes long to find out and seldom changes.
#[derive(Debug, Default)]
pub(super) struct Remembered<T>(Mutex<Option<(Instant, Arc<T>)>>);

/// A toolchain that was installed is there for programs after this time at the latest.
const REMEMBERED_FOR: Duration = Duration::from_secs(2);

impl<T> Remembered<T> {
    /// The answer, found out if it is not known or too old.
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
