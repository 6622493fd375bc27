//! Creates a file where nothing exists: complete from its first moment, and never over another object.

use std::os::fd::AsFd as _;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use windlass_core::{Altered, ContentSource, FileErrorKind, FileKind, Resolved};

use super::file::NewFile;
use super::parents::Parents;
use super::temporary::{TemporaryFile, TemporaryStyle};
use super::{altered_whole, stat_failed, sync_failed};
use crate::files::LocalFiles;
use crate::kernel::{NAME_ONLY, error_kind, stat, stat_child};
use crate::resolver::PathResolver;

/// Creates a file, and the missing directories above it.
pub(super) fn create(
    files: &LocalFiles,
    path: &Resolved,
    new: &NewFile<'_>,
    style: TemporaryStyle,
) -> Result<Altered, FileErrorKind> {
    let Some(name) = path.path.file_name() else {
        return Err(FileErrorKind::NotRegular(FileKind::Directory));
    };
    let parents = Parents::open_or_create(&files.resolver, path).map_err(error_kind)?;
    let directory = parents.directory();
    let adopted = TemporaryFile::adopt(directory, &path.path, new.content, new.attributes)
        .map_err(error_kind)?;
    let mut temporary = match adopted {
        Some(adopted) => adopted,
        None if is_large(new.content) && stat_child(directory, name).is_ok() => {
            return Err(FileErrorKind::Exists);
        }
        None => TemporaryFile::create(directory, initial_mode(new), style, new.temporary)
            .map_err(error_kind)?,
    };
    temporary.write_content(new.content).map_err(error_kind)?;
    temporary.set_attributes(new.attributes).map_err(error_kind)?;
    temporary.sync(files.durability).map_err(error_kind)?;
    temporary.take_free_name(name).map_err(error_kind)?;
    parents.sync(files.durability).map_err(sync_failed)?;
    stat(&temporary.file).map(altered_whole).map_err(stat_failed)
}

/// Returns whether content is so large that it pays to check first that the name is free. The kernel refuses a taken name anyway, but only
/// after everything is written.
fn is_large(content: ContentSource<'_>) -> bool {
    const LARGE_BYTES: usize = 64 << 10;
    match content {
        ContentSource::Bytes(bytes) => bytes.len() >= LARGE_BYTES,
        ContentSource::File(_) | ContentSource::At(_) => true,
        ContentSource::Kept(kept) => kept.length() >= LARGE_BYTES as u64,
    }
}

/// Mode of a new file without a given mode; the umask removes bits from it.
const DEFAULT_FILE_MODE: Mode = Mode::from_raw_mode(0o666);

/// Returns the mode with which a new file is created. Without a given mode, the kernel applies the umask or the directory's default list of
/// rights. With one, only the owner can open the file until it has that mode.
pub(super) fn initial_mode(new: &NewFile<'_>) -> Mode {
    match new.attributes.and_then(|attributes| attributes.mode) {
        Some(_) => Mode::from_raw_mode(0o600),
        None => DEFAULT_FILE_MODE,
    }
}

/// Finds the mode of new files in a directory by creating an unnamed file, which vanishes at once. `None` if the file system has no unnamed
/// files, because it may also choose modes of its own.
pub(crate) fn new_file_mode(
    resolver: &PathResolver,
    directory: &Resolved,
) -> Result<Option<u32>, Errno> {
    let directory = resolver.open_place(directory, NAME_ONLY | OFlags::DIRECTORY)?;
    let Ok(probe) =
        TemporaryFile::create(directory.as_fd(), DEFAULT_FILE_MODE, TemporaryStyle::Unnamed, None)
    else {
        return Ok(None);
    };
    Ok(Some(stat(&probe.file)?.mode))
}
