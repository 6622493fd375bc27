//! The first matches in the order of paths, whatever the order in which threads find them.
//!
//! A search over several threads that stops at the first `limit` matches would answer differently every time. Here more than
//! `limit` are gathered, and from then on the last of them in the order of paths is a bound: nothing behind it can be among the
//! first `limit`, so files behind it are not opened and directories behind it are not entered. The bound only moves forward to
//! the front, so a search with many matches ends early, and its answer depends on the files alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

/// How many bytes of text are kept, whatever the limit: more than any answer holds.
const MOST_BYTES: usize = 16 << 20;

/// What was found in one file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Hits {
    /// Matching lines, also those beyond `lines`.
    pub(super) matches: usize,
    /// What to show: matching lines and those around them.
    pub(super) lines: Vec<Line>,
    /// The bytes of their text.
    pub(super) bytes: usize,
    /// Where a NUL ended the search, if one did.
    pub(super) binary: Option<u64>,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) is_match: bool,
    pub(super) text: String,
}

impl Hits {
    /// Whether there is no need for more out of one file.
    pub(super) fn is_enough(&self, limit: usize) -> bool {
        self.matches > limit || self.bytes > MOST_BYTES
    }

    /// Adds those of a later part of the same file, before which there are so many lines.
    pub(super) fn add(&mut self, later: Self, lines: u64) {
        self.matches += later.matches;
        self.bytes += later.bytes;
        self.binary = later.binary;
        let moved = |line: Line| Line { number: line.number + lines, ..line };
        self.lines.extend(later.lines.into_iter().map(moved));
    }
}

/// What the limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Match,
    File,
}

/// The first hits so far, shared by all threads of a search.
#[derive(Debug)]
pub(super) struct Found {
    limit: usize,
    unit: Unit,
    kept: Mutex<Kept>,
    /// Looked at for every file, so it must cost nothing before there is a bound.
    bounded: AtomicBool,
    bound: RwLock<PathBuf>,
}

#[derive(Debug, Default)]
struct Kept {
    files: BTreeMap<PathBuf, Hits>,
    units: usize,
    bytes: usize,
}

impl Found {
    pub(super) fn new(limit: usize, unit: Unit) -> Self {
        Self {
            limit,
            unit,
            kept: Mutex::default(),
            bounded: AtomicBool::new(false),
            bound: RwLock::default(),
        }
    }

    /// Whether nothing at or below this path can be among the first any more.
    pub(super) fn is_beyond(&self, path: &Path) -> bool {
        self.bounded.load(Ordering::Acquire)
            && path > self.bound.read().unwrap_or_else(PoisonError::into_inner).as_path()
    }

    /// Adds what was found in a file.
    pub(super) fn add(&self, path: &Path, hits: Hits) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.units += self.units(&hits);
        kept.bytes += hits.bytes;
        kept.files.insert(path.to_owned(), hits);
        if !self.is_too_much(kept.units, kept.bytes) {
            return;
        }
        self.drop_last(&mut kept);
        if let Some((last, _)) = kept.files.last_key_value() {
            self.bound.write().unwrap_or_else(PoisonError::into_inner).clone_from(last);
            self.bounded.store(true, Ordering::Release);
        }
    }

    /// The first hits in the order of paths, and whether there were more than the limit.
    pub(super) fn finish(self) -> (Vec<(PathBuf, Hits)>, bool) {
        let kept = self.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        let truncated = kept.units > self.limit || kept.bytes > MOST_BYTES;
        (kept.files.into_iter().collect(), truncated)
    }

    /// Drops files from the end as long as there is too much without them.
    fn drop_last(&self, kept: &mut Kept) {
        while let Some(last) = kept.files.last_entry() {
            let (units, bytes) = (self.units(last.get()), last.get().bytes);
            if !self.is_too_much(kept.units - units, kept.bytes - bytes) {
                return;
            }
            last.remove();
            kept.units -= units;
            kept.bytes -= bytes;
        }
    }

    /// One more than the limit is kept: that is how it is known that there are more.
    fn is_too_much(&self, units: usize, bytes: usize) -> bool {
        units > self.limit || bytes > MOST_BYTES
    }

    fn units(&self, hits: &Hits) -> usize {
        match self.unit {
            Unit::Match => hits.matches,
            Unit::File => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hits(matches: usize) -> Hits {
        Hits { matches, ..Hits::default() }
    }

    #[test]
    fn the_bound_leaves_out_what_cannot_be_first() {
        let found = Found::new(2, Unit::Match);
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
    fn too_much_text_is_too_much() {
        let found = Found::new(10, Unit::File);
        for path in ["c", "b", "a"] {
            found.add(path.as_ref(), Hits { matches: 1, bytes: MOST_BYTES, ..Hits::default() });
        }
        assert!(found.is_beyond("c".as_ref()));
        let (files, truncated) = found.finish();
        assert_eq!(files.len(), 2);
        assert!(truncated);
    }

    proptest! {
        /// The law: skipping what is beyond the bound never changes the first `limit`.
        #[test]
        fn any_order_gives_the_same_first(
            files in proptest::collection::btree_map("[a-c](/[a-c]){0,2}", 1usize..4, 0..20),
            keys in proptest::collection::vec(any::<u32>(), 20),
            limit in 1usize..12,
        ) {
            let mut shuffled: Vec<_> = files.iter().zip(keys).collect();
            shuffled.sort_by_key(|(_, key)| *key);
            let found = Found::new(limit, Unit::Match);
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
