//! Index of the queued calls by the files and state that they use, to find conflicting calls without a look at all of them.
//!
//! Paths overlap if one is a prefix of the other. So each prefix of a used path has two sets: the calls that use this very path, and
//! those that use it or a path below it. Prefixes are stored as hashes, each made from the one before. The index may return a call that
//! does not conflict (very deep paths count as their beginning, and two prefixes may have the same hash), but omits none that does: the
//! caller compares the effects itself.
//!
//! Calls that only read files do not conflict with each other. While all calls only read files, which is usual, their paths are not
//! indexed. The first other call has the index built.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::path::Path;

use super::queue::{QueuedCall, Stage};
use crate::effects::{Footprint, UNDO_STATE};
use crate::{Effect, Effects};

/// Maximum number of components of a path that are indexed, which bounds the entries of one path.
const MAX_PARTS: usize = 64;

/// Places in the queue, ordered by stage and then by arrival.
#[derive(Debug, Default)]
pub(super) struct PlacesByStage(BTreeSet<StageAndPlace>);

/// Stage and place of a call.
type StageAndPlace = (Stage, u64);

impl PlacesByStage {
    /// Returns the places of a stage within a range, the latest first.
    pub(super) fn latest_first(
        &self,
        stage: Stage,
        range: Range<u64>,
    ) -> impl Iterator<Item = u64> + '_ {
        let is_empty = self.0.is_empty() || range.is_empty();
        let range = if is_empty { 0..0 } else { range };
        self.0.range((stage, range.start)..(stage, range.end)).rev().map(|(_, at)| *at)
    }

    /// Applies a change of one call.
    fn apply(&mut self, change: CallChange) {
        if let Some(from) = change.from {
            self.0.remove(&from);
        }
        if let Some(to) = change.to {
            self.0.insert(to);
        }
    }
}

/// Change of one call: it is added (`from` is `None`), changes its stage, or is removed (`to` is `None`).
#[derive(Debug, Clone, Copy)]
struct CallChange {
    from: Option<StageAndPlace>,
    to: Option<StageAndPlace>,
}

/// Calls that only read, and calls that change.
#[derive(Debug, Default)]
struct Users {
    readers: PlacesByStage,
    writers: PlacesByStage,
}

impl Users {
    /// Returns the set of writers or of readers.
    fn set_of(&mut self, changes: bool) -> &mut PlacesByStage {
        if changes { &mut self.writers } else { &mut self.readers }
    }

    /// Returns the sets that conflict with a writer (all) or with a reader (the writers).
    fn against(&self, changes: bool) -> impl Iterator<Item = &PlacesByStage> {
        std::iter::once(&self.writers).chain(changes.then_some(&self.readers))
    }

    fn is_empty(&self) -> bool {
        self.readers.0.is_empty() && self.writers.0.is_empty()
    }
}

/// Users of a path, and of what is below it.
#[derive(Debug, Default)]
struct PrefixUsers {
    /// Calls that use this very path.
    exact: Users,
    /// Calls that use it or a path below it.
    at_or_below: Users,
}

/// With at most this many calls queued, the index is dropped when none does more than read. A larger index is kept, since it would cost
/// more to build it again.
const MAX_REBUILT_CALLS: usize = 64;

/// Finds the queued calls that may conflict with given effects.
#[derive(Debug, Default)]
pub(super) struct ConflictIndex {
    /// Calls with unknown effects: they may conflict with any call.
    unknown: PlacesByStage,
    /// Number of calls with known effects that do more than read files.
    more_than_readers: usize,
    /// Calls with known effects. `None` only while all of them only read files.
    by_effect: Option<EffectIndex>,
}

impl ConflictIndex {
    /// Adds a call.
    pub(super) fn add(&mut self, effects: Option<&Effects>, stage: Stage, at: u64) {
        self.more_than_readers += usize::from(effects.is_some_and(does_more));
        self.apply(effects, CallChange { from: None, to: Some((stage, at)) });
    }

    /// Changes the stage of a call.
    pub(super) fn advance(&mut self, effects: Option<&Effects>, at: u64, from: Stage, to: Stage) {
        self.apply(effects, CallChange { from: Some((from, at)), to: Some((to, at)) });
    }

