//! Undo of the file changes of calls: of one call, a turn, a session.
//!
//! The selected changes are taken back in a simulation, newest first: each change must find the state that it left, and then leaves
//! the state that it found. If one does not (another program changed the file since), the undo does nothing at all and reports the
//! conflict. The result has one [`UndoStep`] for each path, from the present state to the state before the changes, and is committed
//! like every other change. So an undo can be undone.

mod left_out;
mod restoring;
mod shared;
mod simulated_path;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use self::restoring::Restoring;
use self::shared::{LinkFinder, SharedFile, link_paths};
use self::simulated_path::{SimulatedPath, SimulatedPaths};
use crate::changes::commit;
use crate::changes::hard_links::{self, FileIdentities, FileIdentity};
use crate::changes::state::{self, CheckpointMoves};
use crate::{
    Altered, Attributes, CallId, ChangeWithoutHistory, Checkpoint, CheckpointQuery, FileKind,
    FileState, Files, Fingerprint, History, Origin, RecordedChange, SessionId, ToolError,
    below_session_tmp,
};

/// Maximum number of undos that are followed back from an undo of an undo to the original change.
const MAX_UNDOS: usize = 10_000;

/// The plan of an undo: the changes that it makes, or the conflicts that prevent it.
///
/// ```
/// use windlass_core::{Host, MemoryHistory, CheckpointQuery, UndoPlan, testing::EmptyHost};
/// let (host, history) = (EmptyHost::default(), MemoryHistory::default());
/// let nothing = UndoPlan::make(host.files(), &history, &CheckpointQuery::LastOfWorkspace("/w".into()));
/// assert_eq!(nothing.unwrap_err().message().text, "there is nothing to undo");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct UndoPlan {
    /// Calls whose changes are taken back, newest first.
    pub origins: Vec<Origin>,
    /// Changes of each path, in the order in which they are made.
    pub ways: Vec<UndoStep>,
    /// Paths that another program changed since.
    pub conflicts: Vec<Conflict>,
    /// Paths that the undo leaves as they are, because its caller may not write them. See [`UndoPlan::leave_out_hidden`].
    pub left_out: Vec<PathBuf>,
    /// Changes of the calls that have no history. They stay as they are.
    pub without_history: Vec<ChangeWithoutHistory>,
    /// True if the query selects the last change rather than a certain call, turn or session.
    pub is_last: bool,
    /// Newest call that can be undone, if the query selects the last change and that change has no history.
    pub previous: Option<Origin>,
    /// Calls with at least one change that has a history, newest first.
    with_history: Vec<CallId>,
    /// True if the undo leaves paths that are hidden from tools as they are.
    pub(crate) spares_hidden: bool,
    /// For each way, the fingerprint that proves its present state; `None` if a later change might leave the same fingerprint.
    proofs: Vec<Option<Fingerprint>>,
}

/// The change of one path in an undo.
///
/// ```
/// use windlass_core::{FileState, UndoStep};
/// let way = UndoStep {
///     path: "/w/made.txt".into(),
///     now: FileState::Absent,
///     then: FileState::Absent,
///     moved_from: None,
///     linked_with: None,
///     is_apart: false,
/// };
/// assert!(way.now.is_like(&way.then), "nothing is left to do");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoStep {
    /// The path.
    pub path: PathBuf,
    /// Present state of the path.
    pub now: FileState,
    /// State of the path after the undo.
    pub then: FileState,
    /// Path from which the file is moved back, if it is.
    pub moved_from: Option<PathBuf>,
    /// Another hard link of the file, if the path becomes a hard link of it again.
    pub linked_with: Option<PathBuf>,
    /// True if the path gets a file of its own, because the present one has other hard links that must not change.
    pub is_apart: bool,
}

