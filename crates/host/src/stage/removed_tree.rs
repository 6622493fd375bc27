//! Lists everything below a directory that a program removed, because each object is removed, and can be restored, one by one.

use std::path::{Path, PathBuf};

use rustix::io::Errno;
use windlass_core::{FileKind, Stat};

use crate::isolate::tree::{Tree, names};
use crate::kernel::stat_child;

/// Everything below a removed directory of the workspace.
#[derive(Debug, Default)]
pub(super) struct RemovedTree {
    /// Files, links and directories, relative to the workspace.
    pub(super) objects: Vec<(PathBuf, Stat)>,
    /// FIFOs, sockets and devices, which cannot be restored.
    pub(super) special: Vec<(PathBuf, FileKind)>,
}

impl RemovedTree {
    /// Lists what is below the directory at `path`, without the directory itself.
    pub(super) fn below(lower: &Tree, path: &Path) -> Result<Self, (PathBuf, Errno)> {
        let mut gone = Self::default();
        let mut waiting = vec![path.to_owned()];
        while let Some(path) = waiting.pop() {
            gone.list(lower, &path, &mut waiting).map_err(|errno| (path, errno))?;
        }
        Ok(gone)
    }

    /// Adds the entries of one directory.
    fn list(&mut self, lower: &Tree, path: &Path, waiting: &mut Vec<PathBuf>) -> Result<(), Errno> {
        let directory = match lower.directory(path) {
            // A program could only remove an unlistable directory if it was empty.
            Err(Errno::ACCESS | Errno::NOENT) => return Ok(()),
            opened => opened?,
        };
        for name in names(&directory)? {
            let stat = match stat_child(&directory, &name) {
                Err(Errno::NOENT) => continue,
                stat => stat?,
            };
            self.add(path.join(name), stat, waiting);
        }
        Ok(())
    }

    /// Adds one object, and queues it if it is a directory.
    fn add(&mut self, path: PathBuf, stat: Stat, waiting: &mut Vec<PathBuf>) {
        match stat.kind {
            FileKind::File | FileKind::Symlink => {}
            FileKind::Directory => waiting.push(path.clone()),
            other => return self.special.push((path, other)),
        }
        self.objects.push((path, stat));
    }

    /// Removes the directories from the list that cannot be removed because they contain special files.
    pub(super) fn removable(mut self) -> Self {
        let stays = |path: &Path| self.special.iter().any(|(special, _)| special.starts_with(path));
        self.objects.retain(|(path, stat)| stat.kind != FileKind::Directory || !stays(path));
        self
    }
}
