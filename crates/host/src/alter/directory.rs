//! A directory, empty when it is made, and those above it that are missing.

use std::fs::File;

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use windlass_core::{Altered, Attributes, Expect, FileErrorKind, FileKind, Resolved};

use super::parents::{Parents, open_made};
use super::target::Target;
use super::{attributes as change, unconfirmed, unseen, whole};
use crate::attributes;
use crate::files::LocalFiles;
use crate::kernel::{meaning, stat, stat_child};

/// Makes a directory. One that was seen is made nothing of but its attributes.
pub(super) fn make(
    files: &LocalFiles,
    path: &Resolved,
    expect: Expect,
    wanted: Option<&Attributes>,
) -> Result<Altered, FileErrorKind> {
    match expect {
        Expect::Absent => make_new(files, path, wanted),
        Expect::Same(seen) => {
            let found = Target::open(&files.resolver, path, seen)?.look()?;
            match (found.stat.kind, wanted) {
                (FileKind::Directory, Some(wanted)) => change::change(files, path, expect, wanted),
                (FileKind::Directory, None) => Ok(whole(found.stat)),
                _ => Err(FileErrorKind::Exists),
            }
        }
    }
}

fn make_new(
    files: &LocalFiles,
    path: &Resolved,
    wanted: Option<&Attributes>,
) -> Result<Altered, FileErrorKind> {
    let Some(name) = path.path.file_name() else {
        return Err(FileErrorKind::Exists);
    };
    let parents = Parents::make(&files.resolver, path).map_err(meaning)?;
    let directory = parents.directory();
    // If the mode is told, nobody else gets in before it has it.
    let mode = wanted.and_then(|wanted| wanted.mode).map_or(0o777, |_| 0o700);
    rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(mode)).map_err(meaning)?;
    let Some(wanted) = wanted else {
        parents.settle(files.durability).map_err(unconfirmed)?;
        return stat_child(directory, name).map(whole).map_err(unseen);
    };
    let made = open_made(directory, name).and_then(|made| give(&made.into(), wanted, files));
    let stat = made.map_err(|errno| {
        let _ = rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR);
        meaning(errno)
    })?;
    parents.settle(files.durability).map_err(unconfirmed)?;
    Ok(whole(stat))
}

fn give(
    made: &File,
    wanted: &Attributes,
    files: &LocalFiles,
) -> Result<windlass_core::Stat, Errno> {
    attributes::give(made, &rustix::fs::fstat(made)?, wanted)?;
    if let Some(modified) = wanted.modified {
        attributes::give_time(made, Some(modified))?;
    }
    files.durability.settle_directory(made)?;
    stat(made)
}
