//! Finds out whether a file that we own can become the new content by a move instead of a copy.
//!
//! A program's output on a stage is a complete file already. On the same file system one rename puts it in place, however long it is. It
//! must be equal to a copy: no hard links; no owner, group, label or list of rights that a new file in that directory would not have; no
//! overlay attributes.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use windlass_core::Attributes;

use crate::attributes;
use crate::kernel::FOR_READING;

/// Prefix of the extended attributes that overlayfs sets on a file.
const OVERLAY_PREFIX: &str = "user.overlay.";

/// Extended attribute with the `SELinux` label. A new file has the label of its directory, unless a rule says otherwise.
const SELINUX_LABEL: &str = "security.selinux";

/// Set-group-ID bit of a directory: new files in it get the directory's group.
const SET_GROUP_ID: u32 = 0o2000;

/// A file of ours that can be moved as it is.
#[derive(Debug)]
pub(super) struct Adopted {
    pub(super) file: File,
    pub(super) facts: AdoptedFacts,
}

/// Facts about a file that is moved as it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct AdoptedFacts {
    pub(super) raw: rustix::fs::Stat,
    /// True if it has no extended attributes.
    pub(super) has_no_attributes: bool,
}

/// Opens a file of ours if it can be moved to `directory` and will have the wanted attributes; `None` if it must be copied. Removes overlay
/// attributes from it.
pub(super) fn open(
    place: &Path,
    directory: BorrowedFd<'_>,
    wanted: &Attributes,
) -> Result<Option<Adopted>, Errno> {
    let Ok(file) = rustix::fs::open(place, FOR_READING, Mode::empty()) else { return Ok(None) };
    let (raw, above) = (rustix::fs::fstat(&file)?, rustix::fs::fstat(directory)?);
    let is_ours = raw.st_uid == rustix::process::geteuid().as_raw()
        && (wanted.owner.is_some() || raw.st_gid == rustix::process::getegid().as_raw());
    let is_plain =
        FileType::from_raw_mode(raw.st_mode) == FileType::RegularFile && raw.st_nlink == 1;
    let is_near = raw.st_dev == above.st_dev;
    if !is_ours
        || !is_plain
        || !is_near
        || above.st_mode & SET_GROUP_ID != 0
        || has_default_rights(directory)
    {
        return Ok(None);
    }
    let found = attributes::read(&file, &raw)?.extended.unwrap_or_default();
    let (marks, others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(name, _)| name.starts_with(OVERLAY_PREFIX));
    let is_told = |one| wanted.extended.as_ref().is_some_and(|wanted| wanted.contains(one));
    if !others.iter().all(|one| is_told(one) || is_label_of(directory, one)) {
        return Ok(None);
    }
    // If its mode does not let us remove the overlay attributes, it is copied.
    let are_gone =
        marks.iter().all(|(name, _)| rustix::fs::fremovexattr(&file, name.as_str()).is_ok());
    let facts = AdoptedFacts { raw, has_no_attributes: others.is_empty() };
    Ok(are_gone.then(|| Adopted { file: file.into(), facts }))
}

/// Returns whether a directory has a default list of rights for new files.
fn has_default_rights(directory: BorrowedFd<'_>) -> bool {
    let mut nothing: [u8; 0] = [];
    rustix::fs::fgetxattr(directory, "system.posix_acl_default", &mut nothing)
        .is_ok_and(|length| length > 0)
}

/// Returns whether an extended attribute is the label that a new file in this directory gets.
fn is_label_of(directory: BorrowedFd<'_>, (name, value): &(String, Vec<u8>)) -> bool {
    let mut label = [0_u8; 512];
    name == SELINUX_LABEL
        && rustix::fs::fgetxattr(directory, SELINUX_LABEL, &mut label)
            .is_ok_and(|length| label.get(..length) == Some(value.as_slice()))
}
