//! Undo of changes to files with several hard links: a change through one hard link changes all of them, and restored hard links
//! become one file again.
//!
//! Files are identified by the device, inode and creation time that they had when a change was recorded. An undo that replaces a
//! file creates a new inode, and its record says for which file the new inode stands. So the inodes that belonged to one file
//! follow only from the whole record.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::{SimulatedPath, SimulatedPaths, UndoSimulation, UndoStep, is_same_with_times};
use crate::changes::commit::recorded_path;
use crate::changes::hard_links::{self, FileIdentities, FileIdentity};
use crate::changes::state::{self, CheckpointMoves, InspectedPath, MoveRole};
use crate::{
    Checkpoint, CheckpointQuery, ContentHash, FileState, Files, History, RecordedChange, ToolError,
};

/// Searches for hard links in the workspace and in the recorded changes.
#[derive(Clone, Copy)]
pub(super) struct LinkFinder<'a> {
    pub(super) files: &'a dyn Files,
    /// Recorded checkpoints, newest first.
    pub(super) record: &'a [Checkpoint],
}

/// Returns all recorded checkpoints of the workspace if a file with several hard links is among the changes to undo: only the whole
/// record tells to which file an inode belonged. Empty otherwise.
pub(super) fn load_record(
    files: &dyn Files,
    history: &dyn History,
    checkpoints: &[Checkpoint],
) -> Result<Vec<Checkpoint>, ToolError> {
    let is_shared = |change: &RecordedChange| {
        [&change.before, &change.after].into_iter().any(|state| hard_links::link_count(state) > 1)
    };
    if !checkpoints.iter().flat_map(|checkpoint| &checkpoint.changes).any(is_shared) {
        return Ok(Vec::new());
    }
    Ok(history.checkpoints(&CheckpointQuery::Workspace(files.workspace().to_owned()))?)
}

/// Another hard link of a file.
struct OtherLink {
    path: PathBuf,
    /// Current state of the path, if the undo does not change it. `None` if the undo changes the path: the file there will then be
    /// equal to the searched one, as another inode that stands for it.
    seen: Option<InspectedPath>,
}

impl LinkFinder<'_> {
    /// Finds another hard link of a file. The state there, or the state after the undo, must be like `left`.
    fn find_link(
        self,
        identities: &FileIdentities,
        paths: &SimulatedPaths<'_>,
        file: FileIdentity,
        left: &FileState,
    ) -> Option<OtherLink> {
        let is_known = |path: &Path| paths.at(path).is_some();
        let found =
            hard_links::find_link(self.files, identities.present_identity(file), left, &is_known)
                .ok()?;
        found
            .map(|(name, seen)| OtherLink { path: name.path, seen: Some(seen) })
            .or_else(|| self.find_recorded(identities, paths, file, left))
    }

    /// Finds another hard link of a file among the paths of recorded changes.
    fn find_recorded(
        self,
        identities: &FileIdentities,
        paths: &SimulatedPaths<'_>,
        file: FileIdentity,
        left: &FileState,
    ) -> Option<OtherLink> {
        let is_it = |state: &FileState| identities.file_of(state) == Some(file);
        let changes = self.record.iter().flat_map(|checkpoint| checkpoint.changes.iter().rev());
        changes.filter(|change| is_it(&change.after)).find_map(|change| {
            if let Some(simulated) = paths.at(&change.path) {
                let is_like_it = !is_it(&simulated.then) && simulated.then.is_like(left);
                return is_like_it.then(|| OtherLink { path: change.path.clone(), seen: None });
            }
            let name = recorded_path(self.files, &change.path);
            let seen = state::inspect(self.files, &name, None).ok()?;
            seen.state.is_like(left).then_some(OtherLink { path: name.path, seen: Some(seen) })
        })
    }
}

/// A file with several hard links that the undo changes.
pub(super) struct SharedFile {
    /// State in which the newest change left the file.
    left: FileState,
    /// State of the file after the undo.
    then: FileState,
}

impl SharedFile {
    /// Returns the state after the undo of the shared file at a simulated path. Inode numbers are reused: a file that is not like
    /// the recorded one is another file.
    pub(super) fn of<'s>(
        all: &'s HashMap<FileIdentity, Self>,
        identities: &FileIdentities,
        simulated: &SimulatedPath,
    ) -> Option<&'s FileState> {
        let shared = all.get(&identities.file_of(&simulated.then)?)?;
        let is_it =
            hard_links::link_count(&simulated.then) > 1 || simulated.then.is_like(&shared.left);
        is_it.then_some(&shared.then)
    }
}

/// Notes which current file stands for the one that a change left, if no other change than those to undo has altered it since.
pub(super) fn note_identity(
    identities: &mut FileIdentities,
    shared: &HashMap<FileIdentity, SharedFile>,
    simulated: &SimulatedPath,
    change: &RecordedChange,
) {
    let Some(file) = identities.file_of(&change.after).filter(|_| simulated.is_untouched) else {
        return;
    };
    let left = shared.get(&file).map_or(&change.after, |shared| &shared.left);
    if simulated.then.is_like(left) {
        identities.note_present(&change.after, &simulated.now.state);
    }
}

