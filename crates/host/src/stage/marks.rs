//! Removes overlay marks (`user.overlay.*`) from objects of an upper layer before they leave the stage.
//!
//! In a workspace such a mark has effects: in a lower layer of the next overlay, a file with `user.overlay.metacopy` cannot be opened, and
//! an empty one with `user.overlay.whiteout` is invisible. A program on an overlay cannot set these names itself: the kernel stores its
//! `user.overlay.x` as `user.overlay.overlay.x`, or refuses it. So every attribute with the prefix is removed.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode};
use rustix::io::Errno;

use super::file;
use crate::attributes::is_note_of_overlay;
use crate::isolate::tree::Tree;
use crate::kernel::{FOR_LISTING, NAME_ONLY, descriptor_path, open_child};

/// Bytes that suffice for the attribute names of nearly every object.
const USUAL_NAMES_BYTES: usize = 1024;

/// Removes the marks of an object and, if it is a directory, of everything in it. Modes and times of change stay.
///
/// Objects that cannot be read or changed keep their marks; the merge that moves them reports an error if that matters.
pub(super) fn remove_below(upper: &Tree, path: &Path) {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
    let Ok(parent) = upper.directory(parent) else { return };
    let mut walk = MarkRemoval { upper, waiting: Vec::new(), opened: Vec::new() };
    walk.visit(parent.as_fd(), name, path, None);
    while let Some(path) = walk.waiting.pop() {
        walk.enter(&path);
    }
    for (directory, mode) in walk.opened.iter().rev() {
        // Our own change of mode is undone; it worked a moment ago.
        let _: Result<(), Errno> = rustix::fs::fchmod(directory, *mode);
    }
}

/// State of a walk through the layer.
struct MarkRemoval<'a> {
    upper: &'a Tree,
    /// Directories that are still to be entered, relative to the layer.
    waiting: Vec<PathBuf>,
    /// Directories that were closed to their owner, with their modes.
    opened: Vec<(OwnedFd, Mode)>,
}

impl MarkRemoval<'_> {
    /// Visits the entries of a directory.
    fn enter(&mut self, path: &Path) {
        let Ok(directory) = self.upper.directory(path) else { return };
        let Ok(entries) = Dir::read_from(&directory) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                let name = as_os(name);
                let kind = Some(entry.file_type()).filter(|kind| *kind != FileType::Unknown);
                self.visit(directory.as_fd(), name, &path.join(name), kind);
            }
        }
    }

    /// Removes the marks of one object, and queues it if it is a directory.
    fn visit(&mut self, at: BorrowedFd<'_>, name: &OsStr, path: &Path, kind: Option<FileType>) {
        let kind = kind.or_else(|| {
            let raw = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some(FileType::from_raw_mode(raw.st_mode))
        });
        match kind {
            Some(FileType::Directory) => {
                self.open_writable(at, name);
                remove_marks(at, name);
                self.waiting.push(path.to_owned());
            }
            Some(FileType::RegularFile) => remove_marks(at, name),
            // The kernel allows user attributes on no other kind of object.
            _ => {}
        }
    }

    /// Adds the owner's permissions to a directory until the walk is over.
    fn open_writable(&mut self, at: BorrowedFd<'_>, name: &OsStr) {
        let Ok(raw) = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
        let mode = Mode::from_raw_mode(raw.st_mode & 0o7777);
        if !mode.contains(Mode::RWXU)
            && let Ok(directory) = file::open(at, name, &raw, FOR_LISTING)
        {
            self.opened.push((directory, mode));
        }
    }
}

/// Removes the marks of one object that is not a link.
fn remove_marks(at: BorrowedFd<'_>, name: &OsStr) {
    let path = Path::new(&descriptor_path(&at)).join(name);
    let mut names = vec![0; USUAL_NAMES_BYTES];
    let length = loop {
        match rustix::fs::llistxattr(&path, &mut names[..]) {
            Err(Errno::RANGE) if names.len() < 1 << 16 => names.resize(1 << 16, 0),
            Err(_) | Ok(0) => return,
            Ok(length) => break length,
        }
    };
    let listed = names.get(..length).unwrap_or_default();
    let marks = listed.split_inclusive(|byte| *byte == 0);
    for mark in marks.filter(|name| is_note_of_overlay(name)) {
        let Ok(mark) = CStr::from_bytes_with_nul(mark) else { continue };
        if rustix::fs::lremovexattr(&path, mark) == Err(Errno::ACCESS) {
            remove_from_read_only(at, name, mark);
        }
    }
}

/// Removes a mark from an object whose mode forbids that.
fn remove_from_read_only(at: BorrowedFd<'_>, name: &OsStr, mark: &CStr) {
    let Ok(object) = open_child(at, name, NAME_ONLY) else { return };
    let Ok(raw) = rustix::fs::fstat(&object) else { return };
    let mode = Mode::from_raw_mode(raw.st_mode & 0o7777);
    let path = descriptor_path(&object);
    if rustix::fs::chmodat(CWD, &path, mode | Mode::WUSR, AtFlags::empty()).is_ok() {
        let _: Result<(), Errno> = rustix::fs::removexattr(&path, mark);
        let _: Result<(), Errno> = rustix::fs::chmodat(CWD, &path, mode, AtFlags::empty());
    }
}

/// Views a C string as a name.
fn as_os(name: &CStr) -> &OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(name.to_bytes())
}
