//! The right to take changes back, or to settle proposals, which one holder has at a time.

use std::fmt;
use std::fs::File;
use std::sync::MutexGuard;

/// A lock that keeps other holders out, in this process and in others, until it is dropped.
///
/// ```
/// use windlass_core::{History, MemoryHistory};
/// let history = MemoryHistory::default();
/// let alone = history.exclusive()?;
/// // … no other undo begins here …
/// drop(alone);
/// # Ok::<(), windlass_core::HistoryError>(())
/// ```
pub struct Exclusive<'h> {
    _held: Held<'h>,
}

enum Held<'h> {
    /// A file on which the kernel holds the lock until it is closed.
    File { _open: File },
    /// A lock of this process.
    Guard { _guard: MutexGuard<'h, ()> },
    /// Nothing is shared that a lock could protect.
    Unshared,
}

impl<'h> Exclusive<'h> {
    /// Holds the lock of a file, which must be locked already.
    pub fn by_file(locked: File) -> Self {
        Self { _held: Held::File { _open: locked } }
    }

    /// Holds a lock of this process.
    pub fn by_guard(guard: MutexGuard<'h, ()>) -> Self {
        Self { _held: Held::Guard { _guard: guard } }
    }

    /// Holds nothing: for what no other process and no other engine can reach.
    pub fn unshared() -> Self {
        Self { _held: Held::Unshared }
    }
}

impl fmt::Debug for Exclusive<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exclusive").finish_non_exhaustive()
    }
}
