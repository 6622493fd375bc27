//! Snapshots: the state of some paths at one moment, to be restored later.

use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::changes::commit::{CommitStep, PENDING_FINGERPRINT, recorded_path};
use crate::changes::hard_links::{self, FileIdentity};
use crate::changes::state::{self, InspectedPath};
use crate::sync::Lock;
use crate::{
    ContentHash, ContentSource, Entry, FileState, Files, OpenedContent, ProposalStore, Resolved,
    TargetState, ToolError, Visitor, Walk, WalkOptions,
};

/// The states of some paths and of everything below them. The bytes are on a [`ProposalStore`]; the rest is here, and can be stored
/// anywhere.
///
/// ```
/// use windlass_core::Snapshot;
/// let snapshot = Snapshot::default();
/// let text = serde_json::to_string(&snapshot)?;
/// assert_eq!(serde_json::from_str::<Snapshot>(&text)?, snapshot);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// Paths that the caller asked for: absolute and without symbolic links.
    pub paths: Vec<PathBuf>,
    /// States of each of those paths, and of everything below them that is not ignored.
    pub states: Vec<(PathBuf, FileState)>,
}

impl Snapshot {
    /// Reads the states of the paths and keeps their bytes on the shelf.
    pub fn take(
        files: &dyn Files,
        shelf: &dyn ProposalStore,
        paths: &[PathBuf],
    ) -> Result<Self, ToolError> {
        let mut snapshot = Self::default();
        for path in paths {
            let path = files.resolve(path)?.path;
            for (below, seen) in inspect_tree(files, &path)? {
                if let Some(hash) = seen.state.hash()
                    && let Some(bytes) = state::read(files, &recorded_path(files, &below), hash)?
                {
                    shelf.keep(&hash, &bytes)?;
                }
                snapshot.states.push((below, seen.state));
            }
            snapshot.paths.push(path);
        }
        Ok(snapshot)
    }
}

/// Inspects a path and everything below it, outer paths before inner ones.
fn inspect_tree(
    files: &dyn Files,
    root: &Path,
) -> Result<BTreeMap<PathBuf, InspectedPath>, ToolError> {
    let mut found = BTreeMap::new();
    let place = recorded_path(files, root);
    let seen = state::inspect(files, &place, None)?;
    let is_directory = matches!(seen.state, FileState::Directory { .. });
    found.insert(root.to_owned(), seen);
    if !is_directory {
        return Ok(found);
    }
    let names = Lock::new(Vec::new());
    files.walk(&place, &WalkOptions::default(), &|| Box::new(NameCollector(&names)))?;
    for name in names.lock().drain(..) {
        let path = root.join(name);
        let seen = state::inspect(files, &recorded_path(files, &path), None)?;
        found.insert(path, seen);
    }
    Ok(found)
}

/// Collects the paths of a walk.
struct NameCollector<'a>(&'a Lock<Vec<PathBuf>>);

impl Visitor for NameCollector<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        if !entry.path.as_os_str().is_empty() {
            self.0.lock().push(entry.path.to_owned());
        }
        Walk::Continue
    }
}

/// The changes that restore a snapshot, with the bytes that they need. [`PlanContext::plan_restore`](crate::PlanContext::plan_restore) makes
/// it, and [`FilesDoor::restore`](crate::FilesDoor::restore) commits it: each change expects the state that the plan found.
///
/// ```
/// use windlass_core::{Planned, PlanContext, ProposalStore, Snapshot, SnapshotPlan, ToolError};
///
/// fn describe(scene: &PlanContext<'_>, snapshot: &Snapshot, shelf: &dyn ProposalStore) -> Result<String, ToolError> {
///     let Planned { effects, plan } = scene.plan_restore(snapshot, shelf)?;
///     let _: SnapshotPlan = plan;
///     Ok(effects.to_string())
/// }
/// ```
pub struct SnapshotPlan {
    ways: Vec<SnapshotWay>,
}

