//! A new content that is written beside its place before its turn comes, so that many of them wait for the disk together.

use std::os::fd::AsFd as _;
use std::path::PathBuf;

use rustix::fs::Mode;
use rustix::io::Errno;
use windlass_core::{Alteration, Expect, FileErrorKind, Resolved, To};

use super::create::first_mode;
use super::file::New;
use super::parents::open_parent;
use super::temporary::{Style, Temporary};
use crate::files::LocalFiles;
use crate::kernel::{meaning, stat};

/// Writes the content of an alteration beside its place, under exactly the name that it gives. Returns the device that it is on, and
/// where it is; `None` if the directory is not there yet, or if no content is to be written.
pub(crate) fn prepare(
    files: &LocalFiles,
    path: &Resolved,
    alteration: &Alteration<'_>,
) -> Result<Option<(u64, PathBuf)>, FileErrorKind> {
    let (To::File { content, attributes }, Some(name)) = (alteration.to, alteration.temporary)
    else {
        return Ok(None);
    };
    let directory = match open_parent(&files.resolver, path) {
        // A link is replaced by a directory before the file is put there.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        opened => opened.map_err(meaning)?,
    };
    let new = New { content, attributes, temporary: Some(name) };
    let mode = match alteration.expect {
        Expect::Absent => first_mode(&new),
        // It gets the mode of the old one in the end.
        Expect::Same(_) => Mode::from_raw_mode(0o600),
    };
    let made = Temporary::create(directory.as_fd(), mode, Style::Named, Some(name));
    let mut made = made.map_err(meaning)?;
    if !made.is_named(name) {
        return Err(FileErrorKind::Exists);
    }
    made.fill(content).map_err(meaning)?;
    let device = stat(&made.file).map_err(meaning)?.fingerprint.device;
    made.leave();
    Ok(Some((device, path.path.with_file_name(name))))
}