    /// Removes a call.
    pub(super) fn remove(&mut self, effects: Option<&Effects>, stage: Stage, at: u64) {
        self.more_than_readers -= usize::from(effects.is_some_and(does_more));
        self.apply(effects, CallChange { from: Some((stage, at)), to: None });
    }

    /// Builds or drops the index of known effects, depending on the calls. Must follow each change of their effects.
    pub(super) fn rebuild_if_needed(&mut self, calls: &BTreeMap<u64, QueuedCall>) {
        if self.more_than_readers == 0 {
            if calls.len() <= MAX_REBUILT_CALLS {
                self.by_effect = None;
            }
        } else if self.by_effect.is_none() {
            let mut by_effect = EffectIndex::default();
            for (at, place) in calls {
                if let Some(effects) = &place.effects {
                    by_effect
                        .apply(effects, CallChange { from: None, to: Some((place.stage, *at)) });
                }
            }
            self.by_effect = Some(by_effect);
        }
    }

    /// Calls `visit` with all sets of calls that these effects could conflict with, and returns its first `Some`. The effects are those
    /// of an added call: before a call that does more than read is added, calls that only read may not be indexed.
    pub(super) fn search<T>(
        &self,
        effects: &Effects,
        mut visit: impl FnMut(&PlacesByStage) -> Option<T>,
    ) -> Option<T> {
        let of_effects = self.by_effect.as_ref().and_then(|by_effect| {
            effects.iter().find_map(|effect| by_effect.search_effect(effect, &mut visit))
        });
        of_effects.or_else(|| visit(&self.unknown))
    }

    /// Applies a change to the unknown calls, or to the index of known effects if there is one.
    fn apply(&mut self, effects: Option<&Effects>, change: CallChange) {
        match (effects, &mut self.by_effect) {
            (None, _) => self.unknown.apply(change),
            (Some(effects), Some(by_effect)) => by_effect.apply(effects, change),
            (Some(_), None) => {}
        }
    }

    /// Returns whether there is no call with unknown effects, none that does more than read, and no index of known effects.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.unknown.0.is_empty() && self.more_than_readers == 0 && self.by_effect.is_none()
    }

    /// Returns whether the index of known effects is built.
    #[cfg(test)]
    pub(super) fn is_built(&self) -> bool {
        self.by_effect.is_some()
    }
}

/// Returns whether an effect may change files, uses state or asks a person. Calls without such an effect never conflict with each other.
fn does_more(effects: &Effects) -> bool {
    effects.iter().any(|effect| match effect.footprint() {
        Footprint::Files { changes, .. } => changes,
        Footprint::Workspace { only_reads } => !only_reads,
        Footprint::State(_) | Footprint::Person => true,
        Footprint::None => false,
    })
}

/// Calls with known effects, by the paths, state keys and person that they use.
#[derive(Debug, Default)]
struct EffectIndex {
    prefixes: HashMap<PrefixHash, PrefixUsers, IdentityHasher>,
    hashing: RandomState,
    /// Calls that may use any file.
    workspace: Users,
    states: HashMap<String, PlacesByStage>,
    person: PlacesByStage,
}

impl EffectIndex {
    /// Calls `visit` with the sets of calls that one effect could conflict with. The undo state conflicts with changes of files and with
    /// each use of the whole workspace.
    fn search_effect<T>(
        &self,
        effect: &Effect,
        visit: &mut impl FnMut(&PlacesByStage) -> Option<T>,
    ) -> Option<T> {
        let undo_users = self.states.get(UNDO_STATE).into_iter();
        match effect.footprint() {
            Footprint::Files { at, changes } => self
                .search_path(&at.path, changes, visit)
                .or_else(|| self.workspace.against(changes).find_map(&mut *visit))
                .or_else(|| undo_users.filter(|_| changes).find_map(visit)),
            Footprint::Workspace { only_reads } => self
                .workspace
                .against(!only_reads)
                .chain(self.users_of_any_path().flat_map(|all| all.against(!only_reads)))
                .chain(undo_users)
                .find_map(visit),
            Footprint::State(UNDO_STATE) => undo_users
                .chain(self.workspace.against(true))
                .chain(self.users_of_any_path().map(|all| &all.writers))
                .find_map(visit),
            Footprint::State(key) => self.states.get(key).and_then(visit),
            Footprint::Person => visit(&self.person),
            Footprint::None => None,
        }
    }