impl UndoStep {
    /// Returns whether the way only restores the time of a directory in which other ways add or remove names.
    pub fn is_directory_time(&self) -> bool {
        let is_directory = |state: &FileState| matches!(state, FileState::Directory { .. });
        let has_attributes = || {
            let attributes = state::attributes_of(&self.now).zip(state::attributes_of(&self.then));
            attributes.is_some_and(|(now, then)| {
                state::has_attributes(now, &Attributes { modified: None, ..then.clone() })
            })
        };
        is_directory(&self.now) && is_directory(&self.then) && has_attributes()
    }
}

/// A path that another program changed since the call.
///
/// ```
/// use windlass_core::{CallId, Conflict, FileState};
/// let conflict = Conflict {
///     path: "/w/a.txt".into(),
///     call: CallId::new("c1"),
///     left: FileState::Other,
///     now: FileState::Absent,
///     wanted: FileState::Other,
/// };
/// assert_eq!(conflict.why(), "it was removed since");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The path.
    pub path: PathBuf,
    /// Call whose change cannot be taken back.
    pub call: CallId,
    /// State in which the call left the path.
    pub left: FileState,
    /// Present state of the path.
    pub now: FileState,
    /// State that the undo would have restored.
    pub wanted: FileState,
}

impl Conflict {
    /// Describes the change that causes the conflict.
    pub fn why(&self) -> &'static str {
        match (&self.left, &self.now) {
            (_, FileState::Absent) => "it was removed since",
            (FileState::Absent, _) => "something was put there since",
            (left, now) if left.is_like(now) => "its extended attributes were changed since",
            (FileState::File { hash: a, .. }, FileState::File { hash: b, .. }) if a == b => {
                "its permissions were changed since"
            }
            (FileState::Directory { .. }, FileState::Directory { .. }) => {
                "its permissions were changed since"
            }
            _ => "it was changed since",
        }
    }
}

impl UndoPlan {
    /// Reads the present states and plans the undo of the selected checkpoints. Fails if none can be undone, or if they belong to another
    /// workspace or to the `/tmp` of another session. Conflicts do not fail: they are in the plan.
    pub fn make(
        files: &dyn Files,
        history: &dyn History,
        query: &CheckpointQuery,
    ) -> Result<Self, ToolError> {
        let checkpoints = select_checkpoints(history, query)?;
        check_workspace(files.workspace(), &checkpoints)?;
        check_sessions(files, history, &checkpoints)?;
        let record = shared::load_record(files, history, &checkpoints)?;
        let finder = LinkFinder { files, record: &record };
        let count = checkpoints.iter().map(|checkpoint| checkpoint.changes.len()).sum();
        let mut simulation = UndoSimulation {
            finder,
            history,
            paths: SimulatedPaths::with_capacity(count),
            shared: HashMap::new(),
            identities: FileIdentities::on_record(&record),
            conflicts: Vec::new(),
        };
        for checkpoint in &checkpoints {
            simulation.take_back(checkpoint)?;
        }
        simulation.apply_shared();
        let UndoSimulation { paths, identities, mut conflicts, .. } = simulation;
        // A path that already has the wanted state needs no undo, so it is no conflict.
        conflicts.retain(|conflict| !state::is_as_left(&conflict.now, &conflict.wanted));
        let ways = plan_ways(finder, &paths, &identities, &checkpoints);
        let proofs = ways.iter().map(|way| paths.at(&way.path)?.proof()).collect();
        drop(paths);
        let without_history = changes_without_history(&checkpoints);
        let with_history = calls_of(
            checkpoints.iter().filter(|one| !one.is_without_history()).map(|one| &one.origin),
        );
        let previous =
            if with_history.is_empty() { newest_undoable(history, query)? } else { None };
        let origins = checkpoints.into_iter().map(|checkpoint| checkpoint.origin).collect();
        Ok(Self {
            origins,
            ways,
            conflicts,
            left_out: Vec::new(),
            without_history,
            is_last: query.is_last(),
            previous,
            with_history,
            spares_hidden: false,
            proofs,
        })
    }

    /// Returns whether none of the selected changes has a history, so that nothing can be undone.
    pub fn is_without_history(&self) -> bool {
        self.with_history.is_empty()
    }

