//! A cache of the encodings and line indexes of large files, so that the next read of a file starts near its goal.
//!
//! The key is a fingerprint, not a path: a changed file has another fingerprint, and its old entry is never requested
//! again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use windlass_core::Fingerprint;

use super::lines::LineIndex;
use crate::encoding::TextEncoding;

/// Number of cached files.
const MAX_ENTRIES: usize = 16;

/// The encoding and line index of one version of one file.
#[derive(Debug, Clone)]
pub(crate) struct CachedIndex {
    pub(crate) encoding: TextEncoding,
    pub(crate) index: LineIndex,
}

/// The files that were read last, the latest first.
#[derive(Debug)]
pub(crate) struct IndexCache(Mutex<Vec<(Fingerprint, Arc<CachedIndex>)>>);

impl IndexCache {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Returns the entry of a file with this fingerprint, and makes it the latest.
    pub(crate) fn get(&self, fingerprint: &Fingerprint) -> Option<Arc<CachedIndex>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = entries.iter().position(|(of, _)| of == fingerprint)?;
        entries.get_mut(..=at)?.rotate_right(1);
        entries.first().map(|(_, cached)| cached.clone())
    }

    /// Keeps an entry, unless the file is so new that it could change again without a new fingerprint.
    pub(crate) fn keep(&self, fingerprint: Fingerprint, cached: Arc<CachedIndex>, now: SystemTime) {
        if !is_settled(&fingerprint, now) {
            return;
        }
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|(of, _)| *of != fingerprint);
        entries.insert(0, (fingerprint, cached));
        entries.truncate(MAX_ENTRIES);
    }
}

/// Returns whether the last change is so old that another change would get a different time stamp.
///
/// Clocks of file systems tick: usually every few milliseconds, on old ones every second or two. Old ones leave the nanoseconds
/// at zero.
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

    fn cached() -> Arc<CachedIndex> {
        Arc::new(CachedIndex { encoding: TextEncoding::UTF_8, index: LineIndex::default() })
    }

    #[test]
    fn latest_files_are_kept() {
        let cache = IndexCache::new();
        let now = UNIX_EPOCH + Duration::from_secs(100);
        for inode in 0..=MAX_ENTRIES as u64 {
            cache.keep(fingerprint(inode, 1), cached(), now);
            assert!(cache.get(&fingerprint(1, 1)).is_some() || inode == 0);
        }
        assert!(cache.get(&fingerprint(0, 1)).is_none(), "the oldest made room");
        assert!(cache.get(&fingerprint(1, 1)).is_some(), "the one in use stayed");
        assert!(cache.get(&fingerprint(1, 2)).is_none(), "a changed file is another one");
    }

    #[test]
    fn just_changed_file_is_not_cached() {
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
