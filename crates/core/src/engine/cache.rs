//! Stage 8: cached answers that are still valid.
//!
//! Only successful calls that do nothing but read are cached, with the fingerprints of all files that they read. An answer is served if
//! all fingerprints are still the same. Files that change twice within one tick of the file system's clock can have the same
//! fingerprint, so an answer about a file that changed just before it was read is not cached.

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
    /// Lookups without a valid answer in the cache.
    pub misses: u64,
    /// Number of cached answers.
    pub entries: usize,
    /// Maximum number of cached answers.
    pub capacity: usize,
    /// Answers that were dropped to make room for others.
    pub evictions: u64,
}

impl CacheStats {
    /// Returns the share of lookups that were served, from 0 to 1; 0 without any lookup.
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

/// Answers of read-only calls, with the files that they depend on.
pub(super) struct Cache {
    max_entries: usize,
    ttl: Duration,
    entries: Lock<Entries>,
    /// Number of changes of the policy or the tools. An answer found in an earlier epoch is not cached.
    epoch: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
    is_disabled: AtomicBool,
}

/// Cached answers, and the order in which they were last used.
#[derive(Default)]
struct Entries {
    by_key: HashMap<CacheKey, Entry>,
    by_use: BTreeMap<u64, CacheKey>,
    uses: u64,
}

impl Entries {
    /// Adds an answer, or replaces the one with the same key.
    fn insert(
        &mut self,
        key: CacheKey,
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

    /// Returns an answer and marks it as the one used last.
    fn touch(&mut self, key: &CacheKey) -> Option<&Entry> {
        let entry = self.by_key.get_mut(key)?;
        let key = self.by_use.remove(&entry.last_use)?;
        self.uses += 1;
        entry.last_use = self.uses;
        self.by_use.insert(self.uses, key);
        Some(entry)
    }

    fn remove(&mut self, key: &CacheKey) {
        if let Some(entry) = self.by_key.remove(key) {
            self.by_use.remove(&entry.last_use);
        }
    }

    /// Removes the answer that was not used for the longest time. Returns false if there is none.
    fn evict(&mut self) -> bool {
        let oldest = self.by_use.pop_first();
        oldest.is_some_and(|(_, key)| self.by_key.remove(&key).is_some())
    }

    fn clear(&mut self) {
        self.by_key.clear();
        self.by_use.clear();
    }
}

/// One cached answer.
struct Entry {
    output: Output,
    observed: Vec<(PathBuf, Fingerprint)>,
    at: SystemTime,
    last_use: u64,
}

impl Cache {
    pub(super) fn new(max_entries: usize, ttl: Duration) -> Self {
        Self {
            max_entries,
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
            capacity: self.max_entries,
            evictions: self.evictions.load(Ordering::Relaxed),
        }
    }

    /// Switches the cache on or off. Switching it off drops all answers.
    pub(super) fn set_enabled(&self, is_enabled: bool) {
        self.is_disabled.store(!is_enabled, Ordering::Release);
        if !is_enabled {
            self.begin_epoch();
        }
    }

    /// Returns the cache key of a call, or `None` if its answer may not be cached.
    pub(super) fn key(&self, call: &Call, effects: &Effects) -> Option<CacheKey> {
        // A session sees its own proposals, which the fingerprints of the machine do not cover. A session with fewer rights may not see what
        // another one found, and its own answer may be incomplete.
        let is_shared = call.session.proposals().is_none() && !call.session.rights().has_layers();
        // A tool for people may have the same name as a tool for models.
        let is_of_model = call.for_person.is_none();
        let is_on = self.max_entries > 0 && !self.is_disabled.load(Ordering::Acquire);
        let is_cacheable = is_on && is_of_model && effects.only_reads() && !effects.is_empty();
        (is_shared && is_cacheable).then(|| CacheKey::of(call))
    }

    /// Returns the cached answer if it is still valid, and counts the lookup.
    pub(super) fn get(&self, engine: &Shared, files: &dyn Files, key: &CacheKey) -> Option<Output> {
        let found = self.get_valid(engine, files, key);
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found.map(|output| output.with("cached", true))
    }

    /// Returns the cached answer if it is younger than the time to live and its files are unchanged; otherwise removes it.
    fn get_valid(&self, engine: &Shared, files: &dyn Files, key: &CacheKey) -> Option<Output> {
        let now = engine.host.clock().now();
        let mut entries = self.entries.lock();
        let entry = entries.by_key.get(key)?;
        let fresh = now.duration_since(entry.at).is_ok_and(|age| age < self.ttl);
        if !fresh || !fingerprints_match(files, &entry.observed) {
            entries.remove(key);
            return None;
        }
        entries.touch(key).map(|entry| entry.output.clone())
    }

    /// Caches an answer with the fingerprints of the files read for it; `began` is a time before the first read.
    pub(super) fn put(
        &self,
        key: CacheKey,
        output: &Output,
        observed: Option<Vec<(PathBuf, Fingerprint)>>,
        began: SystemTime,
    ) {
        let Some(observed) = observed else { return };
        if output.is_error || observed.is_empty() || !fingerprints_are_reliable(&observed, began) {
            return;
        }
        let output = output.clone();
        let mut entries = self.entries.lock();
        if key.epoch != self.epoch() {
            return;
        }
        entries.insert(key, output, observed, began);
        if entries.by_key.len() > self.max_entries && entries.evict() {
            self.evictions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the current epoch.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Drops all answers and rejects those that are being found: the policy or the tools changed.
    pub(super) fn begin_epoch(&self) {
        let mut entries = self.entries.lock();
        self.epoch.fetch_add(1, Ordering::AcqRel);
        entries.clear();
    }

    /// Drops all answers, because a call did more than read.
    pub(super) fn clear(&self) {
        self.entries.lock().clear();
    }
}

/// Cache key: session, tool, work directory, output limit and canonical arguments. The session is part of it because a read also
/// records which files the session has seen.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct CacheKey {
    text: Arc<str>,
    /// Epoch when the call arrived. Its decision was made since then.
    epoch: u64,
}

impl CacheKey {
    /// Makes the key of a call.
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

/// Appends JSON with sorted keys, so that the order of arguments does not matter.
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

/// Appends a text as a JSON string. Most texts need no escaping.
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

/// Returns whether all files still have the fingerprints that they had when they were read.
fn fingerprints_match(files: &dyn Files, observed: &[(PathBuf, Fingerprint)]) -> bool {
    observed.iter().all(|(path, before)| {
        files.stat(&commit::recorded_path(files, path)).is_ok_and(|now| now.fingerprint == *before)
    })
}

/// Returns whether every file last changed well before the read. Otherwise a further change could leave the same fingerprint.
fn fingerprints_are_reliable(observed: &[(PathBuf, Fingerprint)], began: SystemTime) -> bool {
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
    fn order_of_arguments_does_not_change_the_key() {
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
