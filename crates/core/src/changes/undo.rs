//! Takes back what calls did to files: one call, a turn, a session.
//!
//! The changes that are meant are gone through from the newest to the oldest, in a simulation: each must find what it left behind, and
//! then leaves what it found. Where one does not (somebody changed the file since), nothing at all is done, and the conflict is
//! shown. What remains is, for each path, one way from what is there now to what was there before, and is committed like every
//! other change. So an undo can be undone.

mod left_out;
mod restoring;
mod shared;
mod simulated_path;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use self::restoring::Restoring;
use self::shared::{Machine, Shared, find_names};
use self::simulated_path::{SimulatedPath, SimulatedPaths};
use crate::changes::commit;
use crate::changes::hard_links::{self, Identities, Object};
use crate::changes::state::{self, Moves};
use crate::{
    Altered, Attributes, CallId, Checkpoint, FileKind, FileState, Files, Fingerprint, History,
    Origin, Query, RecordedChange, SessionId, ToolError, WithoutHistory, below_session_tmp,
};

/// Undos of undos that are followed back to the change which they are about.
const MAX_UNDOS: usize = 10_000;

/// What an undo would do, or why it cannot.
///
/// ```
/// use windlass_core::{Host, MemoryHistory, Query, UndoPlan, testing::EmptyHost};
/// let (host, history) = (EmptyHost::default(), MemoryHistory::default());
/// let nothing = UndoPlan::make(host.files(), &history, &Query::LastOfWorkspace("/w".into()));
/// assert_eq!(nothing.unwrap_err().message().text, "there is nothing to undo");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct UndoPlan {
    /// The calls that made the changes which are taken back, the newest first.
    pub origins: Vec<Origin>,
    /// What happens to each path, in the order in which it is done.
    pub ways: Vec<Way>,
    /// Where somebody changed something since.
    pub conflicts: Vec<Conflict>,
    /// The changes that are not taken back, because its caller may not write it. See [`UndoPlan::leave_out_hidden`].
    pub left_out: Vec<PathBuf>,
    /// What the calls changed that has no history, which stays as it is.
    pub without_history: Vec<WithoutHistory>,
    /// Whether the last change was asked for, whichever that is.
    pub is_last: bool,
    /// The call before it that can be taken back, where the last change was asked for and has no history.
    pub previous: Option<Origin>,
    /// The calls that changed something that has a history, the newest first.
    with_history: Vec<CallId>,
    /// Leaves what no tool may see as it is.
    pub(crate) spares_hidden: bool,
    /// The fingerprints that proved what is at the place of each way, as far as a later change would give it another one.
    settled: Vec<Option<Fingerprint>>,
}

/// What happens to what is at one path.
///
/// ```
/// use windlass_core::{FileState, Way};
/// let way = Way {
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
pub struct Way {
    /// The place.
    pub path: PathBuf,
    /// What is there.
    pub now: FileState,
    /// What will be there.
    pub then: FileState,
    /// Where the object is that will be there, if it is moved back.
    pub moved_from: Option<PathBuf>,
    /// Another name of the file that will be there, if it becomes one of its names again.
    pub linked_with: Option<PathBuf>,
    /// Whether what is there stays what it is under its other names, and another file is put here.
    pub is_apart: bool,
}

impl Way {
    /// Returns whether only the time of a directory comes back, in which names change.
    pub fn is_directory_time(&self) -> bool {
        let is_directory = |state: &FileState| matches!(state, FileState::Directory { .. });
        let has_all = || {
            let attributes = state::attributes_of(&self.now).zip(state::attributes_of(&self.then));
            attributes.is_some_and(|(now, then)| {
                state::has_all(now, &Attributes { modified: None, ..then.clone() })
            })
        };
        is_directory(&self.now) && is_directory(&self.then) && has_all()
    }
}

