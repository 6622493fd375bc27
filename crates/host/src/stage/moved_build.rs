//! Recognizes that a program moved a build directory away: `mv node_modules x`.
//!
//! Build directories have no history, but what they become elsewhere has one. An undo that only removed the new place would lose the
//! files, so the removal of such a directory is told like any other, and the two are joined to moves when they are committed.
//! Overlayfs does not tell renames: a move shows in files of the same length and time.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use windlass_core::{ChangedTo, FileKind, Stat};

use super::found::Change;

/// Files and links that a program made and that may have been in the workspace under another name.
pub(super) struct Arrived(HashSet<Likeness>);

/// The length and time of a file or link, which a move keeps.
type Likeness = (u64, i64);

impl Arrived {
    /// Those among what was made whose times are not later than `since`, when the program began.
    pub(super) fn among(made: &[Change], since: i64) -> Self {
        Self(made.iter().filter_map(|change| likeness(change, since)).collect())
    }

    /// Tells whether nothing can have been moved.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells whether one of these objects seems to be somewhere else now.
    pub(super) fn has_any_of<'o>(&self, objects: impl IntoIterator<Item = &'o Stat>) -> bool {
        let is_here = |stat: &&Stat| self.0.contains(&(stat.len, stat.fingerprint.modified));
        objects
            .into_iter()
            .filter(|stat| stat.kind != FileKind::Directory)
            .any(|stat| is_here(&stat))
    }
}

fn likeness(change: &Change, since: i64) -> Option<Likeness> {
    let is_old = |modified: &i64| *modified <= since;
    match &change.to {
        ChangedTo::File(place, attributes) => {
            let modified = attributes.modified.filter(is_old)?;
            Some((length(place)?, modified))
        }
        ChangedTo::Symlink(target, attributes) => {
            let length = u64::try_from(target.as_os_str().len()).ok()?;
            Some((length, attributes.modified.filter(is_old)?))
        }
        _ => None,
    }
}

fn length(place: &Path) -> Option<u64> {
    std::fs::symlink_metadata(place).ok().map(|found| found.size())
}
