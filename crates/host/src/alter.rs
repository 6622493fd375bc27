//! Changes one object of the file system, if it is still the object that the caller saw.
//!
//! Every change goes the same way: open the parent directory by handle, compare the object with the expected one, create the new object
//! complete under a temporary name, check once more, and give it the final name in one step. If anything fails, the old object stays. This
//! file only dispatches to the modules.

mod adopt;
mod attributes;
mod content;
mod create;
mod directory;
mod file;
mod in_place;
mod link;
pub(crate) mod locks;
mod moved;
mod parents;
mod prepare;
mod remove;
mod replace;
mod target;
mod temporary;

use rustix::io::Errno;
use windlass_core::{
    Alteration, Altered, ExpectedState, FileError, FileErrorKind, Resolved, Stat, TargetState,
};

use crate::files::LocalFiles;
use crate::kernel::{error_kind, file_error};
pub(crate) use content::copy as copy_content;
pub(crate) use create::new_file_mode;
use locks::LockKey;
pub(crate) use prepare::prepare;
pub(crate) use temporary::as_errno;

/// Applies an alteration, or leaves everything as it was.
pub(crate) fn alter(
    files: &LocalFiles,
    path: &Resolved,
    alteration: &Alteration<'_>,
) -> Result<Altered, FileError> {
    let _held =
        files.locks.lock(altered_key(path, alteration.expect), involved_key(&alteration.to));
    let altered = match alteration.to {
        TargetState::File { content, attributes } => {
            let new = file::NewFile { content, attributes, temporary: alteration.temporary };
            file::write(files, path, alteration.expect, &new)
        }
        TargetState::Attributes(attributes) => {
            attributes::change(files, path, alteration.expect, attributes)
        }
        TargetState::Moved { from, seen } => {
            return moved::move_here(files, path, alteration.expect, from, seen);
        }
        TargetState::Linked { with, seen } => link::hard(files, path, alteration, with, seen),
        TargetState::Symlink(target) => link::symbolic(files, path, alteration, target),
        TargetState::Directory { attributes } => {
            directory::make(files, path, alteration.expect, attributes)
        }
        TargetState::Nothing => remove::remove(files, path, alteration.expect),
    };
    altered.map_err(|kind| file_error(verb(&alteration.to), path, kind))
}

/// Returns the verb for error messages about an alteration.
fn verb(to: &TargetState<'_>) -> &'static str {
    match to {
        TargetState::File { .. } => "write",
        TargetState::Attributes(_) => "change the attributes of",
        TargetState::Moved { .. } => "move",
        TargetState::Linked { .. } | TargetState::Symlink(_) => "link",
        TargetState::Directory { .. } => "make",
        TargetState::Nothing => "remove",
    }
}

/// Returns the lock key of the altered path: device and inode of an existing object, which all its names share; otherwise the path.
fn altered_key(path: &Resolved, expect: ExpectedState) -> LockKey<'_> {
    match expect {
        ExpectedState::Absent => LockKey::Path(&path.path),
        ExpectedState::Same(seen) => LockKey::Object(seen.device, seen.inode),
    }
}

/// Returns the lock key of the second object that an alteration involves, if any.
fn involved_key(to: &TargetState<'_>) -> Option<LockKey<'static>> {
    match to {
        TargetState::Moved { seen, .. } | TargetState::Linked { seen, .. } => {
            Some(LockKey::Object(seen.device, seen.inode))
        }
        _ => None,
    }
}

/// Returns the result for an object that is new under its name, or was replaced as a whole.
fn altered_whole(stat: Stat) -> Altered {
    Altered { stat: Some(stat), in_place: false }
}

/// Converts an error number; a missing object means that the expected object is gone.
fn stale_if_missing(errno: Errno) -> FileErrorKind {
    match errno {
        Errno::NOENT | Errno::NOTDIR => FileErrorKind::Stale,
        other => error_kind(other),
    }
}

/// Returns the error for a change that was made but may not survive a power cut, because a sync failed.
fn sync_failed(errno: Errno) -> FileErrorKind {
    FileErrorKind::Io(std::io::Error::other(format!(
        "the change is made, but the disk did not confirm it ({errno})"
    )))
}

/// Returns the error for a change that was made but whose result could not be read.
fn stat_failed(errno: Errno) -> FileErrorKind {
    FileErrorKind::Io(std::io::Error::other(format!(
        "the change is made, but it could not be looked at afterwards ({errno})"
    )))
}