    /// Calls `visit` with the sets of calls that use this path, one below it or one above it.
    fn search_path<T>(
        &self,
        path: &Path,
        changes: bool,
        visit: &mut impl FnMut(&PlacesByStage) -> Option<T>,
    ) -> Option<T> {
        if self.prefixes.is_empty() {
            return None;
        }
        let hashes = self.hashes(path);
        let own = hashes.clone().last().and_then(|own| self.prefixes.get(&own));
        let below = own.into_iter().flat_map(|own| own.at_or_below.against(changes));
        let above = hashes.filter_map(|above| self.prefixes.get(&above));
        below.chain(above.flat_map(|above| above.exact.against(changes))).find_map(visit)
    }

    /// Returns the users of all paths, if any. Those of the whole workspace are not among them.
    fn users_of_any_path(&self) -> impl Iterator<Item = &Users> {
        self.prefixes.get(&ALL_PATHS).map(|all| &all.at_or_below).into_iter()
    }

    /// Returns the hashes of the prefixes of a path, up to the maximum: that of the empty prefix first, that of the path itself last.
    fn hashes<'p>(&'p self, path: &'p Path) -> impl Iterator<Item = PrefixHash> + Clone + 'p {
        let parts = path.components().take(MAX_PARTS);
        let below = parts.scan(ALL_PATHS, |prefix, part| {
            let mut hasher = self.hashing.build_hasher();
            hasher.write_u64(prefix.0);
            hasher.write(part.as_os_str().as_encoded_bytes());
            *prefix = PrefixHash(hasher.finish());
            Some(*prefix)
        });
        std::iter::once(ALL_PATHS).chain(below)
    }

    /// Applies a change of one call to all sets that its effects belong to.
    fn apply(&mut self, effects: &Effects, change: CallChange) {
        // One call may belong to a set for several effects. They are added and removed together, so one entry stands for all.
        for effect in effects {
            match effect.footprint() {
                Footprint::Files { at, changes } => self.apply_to_path(&at.path, changes, change),
                Footprint::Workspace { only_reads } => {
                    self.workspace.set_of(!only_reads).apply(change);
                }
                Footprint::State(key) => self.apply_to_state(key, change),
                Footprint::Person => self.person.apply(change),
                Footprint::None => {}
            }
        }
    }

    /// Applies a change to the sets of a path and of its prefixes.
    fn apply_to_path(&mut self, path: &Path, changes: bool, change: CallChange) {
        let hashes: Vec<PrefixHash> = self.hashes(path).collect();
        for hash in &hashes {
            let users = match change.to {
                Some(_) => self.prefixes.entry(*hash).or_default(),
                None => match self.prefixes.get_mut(hash) {
                    Some(users) => users,
                    None => continue,
                },
            };
            users.at_or_below.set_of(changes).apply(change);
            if Some(hash) == hashes.last() {
                users.exact.set_of(changes).apply(change);
            }
            if users.at_or_below.is_empty() {
                self.prefixes.remove(hash);
            }
        }
    }

    /// Applies a change to the set of a state key.
    fn apply_to_state(&mut self, key: &str, change: CallChange) {
        if change.to.is_some() && !self.states.contains_key(key) {
            self.states.insert(key.to_owned(), PlacesByStage::default());
        }
        let Some(users) = self.states.get_mut(key) else { return };
        users.apply(change);
        if users.0.is_empty() {
            self.states.remove(key);
        }
    }
}

/// Hash of a used path or of a prefix of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PrefixHash(u64);

/// Hash of the empty prefix of all paths.
const ALL_PATHS: PrefixHash = PrefixHash(0);

impl std::hash::Hash for PrefixHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
    }
}

/// Hasher for keys that are hashes already.
#[derive(Debug, Clone, Copy, Default)]
struct IdentityHasher(u64);

impl BuildHasher for IdentityHasher {
    type Hasher = Self;
    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for IdentityHasher {
    /// The trait requires it; `PrefixHash` does not use it.
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
