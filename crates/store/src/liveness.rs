//! Which writers are alive, told by locks that the kernel drops when a process ends, however it ends.
//!
//! Each writer holds one numbered file locked and writes that number beside the calls it begins. A call whose file can be locked by
//! somebody else was left by the dead. This needs no process table, so it also holds between containers, where process ids say
//! nothing, and after a restart of the machine, when they are given again.

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
    /// The process that holds it.
    pub(crate) process: u32,
    /// Locked until it is closed.
    _file: File,
}

impl Slots {
    pub(crate) fn in_state(dir: &Path) -> Self {
        Self(dir.join("writers"))
    }

    /// The first number that nobody holds. There are as many files as there ever were writers at one time.
    pub(crate) fn take(&self) -> Result<Slot, StoreError> {
        for number in 0..u32::MAX {
            if let Some(slot) = self.try_take(number)? {
                return Ok(slot);
            }
        }
        Err(StoreError::file("find a free lock in", &self.0, io::ErrorKind::QuotaExceeded.into()))
    }

    /// This number, if nobody holds it.
    pub(crate) fn try_take(&self, number: u32) -> Result<Option<Slot>, StoreError> {
        let path = self.0.join(number.to_string());
        let file = self.open(&path).map_err(|why| StoreError::file("open", &path, why))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Slot { number, process: std::process::id(), _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(why)) => Err(StoreError::file("lock", &path, why)),
        }
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
                options.open(path)
            }
            opened => opened,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_held_by_one_at_a_time_and_free_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let slots = Slots::in_state(dir.path());
        let first = slots.take().unwrap();
        let second = slots.take().unwrap();
        assert_eq!((first.number, second.number), (0, 1));
        assert!(slots.try_take(0).unwrap().is_none());
        drop(first);
        assert_eq!(slots.take().unwrap().number, 0);
    }
}
