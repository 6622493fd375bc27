//! A directory that is thrown away: for trying things out, for copies, for the sample project of the tour.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use windlass::session::{IdSource as _, RandomIds};

use crate::places;

/// A private directory in the place for temporary files, which goes when this goes.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes `windlass-PURPOSE-…`. Nobody can have put anything there before us: the name is unknown, and a directory that exists is
    /// refused.
    pub(crate) fn new(purpose: &str) -> Result<Self> {
        let name = format!("windlass-{purpose}-{:x}", RandomIds::default().next());
        let path = places::temporary().join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("cannot create {}", path.display()))?;
        // Rules are about real places.
        Ok(Self(path.canonicalize().unwrap_or(path)))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes a directory in it.
    pub(crate) fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    }

    /// Removes it now, and says if that fails.
    pub(crate) fn remove(self) -> Result<()> {
        /// The number of times to try, while programs that are ending still write there.
        const TRIES: u32 = 100;
        let mut done = remove(&self.0);
        for _ in 0..TRIES {
            match &done {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    std::thread::sleep(Duration::from_millis(20));
                    done = remove(&self.0);
                }
                _ => break,
            }
        }
        done.with_context(|| format!("cannot remove {}", self.0.display()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left in a directory for temporary files is taken away by others.
        drop(remove(&self.0));
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
}
