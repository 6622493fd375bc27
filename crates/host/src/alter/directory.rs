//! Creates a directory, and the missing directories above it.

use std::fs::File;

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use windlass_core::{Altered, Attributes, ExpectedState, FileErrorKind, FileKind, Resolved};

use super::parents::{Parents, open_created};
use super::target::Target;
use super::{altered_whole, attributes as change, stat_failed, sync_failed};
use crate::attributes;
use crate::files::LocalFiles;
use crate::kernel::{error_kind, stat, stat_child};

/// Creates a directory. If it exists and was seen, only its attributes change.
pub(super) fn make(
    files: &LocalFiles,
    path: &Resolved,
    expect: ExpectedState,
    wanted: Option<&Attributes>,
) -> Result<Altered, FileErrorKind> {
    match expect {
        ExpectedState::Absent => create(files, path, wanted),
        ExpectedState::Same(seen) => {
            let found = Target::open(&files.resolver, path, seen)?.check_unchanged()?;
            match (found.stat.kind, wanted) {
                (FileKind::Directory, Some(wanted)) => change::change(files, path, expect, wanted),
                (FileKind::Directory, None) => Ok(altered_whole(found.stat)),
                _ => Err(FileErrorKind::Exists),
            }
        }
    }
}

/// Creates a directory where nothing exists. Removes it again if its attributes cannot be set.
fn create(
    files: &LocalFiles,
    path: &Resolved,
    wanted: Option<&Attributes>,
) -> Result<Altered, FileErrorKind> {
    let Some(name) = path.path.file_name() else {
        return Err(FileErrorKind::Exists);
    };
    let parents = Parents::open_or_create(&files.resolver, path).map_err(error_kind)?;
    let directory = parents.directory();
    // With a given mode, only the owner can enter the directory until it has that mode.
    let mode = wanted.and_then(|wanted| wanted.mode).map_or(0o777, |_| 0o700);
    rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(mode)).map_err(error_kind)?;
    let Some(wanted) = wanted else {
        parents.sync(files.durability).map_err(sync_failed)?;
        return stat_child(directory, name).map(altered_whole).map_err(stat_failed);
    };
    let made =
        open_created(directory, name).and_then(|made| set_attributes(&made.into(), wanted, files));
    let stat = made.map_err(|errno| {
        let _ = rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR);
        error_kind(errno)
    })?;
    parents.sync(files.durability).map_err(sync_failed)?;
    Ok(altered_whole(stat))
}

/// Sets the attributes of a new directory and syncs it.
fn set_attributes(
    made: &File,
    wanted: &Attributes,
    files: &LocalFiles,
) -> Result<windlass_core::Stat, Errno> {
    attributes::give(made, &rustix::fs::fstat(made)?, wanted)?;
    if let Some(modified) = wanted.modified {
        attributes::give_time(made, Some(modified))?;
    }
    files.durability.sync_directory(made)?;
    stat(made)
}
