//! Copies a tree: bytes, modes, times, symbolic links and hard links.
//!
//! Both sides are reached by directory handles, one directory after the other, and none stays open meanwhile. So neither a link that is put
//! in the way nor the depth of the tree matters. Where the file system can, a copy shares its blocks with the original.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use windlass_core::{FileError, FileKind, Fingerprint, SkippedPath, Stat};

use super::tree::{Tree, names};
use crate::alter::{as_errno, copy_content};
use crate::attributes::{self, Extended};
use crate::kernel::{FOR_READING, as_path, error_kind, open_child, stat, stat_child};

/// Flags to create a file that must not exist.
const FOR_CREATING: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Part of a tree that is copied.
#[derive(Debug)]
pub(crate) enum Selection {
    Everything,
    Only {
        /// Single paths, each with all directories above it.
        paths: HashSet<PathBuf>,
        /// Paths that are copied with everything below them.
        whole: Vec<PathBuf>,
    },
}

impl Selection {
    /// Returns whether a path is copied.
    fn includes(&self, path: &Path) -> bool {
        match self {
            Self::Everything => true,
            Self::Only { paths, whole } => {
                paths.contains(path) || whole.iter().any(|whole| path.starts_with(whole))
            }
        }
    }
}

/// Result of a copy.
#[derive(Debug, Default)]
pub(crate) struct Copied {
    /// Fingerprint of each file when it was copied.
    pub(crate) sources: HashMap<PathBuf, Fingerprint>,
    pub(crate) notes: Vec<SkippedPath>,
}

/// Copies the selected part of a tree into a tree that has none of these names.
pub(crate) fn copy(from: &Tree, to: &Tree, selection: &Selection) -> Result<Copied, FileError> {
    let mut copier = Copier {
        from,
        to,
        selection,
        target_fingerprint: to.identity()?,
        with_repository: selection.includes(Path::new(".git"))
            && from.directory(Path::new(".git")).is_ok(),
        hard_links: HashMap::new(),
        directories: Vec::new(),
        waiting: vec![PathBuf::new()],
        copied: Copied::default(),
    };
    while let Some(path) = copier.waiting.pop() {
        copier.copy_directory(path)?;
    }
    copier.set_directory_attributes()?;
    Ok(copier.copied)
}

/// State of a copy.
struct Copier<'a> {
    from: &'a Tree,
    to: &'a Tree,
    selection: &'a Selection,
    /// Fingerprint of the target directory, which may be inside the tree and must not be copied.
    target_fingerprint: Fingerprint,
    /// True if the repository at the top is copied as well.
    with_repository: bool,
    /// First copy of each file with hard links.
    hard_links: HashMap<(u64, u64), PathBuf>,
    /// Directories with the mode and time that they get in the end.
    directories: Vec<(PathBuf, Stat)>,
    waiting: Vec<PathBuf>,
    copied: Copied,
}

/// One object that is copied.
struct CopyItem<'a> {
    from: BorrowedFd<'a>,
    to: BorrowedFd<'a>,
    name: &'a OsStr,
    path: PathBuf,
    stat: Stat,
}

