//! The data that an undo needs besides its plan: the current state of every path, the contents to restore, and other hard links of
//! the files.
//!
//! A path is not read a second time if its fingerprint proves that nothing was changed there since the plan was made.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::{UndoPlan, UndoStep};
use crate::changes::commit::{self, CommitStep, recorded_path};
use crate::changes::hard_links;
use crate::changes::history::HistoryContent;
use crate::changes::state::{self, InspectedPath, PresentState};
use crate::{
    ContentHash, ExpectedState, FileState, Files, Fingerprint, History, Resolved, TargetState,
    ToolError,
};

/// The data from which the commit steps of an undo plan are made.
pub(super) struct Restoring<'a> {
    files: &'a dyn Files,
    history: &'a dyn History,
    ways: &'a [UndoStep],
    /// The current state of each path.
    fresh: Vec<FreshState>,
    contents: Vec<Option<HistoryContent<'a>>>,
    /// For files with several hard links, by the index of the way: another hard link of the file.
    names: HashMap<usize, (Resolved, Fingerprint)>,
    /// For files that are moved back, by the index of the way: the path and state that they are moved from.
    sources: HashMap<usize, MoveSource>,
}

/// Current state of a path.
enum FreshState {
    /// The path has the fingerprint that it had when the plan was made, so its state is the planned one.
    AsPlanned(Fingerprint),
    InspectedPath(Box<InspectedPath>),
}

/// A file that is moved back, at the path to which it had been moved.
struct MoveSource {
    from: Resolved,
    seen: Fingerprint,
    hash: Option<ContentHash>,
    /// True if the file has the attributes that it must have after the move.
    is_as_wanted: bool,
}

