//! Copies a tree: bytes, modes, times, links as links, and files with several names as that.
//!
//! By directory handles on both sides, one directory after the other and with none held open meanwhile, so that neither a link that
//! is put in the way nor the depth of the tree matters. Where the file system can, a copy shares its blocks with the original.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use windlass_core::{FileError, FileKind, Fingerprint, Note, Stat};

use super::tree::{Tree, names};
use crate::alter::{as_errno, copy_content};
use crate::attributes::{self, Extended};
use crate::kernel::{FOR_READING, as_path, meaning, open_child, stat, stat_child};

const FOR_CREATING: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// What of a tree is copied.
#[derive(Debug)]
pub(crate) enum Selection {
    Everything,
    Only {
        /// Each with all the directories above it.
        paths: HashSet<PathBuf>,
        /// Those with everything below them.
        whole: Vec<PathBuf>,
    },
}

impl Selection {
    fn takes(&self, path: &Path) -> bool {
        match self {
            Self::Everything => true,
            Self::Only { paths, whole } => {
                paths.contains(path) || whole.iter().any(|whole| path.starts_with(whole))
            }
        }
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Copied {
    /// What each file was when it was copied.
    pub(crate) sources: HashMap<PathBuf, Fingerprint>,
    pub(crate) notes: Vec<Note>,
}

/// Copies what is selected of a tree into an empty one, or one that has nothing of these names.
pub(crate) fn copy(from: &Tree, to: &Tree, selection: &Selection) -> Result<Copied, FileError> {
    let mut copier = Copier {
        from,
        to,
        selection,
        itself: to.identity()?,
        with_repository: selection.takes(Path::new(".git"))
            && from.directory(Path::new(".git")).is_ok(),
        linked: HashMap::new(),
        directories: Vec::new(),
        waiting: vec![PathBuf::new()],
        copied: Copied::default(),
    };
    while let Some(path) = copier.waiting.pop() {
        copier.copy_directory(path)?;
    }
    copier.finish_directories()?;
    Ok(copier.copied)
}

struct Copier<'a> {
    from: &'a Tree,
    to: &'a Tree,
    selection: &'a Selection,
    /// The copy can be inside what is copied.
    itself: Fingerprint,
    /// Whether the repository at the top is copied as well.
    with_repository: bool,
    /// The first copy of each file that has several names.
    linked: HashMap<(u64, u64), PathBuf>,
    /// What directories shall be once nothing is put into them any more.
    directories: Vec<(PathBuf, Stat)>,
    waiting: Vec<PathBuf>,
    copied: Copied,
}

/// One thing that is copied.
struct Item<'a> {
    from: BorrowedFd<'a>,
    to: BorrowedFd<'a>,
    name: &'a OsStr,
    path: PathBuf,
    stat: Stat,
}

