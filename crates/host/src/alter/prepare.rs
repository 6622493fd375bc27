//! Writes new content under a temporary name ahead of time, so that many contents are synced to the disk together.

use std::os::fd::AsFd as _;
use std::path::PathBuf;

use rustix::fs::Mode;
use rustix::io::Errno;
use windlass_core::{Alteration, ExpectedState, FileErrorKind, Resolved, TargetState};

use super::create::initial_mode;
use super::file::NewFile;
use super::parents::open_parent;
use super::temporary::{TemporaryFile, TemporaryStyle};
use crate::files::LocalFiles;
use crate::kernel::{error_kind, stat};

/// Writes the content of an alteration beside its path, under exactly the temporary name that it gives. Returns the device and the path of
/// the temporary file; `None` if the directory does not exist yet, or the alteration has no content or no temporary name.
pub(crate) fn prepare(
    files: &LocalFiles,
    path: &Resolved,
    alteration: &Alteration<'_>,
) -> Result<Option<(u64, PathBuf)>, FileErrorKind> {
    let (TargetState::File { content, attributes }, Some(name)) =
        (alteration.to, alteration.temporary)
    else {
        return Ok(None);
    };
    let directory = match open_parent(&files.resolver, path) {
        // A link here is replaced by a directory before the file is put there.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        opened => opened.map_err(error_kind)?,
    };
    let new = NewFile { content, attributes, temporary: Some(name) };
    let mode = match alteration.expect {
        ExpectedState::Absent => initial_mode(&new),
        // It gets the mode of the old file in the end.
        ExpectedState::Same(_) => Mode::from_raw_mode(0o600),
    };
    let made = TemporaryFile::create(directory.as_fd(), mode, TemporaryStyle::Named, Some(name));
    let mut made = made.map_err(error_kind)?;
    if !made.is_named(name) {
        return Err(FileErrorKind::Exists);
    }
    made.write_content(content).map_err(error_kind)?;
    let device = stat(&made.file).map_err(error_kind)?.fingerprint.device;
    made.keep_for_later();
    Ok(Some((device, path.path.with_file_name(name))))
}