    /// Returns the calls with changes that can be undone, newest first. With [`UndoPlan::is_last`], the plan may also have newer
    /// calls without any such change.
    pub fn calls_with_history(&self) -> &[CallId] {
        &self.with_history
    }

    /// Returns the session in whose `/tmp` the selected changes were made, if any of them was. The undo must use the files of that
    /// session.
    pub fn tmp_session(
        history: &dyn History,
        query: &CheckpointQuery,
    ) -> Result<Option<SessionId>, ToolError> {
        for checkpoint in select_checkpoints(history, query)? {
            if let Some(session) = tmp_session(history, &checkpoint)? {
                return Ok(Some(session));
            }
        }
        Ok(None)
    }

    /// Returns the ways that the tool must declare as effects. Leaves out the times of directories, which follow the changes of
    /// names in them, and paths below a symbolic link that the undo removes: they are decided on with the link, since until then
    /// their paths lead elsewhere.
    pub fn declared(&self) -> impl Iterator<Item = &UndoStep> {
        let is_link = |way: &&UndoStep| matches!(way.now, FileState::Symlink { .. });
        let links: HashSet<&Path> =
            self.ways.iter().filter(is_link).map(|way| way.path.as_path()).collect();
        self.ways.iter().filter(move |way| {
            let is_below = way.path.ancestors().skip(1).any(|above| links.contains(above));
            !is_below && !way.is_directory_time()
        })
    }

    /// Fails if another undo took back a call of the plan since the plan was made. The caller holds the lock that excludes other
    /// undos.
    pub(crate) fn check_in_effect(&self, history: &dyn History) -> Result<(), ToolError> {
        let calls = self.calls();
        for call in &calls {
            let Some(undo) = history.undone_by(call)? else { continue };
            return Err(match calls.len() {
                1 => already_undone(call, &undo),
                _ => ToolError::failed(format!(
                    "{undo} undid {call} in the meantime; nothing was undone"
                ))
                .hint("undo again to take back the other calls"),
            });
        }
        Ok(())
    }

    /// Returns the calls that are taken back, newest first.
    pub fn calls(&self) -> Vec<CallId> {
        calls_of(&self.origins)
    }
}

/// Collects the call ids, without repeating consecutive ones.
fn calls_of<'o>(origins: impl IntoIterator<Item = &'o Origin>) -> Vec<CallId> {
    let mut calls: Vec<CallId> = Vec::new();
    for origin in origins {
        if calls.last() != Some(&origin.call) {
            calls.push(origin.call.clone());
        }
    }
    calls
}

/// Returns the selected checkpoints that are in effect, newest first. Leaves out undos whose calls are all selected as well. If all selected
/// checkpoints are without history, returns them as they are. Fails if none is left.
fn select_checkpoints(
    history: &dyn History,
    query: &CheckpointQuery,
) -> Result<Vec<Checkpoint>, ToolError> {
    let mut all = history.checkpoints(query)?;
    let unknown = match query {
        CheckpointQuery::Call(call) => Some(format!("no change of the call {call} is known")),
        CheckpointQuery::Turn(turn) => Some(format!("no change of the turn {turn} is known")),
        _ => None,
    };
    if let (Some(unknown), true) = (unknown, all.is_empty()) {
        return Err(ToolError::failed(unknown)
            .hint("`windlass undo --list` shows the changes that can be undone"));
    }
    if all.iter().all(Checkpoint::is_without_history) && !query.is_last() && !all.is_empty() {
        // Checkpoints without history are not marked as undone, so they are returned as they are.
        return Ok(all);
    }
    if let (CheckpointQuery::Call(call), Some(undo)) =
        (query, all.first().and_then(|checkpoint| checkpoint.undone_by.as_ref()))
    {
        return Err(already_undone(call, undo));
    }
    let meant: HashSet<CallId> = all.iter().map(|one| one.origin.call.clone()).collect();
    all.retain(|one| one.can_be_undone() && !undoes_only_selected(&one.origin, &meant));
    if all.is_empty() {
        return Err(ToolError::failed("there is nothing to undo"));
    }
    Ok(all)
}

