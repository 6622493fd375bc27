//! One object on a stage: what it has, what overlayfs notes about it, and what of it is different from the workspace's.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use windlass_core::Attributes;

use crate::attributes;
use crate::isolate::manifest::is_same_content;
use crate::kernel::{FOR_READING, NAME_ONLY, descriptor_path, open_child, stat};

/// How the names begin of what overlayfs notes; such names of others are hidden below them.
const OWN: &str = "user.overlay.";

/// What overlayfs notes about an object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// Nothing of the workspace's directory shines through.
    pub(super) opaque: bool,
    /// It came from the workspace.
    pub(super) copied: bool,
    /// Its content, or its name, is elsewhere. We never ask for that, so it is not understood.
    pub(super) elsewhere: bool,
}

/// Opens an object on the stage, for reading or listing. If its own mode forbids that, it is allowed from now on: the stage is
/// ours, and what the mode was is known.
pub(super) fn open(
    directory: BorrowedFd<'_>,
    name: &OsStr,
    raw: &rustix::fs::Stat,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let needed = if flags.contains(OFlags::DIRECTORY) { Mode::RWXU } else { Mode::RUSR };
    let mode = Mode::from_raw_mode(raw.st_mode & 0o7777);
    if !mode.contains(needed) {
        let named = open_child(directory, name, NAME_ONLY)?;
        rustix::fs::chmodat(CWD, descriptor_path(&named), mode | needed, AtFlags::empty())?;
    }
    open_child(directory, name, flags)
}

/// What an open object has besides its content, and what is noted about it. Its mode is as it was before it was opened.
pub(super) fn attributes(
    of: &OwnedFd,
    raw: &rustix::fs::Stat,
) -> Result<(Attributes, Marks), Errno> {
    Ok(without_marks(attributes::read_staged(of, raw)?))
}

/// The same of an object of the workspace, about which nothing is noted.
pub(super) fn attributes_below(of: &OwnedFd, raw: &rustix::fs::Stat) -> Result<Attributes, Errno> {
    Ok(without_marks(attributes::read(of, raw)?).0)
}

fn without_marks(mut attributes: Attributes) -> (Attributes, Marks) {
    let mut marks = Marks::default();
    let mut extended = attributes.extended.take().unwrap_or_default();
    extended.retain(|(name, value)| {
        match name.strip_prefix(OWN) {
            Some("opaque") => marks.opaque = value == b"y",
            Some("origin") => marks.copied = true,
            Some("redirect" | "metacopy") => marks.elsewhere = true,
            _ => {}
        }
        Attributes::is_told(name.as_bytes())
    });
    extended.sort();
    // What overlayfs noted is gone from it, and one is held for each of many files.
    extended.shrink_to_fit();
    attributes.extended = Some(extended);
    (attributes, marks)
}

/// The numbers of user and group that whatever we make has.
pub(super) fn own_ids() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// The attributes of an object that was not there: its owner is not told if it is whoever makes it.
pub(super) fn as_new(attributes: Attributes, own: (u32, u32)) -> Attributes {
    Attributes { owner: attributes.owner.filter(|owner| *owner != own), ..attributes }
}

/// The attributes that are not as they were; the others are not told.
pub(super) fn difference(before: &Attributes, now: &Attributes) -> Attributes {
    Attributes {
        mode: now.mode.filter(|_| now.mode != before.mode),
        modified: now.modified.filter(|_| now.modified != before.modified),
        owner: now.owner.filter(|_| now.owner != before.owner),
        extended: now.extended.clone().filter(|_| now.extended != before.extended),
    }
}

/// Whether a file has the bytes of one in the workspace, as far as that can be read, and what that one has besides.
pub(super) fn compare(
    now: &OwnedFd,
    lower: BorrowedFd<'_>,
    name: &OsStr,
) -> std::io::Result<Option<Attributes>> {
    let old = match open_child(lower, name, FOR_READING) {
        // A file that could be read must not be taken for another one: it would lose its other names.
        Err(errno @ (Errno::ACCESS | Errno::PERM)) if is_readable(lower, name) => {
            return Err(errno.into());
        }
        Err(Errno::ACCESS | Errno::PERM | Errno::NOENT | Errno::LOOP) => return Ok(None),
        opened => opened?,
    };
    let raw = rustix::fs::fstat(&old)?;
    if stat(now)?.len != u64::try_from(raw.st_size).unwrap_or(0) {
        return Ok(None);
    }
    let attributes = attributes_below(&old, &raw)?;
    let now = now.as_fd().try_clone_to_owned()?;
    Ok(is_same_content(old.into(), now.into())?.then_some(attributes))
}

/// Tells whether the rights of an object let us read it.
fn is_readable(directory: BorrowedFd<'_>, name: &OsStr) -> bool {
    rustix::fs::accessat(directory, name, Access::READ_OK, AtFlags::EACCESS).is_ok()
}