/// States that the plan found at paths, with the fingerprints that prove them.
type PlannedStates<'p> = HashMap<&'p Path, (Fingerprint, &'p FileState)>;

/// Collects the planned states of the files that are moved back.
fn planned_states(plan: &UndoPlan) -> PlannedStates<'_> {
    let sources: HashSet<&Path> =
        plan.ways.iter().filter_map(|way| way.moved_from.as_deref()).collect();
    let ways = plan.ways.iter().zip(&plan.proofs);
    ways.filter(|(way, _)| sources.contains(way.path.as_path()))
        .filter_map(|(way, proof)| Some((way.path.as_path(), ((*proof)?, &way.now))))
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
        let planned_states = planned_states(plan);
        for (at, way) in ways.iter().enumerate() {
            let proof = plan.proofs.get(at).copied().flatten();
            restoring.add(at, way, proof, &planned_states)?;
        }
        Ok(restoring)
    }

    /// Loads the data of one way.
    fn add(
        &mut self,
        at: usize,
        way: &UndoStep,
        proof: Option<Fingerprint>,
        planned_states: &PlannedStates<'_>,
    ) -> Result<(), ToolError> {
        let fresh = self.inspect(way, proof)?;
        let source = self.source(way, planned_states)?;
        let now = fresh.present(way).state.hash();
        let have = source.as_ref().map_or(now, |origin| origin.hash);
        let name = self.link_of(way)?;
        let content = match way.then.hash() {
            Some(hash) if (have != Some(hash) || way.is_apart) && name.is_none() => {
                HistoryContent::of(self.history, &way.then)?
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
    fn inspect(&self, way: &UndoStep, proof: Option<Fingerprint>) -> Result<FreshState, ToolError> {
        if let (Some(proof), FileState::File { .. }) = (proof, &way.now) {
            let stat = self.files.stat(&recorded_path(self.files, &way.path));
            if stat.is_ok_and(|stat| stat.fingerprint == proof) {
                return Ok(FreshState::AsPlanned(proof));
            }
        }
        let seen = state::inspect_recorded(self.files, &way.path)?;
        if state::is_as_left(&seen.state, &way.now) {
            return Ok(FreshState::InspectedPath(Box::new(seen)));
        }
        let name = crate::quote::path(&way.path).into_owned();
        Err(ToolError::failed(format!("stale: {name} changed just now"))
            .hint("undo again; nothing was changed"))
    }

    /// Returns the hard link to which the path of a way is linked. If an earlier step of the undo has yet to make that file, its
    /// fingerprint is a placeholder.
    fn link_of(&self, way: &UndoStep) -> Result<Option<(Resolved, Fingerprint)>, ToolError> {
        let Some(with) = &way.linked_with else { return Ok(None) };
        let seen = state::inspect_recorded(self.files, with)?;
        let with = recorded_path(self.files, with);
        Ok(Some((with, seen.fingerprint.unwrap_or(commit::PENDING_FINGERPRINT))))
    }

    /// Inspects the file that is moved back to the path of a way, if any.
    fn source(
        &self,
        way: &UndoStep,
        planned_states: &PlannedStates<'_>,
    ) -> Result<Option<MoveSource>, ToolError> {
        let Some(path) = &way.moved_from else { return Ok(None) };
        let from = recorded_path(self.files, path);
        let origin = |seen, state: &FileState| {
            let wanted = state::attributes_of(&way.then);
            let is_as_wanted =
                wanted.is_none_or(|wanted| state::with_attributes(state, wanted) == *state);
            MoveSource { from: from.clone(), seen, hash: state.hash(), is_as_wanted }
        };
        if let Some((proof, state)) = planned_states.get(path.as_path())
            && self.files.stat(&from).is_ok_and(|stat| stat.fingerprint == *proof)
        {
            return Ok(Some(origin(*proof, state)));
        }
        let InspectedPath { state, fingerprint, .. } = state::inspect_recorded(self.files, path)?;
        Ok(fingerprint.map(|seen| origin(seen, &state)))
    }

    /// Returns the commit steps in order. A moved file needs no step at its old path.
    pub(super) fn steps(&self) -> Vec<CommitStep<'_>> {
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
            let object = hard_links::shared_identity(&way.then);
            if let (TargetState::Moved { .. }, Some(object)) = (step.to, object)
                && !written.insert((object, way.then.hash()))
            {
                // The step that moves the first hard link of the file writes its content.
                step.rewrite = None;
            }
            steps.push(step);
        }
        steps
    }

    /// Makes the commit step of a way; `None` if there is nothing to do.
    fn step(&self, at: usize, way: &'a UndoStep) -> Option<CommitStep<'_>> {
        let path = recorded_path(self.files, &way.path);
        let fresh = self.fresh.get(at)?;
        let present = fresh.present(way);
        let content = self.contents.get(at)?.as_ref().map(HistoryContent::source);
        let stands_for = state::file_object(&way.then);
        if let Some((with, fingerprint)) = self.names.get(&at) {
            let to = TargetState::Linked { with, seen: *fingerprint };
            let known = fresh.known(way);
            return Some(CommitStep {
                known,
                stands_for,
                ..CommitStep::new(path, present.expect, to)
            });
        }
        let Some(MoveSource { from, seen, is_as_wanted, .. }) = self.sources.get(&at) else {
            let to = if way.is_apart { state::step_with_own_file } else { state::step_to };
            let step = match (&way.now, &way.then) {
                (FileState::Directory { .. }, FileState::Directory { attributes }) => {
                    CommitStep::new(path, present.expect, TargetState::Attributes(attributes))
                }
                _ => to(path, present, &way.then, content)?,
            };
            return Some(CommitStep { before: fresh.bytes(), known: fresh.known(way), ..step });
        };
        let attributes = state::attributes_of(&way.then);
        let rewrite = match content {
            Some(content) => Some(TargetState::File { content, attributes }),
            None => attributes.filter(|_| !is_as_wanted).map(TargetState::Attributes),
        };
        let moved = TargetState::Moved { from, seen: *seen };
        Some(CommitStep { rewrite, stands_for, ..CommitStep::new(path, present.expect, moved) })
    }
}

impl FreshState {
    /// Returns the current state of the path.
    fn present<'s>(&'s self, way: &'s UndoStep) -> PresentState<'s> {
        match self {
            Self::AsPlanned(seen) => {
                PresentState { state: &way.now, expect: ExpectedState::Same(*seen) }
            }
            Self::InspectedPath(seen) => seen.present(),
        }
    }

    /// Returns the state that need not be read again as long as the path has the expected fingerprint.
    fn known<'s>(&self, way: &'s UndoStep) -> Option<&'s FileState> {
        match self {
            Self::AsPlanned(_) => Some(&way.now),
            Self::InspectedPath(_) => None,
        }
    }

    /// Returns the present bytes, if they were read.
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::AsPlanned(_) => None,
            Self::InspectedPath(seen) => seen.bytes.as_deref(),
        }
    }
}
