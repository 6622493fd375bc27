//! What was learnt about large files: their encoding and where their lines are. The next look at one starts from there.
//!
//! An entry belongs to a fingerprint, not to a path: a file that changed has another one, and its old entry is never asked
//! for again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use windlass_core::Fingerprint;

use super::lines::LineIndex;
use crate::encoding::TextEncoding;

/// How many files are remembered.
const CAPACITY: usize = 16;

/// What was learnt about one state of one file.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) encoding: TextEncoding,
    pub(crate) index: LineIndex,
}

/// The files that were looked at last.
#[derive(Debug)]
pub(crate) struct IndexCache(Mutex<Vec<(Fingerprint, Arc<Known>)>>);

impl IndexCache {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// What is known about a file in this state.
    pub(crate) fn get(&self, fingerprint: &Fingerprint) -> Option<Arc<Known>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = entries.iter().position(|(of, _)| of == fingerprint)?;
        entries.get_mut(..=at)?.rotate_right(1);
        entries.first().map(|(_, known)| known.clone())
    }

    /// Remembers what was learnt, unless the file could change without its fingerprint telling.
    pub(crate) fn keep(&self, fingerprint: Fingerprint, known: Arc<Known>, now: SystemTime) {
        if !is_settled(&fingerprint, now) {
            return;
        }
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|(of, _)| *of != fingerprint);
        entries.insert(0, (fingerprint, known));
        entries.truncate(CAPACITY);
    }
}

/// Whether the last change is so long ago that one more would get another time stamp.
///
/// Clocks of file systems tick: every few milliseconds as a rule, every second or two on old ones, which leave the
/// nanoseconds at zero.
fn is_settled(fingerprint: &Fingerprint, now: SystemTime) -> bool {
    let latest = fingerprint.modified.max(fingerprint.changed);
    let coarse = latest % 1_000_000_000 == 0;
    let tick = if coarse { Duration::from_secs(3) } else { Duration::from_millis(50) };
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    now.checked_sub(Duration::from_nanos(latest.max(0).unsigned_abs()))
        .is_some_and(|age| age > tick)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(inode: u64, modified: i64) -> Fingerprint {
        Fingerprint { device: 1, inode, len: 9, modified, changed: modified }
    }

    fn known() -> Arc<Known> {
        Arc::new(Known { encoding: TextEncoding::UTF_8, index: LineIndex::default() })
    }

    #[test]
    fn the_files_looked_at_last_are_kept() {
        let cache = IndexCache::new();
        let now = UNIX_EPOCH + Duration::from_secs(100);
        for inode in 0..=CAPACITY as u64 {
            cache.keep(fingerprint(inode, 1), known(), now);
            assert!(cache.get(&fingerprint(1, 1)).is_some() || inode == 0);
        }
        assert!(cache.get(&fingerprint(0, 1)).is_none(), "the oldest made room");
        assert!(cache.get(&fingerprint(1, 1)).is_some(), "the one in use stayed");
        assert!(cache.get(&fingerprint(1, 2)).is_none(), "a changed file is another one");
    }

    #[test]
    fn a_fresh_file_is_not_trusted() {
        let now = UNIX_EPOCH + Duration::from_secs(100);
        for (modified, settled) in [
            (99_900_000_001, true),
            (99_990_000_001, false),
            (98_000_000_000, false),
            (96_000_000_000, true),
            (101_000_000_001, false),
            (-5, true),
        ] {
            assert_eq!(is_settled(&fingerprint(1, modified), now), settled, "{modified}");
        }
    }
}
