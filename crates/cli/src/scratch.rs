//! A temporary directory that is removed after use: for trials, for copies, for the sample project of the tour.
//!
//! A killed process leaves its directory behind. Each process holds a lock on its own directory, so the next process that makes one for
//! the same purpose removes the unlocked ones.

use std::fs::{self, DirBuilder, File, Metadata, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use windlass::session::{IdSource as _, RandomIds};

use crate::user_dirs;

/// A private temporary directory, removed on drop.
pub(crate) struct Scratch {
    path: PathBuf,
    /// Holds the lock that keeps other processes from removing the directory.
    _lock: File,
}

impl Scratch {
    /// Creates `windlass-PURPOSE-RANDOM`, and removes abandoned directories of the same purpose. The name is random and an existing
    /// directory is refused, so no other program can have put files there.
    pub(crate) fn new(purpose: &str) -> Result<Self> {
        /// The number of attempts, while other processes remove the directory before it is locked.
        const MAX_ATTEMPTS: u32 = 16;
        let prefix = format!("windlass-{purpose}-");
        for _ in 0..MAX_ATTEMPTS {
            let name = format!("{prefix}{:x}", RandomIds::default().next());
            let path = user_dirs::temp_directory().join(name);
            let made = DirBuilder::new().mode(0o700).create(&path);
            made.with_context(|| format!("cannot create {}", path.display()))?;
            if let Some(lock) = lock_directory(&path)? {
                remove_abandoned(&prefix, &lock);
                // Rules are about paths without links.
                return Ok(Self { path: path.canonicalize().unwrap_or(path), _lock: lock });
            }
        }
        anyhow::bail!(
            "directories in {} are removed at once",
            user_dirs::temp_directory().display()
        )
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a private directory in it and returns its path.
    pub(crate) fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    }

    /// Removes the directory now, and returns an error if that fails.
    pub(crate) fn remove(self) -> Result<()> {
        /// The number of attempts, while programs that are ending still write there.
        const MAX_ATTEMPTS: u32 = 100;
        let mut done = remove(&self.path);
        for _ in 0..MAX_ATTEMPTS {
            match &done {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    std::thread::sleep(Duration::from_millis(20));
                    done = remove(&self.path);
                }
                _ => break,
            }
        }
        done.with_context(|| format!("cannot remove {}", self.path.display()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The system cleans up directories for temporary files.
        drop(remove(&self.path));
    }
}

/// Locks a new directory; `None` if another process has removed or locked it as abandoned.
fn lock_directory(path: &Path) -> Result<Option<File>> {
    let directory = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.with_context(|| format!("cannot open {}", path.display()))?,
    };
    // On a file system without locks, no process removes directories of others either.
    if matches!(directory.try_lock(), Err(TryLockError::WouldBlock)) {
        return Ok(None);
    }
    Ok((directory.metadata()?.nlink() > 0).then_some(directory))
}

/// Removes the directories with this prefix that belong to the owner of `own` and that no process has locked. A directory that cannot
/// be removed is left to the next process.
fn remove_abandoned(prefix: &str, own: &File) {
    let Ok(own) = own.metadata() else { return };
    for entry in fs::read_dir(user_dirs::temp_directory()).into_iter().flatten().flatten() {
        let is_one = entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes());
        let path = entry.path();
        let is_ours = |found: &Metadata| found.is_dir() && found.uid() == own.uid();
        if !is_one || !path.symlink_metadata().is_ok_and(|found| is_ours(&found)) {
            continue;
        }
        if let Ok(directory) = File::open(&path)
            && directory.metadata().is_ok_and(|found| is_ours(&found))
            && directory.try_lock().is_ok()
        {
            drop(remove(&path));
        }
    }
}

/// Removes a directory tree, also if directories in it are closed to their owner, as the work directories of overlays are.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_accessible(path);
            fs::remove_dir_all(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Gives the owner every right to a directory and to those below it. Errors are ignored: the removal that follows reports them.
fn make_accessible(directory: &Path) {
    drop(fs::set_permissions(directory, Permissions::from_mode(0o700)));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_accessible(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_directory_is_removed_with_its_content() {
        let scratch = Scratch::new("test").expect("a directory");
        let path = scratch.path().to_owned();
        let closed = scratch.directory("closed").expect("a directory");
        fs::write(closed.join("file"), "x").expect("a file");
        fs::set_permissions(&closed, Permissions::from_mode(0o0)).expect("closed");
        scratch.remove().expect("it is removed");
        assert!(!path.exists());
        let path = Scratch::new("test").expect("a directory").path().to_owned();
        assert!(!path.exists(), "it is removed when it is dropped");
    }

    #[test]
    fn new_directory_removes_abandoned_ones_and_leaves_locked_ones() {
        let living = Scratch::new("sweep").expect("a directory");
        let dead = living.path().with_file_name("windlass-sweep-dead");
        fs::create_dir_all(dead.join("paint/src")).expect("a directory");
        fs::write(dead.join("paint/src/a"), "x").expect("a file");
        let other = living.path().with_file_name("windlass-sweeping-other");
        fs::create_dir(&other).expect("a directory");
        let next = Scratch::new("sweep").expect("a directory");
        assert!(living.path().exists() && next.path().exists() && other.exists());
        assert!(!dead.exists());
        fs::remove_dir(&other).expect("it is there");
    }
}
