//! Removes a file or a link that is still the object that was seen, or an empty directory.
//!
//! The kernel removes a name, not an object: between the last check and the removal there is a moment in which another program that ignores
//! our locks could put another object there. It is as short as possible.

use rustix::fs::AtFlags;
use rustix::io::Errno;
use windlass_core::{Altered, ExpectedState, FileErrorKind, FileKind, Fingerprint, Resolved};

use super::parents::open_parent;
use super::target::Target;
use super::{stale_if_missing, sync_failed};
use crate::files::LocalFiles;
use crate::kernel::{error_kind, stat_child};

/// Removes the expected object, or checks that the path is free if nothing is expected.
pub(super) fn remove(
    files: &LocalFiles,
    path: &Resolved,
    expect: ExpectedState,
) -> Result<Altered, FileErrorKind> {
    match expect {
        ExpectedState::Absent => check_absent(files, path)?,
        ExpectedState::Same(seen) => remove_seen(files, path, seen)?,
    }
    Ok(Altered { stat: None, in_place: false })
}

/// Fails with `Exists` if there is an object at the path.
fn check_absent(files: &LocalFiles, path: &Resolved) -> Result<(), FileErrorKind> {
    let Some(name) = path.path.file_name() else { return Err(FileErrorKind::Exists) };
    let found = open_parent(&files.resolver, path).and_then(|parent| stat_child(parent, name));
    match found {
        Ok(_) => Err(FileErrorKind::Exists),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
        Err(errno) => Err(error_kind(errno)),
    }
}

/// Removes the object if it is still the one that was seen.
fn remove_seen(
    files: &LocalFiles,
    path: &Resolved,
    seen: Fingerprint,
) -> Result<(), FileErrorKind> {
    let target = Target::open(&files.resolver, path, seen)?;
    let (_locked, flags) = match target.check_unchanged()?.stat.kind {
        FileKind::File => {
            let locked = target.lock()?;
            target.check_unchanged()?;
            (locked, AtFlags::empty())
        }
        FileKind::Symlink => (None, AtFlags::empty()),
        FileKind::Directory => (None, AtFlags::REMOVEDIR),
        other => return Err(FileErrorKind::NotRegular(other)),
    };
    rustix::fs::unlinkat(target.directory(), target.name, flags).map_err(removal_error)?;
    files.durability.sync_directory(target.directory()).map_err(sync_failed)
}

/// Converts the error of a removal.
fn removal_error(errno: Errno) -> FileErrorKind {
    match errno {
        Errno::NOTEMPTY | Errno::EXIST => FileErrorKind::NotEmpty,
        // The name is now of another kind: a directory became a file, or a file a directory.
        Errno::NOTDIR | Errno::ISDIR => FileErrorKind::Stale,
        other => stale_if_missing(other),
    }
}
