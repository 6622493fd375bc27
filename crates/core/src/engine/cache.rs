//! Stage 8: answers that are still true.
//!
//! Only calls that do nothing but read are kept, only successes, and only with the fingerprints of everything that was read. A
//! hit is served when all of them are still the same. A fingerprint can lie for as long as the file system's clock stands still, so
//! an answer about a file that changed just before it was read is not kept at all.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::{Call, Engine, Shared};
use crate::changes::commit;
use crate::sync::Lock;
use crate::{Effects, Files, Fingerprint, Output, Overrides};

/// Changes within this time of a read may share its timestamp: kernels stamp files with the clock of their timer.
const CLOCK_GRAIN: Duration = Duration::from_millis(50);

/// Statistics of the cache of answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Answers served.
    pub hits: u64,
    /// Calls that were looked for and not found, or not true any more.
    pub misses: u64,
    /// Answers kept now.
    pub entries: usize,
    /// The most answers that are kept.
    pub capacity: usize,
    /// Answers that were dropped to make room for others.
    pub evictions: u64,
}

impl CacheStats {
    /// The share of lookups that were served, from 0 to 1; 0 without any lookup.
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more than 52 bits")]
    pub fn hit_rate(&self) -> f64 {
        let lookups = self.hits + self.misses;
        if lookups == 0 { 0.0 } else { self.hits as f64 / lookups as f64 }
    }
}

impl Engine {
    /// Returns the statistics of the cache.
    pub fn cache_stats(&self) -> CacheStats {
        self.0.cache.stats()
    }

    /// Drops all cached answers, also those of calls that run now.
    pub fn clear_cache(&self) {
        self.0.cache.begin_epoch();
    }

    /// Switches the cache off, which drops all answers, or on again.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use windlass_core::{Engine, testing::EmptyHost};
    /// # let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
    /// engine.set_cache_enabled(false);
    /// assert_eq!((engine.cache_stats().entries, engine.cache_stats().capacity), (0, 100));
    /// ```
    pub fn set_cache_enabled(&self, is_enabled: bool) {
        self.0.cache.set_enabled(is_enabled);
    }
}

pub(super) struct Cache {
    most: usize,
    ttl: Duration,
    entries: Lock<Entries>,
    /// Which policy is in force, counted: an answer that was found under another is not kept.
    epoch: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
    is_disabled: AtomicBool,
}

/// The answers that are kept, and the order in which they were last used.
#[derive(Default)]
struct Entries {
    by_key: HashMap<Key, Entry>,
    by_use: BTreeMap<u64, Key>,
    uses: u64,
}

impl Entries {
    fn insert(
        &mut self,
        key: Key,
        output: Output,
        observed: Vec<(PathBuf, Fingerprint)>,
        at: SystemTime,
    ) {
        self.uses += 1;
        let entry = Entry { output, observed, at, last_use: self.uses };
        if let Some(before) = self.by_key.insert(key.clone(), entry) {
            self.by_use.remove(&before.last_use);
        }
        self.by_use.insert(self.uses, key);
    }

    /// Takes note that an answer is used.
    fn touch(&mut self, key: &Key) -> Option<&Entry> {
        let entry = self.by_key.get_mut(key)?;
        let key = self.by_use.remove(&entry.last_use)?;
        self.uses += 1;
        entry.last_use = self.uses;
        self.by_use.insert(self.uses, key);
        Some(entry)
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.by_key.remove(key) {
            self.by_use.remove(&entry.last_use);
        }
    }

    /// Removes the answer that has not been used for the longest time.
    fn evict(&mut self) -> bool {
        let oldest = self.by_use.pop_first();
        oldest.is_some_and(|(_, key)| self.by_key.remove(&key).is_some())
    }

    fn clear(&mut self) {
        self.by_key.clear();
        self.by_use.clear();
    }
}

struct Entry {
    output: Output,
    observed: Vec<(PathBuf, Fingerprint)>,
    at: SystemTime,
    last_use: u64,
}

impl Cache {
    pub(super) fn new(most: usize, ttl: Duration) -> Self {
        Self {
            most,
            ttl,
            entries: Lock::default(),
            epoch: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            is_disabled: AtomicBool::new(false),
        }
    }