/// A path that was changed by somebody else since.
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
/// assert_eq!(conflict.why(), "somebody removed it since");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The place.
    pub path: PathBuf,
    /// The call whose change cannot be taken back.
    pub call: CallId,
    /// What it left there.
    pub left: FileState,
    /// What is there.
    pub now: FileState,
    /// What the undo would have put there.
    pub wanted: FileState,
}

impl Conflict {
    /// What happened, in words.
    pub fn why(&self) -> &'static str {
        match (&self.left, &self.now) {
            (_, FileState::Absent) => "somebody removed it since",
            (FileState::Absent, _) => "somebody put something there since",
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
    /// Looks at what is there and finds the way back.
    pub fn make(
        files: &dyn Files,
        history: &dyn History,
        query: &Query,
    ) -> Result<Self, ToolError> {
        let checkpoints = select(history, query)?;
        check_workspace(files.workspace(), &checkpoints)?;
        check_sessions(files, history, &checkpoints)?;
        let record = shared::record(files, history, &checkpoints)?;
        let machine = Machine { files, record: &record };
        let count = checkpoints.iter().map(|checkpoint| checkpoint.changes.len()).sum();
        let mut walked = Walked {
            machine,
            paths: SimulatedPaths::with_capacity(count),
            shared: HashMap::new(),
            identities: Identities::on_record(&record),
            conflicts: Vec::new(),
        };
        for checkpoint in &checkpoints {
            walked.take_back(checkpoint)?;
        }
        walked.settle_shared();
        let Walked { paths, identities, mut conflicts, .. } = walked;
        // Somebody has brought it back already: there is nothing left to do.
        conflicts.retain(|conflict| !state::is_left(&conflict.now, &conflict.wanted));
        let ways = ways(machine, &paths, &identities, &checkpoints);
        let settled = ways.iter().map(|way| paths.at(&way.path)?.settled()).collect();
        drop(paths);
        let without_history = without_history(&checkpoints);
        let with_history = calls_of(
            checkpoints.iter().filter(|one| !one.is_without_history()).map(|one| &one.origin),
        );
        let previous = if with_history.is_empty() { previous(history, query)? } else { None };
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
            settled,
        })
    }

    /// Tells whether nothing of what is meant can be taken back, since it has no history.
    pub fn is_without_history(&self) -> bool {
        self.with_history.is_empty()
    }

    /// The calls of which something can be taken back, the newest first. With [`UndoPlan::is_last`], newer calls may be among those
    /// of the plan of which nothing can.
    pub fn calls_with_history(&self) -> &[CallId] {
        &self.with_history
    }

    /// Returns the session in whose `/tmp` the changes that are meant were made, if any of them was: its files must be used.
    pub fn tmp_session(
        history: &dyn History,
        query: &Query,
    ) -> Result<Option<SessionId>, ToolError> {
        for checkpoint in select(history, query)? {
            if let Some(session) = tmp_session(history, &checkpoint)? {
                return Ok(Some(session));
            }
        }
        Ok(None)
    }

    /// The ways that must be declared and granted. The time of a directory goes with the names in it; and what comes back below a
    /// symbolic link that goes is decided on with the link, since its path leads elsewhere until then.
    pub fn declared(&self) -> impl Iterator<Item = &Way> {
        let is_link = |way: &&Way| matches!(way.now, FileState::Symlink { .. });
        let links: HashSet<&Path> =
            self.ways.iter().filter(is_link).map(|way| way.path.as_path()).collect();
        self.ways.iter().filter(move |way| {
            let is_below = way.path.ancestors().skip(1).any(|above| links.contains(above));
            !is_below && !way.is_directory_time()
        })
    }

    /// Refuses a plan of calls that another undo took back since the plan was made. Asked while no other undo can begin.
    pub(crate) fn check_in_effect(&self, history: &dyn History) -> Result<(), ToolError> {
        let calls = self.calls();
        for call in &calls {
            let Some(undo) = history.undone_by(call)? else { continue };
            return Err(match calls.len() {
                1 => undone_already(call, &undo),
                _ => ToolError::failed(format!(
                    "{undo} undid {call} in the meantime; nothing was undone"
                ))
                .hint("undo again to take back the other calls"),
            });
        }
        Ok(())
    }

    /// The calls that are taken back, the newest first.
    pub fn calls(&self) -> Vec<CallId> {
        calls_of(&self.origins)
    }
}