impl std::fmt::Debug for SnapshotPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotPlan").field("paths", &self.ways.len()).finish()
    }
}

/// The change of one path.
struct SnapshotWay {
    path: PathBuf,
    seen: InspectedPath,
    then: FileState,
    /// The bytes of the snapshot, if the present ones differ.
    content: Option<OpenedContent>,
    /// Another hard link of the same file, under which the content is written.
    carrier: Option<Resolved>,
}

impl SnapshotPlan {
    /// Inspects the present states, and loads the contents to restore from the shelf.
    pub(crate) fn load(
        files: &dyn Files,
        shelf: &dyn ProposalStore,
        snapshot: &Snapshot,
    ) -> Result<Self, ToolError> {
        let mut now = BTreeMap::new();
        for path in &snapshot.paths {
            now.append(&mut inspect_tree(files, path)?);
        }
        let way = |path: PathBuf, seen, then| SnapshotWay {
            path,
            seen,
            then,
            content: None,
            carrier: None,
        };
        let mut ways = Vec::new();
        for (path, then) in &snapshot.states {
            let seen = match now.remove(path) {
                Some(seen) => seen,
                None => state::inspect(files, &recorded_path(files, path), None)?,
            };
            ways.push(way(path.clone(), seen, then.clone()));
        }
        ways.extend(now.into_iter().map(|(path, seen)| way(path, seen, FileState::Absent)));
        let mut carriers: HashMap<(FileIdentity, ContentHash), PathBuf> = HashMap::new();
        for way in &mut ways {
            let hash = way.then.hash().filter(|hash| way.seen.state.hash() != Some(*hash));
            let Some(hash) = hash else { continue };
            match hard_links::shared_identity(&way.then)
                .map(|object| carriers.entry((object, hash)))
            {
                Some(Occupied(first)) => way.carrier = Some(recorded_path(files, first.get())),
                Some(Vacant(place)) => drop(place.insert(way.path.clone())),
                None => {}
            }
            way.content = Some(OpenedContent::Bytes(load_content(shelf, hash)?));
        }
        Ok(Self { ways })
    }

    /// Returns the steps: removals first, inner paths before outer ones; then everything else, outer paths before inner ones. A
    /// file with several hard links is written under one of them, and the others are linked to it.
    pub(crate) fn steps(&self, files: &dyn Files) -> Vec<CommitStep<'_>> {
        let gone = self.ways.iter().filter(|way| way.then == FileState::Absent).rev();
        let made = self.ways.iter().filter(|way| way.then != FileState::Absent);
        let mut altered = HashSet::new();
        // Attributes belong to the file, so they are set under one of its hard links only.
        let mut is_first = |way: &SnapshotWay| {
            let shared =
                hard_links::shared_identity(&way.seen.state).filter(|_| way.content.is_none());
            shared.zip(way.then.hash()).is_none_or(|file| altered.insert(file))
        };
        let ways = gone.chain(made).filter(|way| is_first(way));
        ways.filter_map(|way| way.step(files)).collect()
    }
}

impl SnapshotWay {
    /// Makes the commit step of this path; `None` if there is nothing to do.
    fn step(&self, files: &dyn Files) -> Option<CommitStep<'_>> {
        let path = recorded_path(files, &self.path);
        if let Some(with) = &self.carrier {
            let to = TargetState::Linked { with, seen: PENDING_FINGERPRINT };
            return Some(CommitStep::new(path, self.seen.expect(), to));
        }
        let content = self.content.as_ref().map(OpenedContent::source);
        state::step_to(path, self.seen.present(), &self.then, content)
    }
}

/// Reads a content from the shelf.
fn load_content(shelf: &dyn ProposalStore, hash: ContentHash) -> Result<Vec<u8>, ToolError> {
    let file = shelf.open(&hash)?;
    let bytes = ContentSource::File(&file).read();
    let bytes = bytes.map_err(|error| ToolError::host_failed(error.to_string()))?;
    Ok(bytes.into_owned())
}