impl UndoSimulation<'_> {
    /// Notes that a change through one hard link changed the file under all of them.
    pub(super) fn take_back_shared(
        &mut self,
        moves: &CheckpointMoves<'_>,
        change: &RecordedChange,
    ) {
        let before = match moves.of(change) {
            MoveRole::From(origin) => &origin.before,
            MoveRole::To(_) | MoveRole::None => &change.before,
        };
        let Some(file) = self.identities.shared_file_of(before) else { return };
        if self.identities.file_of(&change.after) == Some(file) {
            let left = || SharedFile { left: change.after.clone(), then: FileState::Absent };
            self.shared.entry(file).or_insert_with(left).then = before.clone();
        }
    }

    /// Applies the changes of shared files to all their simulated paths. If a shared file changes and none of its simulated hard
    /// links stays, finds another hard link and changes the file there.
    pub(super) fn apply_shared(&mut self) {
        for simulated in self.paths.all_mut() {
            let shared = SharedFile::of(&self.shared, &self.identities, simulated);
            if let Some(then) = shared {
                simulated.then = then.clone();
                simulated.is_untouched = false;
            }
        }
        if self.shared.is_empty() {
            return;
        }
        let paths = self.paths.all().iter();
        let remaining_file: HashSet<FileIdentity> =
            paths.filter_map(|simulated| simulated.remaining_file(&self.identities)).collect();
        for (file, SharedFile { left, then }) in &self.shared {
            if is_same_with_times(left, then) || remaining_file.contains(file) {
                continue;
            }
            let found = self.finder.find_link(&self.identities, &self.paths, *file, left);
            let Some(OtherLink { path, seen }) = found else { continue };
            if let Some(now) = seen {
                self.paths.add(path, now, then.clone());
            } else if let Some(known) = self.paths.at_mut(&path) {
                known.then = then.clone();
            }
        }
    }
}

/// Links the paths of one file together again, so that its content is written once.
pub(super) fn link_paths(
    finder: LinkFinder<'_>,
    ways: &mut Vec<UndoStep>,
    paths: &SimulatedPaths<'_>,
    identities: &FileIdentities,
) {
    let key =
        |way: &UndoStep| hard_links::identity_of(&way.then).map(|file| (file, way.then.hash()));
    let is_shared = |way: &&UndoStep| hard_links::link_count(&way.then) > 1;
    let shared: HashSet<_> = ways.iter().filter(is_shared).filter_map(key).collect();
    if shared.is_empty() {
        return;
    }
    let mut groups: BTreeMap<(FileIdentity, Option<ContentHash>), Vec<&UndoStep>> = BTreeMap::new();
    for way in &*ways {
        if let Some(key) = key(way).filter(|key| shared.contains(key)) {
            groups.entry(key).or_default().push(way);
        }
    }
    let mut remaining_file: HashMap<FileIdentity, &Path> = HashMap::new();
    for simulated in paths.all() {
        if let Some(file) = simulated.remaining_file(identities) {
            remaining_file.entry(file).or_insert(&simulated.path);
        }
    }
    let mut needless: HashSet<PathBuf> = HashSet::new();
    let mut names: HashMap<PathBuf, PathBuf> = HashMap::new();
    for ((file, _), members) in groups {
        let remaining_file = remaining_file.get(&file).copied();
        let group = LinkGroup { file, members: &members, remaining_file, paths, identities };
        let Some(carrier) = group.carrier(finder) else { continue };
        for way in &members {
            if way.path == carrier || way.moved_from.is_some() {
                continue;
            }
            if group.keeps(&way.path) {
                needless.insert(way.path.clone());
            } else {
                names.insert(way.path.clone(), carrier.clone());
            }
        }
    }
    ways.retain(|way| !needless.contains(&way.path));
    for way in ways {
        way.linked_with = names.remove(&way.path);
    }
}

/// The changed paths that are hard links of one file.
struct LinkGroup<'g> {
    file: FileIdentity,
    members: &'g [&'g UndoStep],
    /// The first hard link that the undo leaves in place.
    remaining_file: Option<&'g Path>,
    paths: &'g SimulatedPaths<'g>,
    identities: &'g FileIdentities,
}

impl LinkGroup<'_> {
    /// Returns whether a path remains a hard link of the file.
    fn keeps(&self, path: &Path) -> bool {
        let simulated = self.paths.at(path);
        simulated.is_some_and(|simulated| simulated.stays(self.file, self.identities))
    }

    /// Returns the path to which the other hard links are linked.
    fn carrier(&self, finder: LinkFinder<'_>) -> Option<PathBuf> {
        let links = self.members.iter().map(|way| hard_links::link_count(&way.then)).max()?;
        let moved = self.members.iter().find(|way| way.moved_from.is_some());
        let remaining_file = || self.members.iter().find(|way| self.keeps(&way.path));
        if let Some(way) = moved.or_else(remaining_file) {
            return Some(way.path.clone());
        }
        if let Some(path) = self.remaining_file {
            return Some(path.to_owned());
        }
        let is_elsewhere = usize::try_from(links).is_ok_and(|links| links > self.members.len());
        let elsewhere = is_elsewhere.then(|| self.other_link(finder)).flatten();
        elsewhere.or_else(|| {
            let is_there = |way: &&&UndoStep| way.now != FileState::Absent;
            let way = self.members.iter().find(is_there).or_else(|| self.members.first())?;
            Some(way.path.clone())
        })
    }

    /// Finds a hard link of the file that the undo does not change.
    fn other_link(&self, finder: LinkFinder<'_>) -> Option<PathBuf> {
        let then = &self.members.first()?.then;
        let found = finder.find_link(self.identities, self.paths, self.file, then);
        found.map(|name| name.path)
    }
}
