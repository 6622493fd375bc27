//! Decides which directories hold build results, so that they can be made again.
//!
//! A name alone is not enough: `build` can hold sources. The directory must also have a name that nobody gives to sources, be
//! ignored by an ignore file, or be tagged as a cache.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;
use windlass_core::FileKind;

use crate::inputs::InputState;
use crate::kernel::{FOR_READING, open_child, stat};

/// The deepest level at which a build directory is recognized; entries of the workspace itself are at level 1.
pub(crate) const MAX_DEPTH: usize = 8;

/// The file that tags its directory as a cache.
pub(crate) const TAG_NAME: &str = "CACHEDIR.TAG";

/// The first bytes of such a file.
const TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// Names that nobody gives to sources, ignored or not.
const NEVER_SOURCE: [&str; 7] =
    ["node_modules", "__pycache__", ".venv", ".tox", ".mypy_cache", ".pytest_cache", ".ruff_cache"];

/// Directories of version control systems.
const NOT_ENTERED: [&str; 3] = [".git", ".jj", ".hg"];

/// Tells if a directory has one of the names.
pub(crate) fn is_named(name: &OsStr, names: &[String]) -> bool {
    names.iter().any(|known| known.as_bytes() == name.as_bytes())
}

/// Tells if the name alone says that a directory can be made again.
pub(crate) fn is_never_source(name: &OsStr) -> bool {
    is_one_of(name, &NEVER_SOURCE)
}

/// Tells if a directory belongs to a version control system, so that no walk enters it.
pub(crate) fn is_not_entered(name: &OsStr) -> bool {
    is_one_of(name, &NOT_ENTERED)
}

/// Tells if the directory `name` is tagged as a cache.
pub(crate) fn is_tagged(parent: BorrowedFd<'_>, name: &OsStr) -> bool {
    read_tag(parent, name).0
}

/// The same, with the state of the file that decided it.
pub(crate) fn read_tag(parent: BorrowedFd<'_>, name: &OsStr) -> (bool, InputState) {
    let path = Path::new(name).join(TAG_NAME);
    let file = match open_child(parent, path.as_os_str(), FOR_READING) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return (false, InputState::Named(None)),
        Err(_) => return (false, InputState::Unknown),
    };
    let Ok(found) = stat(&file) else { return (false, InputState::Unknown) };
    if found.kind != FileKind::File {
        return (false, InputState::Named(None));
    }
    let mut begin = Vec::with_capacity(TAG.len());
    match std::fs::File::from(file).take(TAG.len() as u64).read_to_end(&mut begin) {
        Ok(_) => (begin == TAG, InputState::Named(Some(found.fingerprint))),
        Err(_) => (false, InputState::Unknown),
    }
}

fn is_one_of(name: &OsStr, names: &[&str]) -> bool {
    names.iter().any(|known| known.as_bytes() == name.as_bytes())
}
