//! Collects the first hits in the order of paths, in whatever order threads find them.
//!
//! A search on several threads that stops at the first `limit` matches would return different ones each time. This one collects more
//! than `limit`. From then on, the last of them in the order of paths is a bound: no hit behind it can be among the first `limit`, so
//! files behind it are not opened and directories behind it are not entered. The bound only moves towards the front, so a search with
//! many matches ends early, and its result depends only on the files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

/// Limit of the bytes of kept text, whatever the number of hits: more than any output holds.
const MAX_KEPT_BYTES: usize = 16 << 20;

/// The hits in one file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct FileHits {
    /// Number of matching lines, including those that are not in `lines`.
    pub(super) matches: usize,
    /// Lines to show: matching lines and their context.
    pub(super) lines: Vec<HitLine>,
    /// Number of bytes of their text.
    pub(super) bytes: usize,
    /// Offset of the NUL that ended the search, if there was one.
    pub(super) binary: Option<u64>,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HitLine {
    pub(super) number: u64,
    pub(super) is_match: bool,
    pub(super) text: String,
}

impl FileHits {
    /// Returns whether no more hits of this file are needed.
    pub(super) fn is_enough(&self, limit: usize) -> bool {
        self.matches > limit || self.bytes > MAX_KEPT_BYTES
    }

    /// Adds the hits of a later part of the same file; `lines` lines are before that part.
    pub(super) fn add(&mut self, later: Self, lines: u64) {
        self.matches += later.matches;
        self.bytes += later.bytes;
        self.binary = later.binary;
        let moved = |line: HitLine| HitLine { number: line.number + lines, ..line };
        self.lines.extend(later.lines.into_iter().map(moved));
    }
}

/// The unit that the limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitUnit {
    Match,
    File,
}

/// The first hits so far, shared by all threads of a search.
#[derive(Debug)]
pub(super) struct FirstHits {
    limit: usize,
    unit: LimitUnit,
    kept: Mutex<KeptHits>,
    /// True once there is a bound. It is read for every file, so it is an atomic beside the lock.
    bounded: AtomicBool,
    bound: RwLock<PathBuf>,
}

/// The hits that are kept, with their sums.
#[derive(Debug, Default)]
struct KeptHits {
    files: BTreeMap<PathBuf, FileHits>,
    units: usize,
    bytes: usize,
}

impl FirstHits {
    pub(super) fn new(limit: usize, unit: LimitUnit) -> Self {
        Self {
            limit,
            unit,
            kept: Mutex::default(),
            bounded: AtomicBool::new(false),
            bound: RwLock::default(),
        }
    }

    /// Returns whether no hit at or below this path can be among the first.
    pub(super) fn is_beyond(&self, path: &Path) -> bool {
        self.bounded.load(Ordering::Acquire)
            && path > self.bound.read().unwrap_or_else(PoisonError::into_inner).as_path()
    }

    /// Adds the hits of a file, and moves the bound if there are more than the limit.
    pub(super) fn add(&self, path: &Path, hits: FileHits) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.units += self.units(&hits);
        kept.bytes += hits.bytes;
        kept.files.insert(path.to_owned(), hits);
        if !self.exceeds_limit(kept.units, kept.bytes) {
            return;
        }
        self.drop_last(&mut kept);
        if let Some((last, _)) = kept.files.last_key_value() {
            self.bound.write().unwrap_or_else(PoisonError::into_inner).clone_from(last);
            self.bounded.store(true, Ordering::Release);
        }
    }

    /// Returns the first hits in the order of paths, and whether there were more than the limit.
    pub(super) fn finish(self) -> (Vec<(PathBuf, FileHits)>, bool) {
        let kept = self.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        let truncated = kept.units > self.limit || kept.bytes > MAX_KEPT_BYTES;
        (kept.files.into_iter().collect(), truncated)
    }

    /// Drops files from the end as long as more than the limit remain without them.
    fn drop_last(&self, kept: &mut KeptHits) {
        while let Some(last) = kept.files.last_entry() {
            let (units, bytes) = (self.units(last.get()), last.get().bytes);
            if !self.exceeds_limit(kept.units - units, kept.bytes - bytes) {
                return;
            }
            last.remove();
            kept.units -= units;
            kept.bytes -= bytes;
        }
    }

    /// Returns whether there is more than the limit. One more is kept, to know that there are more.
    fn exceeds_limit(&self, units: usize, bytes: usize) -> bool {
        units > self.limit || bytes > MAX_KEPT_BYTES
    }

    /// Returns the number of units in some hits.
    fn units(&self, hits: &FileHits) -> usize {
        match self.unit {
            LimitUnit::Match => hits.matches,
            LimitUnit::File => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hits(matches: usize) -> FileHits {
        FileHits { matches, ..FileHits::default() }
    }

    #[test]
    fn hits_behind_the_bound_are_left_out() {
        let found = FirstHits::new(2, LimitUnit::Match);
        for (path, matches) in [("m/b", 1), ("m/c", 1)] {
            found.add(path.as_ref(), hits(matches));
            assert!(!found.is_beyond("z".as_ref()), "not more than the limit yet");
        }
        found.add("m/d".as_ref(), hits(1));
        for (path, beyond) in
            [("z", true), ("m/e", true), ("n", true), ("m", false), ("m/a", false), ("a/z", false)]
        {
            assert_eq!(found.is_beyond(path.as_ref()), beyond, "{path}");
        }
        found.add("a".as_ref(), hits(3));
        assert!(found.is_beyond("m".as_ref()));
        let (files, truncated) = found.finish();
        assert_eq!(files, [(PathBuf::from("a"), hits(3))]);
        assert!(truncated);
    }

    #[test]
    fn text_above_the_limit_is_dropped() {
        let found = FirstHits::new(10, LimitUnit::File);
        for path in ["c", "b", "a"] {
            found.add(
                path.as_ref(),
                FileHits { matches: 1, bytes: MAX_KEPT_BYTES, ..FileHits::default() },
            );
        }
        assert!(found.is_beyond("c".as_ref()));
        let (files, truncated) = found.finish();
        assert_eq!(files.len(), 2);
        assert!(truncated);
    }

    proptest! {
        /// Skipping files behind the bound never changes the first `limit` hits.
        #[test]
        fn first_hits_are_the_same_in_any_order(
            files in proptest::collection::btree_map("[a-c](/[a-c]){0,2}", 1usize..4, 0..20),
            keys in proptest::collection::vec(any::<u32>(), 20),
            limit in 1usize..12,
        ) {
            let mut shuffled: Vec<_> = files.iter().zip(keys).collect();
            shuffled.sort_by_key(|(_, key)| *key);
            let found = FirstHits::new(limit, LimitUnit::Match);
            for ((path, matches), _) in shuffled {
                if !found.is_beyond(Path::new(path)) {
                    found.add(Path::new(path), hits(*matches));
                }
            }
            let (kept, truncated) = found.finish();
            let mut expected: Vec<_> = files.iter().map(|(path, matches)| (PathBuf::from(path), hits(*matches))).collect();
            expected.sort_by(|a, b| a.0.cmp(&b.0));
            let mut total = 0;
            let first = expected.iter().take_while(|(_, hits)| {
                let wanted = total <= limit;
                total += hits.matches;
                wanted
            });
            prop_assert_eq!(kept, first.cloned().collect::<Vec<_>>());
            prop_assert_eq!(truncated, files.values().sum::<usize>() > limit);
        }
    }
}