    pub(super) fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            entries: self.entries.lock().by_key.len(),
            capacity: self.most,
            evictions: self.evictions.load(Ordering::Relaxed),
        }
    }

    /// Switches the cache off or on again. Switching it off drops what it has.
    pub(super) fn set_enabled(&self, is_enabled: bool) {
        self.is_disabled.store(!is_enabled, Ordering::Release);
        if !is_enabled {
            self.begin_epoch();
        }
    }

    /// Under which name the answer to this call is kept, if it may be.
    pub(super) fn key(&self, call: &Call, effects: &Effects) -> Option<Key> {
        // What a session proposes is seen by that session alone, and is not what the fingerprints of the machine tell of.
        // A session with fewer rights may not see what another one found, and what it finds is not all that there is.
        let is_shared = call.session.proposals().is_none() && !call.session.rights().has_layers();
        // A tool of people may have the name of another one that models are offered.
        let is_of_model = call.for_person.is_none();
        let is_on = self.most > 0 && !self.is_disabled.load(Ordering::Acquire);
        let is_worth = is_on && is_of_model && effects.only_reads() && !effects.is_empty();
        (is_shared && is_worth).then(|| Key::of(call))
    }

    /// The answer that was given before, if it is still true.
    pub(super) fn get(&self, engine: &Shared, files: &dyn Files, key: &Key) -> Option<Output> {
        let found = self.look(engine, files, key);
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found.map(|output| output.with("cached", true))
    }

    fn look(&self, engine: &Shared, files: &dyn Files, key: &Key) -> Option<Output> {
        let now = engine.host.clock().now();
        let mut entries = self.entries.lock();
        let entry = entries.by_key.get(key)?;
        let fresh = now.duration_since(entry.at).is_ok_and(|age| age < self.ttl);
        if !fresh || !still_true(files, &entry.observed) {
            entries.remove(key);
            return None;
        }
        entries.touch(key).map(|entry| entry.output.clone())
    }

    /// Keeps an answer, with what was read for it; `began` is a moment before the first read.
    pub(super) fn put(
        &self,
        key: Key,
        output: &Output,
        observed: Option<Vec<(PathBuf, Fingerprint)>>,
        began: SystemTime,
    ) {
        let Some(observed) = observed else { return };
        if output.is_error || observed.is_empty() || !settled(&observed, began) {
            return;
        }
        let output = output.clone();
        let mut entries = self.entries.lock();
        if key.epoch != self.epoch() {
            return;
        }
        entries.insert(key, output, observed, began);
        if entries.by_key.len() > self.most && entries.evict() {
            self.evictions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Which policy is in force.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Forgets everything, also what is being found out: another policy holds from now on.
    pub(super) fn begin_epoch(&self) {
        let mut entries = self.entries.lock();
        self.epoch.fetch_add(1, Ordering::AcqRel);
        entries.clear();
    }

    /// Forgets everything: a call did more than read.
    pub(super) fn clear(&self) {
        self.entries.lock().clear();
    }
}

/// Session, tool, directory, bound and canonical arguments. The session is part of it because a read also notes what the session saw.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    text: Arc<str>,
    /// When the call came: what it is shown was decided since then.
    epoch: u64,
}

impl Key {
    fn of(call: &Call) -> Self {
        let Overrides { work_dir, output_bytes, .. } = &call.overrides;
        let mut key = String::with_capacity(256);
        for part in [call.session.id().as_str(), &call.name] {
            key.push_str(part);
            key.push('\0');
        }
        if work_dir.is_some() || output_bytes.is_some() {
            let written = write!(key, "{work_dir:?}\0{output_bytes:?}\0");
            debug_assert!(written.is_ok(), "writing to a string does not fail");
        }
        push_canonical(&mut key, &call.input);
        Self { text: key.into(), epoch: call.epoch }
    }
}

/// JSON with sorted keys: arguments in another order are the same arguments.
fn push_canonical(text: &mut String, value: &Value) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (name, value) in entries {
                push_quoted(text, name);
                text.push(':');
                push_canonical(text, value);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(values) => {
            text.push('[');
            for value in values {
                push_canonical(text, value);
                text.push(',');
            }
            text.push(']');
        }
        Value::String(word) => push_quoted(text, word),
        plain => text.push_str(&plain.to_string()),
    }
}

/// A text as JSON has it. Most have nothing in them that has to be escaped.
fn push_quoted(text: &mut String, word: &str) {
    let is_plain = word.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\');
    if is_plain {
        text.push('"');
        text.push_str(word);
        text.push('"');
    } else {
        text.push_str(&Value::from(word).to_string());
    }
}

fn still_true(files: &dyn Files, observed: &[(PathBuf, Fingerprint)]) -> bool {
    observed.iter().all(|(path, before)| {
        files.stat(&commit::beside(files, path)).is_ok_and(|now| now.fingerprint == *before)
    })
}

/// Whether nothing that was read had changed so recently that a further change could look the same.
fn settled(observed: &[(PathBuf, Fingerprint)], began: SystemTime) -> bool {
    let Some(limit) =
        began.checked_sub(CLOCK_GRAIN).and_then(|at| at.duration_since(UNIX_EPOCH).ok())
    else {
        return false;
    };
    let limit = i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX);
    observed.iter().all(|(_, fingerprint)| fingerprint.modified.max(fingerprint.changed) < limit)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_in_another_order_are_the_same() {
        let canonical = |value: Value| {
            let mut text = String::new();
            push_canonical(&mut text, &value);
            text
        };
        assert_eq!(
            canonical(json!({"a": [1, {"x": 1, "y": 2}], "b": 2})),
            canonical(json!({"b": 2, "a": [1, {"y": 2, "x": 1}]}))
        );
        assert_ne!(canonical(json!({"a": 1})), canonical(json!({"a": "1"})));
        assert_ne!(canonical(json!(["a,"])), canonical(json!(["a", ""])));
    }
}
