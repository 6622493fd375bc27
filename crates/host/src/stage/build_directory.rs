//! Recognizes build directories: directories of build results and installed dependencies, which can be made again.
//!
//! Their changes are kept without history, so a wrong answer costs a person files that cannot be brought back. A name alone is
//! never enough. In a git repository, git must ignore the directory: a cache tag or a familiar name proves nothing there, since a
//! program could have put the tag into a directory of sources.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::io::Errno;
use windlass_core::FileKind;

use super::ignoring::Standing;
use crate::inputs::{Input, InputState};
use crate::kernel::{FOR_READING, open_child, stat};

/// The deepest level at which a build directory is recognized; entries of the workspace itself are at level 1.
pub(crate) const MAX_DEPTH: usize = 8;

/// The file that tags its directory as a cache.
const TAG_NAME: &str = "CACHEDIR.TAG";

/// The first bytes of such a file.
const TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// The ignore file that virtualenv, uv, pytest and others put into their own directories.
const OWN_IGNORE: &str = ".gitignore";

/// The most bytes of that file that are read.
const OWN_IGNORE_BYTES: usize = 4096;

/// Names that nobody gives to sources. Outside a repository they are enough.
const NEVER_SOURCE: [&str; 7] =
    ["node_modules", "__pycache__", ".venv", ".tox", ".mypy_cache", ".pytest_cache", ".ruff_cache"];

/// Directories of version control systems.
const NOT_ENTERED: [&str; 3] = [".git", ".jj", ".hg"];

/// A directory that may hold build results.
pub(crate) struct Candidate<'a> {
    /// The handle of the directory that it is in.
    pub(crate) parent: BorrowedFd<'a>,
    pub(crate) name: &'a OsStr,
    /// Its absolute path.
    pub(crate) path: &'a Path,
    /// The ignore rules of the directory that it is in.
    pub(crate) standing: &'a Standing,
}

impl Candidate<'_> {
    /// Tells whether it is a build directory, given the names that build directories have. Files whose content decided that are
    /// added to `inputs`.
    pub(crate) fn is_build_directory(&self, names: &[String], inputs: &mut Vec<Input>) -> bool {
        if !is_one_of(self.name, names) {
            return false;
        }
        if self.standing.ignores(self.path) || self.has(OWN_IGNORE, ignores_all, inputs) {
            return true;
        }
        !self.standing.rules.are_in_repository()
            && (is_one_of(self.name, &NEVER_SOURCE) || self.has(TAG_NAME, is_tag, inputs))
    }

    /// Tells whether the directory has a file whose content passes a test.
    fn has(&self, file: &str, test: fn(&[u8]) -> bool, inputs: &mut Vec<Input>) -> bool {
        let (content, state) = read(self.parent, &Path::new(self.name).join(file));
        inputs.push(Input::new(self.path.join(file), state));
        content.is_some_and(|content| test(&content))
    }
}

fn is_tag(content: &[u8]) -> bool {
    content.starts_with(TAG)
}

/// Tells whether an ignore file ignores its whole directory: it has the line `*` and takes nothing back.
fn ignores_all(content: &[u8]) -> bool {
    let mut lines = content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.clone().any(|line| line == b"*") && !lines.any(|line| line.starts_with(b"!"))
}

/// The beginning of a regular file, and the state of the file that was read; `None` if there is no such file.
fn read(parent: BorrowedFd<'_>, path: &Path) -> (Option<Vec<u8>>, InputState) {
    let file = match open_child(parent, path.as_os_str(), FOR_READING) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return (None, InputState::Named(None)),
        Err(_) => return (None, InputState::Unknown),
    };
    let Ok(found) = stat(&file) else { return (None, InputState::Unknown) };
    if found.kind != FileKind::File {
        return (None, InputState::Named(None));
    }
    let mut content = Vec::new();
    match std::fs::File::from(file).take(OWN_IGNORE_BYTES as u64).read_to_end(&mut content) {
        Ok(_) => (Some(content), InputState::Named(Some(found.fingerprint))),
        Err(_) => (None, InputState::Unknown),
    }
}

/// Tells whether a directory belongs to a version control system, so that no walk enters it.
pub(crate) fn is_not_entered(name: &OsStr) -> bool {
    is_one_of(name, &NOT_ENTERED)
}

fn is_one_of(name: &OsStr, names: &[impl AsRef<str>]) -> bool {
    names.iter().any(|known| known.as_ref().as_bytes() == name.as_bytes())
}
