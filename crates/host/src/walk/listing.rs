//! Directory entries as the kernel reports them: names and kinds, packed into two buffers.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::fs::RawDir;
use rustix::io::Errno;
use windlass_core::FileKind;

use crate::kernel;

/// Some of the entries of one directory.
#[derive(Debug, Default)]
pub(super) struct EntryBuffer {
    /// The names, each followed by a NUL.
    names: Vec<u8>,
    entries: Vec<BufferedEntry>,
}

/// One entry: the range of its name in the names, and its kind.
#[derive(Debug, Clone, Copy)]
struct BufferedEntry {
    start: usize,
    end: usize,
    /// `None` if the file system does not report kinds.
    kind: Option<FileKind>,
}

impl EntryBuffer {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn get(&self, at: usize) -> Option<(&CStr, Option<FileKind>)> {
        let item = self.entries.get(at)?;
        let name = CStr::from_bytes_with_nul(self.names.get(item.start..item.end)?).ok()?;
        Some((name, item.kind))
    }

    /// Iterates over the names, without their NULs.
    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().filter_map(|item| self.names.get(item.start..item.end - 1))
    }

    /// Adds the entries of one kernel buffer. Adds nothing at the end of the directory.
    pub(super) fn read(&mut self, directory: &mut RawDir<'_, BorrowedFd<'_>>) -> Result<(), Errno> {
        let before = self.len();
        // A buffer may hold nothing but `.` and `..`; then the next one is read.
        while self.len() == before {
            loop {
                match directory.next() {
                    Some(Ok(entry)) => self.add(entry.file_name(), kernel::kind(entry.file_type())),
                    Some(Err(Errno::INTR)) => {}
                    Some(Err(errno)) => return Err(errno),
                    None => return Ok(()),
                }
                if directory.is_buffer_empty() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &CStr, kind: Option<FileKind>) {
        if matches!(name.to_bytes(), b"." | b"..") {
            return;
        }
        let start = self.names.len();
        self.names.extend_from_slice(name.to_bytes_with_nul());
        self.entries.push(BufferedEntry { start, end: self.names.len(), kind });
    }

    /// Sorts the entries by name.
    pub(super) fn sort(&mut self) {
        let Self { names, entries } = self;
        entries.sort_unstable_by_key(|item| names.get(item.start..item.end));
    }

    /// Removes the entries from index `at` on and returns them.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let mut taken = Self::default();
        for item in self.entries.drain(at.min(self.entries.len())..) {
            let start = taken.names.len();
            taken.names.extend_from_slice(self.names.get(item.start..item.end).unwrap_or_default());
            taken.entries.push(BufferedEntry { start, end: taken.names.len(), kind: item.kind });
        }
        taken
    }
}
