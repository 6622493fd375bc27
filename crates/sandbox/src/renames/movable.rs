//! Remembers directories that are known to be movable, so that the mover is not asked again.
//!
//! A directory that is in the upper layer alone stays movable for as long as it exists. If another directory gets its inode number later,
//! that one may be taken for movable: its rename then proceeds and may fail with `EXDEV`.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys::files::FileFacts;

/// A hash table of fixed size in which a directory can displace another. Both threads use it.
pub(super) struct MovableDirectories([AtomicU64; Self::SLOTS]);

impl MovableDirectories {
    /// Number of directories that the table can hold.
    const SLOTS: usize = 1024;

    pub(super) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; Self::SLOTS])
    }

    /// Records a directory as movable.
    pub(super) fn add(&self, directory: &FileFacts) {
        if let Some(slot) = self.slot(directory) {
            slot.store(key(directory), Ordering::Relaxed);
        }
    }

    /// Returns whether a directory is recorded as movable.
    pub(super) fn has(&self, directory: &FileFacts) -> bool {
        self.slot(directory).is_some_and(|slot| slot.load(Ordering::Relaxed) == key(directory))
    }

    /// Returns the slot that the inode number selects.
    fn slot(&self, directory: &FileFacts) -> Option<&AtomicU64> {
        let slots = u64::try_from(Self::SLOTS).ok()?;
        self.0.get(usize::try_from(directory.inode % slots).ok()?)
    }
}

/// Combines device and inode to a key. Never 0, which is the key of an empty slot.
fn key(directory: &FileFacts) -> u64 {
    let (major, minor) = directory.device;
    let device = u64::from(major) << 20 ^ u64::from(minor);
    directory.inode ^ device.rotate_right(20) | 1 << 63
}
