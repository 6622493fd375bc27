//! Recognizes that a program moved a build directory away, or something out of one: `mv node_modules x`, `mv target/app .`.
//!
//! Build directories have no history, but what they become elsewhere has one. An undo that only removed the new place would lose the
//! files, so the removal of what was moved is told like any other, and the two are joined to moves when they are committed.
//! Overlayfs does not tell renames: a move shows in files of the same length and time.

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
use super::found::Change;
use super::gone::Gone;
use crate::isolate::tree::{Tree, names};
use crate::kernel::{FOR_READING, open_child, stat, stat_child, stat_from};

/// Files and links that a program made and that may have been in the workspace under another name.
#[derive(Default)]
pub(super) struct Arrived(HashSet<Likeness>);

/// The length and time of a file or link, which a move keeps.
type Likeness = (u64, i64);

impl Arrived {
    /// Those among what was made whose times are not later than `since`, when the program began.
    pub(super) fn among(made: &[Change], since: i64) -> Self {
        Self(made.iter().filter_map(|change| likeness(change, since)).collect())
    }

    /// Finds what is gone from a build directory and seems to be somewhere else now, and whether anything else is not as it was.
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
            let failed = |tree: &Tree, errno| io::Error::other(tree.failed("list", &path, errno));
            let old = directory(lower, &path).map_err(|errno| failed(lower, errno))?;
            let new = directory(upper, &path).map_err(|errno| failed(upper, errno))?;
            let (Some(old), Some(new)) = (old, new) else {
                found.has_others = true;
                continue;
            };
            let listed = Listed::of(&new).map_err(|errno| failed(upper, errno))?;
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

    /// Tells whether an object that is gone, or something in it, seems to be somewhere else now.
    pub(super) fn has_any_of(&self, lower: &Tree, path: &Path, before: Stat) -> io::Result<bool> {
        if self.0.is_empty() {
            return Ok(false);
        }
        let gone = match before.kind {
            FileKind::Directory => Gone::below(lower, path)
                .map_err(|(path, errno)| io::Error::other(lower.failed("list", &path, errno)))?,
            _ => Gone::default(),
        };
        let is_here = |stat: &Stat| {
            stat.kind != FileKind::Directory
                && self.0.contains(&(stat.len, stat.fingerprint.modified))
        };
        Ok(is_here(&before) || gone.objects.iter().any(|(_, stat)| is_here(stat)))
    }
}

/// The part of the changes of a build directory that is a move to a place outside of it.
#[derive(Default)]
pub(super) struct MovedOut {
    /// What was moved, outermost objects only. Paths are relative to the workspace.
    pub(super) moved: Vec<(PathBuf, Stat)>,
    /// Something else changed besides.
    pub(super) has_others: bool,
}

/// The entries of a directory of the upper layer.
struct Listed {
    /// Nothing of the workspace's directory shines through.
    is_opaque: bool,
    whiteouts: HashSet<OsString>,
    directories: HashSet<OsString>,
    others: HashSet<OsString>,
}

impl Listed {
    fn of(directory: &OwnedFd) -> Result<Self, Errno> {
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

    /// Tells whether anything here is more than the way to something that changed, or than a copy that overlayfs made of a file since a
    /// program opened it for writing.
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

    /// Tells whether an entry of the workspace's directory is not seen any more, and nothing is in its place.
    fn is_gone(&self, name: &OsString) -> bool {
        let is_here = || self.directories.contains(name) || self.others.contains(name);
        self.whiteouts.contains(name) || self.is_opaque && !is_here()
    }
}

/// Tells whether a file of the upper layer has the content and all attributes of the one below it.
fn is_same_file(new: &OwnedFd, old: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    let raw = rustix::fs::statat(new, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let (now, before) = (stat_from(&raw), stat_child(old, name)?);
    let looks_the_same = now.kind == FileKind::File
        && before.kind == FileKind::File
        && (now.len, now.mode, now.links) == (before.len, before.mode, before.links)
        && now.fingerprint.modified == before.fingerprint.modified;
    // To read any other would take a change of its mode.
    if !looks_the_same || now.mode & 0o400 == 0 {
        return Ok(false);
    }
    let file = open_child(new.as_fd(), name, FOR_READING)?;
    let (attributes, _) = file::attributes(&file, &raw)?;
    let same = file::compare(&file, old.as_fd(), name)?;
    Ok(same.is_some_and(|old| file::difference(&old, &attributes) == Attributes::default()))
}

fn before_is_directory(old: &OwnedFd, name: &OsStr) -> bool {
    stat_child(old, name).is_ok_and(|stat| stat.kind == FileKind::Directory)
}

/// A directory of a layer; nothing if it is none there, or cannot be listed: then nobody can have moved anything out of it.
fn directory(tree: &Tree, path: &Path) -> Result<Option<OwnedFd>, Errno> {
    match tree.directory(path) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(None),
        opened => opened.map(Some),
    }
}

fn likeness(change: &Change, since: i64) -> Option<Likeness> {
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

fn length(place: &Path) -> Option<u64> {
    std::fs::symlink_metadata(place).ok().map(|found| found.size())
}
