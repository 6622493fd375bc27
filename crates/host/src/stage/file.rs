//! Reads attributes and overlay marks of one object on a stage, and compares it with the workspace's object.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use windlass_core::Attributes;

use crate::attributes;
use crate::isolate::manifest::is_same_content;
use crate::kernel::{FOR_READING, NAME_ONLY, descriptor_path, open_child, stat};

/// Prefix of the extended attributes that overlayfs sets. An attribute that a program sets with this prefix is stored under a longer name.
const OVERLAY_PREFIX: &str = "user.overlay.";

/// Overlay marks of an object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// The directory hides the workspace's directory of the same path.
    pub(super) opaque: bool,
    /// The object was copied from the workspace.
    pub(super) copied: bool,
    /// Its content or name is stored at another path. We never mount with that option, so it is not supported.
    pub(super) elsewhere: bool,
}

/// Opens an object on the stage for reading or listing. If its mode forbids that, the owner's rights are added and stay: the stage is ours,
/// and `raw` has the original mode.
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

/// Returns the attributes of an open object and its overlay marks. The mode is the one before it was opened.
pub(super) fn attributes(
    of: &OwnedFd,
    raw: &rustix::fs::Stat,
) -> Result<(Attributes, Marks), Errno> {
    Ok(without_marks(attributes::read_staged(of, raw)?))
}

/// Returns the attributes of an object of the workspace, which has no overlay marks.
pub(super) fn attributes_below(of: &OwnedFd, raw: &rustix::fs::Stat) -> Result<Attributes, Errno> {
    Ok(without_marks(attributes::read(of, raw)?).0)
}

/// Takes the overlay marks out of the extended attributes, and keeps only attributes that are reported.
fn without_marks(mut attributes: Attributes) -> (Attributes, Marks) {
    let mut marks = Marks::default();
    let mut extended = attributes.extended.take().unwrap_or_default();
    extended.retain(|(name, value)| {
        match name.strip_prefix(OVERLAY_PREFIX) {
            Some("opaque") => marks.opaque = value == b"y",
            Some("origin") => marks.copied = true,
            Some("redirect" | "metacopy") => marks.elsewhere = true,
            _ => {}
        }
        Attributes::is_told(name.as_bytes())
    });
    extended.sort();
    // The marks are gone, and one list is kept for each of many files.
    extended.shrink_to_fit();
    attributes.extended = Some(extended);
    (attributes, marks)
}

/// Returns user and group of objects that this process creates.
pub(super) fn own_ids() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// Returns the attributes of a new object, without its owner if that is `own`.
pub(super) fn as_new(attributes: Attributes, own: (u32, u32)) -> Attributes {
    Attributes { owner: attributes.owner.filter(|owner| *owner != own), ..attributes }
}

/// Returns the attributes that changed, without those that did not.
pub(super) fn changed_attributes(before: &Attributes, now: &Attributes) -> Attributes {
    Attributes {
        mode: now.mode.filter(|_| now.mode != before.mode),
        modified: now.modified.filter(|_| now.modified != before.modified),
        owner: now.owner.filter(|_| now.owner != before.owner),
        extended: now.extended.clone().filter(|_| now.extended != before.extended),
    }
}

/// Compares a file with one in the workspace. Returns the attributes of the latter if both have the same bytes; `None` if not, or if it is
/// missing or unreadable.
pub(super) fn compare(
    now: &OwnedFd,
    lower: BorrowedFd<'_>,
    name: &OsStr,
) -> std::io::Result<Option<Attributes>> {
    let old = match open_child(lower, name, FOR_READING) {
        // A readable file must not be taken for another one here: it would lose its hard links.
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

/// Returns whether we may read an object, by its permissions.
fn is_readable(directory: BorrowedFd<'_>, name: &OsStr) -> bool {
    rustix::fs::accessat(directory, name, Access::READ_OK, AtFlags::EACCESS).is_ok()
}
