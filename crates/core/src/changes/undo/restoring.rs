//! The data that an undo needs besides its plan: the current state of every path, the contents to restore, and other hard links of
//! the files.
//!
//! A path is not read a second time if its fingerprint proves that nothing was changed there since the plan was made.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::{UndoPlan, Way};
use crate::changes::commit::{self, Step, beside};
use crate::changes::hard_links;
use crate::changes::history::Kept;
use crate::changes::state::{self, Present, Seen};
use crate::{ContentHash, Expect, FileState, Files, Fingerprint, History, Resolved, To, ToolError};

/// The data from which the commit steps of an undo plan are made.
pub(super) struct Restoring<'a> {
    files: &'a dyn Files,
    history: &'a dyn History,
    ways: &'a [Way],
    /// The current state of each path.
    fresh: Vec<Fresh>,
    contents: Vec<Option<Kept<'a>>>,
    /// For files with several hard links, by the index of the way: another hard link of the file.
    names: HashMap<usize, (Resolved, Fingerprint)>,
    /// For files that are moved back, by the index of the way: the path and state that they are moved from.
    sources: HashMap<usize, Origin>,
}

/// Current state of a path.
enum Fresh {
    /// The path has the fingerprint that it had when the plan was made, so its state is the planned one.
    AsPlanned(Fingerprint),
    Seen(Box<Seen>),
}

/// A file that is moved back, at the path to which it had been moved.
struct Origin {
    from: Resolved,
    seen: Fingerprint,
    hash: Option<ContentHash>,
    /// True if the file has the attributes that it must have after the move.
    is_as_wanted: bool,
}

/// States that the plan found at paths, with the fingerprints that prove them.
type Planned<'p> = HashMap<&'p Path, (Fingerprint, &'p FileState)>;

/// Collects the planned states of the files that are moved back.
fn planned(plan: &UndoPlan) -> Planned<'_> {
    let sources: HashSet<&Path> =
        plan.ways.iter().filter_map(|way| way.moved_from.as_deref()).collect();
    let ways = plan.ways.iter().zip(&plan.settled);
    ways.filter(|(way, _)| sources.contains(way.path.as_path()))
        .filter_map(|(way, settled)| Some((way.path.as_path(), ((*settled)?, &way.now))))
        .collect()
}

impl<'a> Restoring<'a> {
    /// Loads the data of every way. Inspects every path again: fails if something changed since the plan was made.
    pub(super) fn load(
        files: &'a dyn Files,
        history: &'a dyn History,
        plan: &'a UndoPlan,
    ) -> Result<Self, ToolError> {
        let ways = plan.ways.as_slice();
        let mut restoring = Self {
            files,
            history,
            ways,
            fresh: Vec::with_capacity(ways.len()),
            contents: Vec::with_capacity(ways.len()),
            names: HashMap::new(),
            sources: HashMap::new(),
        };
        let planned = planned(plan);
        for (at, way) in ways.iter().enumerate() {
            let settled = plan.settled.get(at).copied().flatten();
            restoring.add(at, way, settled, &planned)?;
        }
        Ok(restoring)
    }

    fn add(
        &mut self,
        at: usize,
        way: &Way,
        settled: Option<Fingerprint>,
        planned: &Planned<'_>,
    ) -> Result<(), ToolError> {
        let fresh = self.look(way, settled)?;
        let source = self.source(way, planned)?;
        let now = fresh.present(way).state.hash();
        let have = source.as_ref().map_or(now, |origin| origin.hash);
        let name = self.name(way)?;
        let content = match way.then.hash() {
            Some(hash) if (have != Some(hash) || way.is_apart) && name.is_none() => {
                Kept::of(self.history, &way.then)?
            }
            _ => None,
        };
        self.fresh.push(fresh);
        self.contents.push(content);
        self.names.extend(name.map(|name| (at, name)));
        self.sources.extend(source.map(|source| (at, source)));
        Ok(())
    }

    /// Inspects the path of a way. Fails if something changed there since the plan was made.
    fn look(&self, way: &Way, settled: Option<Fingerprint>) -> Result<Fresh, ToolError> {
        if let (Some(settled), FileState::File { .. }) = (settled, &way.now) {
            let stat = self.files.stat(&beside(self.files, &way.path));
            if stat.is_ok_and(|stat| stat.fingerprint == settled) {
                return Ok(Fresh::AsPlanned(settled));
            }
        }
        let seen = state::see_on_record(self.files, &way.path)?;
        if state::is_left(&seen.state, &way.now) {
            return Ok(Fresh::Seen(Box::new(seen)));
        }
        let name = crate::quote::path(&way.path).into_owned();
        Err(ToolError::failed(format!("stale: {name} changed just now"))
            .hint("undo again; nothing was changed"))
    }

