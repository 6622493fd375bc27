//! Changes that are held instead of made, until a person or a program applies or drops them.
//!
//! A session with proposals works on files as all others do: what it reads, searches and changes is the machine as it would be with
//! its proposals applied ([`Overlay`]). Nothing on the machine changes. Sessions below it share its proposals.

mod overlay;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

pub(crate) use self::overlay::Overlay;
use crate::changes::commit::beside;
use crate::changes::state::{self, Seen};
use crate::sync::Lock;
use crate::{
    CallId, ContentHash, Exclusive, FileState, Files, HistoryError, SessionId, Source, Step,
    ToolError, quote,
};

/// Where the bytes of proposals and snapshots are kept, and the lists of proposals.
///
/// The store has one that lasts.
///
/// ```
/// use windlass_core::Shelf;
/// # use std::{collections::HashMap, fs::File, sync::{Arc, Mutex}};
/// # use windlass_core::{ContentHash, Exclusive, HistoryError, Proposal, SessionId};
/// # #[derive(Default)]
/// # struct Nothing;
/// # impl Shelf for Nothing {
/// #     fn keep(&self, _: &ContentHash, _: &[u8]) -> Result<(), HistoryError> { Ok(()) }
/// #     fn open(&self, hash: &ContentHash) -> Result<File, HistoryError> { Err(HistoryError::Dropped(*hash)) }
/// #     fn load(&self, _: &SessionId) -> Result<Vec<Proposal>, HistoryError> { Ok(Vec::new()) }
/// #     fn save(&self, _: &SessionId, _: &[Proposal]) -> Result<(), HistoryError> { Ok(()) }
/// #     fn exclusive(&self) -> Result<Exclusive<'_>, HistoryError> { Ok(Exclusive::unshared()) }
/// #     fn stamp(&self, _: &SessionId) -> u64 { 0 }
/// #     fn sessions(&self) -> Result<Vec<SessionId>, HistoryError> { Ok(Vec::new()) }
/// # }
///
/// /// How many paths would change.
/// fn proposed(shelf: &dyn Shelf) -> Result<usize, HistoryError> {
///     shelf.sessions()?.iter().map(|session| Ok(shelf.load(session)?.len())).sum()
/// }
/// assert_eq!(proposed(&Nothing)?, 0);
/// # Ok::<(), HistoryError>(())
/// ```
pub trait Shelf: Send + Sync {
    /// Keeps these bytes.
    fn keep(&self, hash: &ContentHash, bytes: &[u8]) -> Result<(), HistoryError>;

    /// Opens bytes that were kept, for reading.
    fn open(&self, hash: &ContentHash) -> Result<File, HistoryError>;

    /// The proposals of a session.
    fn load(&self, session: &SessionId) -> Result<Vec<Proposal>, HistoryError>;

    /// Replaces the proposals of a session; none removes the list.
    fn save(&self, session: &SessionId, proposals: &[Proposal]) -> Result<(), HistoryError>;

    /// Keeps others from changing lists until the lock is dropped. Waits for the one that holds it.
    fn exclusive(&self) -> Result<Exclusive<'_>, HistoryError>;

    /// Changes whenever the list of a session does, whoever changes it.
    fn stamp(&self, session: &SessionId) -> u64;

    /// The sessions that have proposals.
    fn sessions(&self) -> Result<Vec<SessionId>, HistoryError>;
}

/// One path that would change.
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
    /// The place: absolute and real.
    #[serde(with = "crate::quote::serde_path")]
    pub path: PathBuf,
    /// What was there when the path was first proposed to change.
    pub base: FileState,
    /// What would be there.
    pub then: FileState,
    /// The calls that made it so, in their order.
    pub by: Vec<ProposedBy>,
}

impl Proposal {
    /// What would happen, in a word.
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

/// Who made a proposal.
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
    /// The call.
    pub call: CallId,
    /// Its session: perhaps one below the session that holds the proposal.
    pub session: SessionId,
    /// The tool.
    pub tool: String,
    /// When.
    pub at: SystemTime,
}

/// What a session proposes.
///
/// ```
/// use windlass_core::{Proposals, Shelf};
/// # use std::{collections::HashMap, fs::File, sync::{Arc, Mutex}};
/// # use windlass_core::{ContentHash, Exclusive, HistoryError, Proposal, SessionId};
/// # #[derive(Default)]
/// # struct Nothing;
/// # impl Shelf for Nothing {
/// #     fn keep(&self, _: &ContentHash, _: &[u8]) -> Result<(), HistoryError> { Ok(()) }
/// #     fn open(&self, hash: &ContentHash) -> Result<File, HistoryError> { Err(HistoryError::Dropped(*hash)) }
/// #     fn load(&self, _: &SessionId) -> Result<Vec<Proposal>, HistoryError> { Ok(Vec::new()) }
/// #     fn save(&self, _: &SessionId, _: &[Proposal]) -> Result<(), HistoryError> { Ok(()) }
/// #     fn exclusive(&self) -> Result<Exclusive<'_>, HistoryError> { Ok(Exclusive::unshared()) }
/// #     fn stamp(&self, _: &SessionId) -> u64 { 0 }
/// #     fn sessions(&self) -> Result<Vec<SessionId>, HistoryError> { Ok(Vec::new()) }
/// # }
/// let proposals = Proposals::open(Arc::new(Nothing), SessionId::new("s1"))?;
/// assert!(proposals.list().is_empty());
/// # Ok::<(), HistoryError>(())
/// ```
pub struct Proposals {
    session: SessionId,
    shelf: Arc<dyn Shelf>,
    held: Lock<Held>,
}

