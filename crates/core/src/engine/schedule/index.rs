//! The places of a queue by what their calls touch, so that a call finds those that it conflicts with without looking at all.
//!
//! Paths overlap if one is a prefix of the other. So each prefix of a path that somebody uses keeps two sets: the places that use
//! this very path, and those that use it or something below it. Prefixes are known by their hashes, each made from the one before.
//! The index may name a place that does not conflict (very deep paths count as their beginning, and two prefixes may have the same
//! hash), but leaves out none that does: whoever asks it compares the effects themselves.
//!
//! Calls that only look at files do not conflict with each other. While there are no others, which is most of the time, nothing is
//! kept about what they touch; the first call that does more finds those that are there put in order for it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::path::Path;

use super::places::{Place, Stage};
use crate::effects::{Footprint, UNDO_STATE};
use crate::{Effect, Effects};

/// Paths count up to here. Without a bound, one path of a model with a million parts would cost the square of that.
const MAX_PARTS: usize = 64;

/// Places by how far they are, then by order of arrival.
#[derive(Debug, Default)]
pub(super) struct Marks(BTreeSet<Mark>);

type Mark = (Stage, u64);

impl Marks {
    /// The places of a stage and a range, the latest first.
    pub(super) fn latest_first(
        &self,
        stage: Stage,
        range: Range<u64>,
    ) -> impl Iterator<Item = u64> + '_ {
        let is_empty = self.0.is_empty() || range.is_empty();
        let range = if is_empty { 0..0 } else { range };
        self.0.range((stage, range.start)..(stage, range.end)).rev().map(|(_, at)| *at)
    }

    fn step(&mut self, step: Step) {
        if let Some(from) = step.from {
            self.0.remove(&from);
        }
        if let Some(to) = step.to {
            self.0.insert(to);
        }
    }
}

/// A change of one place: it appears, gets further, or goes.
#[derive(Debug, Clone, Copy)]
struct Step {
    from: Option<Mark>,
    to: Option<Mark>,
}

/// Those that only look, and those that change something.
#[derive(Debug, Default)]
struct Users {
    look: Marks,
    change: Marks,
}

impl Users {
    fn of(&mut self, changes: bool) -> &mut Marks {
        if changes { &mut self.change } else { &mut self.look }
    }

    /// Those whose order matters to one who changes something, or only looks.
    fn against(&self, changes: bool) -> impl Iterator<Item = &Marks> {
        std::iter::once(&self.change).chain(changes.then_some(&self.look))
    }

    fn is_empty(&self) -> bool {
        self.look.0.is_empty() && self.change.0.is_empty()
    }
}

/// A path that somebody uses, or the beginning of one.
#[derive(Debug, Default)]
struct Prefix {
    /// Who uses this very path.
    here: Users,
    /// Who uses it or something below it.
    within: Users,
}

/// Calls that look at files are put in order anew for each call that does more, unless there are more of them than this.
const FEW: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Index {
    /// Those whose effects are not known: they may conflict with anybody.
    unknown: Marks,
    /// The number of those that do more than look at files.
    doing_more: usize,
    /// Those whose effects are known. Nothing is kept while all of them only look at files.
    touched: Option<Touched>,
}

impl Index {
    /// Adds a place.
    pub(super) fn add(&mut self, effects: Option<&Effects>, stage: Stage, at: u64) {
        self.doing_more += usize::from(effects.is_some_and(does_more));
        self.step(effects, Step { from: None, to: Some((stage, at)) });
    }

    /// Takes note that a place got further.
    pub(super) fn advance(&mut self, effects: Option<&Effects>, at: u64, from: Stage, to: Stage) {
        self.step(effects, Step { from: Some((from, at)), to: Some((to, at)) });
    }

    /// Removes a place.
    pub(super) fn remove(&mut self, effects: Option<&Effects>, stage: Stage, at: u64) {
        self.doing_more -= usize::from(effects.is_some_and(does_more));
        self.step(effects, Step { from: Some((stage, at)), to: None });
    }

    /// Begins or ceases to keep what the places touch, as is needed for those that are taken. Must follow each change of their effects.
    pub(super) fn fit(&mut self, taken: &BTreeMap<u64, Place>) {
        if self.doing_more == 0 {
            if taken.len() <= FEW {
                self.touched = None;
            }
        } else if self.touched.is_none() {
            let mut touched = Touched::default();
            for (at, place) in taken {
                if let Some(effects) = &place.effects {
                    touched.step(effects, Step { from: None, to: Some((place.stage, *at)) });
                }
            }
            self.touched = Some(touched);
        }
    }

    /// Calls `look` with all sets of places that these effects could conflict with, until it finds something.
    pub(super) fn search<T>(
        &self,
        effects: &Effects,
        mut look: impl FnMut(&Marks) -> Option<T>,
    ) -> Option<T> {
        let of_effects = self.touched.as_ref().and_then(|touched| {
            effects.iter().find_map(|effect| touched.search_one(effect, &mut look))
        });
        of_effects.or_else(|| look(&self.unknown))
    }

