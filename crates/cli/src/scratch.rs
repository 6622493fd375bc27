//! A directory that is thrown away: for trying things out, for copies, for the sample project of the tour.
//!
//! A process that is killed leaves its directory behind. Each holds a lock on its own, so the next that makes one for the same purpose
//! removes those without a process.

use std::fs::{self, DirBuilder, File, Metadata, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use windlass::session::{IdSource as _, RandomIds};

use crate::places;

/// A private directory in the place for temporary files, which goes when this goes.
pub(crate) struct Scratch {
    path: PathBuf,
    /// Holds the lock that keeps others from removing it.
    _lock: File,
}

impl Scratch {
    /// Makes `windlass-PURPOSE-…`. Nobody can have put anything there before us: the name is unknown, and a directory that exists is
    /// refused.
    pub(crate) fn new(purpose: &str) -> Result<Self> {
        /// The number of times to try, while others remove the directory before it is locked.
        const TRIES: u32 = 16;
        let prefix = format!("windlass-{purpose}-");
        for _ in 0..TRIES {
            let name = format!("{prefix}{:x}", RandomIds::default().next());
            let path = places::temporary().join(name);
            let made = DirBuilder::new().mode(0o700).create(&path);
            made.with_context(|| format!("cannot create {}", path.display()))?;
            if let Some(lock) = hold(&path)? {
                sweep(&prefix, &lock);
                // Rules are about real places.
                return Ok(Self { path: path.canonicalize().unwrap_or(path), _lock: lock });
            }
        }
        anyhow::bail!("directories in {} are removed at once", places::temporary().display())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a directory in it.
    pub(crate) fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    }

    /// Removes it now, and says if that fails.
    pub(crate) fn remove(self) -> Result<()> {
        /// The number of times to try, while programs that are ending still write there.
        const TRIES: u32 = 100;
        let mut done = remove(&self.path);
        for _ in 0..TRIES {
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
        // What is left in a directory for temporary files is taken away by others.
        drop(remove(&self.path));
    }
}

/// Locks a directory that was just made; `None` if another process has taken it for left behind.
fn hold(path: &Path) -> Result<Option<File>> {
    let directory = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.with_context(|| format!("cannot open {}", path.display()))?,
    };
    // Where a file system has no locks, nothing is swept either.
    if matches!(directory.try_lock(), Err(TryLockError::WouldBlock)) {
        return Ok(None);
    }
    Ok((directory.metadata()?.nlink() > 0).then_some(directory))
}

/// Removes the directories with this prefix that belong to the owner of `own` and that no process holds. What cannot be removed is
/// tried again by the next one.
fn sweep(prefix: &str, own: &File) {
    let Ok(own) = own.metadata() else { return };
    for entry in fs::read_dir(places::temporary()).into_iter().flatten().flatten() {
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

/// Removes a directory, also where some below it are closed to their owner, as the working directories of overlays are.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_all(path);
            fs::remove_dir_all(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Gives the owner every right to a directory and to those below it. Where that fails, the removal says why.
fn open_all(directory: &Path) {
    drop(fs::set_permissions(directory, Permissions::from_mode(0o700)));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_all(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_all_that_is_in_it() {
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
    fn what_a_killed_process_left_goes_and_what_a_living_one_holds_stays() {
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