fn calls_of<'o>(origins: impl IntoIterator<Item = &'o Origin>) -> Vec<CallId> {
    let mut calls: Vec<CallId> = Vec::new();
    for origin in origins {
        if calls.last() != Some(&origin.call) {
            calls.push(origin.call.clone());
        }
    }
    calls
}

/// The checkpoints that are meant and in effect, the newest first.
fn select(history: &dyn History, query: &Query) -> Result<Vec<Checkpoint>, ToolError> {
    let mut all = history.checkpoints(query)?;
    let unknown = match query {
        Query::Call(call) => Some(format!("no change of the call {call} is known")),
        Query::Turn(turn) => Some(format!("no change of the turn {turn} is known")),
        _ => None,
    };
    if let (Some(unknown), true) = (unknown, all.is_empty()) {
        return Err(ToolError::failed(unknown)
            .hint("`windlass undo --list` shows the changes that can be undone"));
    }
    if all.iter().all(Checkpoint::is_without_history) && !query.is_last() && !all.is_empty() {
        // An undo passed it over, if any did.
        return Ok(all);
    }
    if let (Query::Call(call), Some(undo)) =
        (query, all.first().and_then(|checkpoint| checkpoint.undone_by.as_ref()))
    {
        return Err(undone_already(call, undo));
    }
    let meant: HashSet<CallId> = all.iter().map(|one| one.origin.call.clone()).collect();
    all.retain(|one| one.can_be_undone() && !is_among_itself(&one.origin, &meant));
    if all.is_empty() {
        return Err(ToolError::failed("there is nothing to undo"));
    }
    Ok(all)
}

/// The newest call that can be taken back, where the last change of a session or workspace is meant.
fn previous(history: &dyn History, query: &Query) -> Result<Option<Origin>, ToolError> {
    let all = match query {
        Query::LastOfSession(session) => Query::Session(session.clone()),
        Query::LastOfWorkspace(workspace) => Query::Workspace(workspace.clone()),
        _ => return Ok(None),
    };
    let mut checkpoints = history.checkpoints(&all)?.into_iter();
    let is_meant = |one: &Checkpoint| query.includes(one) && !one.is_without_history();
    Ok(checkpoints.find(is_meant).map(|one| one.origin))
}

/// What calls changed that has no history, each place once: the newest change of it.
fn without_history(checkpoints: &[Checkpoint]) -> Vec<WithoutHistory> {
    let mut known = HashSet::new();
    let all = checkpoints.iter().flat_map(|checkpoint| &checkpoint.without_history);
    all.filter(|change| known.insert(change.path())).cloned().collect()
}

fn undone_already(call: &CallId, undo: &CallId) -> ToolError {
    ToolError::failed(format!("the changes of {call} are undone already"))
        .hint(format!("undo {undo} to have them back"))
}

/// Refuses changes of another workspace: their paths were decided on, and are locked and watched, there.
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

/// Refuses changes that were made in the `/tmp` of another session: by the same path, this session has another file.
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

/// Returns the session in whose `/tmp` a checkpoint changed something. An undo changes that of the session which it takes back.
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
    // Each undo is younger than what it takes back; a damaged record may say otherwise.
    for _ in 0..MAX_UNDOS {
        let mut undone = Vec::new();
        for call in &origin.undoes {
            undone.extend(history.checkpoints(&Query::Call(call.clone()))?);
        }
        match undone.into_iter().find(is_tmp) {
            Some(first) => origin = first.origin,
            None => break,
        }
    }
    Ok(Some(origin.session))
}

