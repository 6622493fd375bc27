//! Recognizes that a program moved a build directory away, or an object out of one: `mv node_modules x`, `mv target/app .`.
//!
//! Build directories have no history, but their new path has one. An undo that only removed the new path would lose the files, so the
//! removal of moved objects is recorded like any other, and the commit joins both to a move. Overlayfs does not record renames: a move is
//! recognized by files of the same length and time.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::AtFlags;
use rustix::io::Errno;
use windlass_core::{Attributes, ChangedTo, FileKind, Stat};

use super::build_merge::is_opaque;
use super::delta::is_whiteout;
use super::file;
use super::recorded_changes::Change;
use super::removed_tree::RemovedTree;
use crate::isolate::tree::{Tree, names};
use crate::kernel::{FOR_READING, open_child, stat, stat_child, stat_from};

/// Files and links that a program created and that may have been in the workspace under another name.
#[derive(Default)]
pub(super) struct ArrivedFiles(HashSet<LengthAndTime>);

/// Length and time of a file or link, which a move keeps.
type LengthAndTime = (u64, i64);

impl ArrivedFiles {
    /// Collects the created objects whose times are not later than `since`, when the program began.
    pub(super) fn among(made: &[Change], since: i64) -> Self {
        Self(made.iter().filter_map(|change| length_and_time(change, since)).collect())
    }

    /// Finds the objects that are gone from a build directory and seem to be elsewhere now, and whether anything else changed in it.
    pub(super) fn moved_out_of(
        &self,
        upper: &Tree,
        lower: &Tree,
        build_directory: &Path,
    ) -> io::Result<MovedOut> {
        let mut found = MovedOut::default();
        let mut waiting = vec![build_directory.to_owned()];
        while let Some(path) = waiting.pop() {
            if found.has_others && self.0.is_empty() {
                break;
            }
            let failed =
                |tree: &Tree, errno| io::Error::other(tree.errno_error("list", &path, errno));
            let old = directory(lower, &path).map_err(|errno| failed(lower, errno))?;
            let new = directory(upper, &path).map_err(|errno| failed(upper, errno))?;
            let (Some(old), Some(new)) = (old, new) else {
                found.has_others = true;
                continue;
            };
            let listed = ListedDirectory::read(&new).map_err(|errno| failed(upper, errno))?;
            let mode = |directory| stat(directory).map(|it| it.mode);
            found.has_others |=
                mode(&old) != mode(&new) || listed.has_changed(&new, &old).unwrap_or(true);
            for name in names(&old).map_err(|errno| failed(lower, errno))? {
                let inside = path.join(&name);
                if listed.is_gone(&name) {
                    let before = stat_child(&old, &name).map_err(|errno| failed(lower, errno))?;
                    if self.has_any_of(lower, &inside, before)? {
                        found.moved.push((inside, before));
                    } else {
                        found.has_others = true;
                    }
                } else if listed.directories.contains(&name) && before_is_directory(&old, &name) {
                    waiting.push(inside);
                }
            }
            found.has_others |=
                listed.directories.iter().any(|name| !before_is_directory(&old, name));
        }
        Ok(found)
    }

    /// Returns whether a removed object, or one in it, seems to be elsewhere now.
    pub(super) fn has_any_of(&self, lower: &Tree, path: &Path, before: Stat) -> io::Result<bool> {
        if self.0.is_empty() {
            return Ok(false);
        }
        let gone = match before.kind {
            FileKind::Directory => RemovedTree::below(lower, path).map_err(|(path, errno)| {
                io::Error::other(lower.errno_error("list", &path, errno))
            })?,
            _ => RemovedTree::default(),
        };
        let is_here = |stat: &Stat| {
            stat.kind != FileKind::Directory
                && self.0.contains(&(stat.len, stat.fingerprint.modified))
        };
        Ok(is_here(&before) || gone.objects.iter().any(|(_, stat)| is_here(stat)))
    }
}

