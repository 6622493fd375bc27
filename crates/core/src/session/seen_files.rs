//! The files that a session has seen, with the lines and the state of each. Tools check it before they replace a file, and the journal
//! stores it, so that it survives a change of process.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::{ContentHash, Fingerprint, Unseen, quote};

/// All files that a session has seen.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenFiles {
    files: HashMap<PathBuf, SeenFile>,
    /// Paths whose state changed since the last record.
    news: BTreeSet<PathBuf>,
}

impl SeenFiles {
    /// Adds shown lines of a file. Forgets lines that were shown of an earlier state.
    pub(super) fn saw(
        &mut self,
        path: &Path,
        fingerprint: Fingerprint,
        lines: Range<u64>,
        total: Option<u64>,
        hash: Option<ContentHash>,
    ) {
        let entry = self.entry_to_change(path).or_insert_with(|| SeenFile::new(fingerprint));
        if entry.fingerprint != fingerprint && (hash.is_none() || entry.hash != hash) {
            *entry = SeenFile::new(fingerprint);
        }
        entry.fingerprint = fingerprint;
        entry.hash = hash.or(entry.hash);
        entry.add(lines);
        entry.total = total.or(entry.total);
    }

    /// Marks a file that the session wrote as seen in full.
    pub(super) fn wrote(&mut self, path: &Path, fingerprint: Fingerprint) {
        self.entry_to_change(path)
            .insert_entry(SeenFile { total: Some(0), ..SeenFile::new(fingerprint) });
    }

    /// Forgets a file.
    pub(super) fn forget(&mut self, path: &Path) {
        if self.files.remove(path).is_some() {
            self.news.insert(path.to_owned());
        }
    }

    /// Returns the changes since the last call, or `None` if there are none.
    pub(super) fn take_news(&mut self) -> Option<SeenRecord> {
        if self.news.is_empty() {
            return None;
        }
        let news = std::mem::take(&mut self.news);
        let files = news.iter().map(|path| {
            let seen = self.files.get(path).cloned();
            (quote::path(path).into_owned(), seen)
        });
        Some(files.collect())
    }

    /// Restores files from a record.
    pub(super) fn recall(&mut self, news: SeenRecord) {
        for (path, seen) in news.0 {
            let path = quote::unpath(&path);
            match seen {
                Some(seen) => drop(self.files.insert(path, seen)),
                None => drop(self.files.remove(&path)),
            }
        }
    }

    /// Checks that all lines of the current state were shown, under this path or another name of the same file.
    pub(super) fn check_seen(
        &self,
        path: &Path,
        fingerprint: Fingerprint,
        hash: Option<ContentHash>,
    ) -> Result<(), Unseen> {
        let same_object = |seen: &&SeenFile| seen.fingerprint.is_same_object(&fingerprint);
        let mut unseen = Unseen::Never;
        for seen in self.files.get(path).into_iter().chain(self.files.values().filter(same_object))
        {
            match seen.check_seen(fingerprint, hash) {
                Ok(()) => return Ok(()),
                Err(why) if unseen == Unseen::Never => unseen = why,
                Err(_) => {}
            }
        }
        Err(unseen)
    }

    /// Returns the entry of a file to change, and notes that it changes.
    fn entry_to_change(&mut self, path: &Path) -> Entry<'_, PathBuf, SeenFile> {
        self.news.insert(path.to_owned());
        self.files.entry(path.to_owned())
    }
}

/// Changes of seen files in the form of the journal: by quoted path, with `null` for a forgotten file.
///
/// It is serialized without an intermediate JSON value, since every read call writes one.
///
/// ```
/// use windlass_core::{Fingerprint, SeenRecord, Session, SessionId};
/// # let fingerprint = Fingerprint { device: 1, inode: 7, len: 12, modified: 1_000, changed: 1_000 };
/// let (earlier, later) = (Session::new(SessionId::new("s1")), Session::new(SessionId::new("s1")));
/// earlier.saw("/w/a.md".as_ref(), fingerprint, 0..3, Some(3), None);
/// let record: SeenRecord = earlier.take_news().unwrap();
/// later.recall(record);
/// assert_eq!(later.has_seen("/w/a.md".as_ref(), fingerprint, None), Ok(()));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeenRecord(Vec<(String, Option<SeenFile>)>);

impl FromIterator<(String, Option<SeenFile>)> for SeenRecord {
    /// Sorts the files, so that the same files make the same record.
    fn from_iter<I: IntoIterator<Item = (String, Option<SeenFile>)>>(files: I) -> Self {
        let mut files: Vec<_> = files.into_iter().collect();
        files.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self(files)
    }
}

impl Serialize for SeenRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(path, seen)| (path, seen)))
    }
}

impl SeenRecord {
    /// Keeps only the files whose quoted path `passes`.
    pub(crate) fn retain(&mut self, mut passes: impl FnMut(&str) -> bool) {
        self.0.retain(|(path, _)| passes(path));
    }
}

/// An entry that does not parse counts as forgotten, so that the file has to be read again.
impl<'de> Deserialize<'de> for SeenRecord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Value::Object(files) = Value::deserialize(deserializer)? else {
            return Ok(Self::default());
        };
        let files = files.into_iter().map(|(path, seen)| {
            let seen = Option::<SeenFile>::deserialize(seen).unwrap_or_default();
            (path, seen)
        });
        Ok(files.collect())
    }
}

/// The lines of one state of a file that were shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SeenFile {
    fingerprint: Fingerprint,
    /// Hash of all of its bytes, if the caller knew it.
    hash: Option<ContentHash>,
    /// Shown lines, in order and without overlaps.
    ranges: Vec<Range<u64>>,
    /// Number of lines, if known.
    total: Option<u64>,
}

impl SeenFile {
    fn new(fingerprint: Fingerprint) -> Self {
        Self { fingerprint, hash: None, ranges: Vec::new(), total: None }
    }

    /// Adds lines, and merges overlapping ranges.
    fn add(&mut self, lines: Range<u64>) {
        if lines.is_empty() {
            return;
        }
        self.ranges.push(lines);
        self.ranges.sort_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::with_capacity(self.ranges.len());
        for range in self.ranges.drain(..) {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        self.ranges = merged;
    }

    /// Checks that the current state is the one that was shown, and that all of its lines were.
    fn check_seen(
        &self,
        fingerprint: Fingerprint,
        hash: Option<ContentHash>,
    ) -> Result<(), Unseen> {
        let is_same = match self.hash.zip(hash) {
            Some((seen, now)) => seen == now,
            None => self.fingerprint == fingerprint,
        };
        let missing = self.missing();
        match is_same {
            false => Err(Unseen::Changed),
            true if missing.is_empty() => Ok(()),
            true => Err(Unseen::Lines(missing)),
        }
    }

    /// Returns the lines that were not shown. The end of the last range is open if the number of lines is unknown.
    fn missing(&self) -> Vec<Range<u64>> {
        let end = self.total.unwrap_or(u64::MAX);
        let starts = std::iter::once(0).chain(self.ranges.iter().map(|range| range.end));
        let ends = self.ranges.iter().map(|range| range.start).chain([end]);
        starts.zip(ends).filter(|(start, end)| start < end).map(|(start, end)| start..end).collect()
    }
}