/// Whether it only takes back what is meant as well: both together changed nothing.
fn is_among_itself(origin: &Origin, meant: &HashSet<CallId>) -> bool {
    origin.is_undo() && origin.undoes.iter().all(|call| meant.contains(call))
}

struct Walked<'a> {
    machine: Machine<'a>,
    paths: SimulatedPaths<'a>,
    /// What would become of files with several names that were changed under one of them.
    shared: HashMap<Object, Shared>,
    identities: Identities,
    conflicts: Vec<Conflict>,
}

impl<'a> Walked<'a> {
    /// A file is in one state under all its names before a checkpoint, and in one after it: that state is simulated last.
    fn take_back(&mut self, checkpoint: &'a Checkpoint) -> Result<(), ToolError> {
        for change in checkpoint.changes.iter().rev() {
            self.take_back_change(checkpoint, change)?;
        }
        let moves = Moves::among(&checkpoint.changes);
        for change in &checkpoint.changes {
            self.take_back_shared(&moves, change);
        }
        Ok(())
    }

    fn take_back_change(
        &mut self,
        checkpoint: &'a Checkpoint,
        change: &'a RecordedChange,
    ) -> Result<(), ToolError> {
        let files = self.machine.files;
        let at = self.paths.place_of(&change.path, || state::see_on_record(files, &change.path))?;
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
        if simulated.is_stuck {
            // What is older cannot be judged; but it is known what was there before all of it.
            let conflict = self.conflicts.iter_mut().find(|one| one.path == change.path);
            if let Some(conflict) = conflict {
                conflict.wanted = change.before.clone();
            }
            return Ok(());
        }
        shared::identify(&mut self.identities, &self.shared, simulated, change);
        let shared = Shared::of(&self.shared, &self.identities, simulated);
        let then = shared.unwrap_or(&simulated.then);
        if state::is_left(then, &change.after) || is_kept_directory(then, change) {
            simulated.then = change.before.clone();
            simulated.is_fresh = false;
            return Ok(());
        }
        simulated.is_stuck = true;
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

/// A directory that a call made and that is gone, or has other permissions, is no conflict: what was in it decides.
fn is_kept_directory(now: &FileState, change: &RecordedChange) -> bool {
    matches!(
        (now, &change.before, &change.after),
        (
            FileState::Absent | FileState::Directory { .. },
            FileState::Absent,
            FileState::Directory { .. }
        )
    )
}

/// What is left to do for each path: what is removed goes first, from the inside out; then what is made, from the outside in; then
/// the directories out of which something was moved are removed or replaced; last names are added, and directories that stay get
/// their modes and times.
fn ways(
    machine: Machine<'_>,
    simulation: &SimulatedPaths<'_>,
    identities: &Identities,
    checkpoints: &[Checkpoint],
) -> Vec<Way> {
    let paths = simulation.all();
    let is_other = |simulated: &&SimulatedPath| {
        !same(&simulated.now.state, &simulated.then) || simulated.is_apart(identities)
    };
    let around: HashSet<&Path> =
        paths.iter().filter(is_other).filter_map(|simulated| simulated.path.parent()).collect();
    // A directory in which names change gets another time by that, also where it has the right one now.
    let is_around = |simulated: &SimulatedPath| {
        let is_directory = |state: &FileState| matches!(state, FileState::Directory { .. });
        let stays = is_directory(&simulated.now.state) && is_directory(&simulated.then);
        stays && around.contains(simulated.path.as_path())
    };
    // A list that grows is twice as long as it needs to be.
    let mut ways: Vec<Way> = Vec::with_capacity(paths.len());
    let changing = paths.iter().filter(|simulated| is_other(simulated) || is_around(simulated));
    ways.extend(changing.map(|simulated| Way {
        path: simulated.path.clone(),
        now: simulated.now.state.clone(),
        then: identities.as_first(&simulated.then),
        moved_from: None,
        linked_with: None,
        is_apart: simulated.is_apart(identities),
    }));
    find_moves(&mut ways, identities, checkpoints);
    find_names(machine, &mut ways, simulation, identities);
    keep_used_directories(&mut ways, paths);
    put_in_order(&mut ways);
    ways
}

/// When a way is gone, the first one first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    RemoveFile,
    RemoveDirectory,
    Make,
    /// A directory is removed or replaced out of which something is moved before. From the inside out, like all removals.
    EndLeftDirectory,
    /// A name is added to what is in its place by then.
    AddName,
    Settle,
}

/// What is removed goes from the inside out, what is made comes from the outside in. Sorted in place, since there may be many.
fn put_in_order(ways: &mut [Way]) {
    let left: HashSet<PathBuf> = ways
        .iter()
        .filter_map(|way| way.moved_from.as_deref())
        .flat_map(|from| from.ancestors().map(Path::to_owned))
        .collect();
    let is_directory = |state: &FileState| matches!(state, FileState::Directory { .. });
    let turn = |way: &Way| match (is_directory(&way.now), &way.then) {
        (true, FileState::Directory { .. }) => Turn::Settle,
        (true, FileState::Absent) if left.contains(&way.path) => Turn::EndLeftDirectory,
        (true, FileState::Absent) => Turn::RemoveDirectory,
        (false, FileState::Absent) => Turn::RemoveFile,
        _ if way.linked_with.is_some() => Turn::AddName,
        (true, _) if left.contains(&way.path) => Turn::EndLeftDirectory,
        _ => Turn::Make,
    };
    ways.sort_unstable_by(|a, b| {
        let (one, other) = (turn(a), turn(b));
        let is_outwards = !matches!(one, Turn::Make | Turn::AddName);
        let by_path = a.path.cmp(&b.path);
        one.cmp(&other).then(if is_outwards { by_path.reverse() } else { by_path })
    });
}

/// A directory that a call made stays if something is in it that does not go.
fn keep_used_directories(ways: &mut Vec<Way>, paths: &[SimulatedPath]) {
    let is_going = |way: &Way| way.then == FileState::Absent;
    let mut going: HashSet<&Path> =
        ways.iter().filter(|way| is_going(way)).map(|way| way.path.as_path()).collect();
    let is_directory = |simulated: &&SimulatedPath| simulated.now.kind == Some(FileKind::Directory);
    let mut directories: Vec<&SimulatedPath> = paths
        .iter()
        .filter(is_directory)
        .filter(|simulated| going.contains(simulated.path.as_path()))
        .collect();
    // The inner ones decide for the outer ones.
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

/// Whether there is nothing to do, the times included.
fn same(now: &FileState, then: &FileState) -> bool {
    let attributes = state::attributes_of(now).zip(state::attributes_of(then));
    now.is_like(then) && attributes.is_none_or(|(now, then)| state::has_all(now, then))
}

/// Where an object was moved away and is to come back, it is moved back: it stays the same object. What was written after it was
/// moved is another one; if the first had other names, it is found by them.
fn find_moves(ways: &mut [Way], identities: &Identities, checkpoints: &[Checkpoint]) {
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
        let leaves = |way: &&Way| way.then == FileState::Absent && way.now.hash().is_some();
        let left = way_at(path).and_then(|at| ways.get(at)).filter(leaves);
        let Some(left) = left.map(|way| identities.file_of(&way.now)) else { continue };
        let is_back = |way: &&mut Way| {
            let is_it = hard_links::links(&way.then) < 2 || identities.file_of(&way.then) == left;
            is_it && way.now == FileState::Absent && way.then.hash().is_some()
        };
        if let Some(way) = way_at(home).and_then(|at| ways.get_mut(at)).filter(is_back) {
            way.moved_from = Some(path.to_owned());
        }
    }
}

/// Takes back what a plan says, as a change of its own.
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
