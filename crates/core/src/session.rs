//! One conversation: its id, its rights, what it has seen of the files.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;

use crate::sync::Lock;
use crate::{Fingerprint, Overrides, Predicate, SessionId};

/// One conversation.
///
/// ```
/// use windlass_core::{Session, SessionId};
/// let session = Session::new(SessionId::new("s1"));
/// assert_eq!(session.id().as_str(), "s1");
/// assert!(!session.is_cancelled());
/// ```
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    parent: Option<SessionId>,
    predicate: Predicate,
    overrides: Overrides,
    calls: AtomicU64,
    cancel: CancellationToken,
    seen: Lock<HashMap<PathBuf, Seen>>,
}

impl Session {
    /// A session with all rights that the policy leaves it.
    pub fn new(id: SessionId) -> Self {
        Self {
            id,
            parent: None,
            predicate: Predicate::All,
            overrides: Overrides::default(),
            calls: AtomicU64::new(0),
            cancel: CancellationToken::new(),
            seen: Lock::default(),
        }
    }

    /// A session below this one: at most its rights, one deeper, cancelled with it.
    #[must_use]
    pub fn child(&self, id: SessionId, predicate: Predicate, overrides: &Overrides) -> Self {
        let mut overrides = overrides.over(&self.overrides);
        overrides.depth = Some(self.overrides.depth.unwrap_or(0) + 1);
        Self {
            parent: Some(self.id.clone()),
            predicate: self.predicate.clone().and(predicate),
            overrides,
            cancel: self.cancel.child_token(),
            ..Self::new(id)
        }
    }

    /// With these tools only.
    #[must_use]
    pub fn with_predicate(mut self, predicate: Predicate) -> Self {
        self.predicate = predicate;
        self
    }

    /// With these limits and settings.
    #[must_use]
    pub fn with_overrides(mut self, overrides: Overrides) -> Self {
        self.overrides = overrides;
        self
    }

    /// Its id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// The session that started it, if it is a sub-agent's.
    pub fn parent(&self) -> Option<&SessionId> {
        self.parent.as_ref()
    }

    /// Which tools it may see and call.
    pub fn predicate(&self) -> &Predicate {
        &self.predicate
    }

    /// Its limits and settings.
    pub fn overrides(&self) -> &Overrides {
        &self.overrides
    }

    /// Stops every call of this session and of those below it.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Whether it was stopped.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    pub(crate) fn cancel_token(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Counts one more call; the number of this one, from 1.
    pub(crate) fn count_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Remembers that these lines of a file (counted from 0) were shown; `total` if all of its lines are known.
    pub fn saw(
        &self,
        path: &Path,
        fingerprint: Fingerprint,
        lines: Range<u64>,
        total: Option<u64>,
    ) {
        let mut seen = self.seen.lock();
        let entry = seen.entry(path.to_owned()).or_insert_with(|| Seen::new(fingerprint));
        if entry.fingerprint != fingerprint {
            *entry = Seen::new(fingerprint);
        }
        entry.add(lines);
        entry.total = total.or(entry.total);
    }

    /// Remembers what the session wrote itself: it counts as seen.
    pub fn wrote(&self, path: &Path, fingerprint: Fingerprint) {
        self.seen.lock().insert(path.to_owned(), Seen { total: Some(0), ..Seen::new(fingerprint) });
    }

    /// Forgets what was seen of a file: it was changed by a call that had not seen all of it.
    pub fn forget(&self, path: &Path) {
        self.seen.lock().remove(path);
    }

    /// Whether the session has seen all of what it is about to replace.
    pub fn has_seen(&self, path: &Path, fingerprint: Fingerprint) -> Result<(), Unseen> {
        match self.seen.lock().get(path) {
            None => Err(Unseen::Never),
            Some(seen) if seen.fingerprint != fingerprint => Err(Unseen::Changed),
            Some(seen) => seen.missing().map_or(Ok(()), |lines| Err(Unseen::Lines(lines))),
        }
    }
}

/// What of a file a session does not know.
///
/// ```
/// use windlass_core::{Fingerprint, Session, SessionId, Unseen};
/// # let fingerprint = Fingerprint { device: 1, inode: 7, len: 12, modified: 1_000, changed: 1_000 };
/// let session = Session::new(SessionId::new("s1"));
/// let path = "/w/a.md".as_ref();
/// assert_eq!(session.has_seen(path, fingerprint), Err(Unseen::Never));
/// session.saw(path, fingerprint, 0..10, Some(30));
/// assert_eq!(session.has_seen(path, fingerprint), Err(Unseen::Lines(10..30)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unseen {
    /// It was never read.
    Never,
    /// It changed since.
    Changed,
    /// These lines (counted from 0; the end may be open) were not shown.
    Lines(Range<u64>),
}

/// Which lines of a file were shown, as of one state of it.
#[derive(Debug)]
struct Seen {
    fingerprint: Fingerprint,
    /// Apart, in order.
    ranges: Vec<Range<u64>>,
    total: Option<u64>,
}

impl Seen {
    fn new(fingerprint: Fingerprint) -> Self {
        Self { fingerprint, ranges: Vec::new(), total: None }
    }

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

    /// The first lines that were not shown, if any.
    fn missing(&self) -> Option<Range<u64>> {
        let total = self.total.unwrap_or(u64::MAX);
        let mut next = 0;
        for range in &self.ranges {
            if range.start > next {
                return Some(next..range.start);
            }
            next = range.end;
        }
        (next < total).then_some(next..total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(modified: i64) -> Fingerprint {
        Fingerprint { device: 1, inode: 2, len: 3, modified, changed: modified }
    }

    #[test]
    fn a_file_must_be_seen_whole_and_unchanged() {
        let session = Session::new(SessionId::new("s"));
        let path = Path::new("/w/a");
        assert_eq!(session.has_seen(path, fingerprint(1)), Err(Unseen::Never));
        session.saw(path, fingerprint(1), 0..10, None);
        assert_eq!(session.has_seen(path, fingerprint(1)), Err(Unseen::Lines(10..u64::MAX)));
        session.saw(path, fingerprint(1), 20..30, Some(30));
        assert_eq!(session.has_seen(path, fingerprint(1)), Err(Unseen::Lines(10..20)));
        session.saw(path, fingerprint(1), 5..20, None);
        assert_eq!(session.has_seen(path, fingerprint(1)), Ok(()));
        assert_eq!(session.has_seen(path, fingerprint(2)), Err(Unseen::Changed));
        session.wrote(path, fingerprint(3));
        assert_eq!(session.has_seen(path, fingerprint(3)), Ok(()));
        session.forget(path);
        assert_eq!(session.has_seen(path, fingerprint(3)), Err(Unseen::Never));
    }
}
