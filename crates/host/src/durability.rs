//! Decides when a change waits for the disk, and waits.

use std::os::fd::AsFd;

use rustix::io::Errno;

/// Failures that a change survives once it is reported as made.
///
/// ```
/// use windlass_host::{Durability, LocalHost};
/// let host = LocalHost::open_with(".".as_ref(), Durability::Kernel)?;
/// # drop(host);
/// # Ok::<(), windlass_core::FileError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Survives a power cut: each change waits for the disk.
    #[default]
    Disk,
    /// Survives the end of this process in any form, but not a power cut: the kernel writes to the disk in its own time. Much
    /// faster.
    Kernel,
}

/// Policy for waiting until changes are on the disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SyncPolicy {
    durability: Durability,
    /// True if directory entries and attributes wait for the end of a batch. Contents never do: no name may point to content that
    /// could be lost.
    in_batch: bool,
}

impl SyncPolicy {
    /// Waits with each change.
    pub(crate) fn each(durability: Durability) -> Self {
        Self { durability, in_batch: false }
    }

    /// Waits once for all changes of a batch.
    pub(crate) fn in_batch(self) -> Self {
        Self { in_batch: true, ..self }
    }

    /// Waits until the file is on the disk.
    pub(crate) fn sync_file(self, file: impl AsFd) -> Result<(), Errno> {
        match self.durability {
            Durability::Disk => rustix::fs::fsync(file),
            Durability::Kernel => Ok(()),
        }
    }

    /// Waits until a file is on the disk whose content is there already. In a batch this is left to the batch's end.
    pub(crate) fn sync_adopted(self, file: impl AsFd) -> Result<(), Errno> {
        if self.in_batch { Ok(()) } else { self.sync_file(file) }
    }

    /// Waits until the entries of a directory are on the disk. Ignores errors of file systems and handles that cannot sync a
    /// directory.
    pub(crate) fn sync_directory(self, directory: impl AsFd) -> Result<(), Errno> {
        if self.in_batch {
            return Ok(());
        }
        match self.sync_file(directory) {
            Err(Errno::INVAL | Errno::BADF | Errno::OPNOTSUPP) | Ok(()) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Waits until everything on the open object's file system is on the disk.
    pub(crate) fn sync_file_system(self, of: impl AsFd) -> Result<(), Errno> {
        match self.durability {
            Durability::Disk => rustix::fs::syncfs(of),
            Durability::Kernel => Ok(()),
        }
    }

    /// Returns whether changes wait for the disk at all.
    pub(crate) fn is_on_disk(self) -> bool {
        self.durability == Durability::Disk
    }
}
