//! Numbered files, each locked by the process that writes to it. The kernel drops the lock when the process ends, even by a kill.
//!
//! Each writer of the journal locks one file, its spool, and the number of the file is stored with the calls it begins. If another process
//! can lock the file, the writer of such a call is dead. This needs no process ids, so it also works between containers and after a
//! restart, when ids mean other processes.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::StoreError;

/// The directory of numbered files.
#[derive(Debug, Clone)]
pub(crate) struct WriterSlots(PathBuf);

/// An open numbered file, which this process may have locked.
#[derive(Debug)]
pub(crate) struct WriterSlot {
    pub(crate) number: u32,
    /// A lock on it lasts until it is closed.
    pub(crate) file: File,
}

impl WriterSlots {
    pub(crate) fn in_state(dir: &Path) -> Self {
        Self(dir.join("writers"))
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.0
    }

    /// The numbers of all files. There are as many as there ever were writers at one time.
    pub(crate) fn list(&self) -> Result<BTreeSet<u32>, StoreError> {
        let failed = |why| StoreError::file("list", &self.0, why);
        let entries = match std::fs::read_dir(&self.0) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            entries => entries.map_err(failed)?,
        };
        let mut numbers = BTreeSet::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            numbers.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        Ok(numbers)
    }

    /// Opens and locks this number; `None` if another process holds it.
    pub(crate) fn try_take(&self, number: u32) -> Result<Option<WriterSlot>, StoreError> {
        let slot = self.open(number)?;
        Ok(self.try_lock(&slot)?.then_some(slot))
    }

    /// Locks an open slot; returns false if another process holds it.
    pub(crate) fn try_lock(&self, slot: &WriterSlot) -> Result<bool, StoreError> {
        match slot.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(why)) => {
                Err(StoreError::file("lock", &self.file(slot.number), why))
            }
        }
    }

    /// Opens the file of this number, created if it is missing, without a lock.
    pub(crate) fn open(&self, number: u32) -> Result<WriterSlot, StoreError> {
        let path = self.file(number);
        let file = self.open_file(&path).map_err(|why| StoreError::file("open", &path, why))?;
        Ok(WriterSlot { number, file })
    }

    /// Opens the files in order and returns the first value that `take` makes of one, which it has to lock.
    pub(crate) fn take_first<T>(
        &self,
        take: impl Fn(WriterSlot, &Path) -> Result<Option<T>, StoreError>,
    ) -> Result<T, StoreError> {
        for number in 0..u32::MAX {
            if let Some(taken) = take(self.open(number)?, &self.file(number))? {
                return Ok(taken);
            }
        }
        let why = io::ErrorKind::QuotaExceeded.into();
        Err(StoreError::file("find a free number in", &self.0, why))
    }

    /// The path of the file with this number: a spool, or a slot of the undo history.
    pub(crate) fn file(&self, number: u32) -> PathBuf {
        self.0.join(number.to_string())
    }

    /// Opens a file, created if it is missing.
    fn open_file(&self, path: &Path) -> io::Result<File> {
        // Most files exist already.
        match open_to_write_if_allowed(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create_file(path),
            opened => opened,
        }
    }

    /// Creates a file with mode 0600, and its directory if that is missing.
    fn create_file(&self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
                options.open(path)
            }
            opened => opened,
        }
    }
}

/// Opens an existing file, read-only if it may not be written: it can still be read and locked.
pub(crate) fn open_to_write_if_allowed(path: &Path) -> io::Result<File> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if is_write_refused(&error) => File::open(path),
        opened => opened,
    }
}

/// Opens a file, created empty if there is none, and waits for its lock. The lock ends when the file is closed.
pub(crate) fn lock_file(path: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let opened = match (options.open(path), path.parent()) {
        (Err(error), Some(dir)) if error.kind() == io::ErrorKind::NotFound => {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
            made.and_then(|()| options.open(path))
        }
        (opened, _) => opened,
    };
    let file = opened.map_err(|why| StoreError::file("open", path, why))?;
    file.lock().map_err(|why| StoreError::file("lock", path, why))?;
    Ok(file)
}

/// Returns whether the error means that the file may not be written.
fn is_write_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_holder_at_a_time_and_is_free_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let slots = WriterSlots::in_state(dir.path());
        assert!(slots.list().unwrap().is_empty());
        let first = slots.try_take(0).unwrap();
        assert!(first.is_some());
        assert!(slots.try_take(0).unwrap().is_none());
        assert!(slots.try_take(1).unwrap().is_some());
        drop(first);
        assert!(slots.try_take(0).unwrap().is_some());
        assert!(slots.list().unwrap().into_iter().eq([0, 1]));
    }
}
