//! Nothing in place of something: removes a file or a link that is still what was seen, or a directory that nothing is in.
//!
//! The kernel removes a name, not an object: between the last look and the removal there is a moment in which another program that
//! knows no locks could put something else there. It is as short as it can be made.

use rustix::fs::AtFlags;
use rustix::io::Errno;
use windlass_core::{Altered, Expect, FileErrorKind, FileKind, Fingerprint, Resolved};

use super::parents::open_parent;
use super::target::Target;
use super::{stale_if_missing, unconfirmed};
use crate::files::LocalFiles;
use crate::kernel::{meaning, stat_child};

/// Makes sure that nothing is there.
pub(super) fn remove(
    files: &LocalFiles,
    path: &Resolved,
    expect: Expect,
) -> Result<Altered, FileErrorKind> {
    match expect {
        Expect::Absent => check_absent(files, path)?,
        Expect::Same(seen) => remove_seen(files, path, seen)?,
    }
    Ok(Altered { stat: None, in_place: false })
}

fn check_absent(files: &LocalFiles, path: &Resolved) -> Result<(), FileErrorKind> {
    let Some(name) = path.path.file_name() else { return Err(FileErrorKind::Exists) };
    let found = open_parent(&files.resolver, path).and_then(|parent| stat_child(parent, name));
    match found {
        Ok(_) => Err(FileErrorKind::Exists),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
        Err(errno) => Err(meaning(errno)),
    }
}

fn remove_seen(
    files: &LocalFiles,
    path: &Resolved,
    seen: Fingerprint,
) -> Result<(), FileErrorKind> {
    let target = Target::open(&files.resolver, path, seen)?;
    let (_locked, flags) = match target.look()?.stat.kind {
        FileKind::File => {
            let locked = target.lock()?;
            target.look()?;
            (locked, AtFlags::empty())
        }
        FileKind::Symlink => (None, AtFlags::empty()),
        FileKind::Directory => (None, AtFlags::REMOVEDIR),
        other => return Err(FileErrorKind::NotRegular(other)),
    };
    rustix::fs::unlinkat(target.directory(), target.name, flags).map_err(not_removed)?;
    files.durability.settle_directory(target.directory()).map_err(unconfirmed)
}

fn not_removed(errno: Errno) -> FileErrorKind {
    match errno {
        Errno::NOTEMPTY | Errno::EXIST => FileErrorKind::NotEmpty,
        // There is no directory of that name any more, or it is one now.
        Errno::NOTDIR | Errno::ISDIR => FileErrorKind::Stale,
        other => stale_if_missing(other),
    }
}
