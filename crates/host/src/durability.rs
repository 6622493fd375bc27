//! What a change survives once it is reported as made.

use std::os::fd::AsFd;

use rustix::io::Errno;

/// What a change survives once it is reported as made.
///
/// ```
/// use windlass_host::{Durability, LocalHost};
/// let host = LocalHost::open_with(".".as_ref(), Durability::Kernel)?;
/// # drop(host);
/// # Ok::<(), windlass_core::FileError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A power cut: each change waits for the disk.
    #[default]
    Disk,
    /// The end of this process, however it comes, but no power cut: the kernel writes to the disk when it likes. Much faster.
    Kernel,
}

/// When the disk is waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settling {
    durability: Durability,
    /// Whether names and attributes wait for the end of a batch. Contents never do: no name is given to what could be lost.
    in_batch: bool,
}

impl Settling {
    /// With each change.
    pub(crate) fn each(durability: Durability) -> Self {
        Self { durability, in_batch: false }
    }

    /// Once for all changes of a batch.
    pub(crate) fn in_batch(self) -> Self {
        Self { in_batch: true, ..self }
    }

    /// Waits until the disk has the file.
    pub(crate) fn settle_file(self, file: impl AsFd) -> Result<(), Errno> {
        match self.durability {
            Durability::Disk => rustix::fs::fsync(file),
            Durability::Kernel => Ok(()),
        }
    }

    /// Waits until the disk has a file whose content it has already, if that was begun in a batch.
    pub(crate) fn settle_adopted(self, file: impl AsFd) -> Result<(), Errno> {
        if self.in_batch { Ok(()) } else { self.settle_file(file) }
    }

    /// Waits until the disk has the names in a directory. Not every file system, and not every handle, can say that it has.
    pub(crate) fn settle_directory(self, directory: impl AsFd) -> Result<(), Errno> {
        if self.in_batch {
            return Ok(());
        }
        match self.settle_file(directory) {
            Err(Errno::INVAL | Errno::BADF | Errno::OPNOTSUPP) | Ok(()) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Waits until the disk has all of the file system that an open object is on.
    pub(crate) fn settle_file_system(self, of: impl AsFd) -> Result<(), Errno> {
        match self.durability {
            Durability::Disk => rustix::fs::syncfs(of),
            Durability::Kernel => Ok(()),
        }
    }

    /// Whether the disk is waited for at all.
    pub(crate) fn is_on_disk(self) -> bool {
        self.durability == Durability::Disk
    }
}
