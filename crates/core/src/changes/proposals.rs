//! Proposals: changes that are held instead of made, until a person or a program applies or drops them.
//!
//! A session with proposals works on files as any other session: it reads, searches and changes the files as they would be with its
//! proposals applied ([`Overlay`]). Nothing on the machine changes. Its child sessions share its proposals.

mod overlay;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

pub(crate) use self::overlay::Overlay;
use crate::changes::commit::recorded_path;
use crate::changes::state::{self, InspectedPath};
use crate::sync::Lock;
use crate::{
    CallId, CommitStep, ContentHash, ContentSource, FileState, Files, HistoryError, HistoryLock,
    SessionId, ToolError, quote,
};

/// Storage for the lists of proposals, and for the contents of proposals and snapshots.
///
/// The store has a persistent one.
///
/// ```
/// use windlass_core::ProposalStore;
/// # use std::{collections::HashMap, fs::File, sync::{Arc, Mutex}};
/// # use windlass_core::{ContentHash, HistoryLock, HistoryError, Proposal, SessionId};
/// # #[derive(Default)]
/// # struct Nothing;
/// # impl ProposalStore for Nothing {
/// #     fn keep(&self, _: &ContentHash, _: &[u8]) -> Result<(), HistoryError> { Ok(()) }
/// #     fn open(&self, hash: &ContentHash) -> Result<File, HistoryError> { Err(HistoryError::Dropped(*hash)) }
/// #     fn load(&self, _: &SessionId) -> Result<Vec<Proposal>, HistoryError> { Ok(Vec::new()) }
/// #     fn save(&self, _: &SessionId, _: &[Proposal]) -> Result<(), HistoryError> { Ok(()) }
/// #     fn exclusive(&self) -> Result<HistoryLock<'_>, HistoryError> { Ok(HistoryLock::unshared()) }
/// #     fn stamp(&self, _: &SessionId) -> u64 { 0 }
/// #     fn sessions(&self) -> Result<Vec<SessionId>, HistoryError> { Ok(Vec::new()) }
/// # }
///
/// /// Counts the paths that would change.
/// fn proposed(shelf: &dyn ProposalStore) -> Result<usize, HistoryError> {
///     shelf.sessions()?.iter().map(|session| Ok(shelf.load(session)?.len())).sum()
/// }
/// assert_eq!(proposed(&Nothing)?, 0);
/// # Ok::<(), HistoryError>(())
/// ```
pub trait ProposalStore: Send + Sync {
    /// Keeps a content.
    fn keep(&self, hash: &ContentHash, bytes: &[u8]) -> Result<(), HistoryError>;

    /// Opens a kept content for reading.
    fn open(&self, hash: &ContentHash) -> Result<File, HistoryError>;

    /// Returns the proposals of a session.
    fn load(&self, session: &SessionId) -> Result<Vec<Proposal>, HistoryError>;

    /// Replaces the proposals of a session. An empty list removes them.
    fn save(&self, session: &SessionId, proposals: &[Proposal]) -> Result<(), HistoryError>;

    /// Excludes other writers of the lists until the lock is dropped. Waits for the present holder.
    fn exclusive(&self) -> Result<HistoryLock<'_>, HistoryError>;

    /// Returns a value that changes with every change of a session's list, also one by another process.
    fn stamp(&self, session: &SessionId) -> u64;

    /// Returns the sessions that have proposals.
    fn sessions(&self) -> Result<Vec<SessionId>, HistoryError>;
}

/// A proposed change of one path.
///
/// ```
/// use windlass_core::{FileState, Proposal};
/// let proposal = Proposal {
///     path: "/w/old.txt".into(),
///     base: FileState::Other,
///     then: FileState::Absent,
///     by: Vec::new(),
/// };
/// assert_eq!(proposal.verb(), "delete");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Absolute path without symbolic links.
    #[serde(with = "crate::quote::serde_path")]
    pub path: PathBuf,
    /// State of the path when a change was first proposed.
    pub base: FileState,
    /// State of the path if the proposal is applied.
    pub then: FileState,
    /// Calls that proposed it, in order.
    pub by: Vec<ProposedBy>,
}

impl Proposal {
    /// Returns the verb that describes the change.
    pub fn verb(&self) -> &'static str {
        match (&self.base, &self.then) {
            (_, FileState::Absent) => "delete",
            (FileState::Absent, FileState::Directory { .. }) => "make",
            (FileState::Absent, _) => "create",
            (FileState::File { hash: a, .. }, FileState::File { hash: b, .. }) if a == b => {
                "set mode of"
            }
            _ => "change",
        }
    }
}

/// A call that proposed a change.
///
/// ```
/// use windlass_core::{CallId, ProposedBy, SessionId};
/// let by = ProposedBy {
///     call: CallId::new("c1"),
///     session: SessionId::new("s1"),
///     tool: "edit".into(),
///     at: std::time::SystemTime::now(),
/// };
/// assert_eq!(by.tool, "edit");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposedBy {
    /// Id of the call.
    pub call: CallId,
    /// Session of the call: the one that holds the proposal, or a child session.
    pub session: SessionId,
    /// Name of the tool.
    pub tool: String,
    /// Time of the proposal.
    pub at: SystemTime,
}