/// Returns the newest call with history that can be undone, if the query selects the last change of a session or workspace. `None` for
/// other queries.
fn newest_undoable(
    history: &dyn History,
    query: &CheckpointQuery,
) -> Result<Option<Origin>, ToolError> {
    let all = match query {
        CheckpointQuery::LastOfSession(session) => CheckpointQuery::Session(session.clone()),
        CheckpointQuery::LastOfWorkspace(workspace) => {
            CheckpointQuery::Workspace(workspace.clone())
        }
        _ => return Ok(None),
    };
    let mut checkpoints = history.checkpoints(&all)?.into_iter();
    let is_meant = |one: &Checkpoint| query.includes(one) && !one.is_without_history();
    Ok(checkpoints.find(is_meant).map(|one| one.origin))
}

/// Collects the changes without history: the newest one of each path.
fn changes_without_history(checkpoints: &[Checkpoint]) -> Vec<ChangeWithoutHistory> {
    let mut known = HashSet::new();
    let all = checkpoints.iter().flat_map(|checkpoint| &checkpoint.without_history);
    all.filter(|change| known.insert(change.path())).cloned().collect()
}

/// Makes the error for a call that another undo has taken back.
fn already_undone(call: &CallId, undo: &CallId) -> ToolError {
    ToolError::failed(format!("the changes of {call} are undone already"))
        .hint(format!("undo {undo} to have them back"))
}

/// Fails if a change was made in another workspace: policy, locks and the file watch for its paths belong to that workspace.
fn check_workspace(workspace: &Path, checkpoints: &[Checkpoint]) -> Result<(), ToolError> {
    let is_elsewhere = |one: &&Checkpoint| one.origin.workspace != workspace;
    let Some(Checkpoint { origin, .. }) = checkpoints.iter().find(is_elsewhere) else {
        return Ok(());
    };
    let (call, there) = (&origin.call, crate::quote::path(&origin.workspace));
    let here = crate::quote::path(workspace);
    Err(ToolError::failed(format!(
        "{call} changed files in the workspace {there}, and this is {here}; nothing was undone"
    ))
    .hint(format!("a person can undo it there: windlass -C {there} undo --call {call}")))
}

/// Fails if a change was made in the `/tmp` of another session: the same path is another file in this session. Passes if these files
/// have no `/tmp` of a session.
fn check_sessions(
    files: &dyn Files,
    history: &dyn History,
    checkpoints: &[Checkpoint],
) -> Result<(), ToolError> {
    let Some(own) = files.session_tmp() else { return Ok(()) };
    for checkpoint in checkpoints {
        let Some(session) = tmp_session(history, checkpoint)?.filter(|session| session != own)
        else {
            continue;
        };
        let call = &checkpoint.origin.call;
        return Err(ToolError::failed(format!(
            "{call} changed files in the /tmp of session {session}, which no other session has"
        ))
        .hint(format!("a person can undo it: windlass undo --call {call}")));
    }
    Ok(())
}

/// Returns the session in whose `/tmp` a checkpoint changed something, if it did. For an undo, this is the session of the original change.
fn tmp_session(
    history: &dyn History,
    checkpoint: &Checkpoint,
) -> Result<Option<SessionId>, ToolError> {
    let is_tmp = |one: &Checkpoint| {
        let is_below = |path: &Path| below_session_tmp(path, &one.origin.workspace).is_some();
        one.changes.iter().any(|change| is_below(&change.path))
    };
    if !is_tmp(checkpoint) {
        return Ok(None);
    }
    let mut origin = checkpoint.origin.clone();
    // Each undo is younger than the changes that it takes back, so this ends; the bound is for a damaged record.
    for _ in 0..MAX_UNDOS {
        let mut undone = Vec::new();
        for call in &origin.undoes {
            undone.extend(history.checkpoints(&CheckpointQuery::Call(call.clone()))?);
        }
        match undone.into_iter().find(is_tmp) {
            Some(first) => origin = first.origin,
            None => break,
        }
    }
    Ok(Some(origin.session))
}

