//! Lists the entries of a directory without an allocation for each.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::RawDir;
use rustix::io::Errno;
use windlass_core::FileKind;

use crate::kernel::{kind, stat_child};

/// Buffer for the kernel's list of entries, reused for one directory after the other.
pub(crate) struct Entries(Vec<MaybeUninit<u8>>);

impl Entries {
    pub(crate) fn new() -> Self {
        Self(vec![MaybeUninit::uninit(); 32 << 10])
    }

    /// Calls `tell` with the name and kind of each entry of a directory. Skips entries that are removed in the meantime.
    pub(crate) fn each(
        &mut self,
        directory: BorrowedFd<'_>,
        mut tell: impl FnMut(&OsStr, FileKind),
    ) -> Result<(), Errno> {
        let mut entries = RawDir::new(directory, &mut self.0);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Err(Errno::INTR) => continue,
                entry => entry?,
            };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let name = OsStr::from_bytes(name);
            // Not every file system reports the kind.
            let kind = kind(entry.file_type())
                .or_else(|| stat_child(directory.as_fd(), name).ok().map(|stat| stat.kind));
            if let Some(kind) = kind {
                tell(name, kind);
            }
        }
        Ok(())
    }
}
