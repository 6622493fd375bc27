//! Recognizes build directories: directories of build results and installed dependencies, which can be created again.
//!
//! Their changes are kept without history, so a wrong answer can cost a person files that cannot be restored. A name alone is never enough.
//! In a git repository, git must ignore the directory: a cache tag or a familiar name proves nothing there, because a program could have
//! put the tag into a directory of sources.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::io::Errno;
use windlass_core::FileKind;

use super::staged_ignore_rules::DirectoryIgnoreRules;
use crate::inputs::{Input, InputState};
use crate::kernel::{FOR_READING, open_child, stat};

/// Maximum level at which a build directory is recognized; entries of the workspace itself are at level 1.
pub(crate) const MAX_DEPTH: usize = 8;

/// Name of the file that tags its directory as a cache.
const TAG_NAME: &str = "CACHEDIR.TAG";

/// First bytes of a cache tag.
const TAG_START: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// Name of the ignore file that virtualenv, uv, pytest and others put into their own directories.
const OWN_IGNORE_NAME: &str = ".gitignore";

/// Maximum bytes of that file that are read.
const MAX_OWN_IGNORE_BYTES: usize = 4096;

/// Names that are never used for sources. Outside a repository they are enough.
const NEVER_SOURCE_NAMES: [&str; 7] =
    ["node_modules", "__pycache__", ".venv", ".tox", ".mypy_cache", ".pytest_cache", ".ruff_cache"];

/// Names of directories of version control systems.
const VERSION_CONTROL_NAMES: [&str; 3] = [".git", ".jj", ".hg"];

/// A directory that may hold build results.
pub(crate) struct Candidate<'a> {
    /// Handle of its parent directory.
    pub(crate) parent: BorrowedFd<'a>,
    pub(crate) name: &'a OsStr,
    /// Its absolute path.
    pub(crate) path: &'a Path,
    /// Ignore rules of its parent directory.
    pub(crate) ignore_rules: &'a DirectoryIgnoreRules,
}

impl Candidate<'_> {
    /// Returns whether it is a build directory, given the names of build directories. Files whose content decided that are added to
    /// `inputs`.
    pub(crate) fn is_build_directory(&self, names: &[String], inputs: &mut Vec<Input>) -> bool {
        if !is_one_of(self.name, names) {
            return false;
        }
        if self.ignore_rules.ignores(self.path) || self.has(OWN_IGNORE_NAME, ignores_all, inputs) {
            return true;
        }
        !self.ignore_rules.rules.are_in_repository()
            && (is_one_of(self.name, &NEVER_SOURCE_NAMES) || self.has(TAG_NAME, is_tag, inputs))
    }

    /// Returns whether the directory has a file whose content passes a test.
    fn has(&self, file: &str, test: fn(&[u8]) -> bool, inputs: &mut Vec<Input>) -> bool {
        let (content, state) = read(self.parent, &Path::new(self.name).join(file));
        inputs.push(Input::new(self.path.join(file), state));
        content.is_some_and(|content| test(&content))
    }
}

/// Returns whether a file is a cache tag.
fn is_tag(content: &[u8]) -> bool {
    content.starts_with(TAG_START)
}

/// Returns whether an ignore file ignores its whole directory: it has the line `*` and no line that begins with `!`.
fn ignores_all(content: &[u8]) -> bool {
    let mut lines = content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.clone().any(|line| line == b"*") && !lines.any(|line| line.starts_with(b"!"))
}

/// Reads the beginning of a regular file; `None` if there is no such file. Also returns its state as an input.
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
    match std::fs::File::from(file).take(MAX_OWN_IGNORE_BYTES as u64).read_to_end(&mut content) {
        Ok(_) => (Some(content), InputState::Named(Some(found.fingerprint))),
        Err(_) => (None, InputState::Unknown),
    }
}

/// Returns whether a directory belongs to a version control system, so that no walk enters it.
pub(crate) fn is_not_entered(name: &OsStr) -> bool {
    is_one_of(name, &VERSION_CONTROL_NAMES)
}

/// Returns whether a name is in a list.
fn is_one_of(name: &OsStr, names: &[impl AsRef<str>]) -> bool {
    names.iter().any(|known| known.as_ref().as_bytes() == name.as_bytes())
}