/// Changes of a build directory, as far as they are moves out of it.
#[derive(Default)]
pub(super) struct MovedOut {
    /// Moved objects, the outermost only, relative to the workspace.
    pub(super) moved: Vec<(PathBuf, Stat)>,
    /// True if anything else changed.
    pub(super) has_others: bool,
}

/// Entries of a directory of the upper layer.
struct ListedDirectory {
    /// True if the directory hides the workspace's.
    is_opaque: bool,
    whiteouts: HashSet<OsString>,
    directories: HashSet<OsString>,
    others: HashSet<OsString>,
}

impl ListedDirectory {
    /// Lists a directory of the upper layer by kind of entry.
    fn read(directory: &OwnedFd) -> Result<Self, Errno> {
        let mut listed = Self {
            is_opaque: is_opaque(directory.as_fd())?,
            whiteouts: HashSet::new(),
            directories: HashSet::new(),
            others: HashSet::new(),
        };
        for name in names(directory)? {
            let raw = rustix::fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            let group = if is_whiteout(&raw) {
                &mut listed.whiteouts
            } else if stat_from(&raw).kind == FileKind::Directory {
                &mut listed.directories
            } else {
                &mut listed.others
            };
            group.insert(name);
        }
        Ok(listed)
    }

    /// Returns whether an entry is changed: more than a directory on the way to a change, and more than an equal copy that overlayfs made
    /// because a program opened the file for writing.
    fn has_changed(&self, new: &OwnedFd, old: &OwnedFd) -> io::Result<bool> {
        if self.is_opaque {
            return Ok(true);
        }
        for name in &self.others {
            if !is_same_file(new, old, name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether an entry of the workspace's directory is removed without a replacement.
    fn is_gone(&self, name: &OsString) -> bool {
        let is_here = || self.directories.contains(name) || self.others.contains(name);
        self.whiteouts.contains(name) || self.is_opaque && !is_here()
    }
}

/// Returns whether a file of the upper layer has the content and all attributes of the one below it.
fn is_same_file(new: &OwnedFd, old: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    let raw = rustix::fs::statat(new, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let (now, before) = (stat_from(&raw), stat_child(old, name)?);
    let looks_the_same = now.kind == FileKind::File
        && before.kind == FileKind::File
        && (now.len, now.mode, now.links) == (before.len, before.mode, before.links)
        && now.fingerprint.modified == before.fingerprint.modified;
    // To read another file would change its mode.
    if !looks_the_same || now.mode & 0o400 == 0 {
        return Ok(false);
    }
    let file = open_child(new.as_fd(), name, FOR_READING)?;
    let (attributes, _) = file::attributes(&file, &raw)?;
    let same = file::compare(&file, old.as_fd(), name)?;
    Ok(same.is_some_and(|old| file::changed_attributes(&old, &attributes) == Attributes::default()))
}

/// Returns whether an entry of the workspace's directory is a directory.
fn before_is_directory(old: &OwnedFd, name: &OsStr) -> bool {
    stat_child(old, name).is_ok_and(|stat| stat.kind == FileKind::Directory)
}

/// Opens a directory of a layer; `None` if it is missing or cannot be listed, in which case the program moved nothing out of it.
fn directory(tree: &Tree, path: &Path) -> Result<Option<OwnedFd>, Errno> {
    match tree.directory(path) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Returns length and time of a created file or link, if its time is not later than `since`.
fn length_and_time(change: &Change, since: i64) -> Option<LengthAndTime> {
    let is_old = |modified: &i64| *modified <= since;
    match &change.to {
        ChangedTo::File(place, attributes) => {
            let modified = attributes.modified.filter(is_old)?;
            Some((length(place)?, modified))
        }
        ChangedTo::Symlink(target, attributes) => {
            let length = u64::try_from(target.as_os_str().len()).ok()?;
            Some((length, attributes.modified.filter(is_old)?))
        }
        _ => None,
    }
}

/// Returns the length of a file on the stage.
fn length(place: &Path) -> Option<u64> {
    std::fs::symlink_metadata(place).ok().map(|found| found.size())
}
