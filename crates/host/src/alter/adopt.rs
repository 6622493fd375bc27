//! A file of ours that becomes the new content as it is: moved, not copied.
//!
//! What a program wrote on a stage is a whole file already. On the same file system it takes one rename to put it in place, however
//! long it is. It must be what a copy would be: no other name, no owner, group, label or list of rights that a file made in that
//! directory would not have, and no mark of the overlay on it.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use windlass_core::Attributes;

use crate::attributes;
use crate::kernel::FOR_READING;

/// How the names begin of what overlayfs notes about a file.
const OVERLAY: &str = "user.overlay.";

/// The label by which `SELinux` decides. A new file has that of its directory, unless a rule says otherwise.
const LABEL: &str = "security.selinux";

/// The bit of a directory whose group all that is made in it gets.
const SET_GROUP: u32 = 0o2000;

/// A file of ours that can be moved as it is.
#[derive(Debug)]
pub(super) struct Adopted {
    pub(super) file: File,
    pub(super) known: Known,
}

/// What is known of a file that is moved as it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) raw: rustix::fs::Stat,
    /// Whether it has no extended attributes.
    pub(super) is_bare: bool,
}

/// Opens a file of ours, if it can be moved to the directory as it is and will have these attributes. `None` if it has to be copied.
pub(super) fn open(
    place: &Path,
    directory: BorrowedFd<'_>,
    told: &Attributes,
) -> Result<Option<Adopted>, Errno> {
    let Ok(file) = rustix::fs::open(place, FOR_READING, Mode::empty()) else { return Ok(None) };
    let (raw, above) = (rustix::fs::fstat(&file)?, rustix::fs::fstat(directory)?);
    let is_ours = raw.st_uid == rustix::process::geteuid().as_raw()
        && (told.owner.is_some() || raw.st_gid == rustix::process::getegid().as_raw());
    let is_plain =
        FileType::from_raw_mode(raw.st_mode) == FileType::RegularFile && raw.st_nlink == 1;
    let is_near = raw.st_dev == above.st_dev;
    if !is_ours
        || !is_plain
        || !is_near
        || above.st_mode & SET_GROUP != 0
        || gives_rights(directory)
    {
        return Ok(None);
    }
    let found = attributes::read(&file, &raw)?.extended.unwrap_or_default();
    let (marks, others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(name, _)| name.starts_with(OVERLAY));
    let is_told = |one| told.extended.as_ref().is_some_and(|told| told.contains(one));
    if !others.iter().all(|one| is_told(one) || is_label_of(directory, one)) {
        return Ok(None);
    }
    // What its own mode keeps from being changed is copied.
    let are_gone =
        marks.iter().all(|(name, _)| rustix::fs::fremovexattr(&file, name.as_str()).is_ok());
    let known = Known { raw, is_bare: others.is_empty() };
    Ok(are_gone.then(|| Adopted { file: file.into(), known }))
}

/// Whether a directory has a list of rights for all that is made in it.
fn gives_rights(directory: BorrowedFd<'_>) -> bool {
    let mut nothing: [u8; 0] = [];
    rustix::fs::fgetxattr(directory, "system.posix_acl_default", &mut nothing)
        .is_ok_and(|length| length > 0)
}

/// Whether an extended attribute is the label that a new file in this directory has.
fn is_label_of(directory: BorrowedFd<'_>, (name, value): &(String, Vec<u8>)) -> bool {
    let mut label = [0_u8; 512];
    name == LABEL
        && rustix::fs::fgetxattr(directory, LABEL, &mut label)
            .is_ok_and(|length| label.get(..length) == Some(value.as_slice()))
}