impl Copier<'_> {
    fn copy_directory(&mut self, path: PathBuf) -> Result<(), FileError> {
        let from = match self.from.directory(&path) {
            Err(errno @ (Errno::ACCESS | Errno::NOENT)) => {
                self.note(path, meaning(errno).to_string());
                return Ok(());
            }
            opened => opened.map_err(|errno| self.from.failed("list", &path, errno))?,
        };
        let to = self.to.directory(&path).map_err(|errno| self.to.failed("make", &path, errno))?;
        let listed = stat(&from).and_then(|stat| Ok((stat, names(&from)?)));
        let (stat, names) = listed.map_err(|errno| self.from.failed("list", &path, errno))?;
        for name in names {
            let path = path.join(&name);
            if self.selection.takes(&path) {
                self.copy_entry(&from, &to, &name, path)?;
            }
        }
        self.directories.push((path, stat));
        Ok(())
    }

    fn copy_entry(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        name: &OsStr,
        path: PathBuf,
    ) -> Result<(), FileError> {
        let copied = stat_child(from, name).and_then(|stat| {
            let (from, to) = (from.as_fd(), to.as_fd());
            self.copy_item(&Item { from, to, name, path: path.clone(), stat })
        });
        match copied {
            // It went away, or became something else, while we looked: it is as if we had come later.
            Ok(()) | Err(Errno::NOENT | Errno::LOOP) => Ok(()),
            Err(errno @ (Errno::ACCESS | Errno::PERM)) => {
                self.note(path, meaning(errno).to_string());
                Ok(())
            }
            Err(errno) => Err(self.from.failed("copy", &path, errno)),
        }
    }

    fn copy_item(&mut self, item: &Item<'_>) -> Result<(), Errno> {
        match item.stat.kind {
            FileKind::File => self.copy_file(item),
            FileKind::Symlink => copy_link(item),
            FileKind::Directory if item.stat.fingerprint.is_same_object(&self.itself) => Ok(()),
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

    fn copy_file(&mut self, item: &Item<'_>) -> Result<(), Errno> {
        let Fingerprint { device, inode, .. } = item.stat.fingerprint;
        if item.stat.links > 1
            && let Some(first) = self.linked.get(&(device, inode))
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
            self.linked.insert((device, inode), item.path.clone());
        }
        self.copied.sources.insert(item.path.clone(), now.fingerprint);
        Ok(())
    }

    fn link_to(&mut self, first: &Path, item: &Item<'_>) -> Result<(), Errno> {
        let (parent, name) = (first.parent().unwrap_or(Path::new("")), first.file_name());
        let parent = self.to.directory(parent)?;
        let name = name.ok_or(Errno::NOENT)?;
        rustix::fs::linkat(&parent, name, item.to, item.name, AtFlags::empty())?;
        let source = self.copied.sources.get(first).copied();
        self.copied.sources.extend(source.map(|source| (item.path.clone(), source)));
        Ok(())
    }

    /// Whether a `.git` that is a file names a repository outside of the copy: a program that used git there would change it.
    fn leads_elsewhere(&self, pointer: &File, path: &Path) -> bool {
        const LONG: u64 = 8 << 10;
        let mut text = Vec::new();
        if !self.with_repository || pointer.take(LONG).read_to_end(&mut text).is_err() {
            return true;
        }
        let Some(target) = text.trim_ascii().strip_prefix(b"gitdir:") else { return true };
        let above = path.components().count().saturating_sub(1);
        !stays_inside(as_path(target.trim_ascii()), above)
    }

    /// Modes and times, from the bottom up: until now we had to be able to write to all of them.
    fn finish_directories(&mut self) -> Result<(), FileError> {
        for (path, stat) in self.directories.iter().rev() {
            let given = self.to.directory(path).and_then(|directory| {
                let now = rustix::fs::fstat(&directory)?;
                attributes::give_mode(&directory, now.st_mode, stat.mode)?;
                attributes::give_time(&directory, Some(stat.fingerprint.modified))
            });
            given.map_err(|errno| self.to.failed("finish", path, errno))?;
        }
        Ok(())
    }

    fn note(&mut self, path: PathBuf, why: String) {
        self.copied.notes.push(Note { path, why });
    }
}

/// Whether a path that begins `depth` directories below a root never leaves it.
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

fn copy_regular(source: &File, now: &Stat, item: &Item<'_>) -> Result<(), Errno> {
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

fn copy_link(item: &Item<'_>) -> Result<(), Errno> {
    let target = link_target(item.from, item.name)?;
    rustix::fs::symlinkat(&target, item.to, item.name)?;
    let times = attributes::times(item.stat.fingerprint.modified);
    rustix::fs::utimensat(item.to, item.name, &times, AtFlags::SYMLINK_NOFOLLOW)
}

/// Where a link points to, as it is written in it.
pub(crate) fn link_target(directory: impl AsFd, name: &OsStr) -> Result<PathBuf, Errno> {
    let target = rustix::fs::readlinkat(directory, name, Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()).into())
}