/// The proposals of a session.
///
/// ```
/// use windlass_core::{Proposals, ProposalStore};
/// # use std::{collections::HashMap, fs::File, sync::{Arc, Mutex}};
/// # use windlass_core::{ContentHash, HistoryLock, HistoryError, Proposal, SessionId};
/// # #[derive(Default)]
/// # struct Nothing;
/// # impl ProposalStore for Nothing {
/// #     fn keep(&self, _: &ContentHash, _: &[u8]) -> Result<(), HistoryError> { Ok(()) }
/// #     fn open(&self, hash: &ContentHash) -> Result<File, HistoryError> { Err(HistoryError::Dropped(*hash)) }
/// #     fn load(&self, _: &SessionId) -> Result<Vec<Proposal>, HistoryError> { Ok(Vec::new()) }
/// #     fn save(&self, _: &SessionId, _: &[Proposal]) -> Result<(), HistoryError> { Ok(()) }
/// #     fn exclusive(&self) -> Result<HistoryLock<'_>, HistoryError> { Ok(HistoryLock::unshared()) }
/// #     fn stamp(&self, _: &SessionId) -> u64 { 0 }
/// #     fn sessions(&self) -> Result<Vec<SessionId>, HistoryError> { Ok(Vec::new()) }
/// # }
/// let proposals = Proposals::open(Arc::new(Nothing), SessionId::new("s1"))?;
/// assert!(proposals.list().is_empty());
/// # Ok::<(), HistoryError>(())
/// ```
pub struct Proposals {
    session: SessionId,
    shelf: Arc<dyn ProposalStore>,
    held: Lock<ProposalList>,
}

/// The list of proposals, and the shelf's stamp when it was read.
#[derive(Debug, Default)]
struct ProposalList {
    stamp: Option<u64>,
    by_path: BTreeMap<PathBuf, Proposal>,
}

impl std::fmt::Debug for Proposals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proposals").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Proposals {
    /// Opens the proposals of a session.
    pub fn open(shelf: Arc<dyn ProposalStore>, session: SessionId) -> Result<Self, HistoryError> {
        let proposals = Self { session, shelf, held: Lock::default() };
        proposals.refresh()?;
        Ok(proposals)
    }

    /// Reads the list again if it changed: another process may have applied or dropped proposals.
    pub fn refresh(&self) -> Result<(), HistoryError> {
        let mut held = self.held.lock();
        let stamp = Some(self.shelf.stamp(&self.session));
        if held.stamp != stamp {
            let list = self.shelf.load(&self.session)?;
            held.by_path = list.into_iter().map(|one| (one.path.clone(), one)).collect();
            held.stamp = stamp;
        }
        Ok(())
    }

    /// Returns the session that holds the proposals.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Returns all proposals, sorted by path.
    pub fn list(&self) -> Vec<Proposal> {
        self.held.lock().by_path.values().cloned().collect()
    }

    /// Reads a content that a proposal or its base state refers to.
    pub fn content(&self, hash: &ContentHash) -> Result<Vec<u8>, HistoryError> {
        let failed = |error: std::io::Error| HistoryError::Failed(error.to_string());
        let file = self.shelf.open(hash)?;
        Ok(ContentSource::File(&file).read().map_err(failed)?.into_owned())
    }

    /// Drops the proposals for these paths, or all if `None`. Returns the dropped paths.
    pub fn drop_paths(&self, paths: Option<&[PathBuf]>) -> Result<Vec<PathBuf>, HistoryError> {
        let _alone = self.exclusive()?;
        self.remove(paths)
    }

    /// Excludes other writers of the list until the lock is dropped, and reads the list again.
    pub(crate) fn exclusive(&self) -> Result<HistoryLock<'_>, HistoryError> {
        let alone = self.shelf.exclusive()?;
        self.refresh()?;
        Ok(alone)
    }

    /// Drops proposals like [`Proposals::drop_paths`]. The caller holds the lock.
    pub(crate) fn remove(&self, paths: Option<&[PathBuf]>) -> Result<Vec<PathBuf>, HistoryError> {
        let mut held = self.held.lock();
        let chosen = chosen(&held.by_path, paths);
        for path in &chosen {
            held.by_path.remove(path);
        }
        self.save(&mut held)?;
        Ok(chosen)
    }

    /// Saves the list to the shelf.
    fn save(&self, held: &mut ProposalList) -> Result<(), HistoryError> {
        let list: Vec<Proposal> = held.by_path.values().cloned().collect();
        self.shelf.save(&self.session, &list)?;
        held.stamp = Some(self.shelf.stamp(&self.session));
        Ok(())
    }
}

/// Returns the proposed paths at or below the given ones; all if none are given.
fn chosen(held: &BTreeMap<PathBuf, Proposal>, paths: Option<&[PathBuf]>) -> Vec<PathBuf> {
    let Some(paths) = paths else { return held.keys().cloned().collect() };
    let named = |path: &Path| paths.iter().any(|one| path.starts_with(one));
    held.keys().filter(|path| named(path)).cloned().collect()
}

