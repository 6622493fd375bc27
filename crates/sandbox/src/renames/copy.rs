//! Moves a small file by a copy instead of a rename.
//!
//! A rename of a file of a lower layer is slow: the kernel copies it up under a temporary name, and creates a whiteout, which is an inode
//! of its own. Copying and unlinking a small file takes a fraction of that time. A file whose copy would differ from it (hard links,
//! xattrs, holes, another owner, a process that writes to it) is not copied but renamed.

use super::unmerge::DirectoryEntry;
use crate::sys::files::{self, FileFacts};
use crate::sys::{self, Fd, Result};

/// Maximum size of a file that is copied. For a larger one the copy takes most of the time, and the kernel's own can share extents.
const MAX_COPIED_BYTES: u64 = 256 << 10;

/// The set-user-id and set-group-id bits.
const SET_ID_BITS: u32 = 0o6000;

/// Copies a file into a directory and unlinks it. Returns false, with nothing changed, if it has to be renamed instead.
pub(super) fn move_small(entry: &DirectoryEntry<'_>, to: Fd, buffer: &mut [u8]) -> Result<bool> {
    let Ok(facts) = entry.facts() else { return Ok(false) };
    if !is_plain(&facts) {
        return Ok(false);
    }
    let Ok(source) = files::open_file(entry.parent, entry.name) else { return Ok(false) };
    let moved = move_open(entry, source, &facts, to, buffer);
    sys::close(source);
    moved
}

/// Returns whether a file is regular, small, without other hard links, set-id bits and holes.
fn is_plain(facts: &FileFacts) -> bool {
    facts.kind == libc::S_IFREG
        && facts.links == 1
        && facts.size <= MAX_COPIED_BYTES
        && facts.mode & SET_ID_BITS == 0
        && facts.allocated >= facts.size
}

/// Moves a file that was opened for reading.
fn move_open(
    entry: &DirectoryEntry<'_>,
    source: Fd,
    facts: &FileFacts,
    to: Fd,
    buffer: &mut [u8],
) -> Result<bool> {
    // Refused if a process has it open for writing, and noticed if one opens it later.
    if files::take_read_lease(source).is_err() || files::has_xattrs(source, buffer) {
        return Ok(false);
    }
    let Ok(target) = files::make_file(to, entry.name, facts.mode) else { return Ok(false) };
    let copied = copy(source, target, facts, buffer);
    sys::close(target);
    let moved = match copied {
        Ok(true) if files::holds_read_lease(source) => {
            files::unlink(entry.parent, entry.name).map(|()| true)
        }
        other => other.map(|_| false),
    };
    if moved != Ok(true) {
        files::unlink(to, entry.name)?;
    }
    moved
}

/// Copies content, mode and times. Returns false if the owner or the size of the copy differs.
fn copy(source: Fd, target: Fd, facts: &FileFacts, buffer: &mut [u8]) -> Result<bool> {
    loop {
        let read = sys::read(source, buffer)?;
        if read == 0 {
            break;
        }
        files::write_all(target, buffer.get(..read).unwrap_or_default())?;
    }
    let made = files::read_facts(target, c"")?;
    if made.owner != facts.owner || made.size != facts.size {
        return Ok(false);
    }
    if made.mode != facts.mode {
        files::set_mode_of_open(target, facts.mode)?;
    }
    files::set_times(target, facts)?;
    Ok(true)
}
