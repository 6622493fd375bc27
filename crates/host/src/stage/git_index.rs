//! Sets and clears skip-worktree bits in the bytes of a git index.
//!
//! A program's view lacks the masked files of a workspace. With the bit set on their entries, git takes them for unchanged instead of
//! deleted. Everything else in the index stays as it is: entries are copied, extensions are kept, and offsets in the two extensions that
//! hold some are adjusted. So clearing the bits restores the original bytes.
//!
//! Only bytes are transformed. The caller that writes the result must give the file the modification time of the original: git compares it
//! with the times of the entries to find files that changed within one tick of the clock.

mod layout;
mod reader;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;

use windlass_core::ContentHash;

use self::layout::Index;

/// The bit in an entry's extended flags that makes git ignore the working tree.
const SKIP_WORKTREE: u16 = 1 << 14;

/// An index in which masked entries have the skip-worktree bit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hidden {
    /// The index file.
    pub(crate) bytes: Vec<u8>,
    /// Paths whose entries got the bit and did not have it before.
    pub(crate) paths: Vec<Vec<u8>>,
}

/// Returns whether two indexes stage the same entries, so that one is only a refreshed copy of the other. False if one cannot be parsed.
pub(crate) fn stage_the_same(one: &[u8], other: &[u8]) -> bool {
    let (Ok(one), Ok(other)) = (Index::parse(one), Index::parse(other)) else { return false };
    matches!((one.staged(), other.staged()), (Ok(one), Ok(other)) if one == other)
}

/// Returns a hash of the entries that an index stages: it is equal for two indexes that [`stage_the_same`]. `None` if the index cannot be
/// parsed.
pub(crate) fn hash_entries(index: &[u8]) -> Option<ContentHash> {
    let index = Index::parse(index).ok()?;
    let mut text = Vec::new();
    for entry in index.staged().ok()? {
        entry.append_to(&mut text);
    }
    Some(ContentHash::of(&text))
}

/// Error about an index that cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IndexError {
    /// The bytes are not an index that git would write.
    Malformed(&'static str),
    /// The index uses a format that cannot be changed entry by entry.
    Unsupported(String),
}

/// Sets the skip-worktree bit on all masked entries. Returns `None` if no entry needs it.
///
/// Unmerged entries are left alone, because git ignores the bit on them.
pub(crate) fn hide(
    index: &[u8],
    is_masked: &dyn Fn(&[u8]) -> bool,
) -> Result<Option<Hidden>, IndexError> {
    let mut paths = Vec::new();
    let bytes = Index::parse(index)?.with_flags(&mut |path, flags| {
        if flags & SKIP_WORKTREE != 0 || !is_masked(path) {
            return flags;
        }
        paths.push(path.to_vec());
        flags | SKIP_WORKTREE
    })?;
    Ok(bytes.map(|bytes| Hidden { bytes, paths }))
}

/// Returns whether an index has an entry, merged or not, whose path passes a test.
pub(crate) fn has_entry(index: &[u8], test: &dyn Fn(&[u8]) -> bool) -> Result<bool, IndexError> {
    Index::parse(index)?.has_entry(test)
}

/// Clears the skip-worktree bit on the entries of these paths. Returns `None` if none of them has it.
///
/// Git may have written the index since [`hide`]; paths that are no longer in it are skipped.
pub(crate) fn show(index: &[u8], paths: &[Vec<u8>]) -> Result<Option<Vec<u8>>, IndexError> {
    let paths: HashSet<&[u8]> = paths.iter().map(Vec::as_slice).collect();
    if paths.is_empty() {
        return Ok(None);
    }
    Index::parse(index)?.with_flags(&mut |path, flags| {
        let is_hidden = flags & SKIP_WORKTREE != 0 && paths.contains(path);
        if is_hidden { flags & !SKIP_WORKTREE } else { flags }
    })
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "cannot read the git index: {what}"),
            Self::Unsupported(what) => write!(f, "cannot change the git index: {what}"),
        }
    }
}

impl std::error::Error for IndexError {}
