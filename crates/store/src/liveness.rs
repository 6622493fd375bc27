//! Which writers are alive, told by locks that the kernel drops when a process ends, however it ends.
//!
//! Each writer holds one numbered file locked, its spool, and that number is kept beside the calls it begins. A call whose file can
//! be locked by somebody else was left by the dead. This needs no process table, so it also holds between containers, where process ids say
//! nothing, and after a restart of the machine, when they are given again.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::StoreError;

/// Where the numbered files are.
#[derive(Debug, Clone)]
pub(crate) struct Slots(PathBuf);

/// A number that no other living writer has.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) number: u32,
    /// Locked until it is closed.
    pub(crate) file: File,
}

impl Slots {
    pub(crate) fn in_state(dir: &Path) -> Self {
        Self(dir.join("writers"))
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.0
    }

    /// The numbers that anybody ever held. There are as many as there ever were writers at one time.
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

    /// This number, if nobody holds it.
    pub(crate) fn try_take(&self, number: u32) -> Result<Option<Slot>, StoreError> {
        let slot = self.open(number)?;
        Ok(self.try_lock(&slot)?.then_some(slot))
    }

    /// Whether the number was held by nobody, and now by this slot.
    pub(crate) fn try_lock(&self, slot: &Slot) -> Result<bool, StoreError> {
        match slot.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(why)) => {
                Err(StoreError::file("lock", &self.spool(slot.number), why))
            }
        }
    }

    /// This number, whether somebody holds it or not.
    pub(crate) fn open(&self, number: u32) -> Result<Slot, StoreError> {
        let path = self.spool(number);
        let file = self.open_file(&path).map_err(|why| StoreError::file("open", &path, why))?;
        Ok(Slot { number, file })
    }

    pub(crate) fn exhausted(&self) -> StoreError {
        StoreError::file("find a free number in", &self.0, io::ErrorKind::QuotaExceeded.into())
    }

    fn open_file(&self, path: &Path) -> io::Result<File> {
        // Most are there.
        match open_to_write_if_allowed(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create_file(path),
            opened => opened,
        }
    }

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

/// Opens a file that is there. One that may not be written can still be read and locked.
pub(crate) fn open_to_write_if_allowed(path: &Path) -> io::Result<File> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if is_refusal(&error) => File::open(path),
        opened => opened,
    }
}

/// Opens a file, made empty if there is none, and waits until no other holds its lock. The lock ends with the file.
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

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_held_by_one_at_a_time_and_free_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let slots = Slots::in_state(dir.path());
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