/// Returns whether an undo only takes back calls that are selected as well: both together changed nothing.
fn undoes_only_selected(origin: &Origin, meant: &HashSet<CallId>) -> bool {
    origin.is_undo() && origin.undoes.iter().all(|call| meant.contains(call))
}

/// The simulated undo of checkpoints, newest first.
struct UndoSimulation<'a> {
    finder: LinkFinder<'a>,
    history: &'a dyn History,
    paths: SimulatedPaths<'a>,
    /// Shared files that were changed under one of their hard links.
    shared: HashMap<FileIdentity, SharedFile>,
    identities: FileIdentities,
    conflicts: Vec<Conflict>,
}

impl<'a> UndoSimulation<'a> {
    /// Takes back the changes of a checkpoint. A file has the same state under all its hard links before and after a checkpoint, so
    /// the changes of shared files are applied last.
    fn take_back(&mut self, checkpoint: &'a Checkpoint) -> Result<(), ToolError> {
        for change in checkpoint.changes.iter().rev() {
            self.take_back_change(checkpoint, change)?;
        }
        let moves = CheckpointMoves::among(&checkpoint.changes);
        for change in &checkpoint.changes {
            self.take_back_shared(&moves, change);
        }
        Ok(())
    }

    /// Takes back one change in the simulation, or notes a conflict.
    fn take_back_change(
        &mut self,
        checkpoint: &'a Checkpoint,
        change: &'a RecordedChange,
    ) -> Result<(), ToolError> {
        let files = self.finder.files;
        let at =
            self.paths.index_of(&change.path, || state::inspect_recorded(files, &change.path))?;
        let Some(simulated) = self.paths.all_mut().get_mut(at) else { return Ok(()) };
        if change.is_directory_time() {
            let before = state::attributes_of(&change.before);
            let modified = before.and_then(|attributes| attributes.modified);
            let time = Attributes { modified, ..Attributes::default() };
            if matches!(simulated.then, FileState::Directory { .. }) {
                simulated.then = state::with_attributes(&simulated.then, &time);
            }
            return Ok(());
        }
        if simulated.has_conflict {
            // After a conflict, older changes of the path cannot be judged, but their states before tell what the undo would
            // restore.
            let conflict = self.conflicts.iter_mut().find(|one| one.path == change.path);
            if let Some(conflict) = conflict {
                conflict.wanted = change.before.clone();
            }
            return Ok(());
        }
        shared::note_identity(&mut self.identities, &self.shared, simulated, change);
        let shared = SharedFile::of(&self.shared, &self.identities, simulated);
        let then = shared.unwrap_or(&simulated.then);
        let is_as_left =
            state::is_as_left(then, &change.after) || is_tolerated_directory(then, change);
        let machine = (files, self.history);
        if is_as_left || is_refreshed_index(machine, change, then, simulated.is_untouched) {
            simulated.then = change.before.clone();
            simulated.is_untouched = false;
            return Ok(());
        }
        simulated.has_conflict = true;
        self.conflicts.push(Conflict {
            path: change.path.clone(),
            call: checkpoint.origin.call.clone(),
            left: change.after.clone(),
            now: then.clone(),
            wanted: change.before.clone(),
        });
        Ok(())
    }
}

/// Returns whether git only refreshed its index since the change: facts about files on disk differ, the entries do not. `is_untouched` is
/// true if `now` is the state on disk, and false if it is the one before a later change.
fn is_refreshed_index(
    (files, history): (&dyn Files, &dyn History),
    change: &RecordedChange,
    now: &FileState,
    is_untouched: bool,
) -> bool {
    if !state::is_git_index(&change.path) || !state::differs_in_bytes_only(&change.after, now) {
        return false;
    }
    let recorded = |state: &FileState| {
        let content = history.content(&state.hash()?).ok()?;
        files.hash_index_entries(&content)
    };
    let entries =
        if is_untouched { state::hash_index_at(files, &change.path, now) } else { recorded(now) };
    entries.is_some() && entries == recorded(&change.after)
}