    /// Returns the hard link to which the path of a way is linked. If an earlier step of the undo has yet to make that file, its
    /// fingerprint is a placeholder.
    fn name(&self, way: &Way) -> Result<Option<(Resolved, Fingerprint)>, ToolError> {
        let Some(with) = &way.linked_with else { return Ok(None) };
        let seen = state::see_on_record(self.files, with)?;
        let with = beside(self.files, with);
        Ok(Some((with, seen.fingerprint.unwrap_or(commit::NOT_YET))))
    }

    fn source(&self, way: &Way, planned: &Planned<'_>) -> Result<Option<Origin>, ToolError> {
        let Some(path) = &way.moved_from else { return Ok(None) };
        let from = beside(self.files, path);
        let origin = |seen, state: &FileState| {
            let wanted = state::attributes_of(&way.then);
            let is_as_wanted =
                wanted.is_none_or(|wanted| state::with_attributes(state, wanted) == *state);
            Origin { from: from.clone(), seen, hash: state.hash(), is_as_wanted }
        };
        if let Some((settled, state)) = planned.get(path.as_path())
            && self.files.stat(&from).is_ok_and(|stat| stat.fingerprint == *settled)
        {
            return Ok(Some(origin(*settled, state)));
        }
        let Seen { state, fingerprint, .. } = state::see_on_record(self.files, path)?;
        Ok(fingerprint.map(|seen| origin(seen, &state)))
    }

    /// Returns the commit steps in order. A moved file needs no step at its old path.
    pub(super) fn steps(&self) -> Vec<Step<'_>> {
        let moved: HashSet<&Path> =
            self.sources.values().map(|origin| origin.from.path.as_path()).collect();
        let mut steps = Vec::with_capacity(self.ways.len());
        let mut written = HashSet::new();
        for (at, way) in self.ways.iter().enumerate() {
            if moved.contains(way.path.as_path()) {
                continue;
            }
            let Some(mut step) = self.step(at, way) else { continue };
            step.opens_directories = true;
            let object = hard_links::shared_object(&way.then);
            if let (To::Moved { .. }, Some(object)) = (step.to, object)
                && !written.insert((object, way.then.hash()))
            {
                // The step that moves the first hard link of the file writes its content.
                step.rewrite = None;
            }
            steps.push(step);
        }
        steps
    }

    fn step(&self, at: usize, way: &'a Way) -> Option<Step<'_>> {
        let path = beside(self.files, &way.path);
        let fresh = self.fresh.get(at)?;
        let present = fresh.present(way);
        let content = self.contents.get(at)?.as_ref().map(Kept::source);
        let stands_for = state::object(&way.then);
        if let Some((with, fingerprint)) = self.names.get(&at) {
            let to = To::Linked { with, seen: *fingerprint };
            let known = fresh.known(way);
            return Some(Step { known, stands_for, ..Step::new(path, present.expect, to) });
        }
        let Some(Origin { from, seen, is_as_wanted, .. }) = self.sources.get(&at) else {
            let to = if way.is_apart { state::apart } else { state::step_to };
            let step = match (&way.now, &way.then) {
                (FileState::Directory { .. }, FileState::Directory { attributes }) => {
                    Step::new(path, present.expect, To::Attributes(attributes))
                }
                _ => to(path, present, &way.then, content)?,
            };
            return Some(Step { before: fresh.bytes(), known: fresh.known(way), ..step });
        };
        let attributes = state::attributes_of(&way.then);
        let rewrite = match content {
            Some(content) => Some(To::File { content, attributes }),
            None => attributes.filter(|_| !is_as_wanted).map(To::Attributes),
        };
        let moved = To::Moved { from, seen: *seen };
        Some(Step { rewrite, stands_for, ..Step::new(path, present.expect, moved) })
    }
}

impl Fresh {
    /// Returns the current state of the path.
    fn present<'s>(&'s self, way: &'s Way) -> Present<'s> {
        match self {
            Self::AsPlanned(seen) => Present { state: &way.now, expect: Expect::Same(*seen) },
            Self::Seen(seen) => seen.present(),
        }
    }

    /// Returns the state that need not be read again as long as the path has the expected fingerprint.
    fn known<'s>(&self, way: &'s Way) -> Option<&'s FileState> {
        match self {
            Self::AsPlanned(_) => Some(&way.now),
            Self::Seen(_) => None,
        }
    }

    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::AsPlanned(_) => None,
            Self::Seen(seen) => seen.bytes.as_deref(),
        }
    }
}
