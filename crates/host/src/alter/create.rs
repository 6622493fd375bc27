//! A file where nothing is: whole from its first moment, and never over something.

use std::os::fd::AsFd as _;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use windlass_core::{Altered, FileErrorKind, FileKind, Resolved, Source};

use super::file::New;
use super::parents::Parents;
use super::temporary::{Style, Temporary};
use super::{unconfirmed, unseen, whole};
use crate::files::LocalFiles;
use crate::kernel::{NAME_ONLY, meaning, stat, stat_child};
use crate::resolver::Resolver;

/// Creates a file, and the directories above it that are missing.
pub(super) fn create(
    files: &LocalFiles,
    path: &Resolved,
    new: &New<'_>,
    style: Style,
) -> Result<Altered, FileErrorKind> {
    let Some(name) = path.path.file_name() else {
        return Err(FileErrorKind::NotRegular(FileKind::Directory));
    };
    let parents = Parents::make(&files.resolver, path).map_err(meaning)?;
    let directory = parents.directory();
    let adopted =
        Temporary::adopt(directory, &path.path, new.content, new.attributes).map_err(meaning)?;
    let mut temporary = match adopted {
        Some(adopted) => adopted,
        None if is_long(new.content) && stat_child(directory, name).is_ok() => {
            return Err(FileErrorKind::Exists);
        }
        None => {
            Temporary::create(directory, first_mode(new), style, new.temporary).map_err(meaning)?
        }
    };
    temporary.fill(new.content).map_err(meaning)?;
    temporary.give(new.attributes).map_err(meaning)?;
    temporary.settle(files.durability).map_err(meaning)?;
    temporary.become_new(name).map_err(meaning)?;
    parents.settle(files.durability).map_err(unconfirmed)?;
    stat(&temporary.file).map(whole).map_err(unseen)
}

/// Whether it is worth asking before that nothing is there. The kernel refuses in the end anyway, but by then all of it has been
/// written.
fn is_long(content: Source<'_>) -> bool {
    const LONG: usize = 64 << 10;
    match content {
        Source::Bytes(bytes) => bytes.len() >= LONG,
        Source::File(_) | Source::At(_) => true,
        Source::Kept(kept) => kept.length() >= LONG as u64,
    }
}

/// The mode that is asked for where none is told; the umask takes from it.
const UNTOLD: Mode = Mode::from_raw_mode(0o666);

/// What any new file has, from the beginning: so the kernel applies the umask, or the directory's own default. If the mode is
/// told, nobody else sees the file before it has it.
pub(super) fn first_mode(new: &New<'_>) -> Mode {
    match new.attributes.and_then(|attributes| attributes.mode) {
        Some(_) => Mode::from_raw_mode(0o600),
        None => UNTOLD,
    }
}

/// Asks the kernel for the mode of a new file by making one without a name, which is gone at once. A file system that cannot make
/// such a file may also give modes of its own: there the answer is `None`.
pub(crate) fn new_file_mode(
    resolver: &Resolver,
    directory: &Resolved,
) -> Result<Option<u32>, Errno> {
    let directory = resolver.open_place(directory, NAME_ONLY | OFlags::DIRECTORY)?;
    let Ok(probe) = Temporary::create(directory.as_fd(), UNTOLD, Style::Unnamed, None) else {
        return Ok(None);
    };
    Ok(Some(stat(&probe.file)?.mode))
}
