//! What was below something that a program removed: all of it is listed, because all of it is removed one by one and can be
//! brought back one by one.

use std::path::{Path, PathBuf};

use rustix::io::Errno;
use windlass_core::{FileKind, Stat};

use crate::isolate::tree::{Tree, names};
use crate::kernel::stat_child;

/// Everything below a directory of the workspace.
#[derive(Debug, Default)]
pub(super) struct Gone {
    /// Files, links and directories, relative to the workspace.
    pub(super) objects: Vec<(PathBuf, Stat)>,
    /// FIFOs, sockets and devices: nobody could bring them back.
    pub(super) special: Vec<(PathBuf, FileKind)>,
}

impl Gone {
    /// What is below the directory at `path`, itself not included.
    pub(super) fn below(lower: &Tree, path: &Path) -> Result<Self, (PathBuf, Errno)> {
        let mut gone = Self::default();
        let mut waiting = vec![path.to_owned()];
        while let Some(path) = waiting.pop() {
            gone.list(lower, &path, &mut waiting).map_err(|errno| (path, errno))?;
        }
        Ok(gone)
    }

    fn list(&mut self, lower: &Tree, path: &Path, waiting: &mut Vec<PathBuf>) -> Result<(), Errno> {
        let directory = match lower.directory(path) {
            // Whoever could remove it without being able to list it found nothing in it.
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

    fn add(&mut self, path: PathBuf, stat: Stat, waiting: &mut Vec<PathBuf>) {
        match stat.kind {
            FileKind::File | FileKind::Symlink => {}
            FileKind::Directory => waiting.push(path.clone()),
            other => return self.special.push((path, other)),
        }
        self.objects.push((path, stat));
    }

    /// Leaves out the directories that cannot be removed, because something is in them that cannot.
    pub(super) fn without_those_that_stay(mut self) -> Self {
        let stays = |path: &Path| self.special.iter().any(|(special, _)| special.starts_with(path));
        self.objects.retain(|(path, stat)| stat.kind != FileKind::Directory || !stays(path));
        self
    }
}