/// The data with which proposals are applied: the present states, and the contents to write.
///
/// ```
/// use windlass_core::{ProposalApplication, Files, Proposals, ToolError};
///
/// /// Lists the paths that applying everything would change.
/// fn touched(files: &dyn Files, proposals: &Proposals) -> Result<Vec<String>, ToolError> {
///     let application = ProposalApplication::load(files, proposals, None)?;
///     Ok(application.steps(files).iter().map(|step| step.path.display().into_owned()).collect())
/// }
/// ```
pub struct ProposalApplication {
    proposals: Vec<(Proposal, InspectedPath, Option<Vec<u8>>)>,
}

impl std::fmt::Debug for ProposalApplication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Application").field("proposals", &self.proposals.len()).finish()
    }
}

impl ProposalApplication {
    /// Loads the data to apply the proposals for these paths, or all of them. Fails, and names the files, if a file does not have
    /// the state that it had when its change was proposed.
    pub fn load(
        files: &dyn Files,
        proposals: &Proposals,
        paths: Option<&[PathBuf]>,
    ) -> Result<Self, ToolError> {
        proposals.refresh()?;
        let held = &proposals.held.lock().by_path;
        let mut loaded = Vec::new();
        let mut stale = Vec::new();
        for path in with_parents(held, chosen(held, paths)) {
            let Some(proposal) = held.get(&path) else { continue };
            let now = state::inspect(files, &recorded_path(files, &path), None)?;
            if !now.state.is_like(&proposal.base) && !is_made(proposal, &now.state) {
                let name = path.strip_prefix(files.workspace()).unwrap_or(&path);
                stale.push(quote::path(name).into_owned());
                continue;
            }
            let content = match proposal.then.hash() {
                Some(hash) if now.state.hash() != Some(hash) => Some(proposals.content(&hash)?),
                _ => None,
            };
            loaded.push((proposal.clone(), now, content));
        }
        if !stale.is_empty() {
            return Err(ToolError::failed(format!(
                "stale: changed since the proposal was made, so nothing is applied: {}",
                stale.join(", ")
            ))
            .hint("look at it with `windlass proposals show`, then drop that path or bring the file back"));
        }
        Ok(Self { proposals: loaded })
    }

    /// Fails if a loaded proposal was dropped or replaced since it was loaded.
    pub(crate) fn check_held(&self, proposals: &Proposals) -> Result<(), ToolError> {
        proposals.refresh()?;
        let held = &proposals.held.lock().by_path;
        let is_other = |one: &&Proposal| held.get(&one.path) != Some(*one);
        let others: Vec<_> =
            self.paths().filter(is_other).map(|one| quote::path(&one.path)).collect();
        if others.is_empty() {
            return Ok(());
        }
        Err(ToolError::failed(format!(
            "stale: no longer proposed as it was decided on, so nothing is applied: {}",
            others.join(", ")
        ))
        .hint("look at what is proposed now with `windlass proposals list`, and apply that"))
    }

    /// Returns the proposals that will be applied.
    pub fn paths(&self) -> impl Iterator<Item = &Proposal> {
        self.proposals.iter().map(|(proposal, ..)| proposal)
    }

    /// Returns the steps, in an order in which they can be performed.
    pub fn steps(&self, files: &dyn Files) -> Vec<CommitStep<'_>> {
        let is_removal =
            |one: &&(Proposal, InspectedPath, Option<Vec<u8>>)| one.0.then == FileState::Absent;
        let removals = self.proposals.iter().rev().filter(is_removal);
        let others = self.proposals.iter().filter(|one| !is_removal(one));
        removals
            .chain(others)
            .filter(|(proposal, now, _)| !now.state.is_like(&proposal.then))
            .filter_map(|(proposal, now, content)| {
                let path = recorded_path(files, &proposal.path);
                let content = content.as_deref().map(ContentSource::Bytes);
                state::step_to(path, now.present(), &proposal.then, content)
            })
            .collect()
    }
}

/// Returns whether the path already has the proposed state, or a directory where one is proposed: another program made it, or the
/// process was stopped after it applied the proposal.
fn is_made(proposal: &Proposal, now: &FileState) -> bool {
    let is_directory = |state: &FileState| matches!(state, FileState::Directory { .. });
    now.is_like(&proposal.then) || is_directory(now) && is_directory(&proposal.then)
}

/// Adds the proposed new directories above the chosen paths.
fn with_parents(held: &BTreeMap<PathBuf, Proposal>, mut chosen: Vec<PathBuf>) -> Vec<PathBuf> {
    let is_made = |path: &Path| {
        held.get(path).is_some_and(|one| matches!(one.then, FileState::Directory { .. }))
    };
    let parents: Vec<PathBuf> = chosen
        .iter()
        .flat_map(|path| path.ancestors().skip(1))
        .filter(|above| is_made(above))
        .map(Path::to_owned)
        .collect();
    chosen.extend(parents);
    chosen.sort();
    chosen.dedup();
    chosen
}