impl Copier<'_> {
    /// Copies the entries of a directory. Notes a directory that is not readable.
    fn copy_directory(&mut self, path: PathBuf) -> Result<(), FileError> {
        let from = match self.from.directory(&path) {
            Err(errno @ (Errno::ACCESS | Errno::NOENT)) => {
                self.note(path, error_kind(errno).to_string());
                return Ok(());
            }
            opened => opened.map_err(|errno| self.from.errno_error("list", &path, errno))?,
        };
        let to =
            self.to.directory(&path).map_err(|errno| self.to.errno_error("make", &path, errno))?;
        let listed = stat(&from).and_then(|stat| Ok((stat, names(&from)?)));
        let (stat, names) = listed.map_err(|errno| self.from.errno_error("list", &path, errno))?;
        for name in names {
            let path = path.join(&name);
            if self.selection.includes(&path) {
                self.copy_entry(&from, &to, &name, path)?;
            }
        }
        self.directories.push((path, stat));
        Ok(())
    }

    /// Copies one entry. Notes an entry that is not readable, and ignores one that is gone.
    fn copy_entry(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        name: &OsStr,
        path: PathBuf,
    ) -> Result<(), FileError> {
        let copied = stat_child(from, name).and_then(|stat| {
            let (from, to) = (from.as_fd(), to.as_fd());
            self.copy_item(&CopyItem { from, to, name, path: path.clone(), stat })
        });
        match copied {
            // The entry went away or became another object in the meantime, as if it had happened before.
            Ok(()) | Err(Errno::NOENT | Errno::LOOP) => Ok(()),
            Err(errno @ (Errno::ACCESS | Errno::PERM)) => {
                self.note(path, error_kind(errno).to_string());
                Ok(())
            }
            Err(errno) => Err(self.from.errno_error("copy", &path, errno)),
        }
    }

    /// Copies one object by its kind.
    fn copy_item(&mut self, item: &CopyItem<'_>) -> Result<(), Errno> {
        match item.stat.kind {
            FileKind::File => self.copy_file(item),
            FileKind::Symlink => copy_link(item),
            FileKind::Directory
                if item.stat.fingerprint.is_same_object(&self.target_fingerprint) =>
            {
                Ok(())
            }
            FileKind::Directory => {
                rustix::fs::mkdirat(item.to, item.name, Mode::RWXU)?;
                self.waiting.push(item.path.clone());
                Ok(())
            }
            other => {
                self.note(item.path.clone(), format!("it is {other}"));
                Ok(())
            }
        }
    }

    /// Copies a regular file, or links it to the copy of another name of the same file.
    fn copy_file(&mut self, item: &CopyItem<'_>) -> Result<(), Errno> {
        let Fingerprint { device, inode, .. } = item.stat.fingerprint;
        if item.stat.links > 1
            && let Some(first) = self.hard_links.get(&(device, inode))
        {
            let first = first.clone();
            return self.link_to(&first, item);
        }
        let source = File::from(open_child(item.from, item.name, FOR_READING)?);
        let now = stat(&source)?;
        if now.kind != FileKind::File || !now.fingerprint.is_same_object(&item.stat.fingerprint) {
            return Err(Errno::LOOP);
        }
        if item.name == ".git" && self.leads_elsewhere(&source, &item.path) {
            self.note(item.path.clone(), "it leads to a repository that is not copied".to_owned());
            return Ok(());
        }
        copy_regular(&source, &now, item)?;
        if item.stat.links > 1 {
            self.hard_links.insert((device, inode), item.path.clone());
        }
        self.copied.sources.insert(item.path.clone(), now.fingerprint);
        Ok(())
    }

    /// Creates a hard link to an earlier copy.
    fn link_to(&mut self, first: &Path, item: &CopyItem<'_>) -> Result<(), Errno> {
        let (parent, name) = (first.parent().unwrap_or(Path::new("")), first.file_name());
        let parent = self.to.directory(parent)?;
        let name = name.ok_or(Errno::NOENT)?;
        rustix::fs::linkat(&parent, name, item.to, item.name, AtFlags::empty())?;
        let source = self.copied.sources.get(first).copied();
        self.copied.sources.extend(source.map(|source| (item.path.clone(), source)));
        Ok(())
    }

    /// Returns whether a `.git` file names a repository outside of the copy, which a program that used git there would change.
    fn leads_elsewhere(&self, pointer: &File, path: &Path) -> bool {
        const MAX_POINTER_BYTES: u64 = 8 << 10;
        let mut text = Vec::new();
        if !self.with_repository || pointer.take(MAX_POINTER_BYTES).read_to_end(&mut text).is_err()
        {
            return true;
        }
        let Some(target) = text.trim_ascii().strip_prefix(b"gitdir:") else { return true };
        let above = path.components().count().saturating_sub(1);
        !stays_inside(as_path(target.trim_ascii()), above)
    }

    /// Sets modes and times from the bottom up; until now all directories had to be writable.
    fn set_directory_attributes(&mut self) -> Result<(), FileError> {
        for (path, stat) in self.directories.iter().rev() {
            let given = self.to.directory(path).and_then(|directory| {
                let now = rustix::fs::fstat(&directory)?;
                attributes::give_mode(&directory, now.st_mode, stat.mode)?;
                attributes::give_time(&directory, Some(stat.fingerprint.modified))
            });
            given.map_err(|errno| self.to.errno_error("finish", path, errno))?;
        }
        Ok(())
    }

    /// Records that a path was not copied.
    fn note(&mut self, path: PathBuf, why: String) {
        self.copied.notes.push(SkippedPath { path, why });
    }
}

/// Returns whether a path that begins `depth` directories below a root never leaves the root.
fn stays_inside(path: &Path, mut depth: usize) -> bool {
    path.components().all(|part| match part {
        Component::Normal(_) => {
            depth += 1;
            true
        }
        Component::CurDir => true,
        Component::ParentDir if depth > 0 => {
            depth -= 1;
            true
        }
        _ => false,
    })
}

/// Copies content, extended attributes, mode and time of a file.
fn copy_regular(source: &File, now: &Stat, item: &CopyItem<'_>) -> Result<(), Errno> {
    let mode = Mode::RUSR | Mode::WUSR;
    let copy = File::from(rustix::fs::openat(item.to, item.name, FOR_CREATING, mode)?);
    copy_content(source, &copy).map_err(|why| as_errno(&why))?;
    let extended = Extended::read(source)?;
    if !extended.is_empty() {
        extended.give(&copy)?;
    }
    rustix::fs::fchmod(&copy, Mode::from_raw_mode(now.mode))?;
    attributes::give_time(&copy, Some(now.fingerprint.modified))
}

/// Copies a symbolic link with its time.
fn copy_link(item: &CopyItem<'_>) -> Result<(), Errno> {
    let target = link_target(item.from, item.name)?;
    rustix::fs::symlinkat(&target, item.to, item.name)?;
    let times = attributes::times(item.stat.fingerprint.modified);
    rustix::fs::utimensat(item.to, item.name, &times, AtFlags::SYMLINK_NOFOLLOW)
}

/// Returns the target of a symbolic link as it is stored.
pub(crate) fn link_target(directory: impl AsFd, name: &OsStr) -> Result<PathBuf, Errno> {
    let target = rustix::fs::readlinkat(directory, name, Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()).into())
}