/// Returns whether a directory that the call made is absent or has other permissions now. This is no conflict: the objects in it
/// decide.
fn is_tolerated_directory(now: &FileState, change: &RecordedChange) -> bool {
    matches!(
        (now, &change.before, &change.after),
        (
            FileState::Absent | FileState::Directory { .. },
            FileState::Absent,
            FileState::Directory { .. }
        )
    )
}

/// Makes the way of each path, in this order: removals, inner paths first; new objects, outer paths first; removal or replacement
/// of directories from which something was moved; further hard links; modes and times of directories that stay.
fn plan_ways(
    finder: LinkFinder<'_>,
    simulation: &SimulatedPaths<'_>,
    identities: &FileIdentities,
    checkpoints: &[Checkpoint],
) -> Vec<UndoStep> {
    let paths = simulation.all();
    let is_other = |simulated: &&SimulatedPath| {
        !is_same_with_times(&simulated.now.state, &simulated.then) || simulated.is_apart(identities)
    };
    let around: HashSet<&Path> =
        paths.iter().filter(is_other).filter_map(|simulated| simulated.path.parent()).collect();
    // A change of names in a directory sets its time, even if the time is the wanted one now.
    let is_around = |simulated: &SimulatedPath| {
        let is_directory = |state: &FileState| matches!(state, FileState::Directory { .. });
        let stays = is_directory(&simulated.now.state) && is_directory(&simulated.then);
        stays && around.contains(simulated.path.as_path())
    };
    // Exact capacity: a vector that grows can take twice the memory.
    let mut ways: Vec<UndoStep> = Vec::with_capacity(paths.len());
    let changing = paths.iter().filter(|simulated| is_other(simulated) || is_around(simulated));
    ways.extend(changing.map(|simulated| UndoStep {
        path: simulated.path.clone(),
        now: simulated.now.state.clone(),
        then: identities.with_first_identity(&simulated.then),
        moved_from: None,
        linked_with: None,
        is_apart: simulated.is_apart(identities),
    }));
    find_moves(&mut ways, identities, checkpoints);
    link_paths(finder, &mut ways, simulation, identities);
    keep_used_directories(&mut ways, paths);
    sort_ways(&mut ways);
    ways
}

/// Phase in which a way is performed, in order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum WayPhase {
    RemoveFile,
    RemoveDirectory,
    Make,
    /// Removes or replaces a directory after something was moved out of it. Inner directories first, like all removals.
    RemoveLeftDirectory,
    /// Adds a hard link to a file that is in its place by then.
    AddLink,
    RestoreAttributes,
}

/// Sorts the ways into their order: removals with inner paths first, new objects with outer paths first. Sorts in place, since
/// there may be many.
fn sort_ways(ways: &mut [UndoStep]) {
    let left: HashSet<PathBuf> = ways
        .iter()
        .filter_map(|way| way.moved_from.as_deref())
        .flat_map(|from| from.ancestors().map(Path::to_owned))
        .collect();
    let is_directory = |state: &FileState| matches!(state, FileState::Directory { .. });
    let turn = |way: &UndoStep| match (is_directory(&way.now), &way.then) {
        (true, FileState::Directory { .. }) => WayPhase::RestoreAttributes,
        (true, FileState::Absent) if left.contains(&way.path) => WayPhase::RemoveLeftDirectory,
        (true, FileState::Absent) => WayPhase::RemoveDirectory,
        (false, FileState::Absent) => WayPhase::RemoveFile,
        _ if way.linked_with.is_some() => WayPhase::AddLink,
        (true, _) if left.contains(&way.path) => WayPhase::RemoveLeftDirectory,
        _ => WayPhase::Make,
    };
    ways.sort_unstable_by(|a, b| {
        let (one, other) = (turn(a), turn(b));
        let is_outwards = !matches!(one, WayPhase::Make | WayPhase::AddLink);
        let by_path = a.path.cmp(&b.path);
        one.cmp(&other).then(if is_outwards { by_path.reverse() } else { by_path })
    });
}

