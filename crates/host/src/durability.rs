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

impl Durability {
    /// Waits until the disk has the file.
    pub(crate) fn settle_file(self, file: impl AsFd) -> Result<(), Errno> {
        match self {
            Self::Disk => rustix::fs::fsync(file),
            Self::Kernel => Ok(()),
        }
    }

    /// Waits until the disk has the names in a directory. Not every file system, and not every handle, can say that it has.
    pub(crate) fn settle_directory(self, directory: impl AsFd) -> Result<(), Errno> {
        match self.settle_file(directory) {
            Err(Errno::INVAL | Errno::BADF | Errno::OPNOTSUPP) | Ok(()) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}