    fn step(&mut self, effects: Option<&Effects>, step: Step) {
        match (effects, &mut self.touched) {
            (None, _) => self.unknown.step(step),
            (Some(effects), Some(touched)) => touched.step(effects, step),
            (Some(_), None) => {}
        }
    }

    /// Returns whether nothing of a place that has left is in the index.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.unknown.0.is_empty() && self.doing_more == 0 && self.touched.is_none()
    }

    /// Returns whether it keeps what the places touch.
    #[cfg(test)]
    pub(super) fn is_kept(&self) -> bool {
        self.touched.is_some()
    }
}

/// Returns whether a call with these effects could conflict with one that only looks at files, or with one of its own kind.
fn does_more(effects: &Effects) -> bool {
    effects.iter().any(|effect| match effect.footprint() {
        Footprint::Files { changes, .. } => changes,
        Footprint::Workspace { only_reads } => !only_reads,
        Footprint::State(_) | Footprint::Person => true,
        Footprint::None => false,
    })
}

/// Places by what their calls touch.
#[derive(Debug, Default)]
struct Touched {
    prefixes: HashMap<PrefixHash, Prefix, AsItIs>,
    hashing: RandomState,
    /// Those that may use any file.
    workspace: Users,
    states: HashMap<String, Marks>,
    person: Marks,
}

impl Touched {
    fn search_one<T>(
        &self,
        effect: &Effect,
        look: &mut impl FnMut(&Marks) -> Option<T>,
    ) -> Option<T> {
        let looking_back = self.states.get(UNDO_STATE).into_iter();
        match effect.footprint() {
            Footprint::Files { at, changes } => self
                .search_path(&at.path, changes, look)
                .or_else(|| self.workspace.against(changes).find_map(&mut *look))
                .or_else(|| looking_back.filter(|_| changes).find_map(look)),
            Footprint::Workspace { only_reads } => self
                .workspace
                .against(!only_reads)
                .chain(self.all_files().flat_map(|all| all.against(!only_reads)))
                .chain(looking_back)
                .find_map(look),
            Footprint::State(UNDO_STATE) => looking_back
                .chain(self.workspace.against(true))
                .chain(self.all_files().map(|all| &all.change))
                .find_map(look),
            Footprint::State(key) => self.states.get(key).and_then(look),
            Footprint::Person => look(&self.person),
            Footprint::None => None,
        }
    }

    fn search_path<T>(
        &self,
        path: &Path,
        changes: bool,
        look: &mut impl FnMut(&Marks) -> Option<T>,
    ) -> Option<T> {
        if self.prefixes.is_empty() {
            return None;
        }
        let hashes = self.hashes(path);
        let own = hashes.clone().last().and_then(|own| self.prefixes.get(&own));
        let below = own.into_iter().flat_map(|own| own.within.against(changes));
        let above = hashes.filter_map(|above| self.prefixes.get(&above));
        below.chain(above.flat_map(|above| above.here.against(changes))).find_map(look)
    }

    /// Who uses any file by name.
    fn all_files(&self) -> impl Iterator<Item = &Users> {
        self.prefixes.get(&ALL_PATHS).map(|all| &all.within).into_iter()
    }

    /// The hashes of the beginnings of a path that count: the empty one first, which is the beginning of all others, and the path
    /// itself last.
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

    fn step(&mut self, effects: &Effects, step: Step) {
        // A place may have several marks in one set. They are made and removed together, so one stands for all of them.
        for effect in effects {
            match effect.footprint() {
                Footprint::Files { at, changes } => self.step_path(&at.path, changes, step),
                Footprint::Workspace { only_reads } => self.workspace.of(!only_reads).step(step),
                Footprint::State(key) => self.step_state(key, step),
                Footprint::Person => self.person.step(step),
                Footprint::None => {}
            }
        }
    }

    fn step_path(&mut self, path: &Path, changes: bool, step: Step) {
        let hashes: Vec<PrefixHash> = self.hashes(path).collect();
        for hash in &hashes {
            let users = match step.to {
                Some(_) => self.prefixes.entry(*hash).or_default(),
                None => match self.prefixes.get_mut(hash) {
                    Some(users) => users,
                    None => continue,
                },
            };
            users.within.of(changes).step(step);
            if Some(hash) == hashes.last() {
                users.here.of(changes).step(step);
            }
            if users.within.is_empty() {
                self.prefixes.remove(hash);
            }
        }
    }

    fn step_state(&mut self, key: &str, step: Step) {
        if step.to.is_some() && !self.states.contains_key(key) {
            self.states.insert(key.to_owned(), Marks::default());
        }
        let Some(users) = self.states.get_mut(key) else { return };
        users.step(step);
        if users.0.is_empty() {
            self.states.remove(key);
        }
    }
}

/// The hash of a path that somebody uses, or of the beginning of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PrefixHash(u64);

/// The beginning of all paths.
const ALL_PATHS: PrefixHash = PrefixHash(0);

impl std::hash::Hash for PrefixHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
    }
}

/// Uses as a hash what is one already.
#[derive(Debug, Clone, Copy, Default)]
struct AsItIs(u64);

impl BuildHasher for AsItIs {
    type Hasher = Self;
    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for AsItIs {
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