/// The list, as it was at the time of a stamp.
#[derive(Debug, Default)]
struct Held {
    stamp: Option<u64>,
    by_path: BTreeMap<PathBuf, Proposal>,
}

impl std::fmt::Debug for Proposals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proposals").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Proposals {
    /// Those of a session, as far as there are any.
    pub fn open(shelf: Arc<dyn Shelf>, session: SessionId) -> Result<Self, HistoryError> {
        let proposals = Self { session, shelf, held: Lock::default() };
        proposals.refresh()?;
        Ok(proposals)
    }

    /// Reads the list again if somebody else changed it: another process may have applied or dropped some.
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

    /// The session that holds them.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// All of them, by path.
    pub fn list(&self) -> Vec<Proposal> {
        self.held.lock().by_path.values().cloned().collect()
    }

    /// The bytes that would be in a file, or that were there.
    pub fn content(&self, hash: &ContentHash) -> Result<Vec<u8>, HistoryError> {
        let failed = |error: std::io::Error| HistoryError::Failed(error.to_string());
        let file = self.shelf.open(hash)?;
        Ok(Source::File(&file).read().map_err(failed)?.into_owned())
    }

    /// Drops what is proposed for these paths, or everything; the paths that were dropped.
    pub fn drop_paths(&self, paths: Option<&[PathBuf]>) -> Result<Vec<PathBuf>, HistoryError> {
        let _alone = self.exclusive()?;
        self.remove(paths)
    }

    /// Keeps others from changing the list until the lock is dropped. The list is what it is by then.
    pub(crate) fn exclusive(&self) -> Result<Exclusive<'_>, HistoryError> {
        let alone = self.shelf.exclusive()?;
        self.refresh()?;
        Ok(alone)
    }

    /// Drops proposals. The caller holds the lock.
    pub(crate) fn remove(&self, paths: Option<&[PathBuf]>) -> Result<Vec<PathBuf>, HistoryError> {
        let mut held = self.held.lock();
        let chosen = chosen(&held.by_path, paths);
        for path in &chosen {
            held.by_path.remove(path);
        }
        self.save(&mut held)?;
        Ok(chosen)
    }

    fn save(&self, held: &mut Held) -> Result<(), HistoryError> {
        let list: Vec<Proposal> = held.by_path.values().cloned().collect();
        self.shelf.save(&self.session, &list)?;
        held.stamp = Some(self.shelf.stamp(&self.session));
        Ok(())
    }
}

/// The paths that are meant, with the new directories that they need; all if none are named.
fn chosen(held: &BTreeMap<PathBuf, Proposal>, paths: Option<&[PathBuf]>) -> Vec<PathBuf> {
    let Some(paths) = paths else { return held.keys().cloned().collect() };
    let named = |path: &Path| paths.iter().any(|one| path.starts_with(one));
    held.keys().filter(|path| named(path)).cloned().collect()
}

/// What applying proposals takes: what is there now, and the bytes to put there.
///
/// ```
/// use windlass_core::{Application, Files, Proposals, ToolError};
///
/// /// What applying everything would touch.
/// fn touched(files: &dyn Files, proposals: &Proposals) -> Result<Vec<String>, ToolError> {
///     let application = Application::load(files, proposals, None)?;
///     Ok(application.steps(files).iter().map(|step| step.path.display().into_owned()).collect())
/// }
/// ```
pub struct Application {
    proposals: Vec<(Proposal, Seen, Option<Vec<u8>>)>,
}

impl std::fmt::Debug for Application {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Application").field("proposals", &self.proposals.len()).finish()
    }
}

impl Application {
    /// Loads what it takes to apply the proposals for these paths, or all of them. A file that is not as it was when the change to
    /// it was proposed is a refusal that names it.
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
            let now = state::see(files, &beside(files, &path), None)?;
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

    /// Checks that all of it is still proposed: a person may have dropped or replaced some since it was loaded.
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

    /// The paths that will change.
    pub fn paths(&self) -> impl Iterator<Item = &Proposal> {
        self.proposals.iter().map(|(proposal, ..)| proposal)
    }

    /// The changes, in an order in which they can be made.
    pub fn steps(&self, files: &dyn Files) -> Vec<Step<'_>> {
        let is_removal = |one: &&(Proposal, Seen, Option<Vec<u8>>)| one.0.then == FileState::Absent;
        let removals = self.proposals.iter().rev().filter(is_removal);
        let others = self.proposals.iter().filter(|one| !is_removal(one));
        removals
            .chain(others)
            .filter(|(proposal, now, _)| !now.state.is_like(&proposal.then))
            .filter_map(|(proposal, now, content)| {
                let path = beside(files, &proposal.path);
                let content = content.as_deref().map(Source::Bytes);
                state::step_to(path, now.present(), &proposal.then, content)
            })
            .collect()
    }
}

/// Whether there is nothing left to do: somebody made that directory, or we did all of it and were stopped before we could say so.
fn is_made(proposal: &Proposal, now: &FileState) -> bool {
    let is_directory = |state: &FileState| matches!(state, FileState::Directory { .. });
    now.is_like(&proposal.then) || is_directory(now) && is_directory(&proposal.then)
}

/// New directories above the chosen paths belong to them.
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
