//! The exclusive right to undo changes or to decide on proposals, for one holder at a time.

use std::fmt;
use std::fs::File;
use std::sync::MutexGuard;

/// A lock that excludes other holders, in this process and in others, until it is dropped.
///
/// ```
/// use windlass_core::{History, MemoryHistory};
/// let history = MemoryHistory::default();
/// let alone = history.exclusive()?;
/// // … no other undo begins here …
/// drop(alone);
/// # Ok::<(), windlass_core::HistoryError>(())
/// ```
pub struct HistoryLock<'h> {
    _held: ExclusiveLock<'h>,
}

/// The kind of a lock, and the value that holds it.
enum ExclusiveLock<'h> {
    /// An open file on which the kernel holds the lock until it is closed.
    File { _open: File },
    /// A mutex guard of this process.
    Guard { _guard: MutexGuard<'h, ()> },
    /// No lock: no other process or engine shares the history.
    Unshared,
}

impl<'h> HistoryLock<'h> {
    /// Wraps a file that the caller has locked already.
    pub fn by_file(locked: File) -> Self {
        Self { _held: ExclusiveLock::File { _open: locked } }
    }

    /// Wraps a mutex guard of this process.
    pub fn by_guard(guard: MutexGuard<'h, ()>) -> Self {
        Self { _held: ExclusiveLock::Guard { _guard: guard } }
    }

    /// Makes an empty lock, for a history that no other process and no other engine can reach.
    pub fn unshared() -> Self {
        Self { _held: ExclusiveLock::Unshared }
    }
}

impl fmt::Debug for HistoryLock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exclusive").finish_non_exhaustive()
    }
}
