//! Removes the notes of overlayfs (`user.overlay.*`) from objects of an upper layer before they leave the stage.
//!
//! In a workspace such a note is not inert: as a lower layer of the next overlay, a file with `user.overlay.metacopy` cannot be opened
//! and an empty one with `user.overlay.whiteout` is not there. A program on an overlay cannot write these names: the kernel stores
//! its `user.overlay.x` as `user.overlay.overlay.x`, or refuses it. So all that begins with the prefix goes.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode};
use rustix::io::Errno;

use super::file;
use crate::attributes::is_note_of_overlay;
use crate::isolate::tree::Tree;
use crate::kernel::{FOR_LISTING, NAME_ONLY, descriptor_path, open_child};

/// Room for the names of attributes that nearly every object has.
const USUAL_SIZE: usize = 1024;

/// Removes the notes about an object and, if it is a directory, about all that is in it. Modes and times of changes stay.
///
/// What cannot be read or changed keeps its notes: the merge that moves the object says so if that matters.
pub(super) fn forget(upper: &Tree, path: &Path) {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
    let Ok(parent) = upper.directory(parent) else { return };
    let mut walk = Walk { upper, waiting: Vec::new(), opened: Vec::new() };
    walk.visit(parent.as_fd(), name, path, None);
    while let Some(path) = walk.waiting.pop() {
        walk.enter(&path);
    }
    for (directory, mode) in walk.opened.iter().rev() {
        // It was ours to change a moment ago.
        let _: Result<(), Errno> = rustix::fs::fchmod(directory, *mode);
    }
}

struct Walk<'a> {
    upper: &'a Tree,
    /// Directories that are still to be entered, relative to the layer.
    waiting: Vec<PathBuf>,
    /// Directories that were closed to their owner, and their modes.
    opened: Vec<(OwnedFd, Mode)>,
}

impl Walk<'_> {
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

    fn visit(&mut self, at: BorrowedFd<'_>, name: &OsStr, path: &Path, kind: Option<FileType>) {
        let kind = kind.or_else(|| {
            let raw = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some(FileType::from_raw_mode(raw.st_mode))
        });
        match kind {
            Some(FileType::Directory) => {
                self.open_up(at, name);
                forget_one(at, name);
                self.waiting.push(path.to_owned());
            }
            Some(FileType::RegularFile) => forget_one(at, name),
            // The kernel lets no other object have attributes of people.
            _ => {}
        }
    }

    /// Lets us into a directory until the walk is over.
    fn open_up(&mut self, at: BorrowedFd<'_>, name: &OsStr) {
        let Ok(raw) = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
        let mode = Mode::from_raw_mode(raw.st_mode & 0o7777);
        if !mode.contains(Mode::RWXU)
            && let Ok(directory) = file::open(at, name, &raw, FOR_LISTING)
        {
            self.opened.push((directory, mode));
        }
    }
}

/// Removes the notes about one object that is no link.
fn forget_one(at: BorrowedFd<'_>, name: &OsStr) {
    let path = Path::new(&descriptor_path(&at)).join(name);
    let mut names = vec![0; USUAL_SIZE];
    let length = loop {
        match rustix::fs::llistxattr(&path, &mut names[..]) {
            Err(Errno::RANGE) if names.len() < 1 << 16 => names.resize(1 << 16, 0),
            Err(_) | Ok(0) => return,
            Ok(length) => break length,
        }
    };
    let listed = names.get(..length).unwrap_or_default();
    let notes = listed.split_inclusive(|byte| *byte == 0);
    for note in notes.filter(|name| is_note_of_overlay(name)) {
        let Ok(note) = CStr::from_bytes_with_nul(note) else { continue };
        if rustix::fs::lremovexattr(&path, note) == Err(Errno::ACCESS) {
            remove_from_read_only(at, name, note);
        }
    }
}

/// The same for an object whose mode forbids that.
fn remove_from_read_only(at: BorrowedFd<'_>, name: &OsStr, note: &CStr) {
    let Ok(object) = open_child(at, name, NAME_ONLY) else { return };
    let Ok(raw) = rustix::fs::fstat(&object) else { return };
    let mode = Mode::from_raw_mode(raw.st_mode & 0o7777);
    let path = descriptor_path(&object);
    if rustix::fs::chmodat(CWD, &path, mode | Mode::WUSR, AtFlags::empty()).is_ok() {
        let _: Result<(), Errno> = rustix::fs::removexattr(&path, note);
        let _: Result<(), Errno> = rustix::fs::chmodat(CWD, &path, mode, AtFlags::empty());
    }
}

fn as_os(name: &CStr) -> &OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(name.to_bytes())
}