/// Drops the removal of directories that contain an object which stays.
fn keep_used_directories(ways: &mut Vec<UndoStep>, paths: &[SimulatedPath]) {
    let is_going = |way: &UndoStep| way.then == FileState::Absent;
    let mut going: HashSet<&Path> =
        ways.iter().filter(|way| is_going(way)).map(|way| way.path.as_path()).collect();
    let is_directory = |simulated: &&SimulatedPath| simulated.now.kind == Some(FileKind::Directory);
    let mut directories: Vec<&SimulatedPath> = paths
        .iter()
        .filter(is_directory)
        .filter(|simulated| going.contains(simulated.path.as_path()))
        .collect();
    // Inner directories first, since one that stays keeps the directories above it.
    directories.sort_by(|a, b| b.path.cmp(&a.path));
    let mut used: HashSet<&Path> = HashSet::new();
    for directory in directories {
        let stays = |name| !going.contains(directory.path.join(name).as_path());
        if directory.now.entries.iter().any(stays) {
            going.remove(directory.path.as_path());
            used.insert(&directory.path);
        }
    }
    ways.retain(|way| !is_going(way) || !used.contains(way.path.as_path()));
}

/// Returns whether two states are equal, including times.
fn is_same_with_times(now: &FileState, then: &FileState) -> bool {
    let attributes = state::attributes_of(now).zip(state::attributes_of(then));
    now.is_like(then) && attributes.is_none_or(|(now, then)| state::has_attributes(now, then))
}

/// Turns a removal and a restoration into a move where the file was moved by a call, so that it stays the same inode. A file that
/// was written after the move is another one; if the moved file had other hard links, they identify it.
fn find_moves(ways: &mut [UndoStep], identities: &FileIdentities, checkpoints: &[Checkpoint]) {
    let moves = checkpoints.iter().flat_map(|checkpoint| &checkpoint.changes);
    let moves: Vec<(&Path, &Path)> = moves
        .filter_map(|change| Some((change.moved_from.as_deref()?, change.path.as_path())))
        .collect();
    if moves.is_empty() {
        return;
    }
    let places: HashMap<PathBuf, usize> =
        ways.iter().enumerate().map(|(at, way)| (way.path.clone(), at)).collect();
    let way_at = |path: &Path| places.get(path).copied();
    for (home, path) in moves {
        let leaves = |way: &&UndoStep| way.then == FileState::Absent && way.now.hash().is_some();
        let left = way_at(path).and_then(|at| ways.get(at)).filter(leaves);
        let Some(left) = left.map(|way| identities.file_of(&way.now)) else { continue };
        let is_back = |way: &&mut UndoStep| {
            let is_it =
                hard_links::link_count(&way.then) < 2 || identities.file_of(&way.then) == left;
            is_it && way.now == FileState::Absent && way.then.hash().is_some()
        };
        if let Some(way) = way_at(home).and_then(|at| ways.get_mut(at)).filter(is_back) {
            way.moved_from = Some(path.to_owned());
        }
    }
}

/// Performs an undo plan as a commit of its own, and returns the changed paths with their results.
pub(crate) fn perform(
    files: &dyn Files,
    history: &dyn History,
    origin: &Origin,
    plan: &UndoPlan,
) -> Result<Vec<(PathBuf, Altered)>, ToolError> {
    let restoring = Restoring::load(files, history, plan)?;
    let steps = restoring.steps();
    let altered = commit::commit(files, history, origin, &steps, &|| false)
        .map_err(|refused| refused.into_error(files.workspace()))?;
    Ok(steps.iter().map(|step| step.path.path.clone()).zip(altered).collect())
}
