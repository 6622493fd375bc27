//! Undo, proposals and snapshots, and the recovery at the start.
//!
//! Each operation is a call of the engine on behalf of a person ([`Engine::act_for_person`](windlass_core::Engine::act_for_person)), so it
//! is published as events, is in the journal, and can be undone.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::{
    ApprovalId, CallId, CallResult, CheckpointQuery, CommitState, History, Host, InquiryBook as _,
    Journal, MemoryHistory, PLANTED_REMOVAL, Proposal, ProposalStore, Proposals, Record,
    RecordKind, Recovered, Recovery, Session, SessionId, Snapshot, ToolError, ToolHandle, TurnId,
    UndoPlan, finish_removal, recover,
};
use windlass_host::LocalFiles;
use windlass_store::{ApprovalFile, HistorySettings, ProposalShelf, UndoHistory};
use windlass_tools::{Apply, Restore, UNDO_ANY};

use crate::{Error, Windlass};

/// The changes that an undo takes back.
///
/// ```
/// use windlass::{Mode, ToolCall, Undo, Windlass};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// let windlass = Windlass::builder(folder.path()).mode(Mode::Auto).build()?;
/// let session = windlass.new_session();
/// let write = ToolCall::new("write", serde_json::json!({"path": "a.txt", "content": "a\n"}));
/// windlass.call(&session, write).await;
/// let undone = windlass.undo(&session, Undo::Last).await;
/// assert_eq!(undone.output.metadata["paths"], serde_json::json!(["a.txt"]));
/// assert!(!folder.path().join("a.txt").exists());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undo {
    /// The last change of the workspace that is not undone. Undos do not count; [`Undo::Call`] undoes one. Changes without a history (a
    /// build directory, a job) are skipped: the last change with a history is undone, and the result names the skipped ones.
    Last,
    /// The changes of one call, without those of calls that it made.
    Call(CallId),
    /// The changes of one turn.
    Turn(TurnId),
    /// All changes of one session, without those of sessions below it.
    Session(SessionId),
}

impl Undo {
    /// Returns the arguments for the undo tool.
    fn input(&self) -> Value {
        match self {
            Self::Last => json!({}),
            Self::Call(call) => json!({"call": call}),
            Self::Turn(turn) => json!({"turn": turn}),
            Self::Session(session) => json!({"session": session}),
        }
    }
}

/// The stores that undo, proposals and snapshots need.
pub(crate) struct UndoStores {
    host: Arc<dyn Host>,
    pub(crate) history: Arc<dyn History>,
    /// The same history, if it is kept in a state directory.
    pub(crate) on_disk: Option<Arc<UndoHistory>>,
    /// Store of proposals.
    proposal_shelf: Option<Arc<dyn ProposalStore>>,
    /// Store of snapshots.
    snapshot_shelf: Option<Arc<dyn ProposalStore>>,
    /// One line for each recovery that was made at the start.
    pub(crate) recovered: Vec<String>,
}

impl std::fmt::Debug for UndoStores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UndoStores").field("recovered", &self.recovered).finish_non_exhaustive()
    }
}

impl UndoStores {
    /// Opens the stores and recovers unfinished changes. Without a state directory, the history is in memory and there are no shelves.
    pub(crate) fn open(
        host: Arc<dyn Host>,
        state: Option<&Path>,
        settings: HistorySettings,
    ) -> Result<Self, Error> {
        let Some(state) = state else {
            return Ok(Self {
                host,
                history: Arc::new(MemoryHistory::default()),
                on_disk: None,
                proposal_shelf: None,
                snapshot_shelf: None,
                recovered: Vec::new(),
            });
        };
        let history = Arc::new(UndoHistory::open_with(state, settings)?);
        let recovered = recover_unfinished(&*host, state, &history)?;
        Ok(Self {
            host,
            history: history.clone(),
            on_disk: Some(history),
            proposal_shelf: Some(Arc::new(ProposalShelf::in_state(state))),
            snapshot_shelf: Some(Arc::new(ProposalShelf::for_snapshots(state))),
            recovered,
        })
    }

    /// Writes the recoveries to the journal.
    pub(crate) fn record(&self, journal: &dyn Journal) {
        for text in &self.recovered {
            let body = serde_json::to_string(&Recovery::new(text)).unwrap_or_default();
            // The record is queued at once. If the journal cannot be written, the first call reports it.
            drop(journal.append(Record {
                at: self.host.clock().now(),
                session: SessionId::new(""),
                turn: TurnId::new(""),
                call: CallId::new(""),
                tool: String::new(),
                kind: RecordKind::Recovered,
                body,
            }));
        }
    }
}

/// Finishes or takes back changes that killed processes left unfinished, in all workspaces. Returns a line for each.
fn recover_unfinished(
    host: &dyn Host,
    state: &Path,
    history: &UndoHistory,
) -> Result<Vec<String>, Error> {
    let unfinished = match history.unfinished() {
        Ok(unfinished) => unfinished,
        // A damaged history is set aside and reported; it must not prevent a start.
        Err(error) => return Ok(vec![error.to_string()]),
    };
    let mut lines = Vec::new();
    let mut taken_back = HashSet::new();
    for unfinished in unfinished {
        let origin = &unfinished.origin;
        let Ok(mut files) = LocalFiles::open(&origin.workspace) else {
            // The workspace may be on a disk that is not mounted now; a later start recovers it.
            continue;
        };
        if host.session_files(&origin.session).is_some() {
            files = files.with_session_tmp(state, &origin.session);
        }
        let content = |hash: &_| unfinished.content(hash).map_err(ToolError::from);
        let outcome = match origin.tool.as_str() {
            PLANTED_REMOVAL => finish_removal(&files, &unfinished.changes),
            _ => recover(&files, &unfinished.changes, &content),
        };
        lines.push(format!("{} ({}) was cut off: {outcome}", origin.call, origin.tool));
        if matches!(outcome, Recovered::RolledBack { .. }) {
            taken_back.insert(origin.call.clone());
        }
        match outcome {
            // Also if another process changed a file meanwhile: that file stays, and there is nothing left to undo.
            Recovered::RolledBack { .. } => unfinished.abandon()?,
            Recovered::Finished => unfinished.finish()?,
            // Left as it is for the next start.
            Recovered::Postponed { .. } => drop(unfinished),
        }
    }
    let state_of = |call: &CallId| {
        if taken_back.contains(call) {
            return CommitState::NotMade;
        }
        history.state_of(call).unwrap_or(CommitState::Unknown)
    };
    if let Some(processes) = host.processes() {
        let book = ApprovalFile::in_state(state);
        let close = |id: &ApprovalId| book.use_up(id.as_str()).is_ok();
        lines.extend(processes.recover_stages(&state_of, &close));
    }
    Ok(lines)
}

/// # Undo, proposals and snapshots
impl Windlass {
    /// Undoes changes, as a call of this session. The undo can be undone itself. [`Undo`] has an example.
    pub async fn undo(&self, session: &Arc<Session>, what: Undo) -> CallResult {
        self.undo_with(session, &what, what.input()).await
    }

    /// Reports the changes that an undo would make, without making them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass::Error> {
    /// use windlass::{Mode, ToolCall, Undo, Windlass};
    /// # let folder = tempfile::tempdir().unwrap();
    /// let windlass = Windlass::builder(folder.path()).mode(Mode::Auto).build()?;
    /// let session = windlass.new_session();
    /// let write = ToolCall::new("write", serde_json::json!({"path": "a.txt", "content": "a\n"}));
    /// windlass.call(&session, write).await;
    /// let preview = windlass.undo_preview(&session, Undo::Last).await;
    /// assert!(preview.output.to_text().contains("a.txt"));
    /// assert!(folder.path().join("a.txt").exists(), "nothing was done");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn undo_preview(&self, session: &Arc<Session>, what: Undo) -> CallResult {
        let mut input = what.input();
        input["dry_run"] = true.into();
        self.undo_with(session, &what, input).await
    }

    /// Calls the undo tool on behalf of a person.
    async fn undo_with(&self, session: &Arc<Session>, what: &Undo, input: Value) -> CallResult {
        let session = self.reaching_changes(session, what);
        self.engine().act_for_person(&session, ToolHandle::Static(UNDO_ANY), input).await
    }

    /// Turns a session into one whose changes become proposals instead of changing files. Needs [`Builder::state`](crate::Builder::state).
    /// The [guide](crate#undo-and-proposals) has an example.
    pub fn proposing(&self, session: Session) -> Result<Arc<Session>, Error> {
        let proposals = self.proposals(session.id())?;
        Ok(Arc::new(session.with_proposals(proposals)))
    }

    /// Opens the proposals of a session.
    pub fn proposals(&self, session: &SessionId) -> Result<Arc<Proposals>, Error> {
        let shelf = self.proposal_shelf()?;
        Ok(Arc::new(Proposals::open(shelf, session.clone())?))
    }

    /// Lists the sessions that have proposals.
    pub fn proposing_sessions(&self) -> Result<Vec<SessionId>, Error> {
        Ok(self.proposal_shelf()?.sessions()?)
    }

    /// Applies proposals to the workspace, those of these paths or all, as a call of this session: all of them or none.
    pub async fn apply(
        &self,
        session: &Arc<Session>,
        proposals: &Arc<Proposals>,
        paths: Option<&[PathBuf]>,
    ) -> CallResult {
        let tool = Apply::new(proposals.clone());
        let session = Arc::new(session.reaching_tmp_of(proposals.session().clone()));
        self.engine().act_for_person(&session, tool, json!({"paths": paths})).await
    }

    /// Returns the session with access to the `/tmp` of the session that made the changes.
    fn reaching_changes(&self, session: &Arc<Session>, what: &Undo) -> Arc<Session> {
        let query = match what {
            Undo::Last => {
                CheckpointQuery::LastOfWorkspace(self.undo_stores.host.files().workspace().into())
            }
            Undo::Call(call) => CheckpointQuery::Call(call.clone()),
            Undo::Turn(turn) => CheckpointQuery::Turn(turn.clone()),
            Undo::Session(session) => CheckpointQuery::Session(session.clone()),
        };
        // If there is nothing to undo, the undo itself says why.
        match UndoPlan::tmp_session(&*self.undo_stores.history, &query) {
            Ok(Some(other)) => Arc::new(session.reaching_tmp_of(other)),
            Ok(None) | Err(_) => session.clone(),
        }
    }

    /// Takes a snapshot of these paths and the files below them, for [`restore`](Self::restore). Needs
    /// [`Builder::state`](crate::Builder::state).
    ///
    /// ```
    /// # use windlass::Windlass;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (folder, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// # std::fs::write(folder.path().join("a.txt"), "one")?;
    /// let windlass = Windlass::builder(folder.path()).state(state.path()).build()?;
    /// let snapshot = windlass.snapshot(&[".".into()])?;
    /// std::fs::write(folder.path().join("a.txt"), "two")?;
    /// let restored = windlass.restore(&windlass.new_session(), &snapshot).await?;
    /// assert_eq!(restored.output.to_text(), "restored 1 path\na.txt");
    /// assert_eq!(std::fs::read_to_string(folder.path().join("a.txt"))?, "one");
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot(&self, paths: &[PathBuf]) -> Result<Snapshot, Error> {
        let shelf = self.snapshot_shelf()?;
        let snapshot = Snapshot::take(self.undo_stores.host.files(), &*shelf, paths)?;
        // The shelf keeps contents as long as a saved list names them.
        let list: Vec<Proposal> = snapshot
            .states
            .iter()
            .map(|(path, state)| Proposal {
                path: path.clone(),
                base: state.clone(),
                then: state.clone(),
                by: Vec::new(),
            })
            .collect();
        shelf.save(&snapshot_id(&snapshot), &list)?;
        Ok(snapshot)
    }

    /// Restores the paths of a snapshot, as a call of this session. It can be undone.
    pub async fn restore(
        &self,
        session: &Arc<Session>,
        snapshot: &Snapshot,
    ) -> Result<CallResult, Error> {
        let tool = Restore::new(snapshot.clone(), self.snapshot_shelf()?);
        Ok(self.engine().act_for_person(session, tool, json!({})).await)
    }

    /// Frees the contents that a snapshot kept.
    pub fn forget_snapshot(&self, snapshot: &Snapshot) -> Result<(), Error> {
        Ok(self.snapshot_shelf()?.save(&snapshot_id(snapshot), &[])?)
    }

    /// Returns the undo history if it is kept in a state directory.
    pub fn lasting_history(&self) -> Option<&Arc<UndoHistory>> {
        self.undo_stores.on_disk.as_ref()
    }

    /// Returns the store of proposals; an error without a state directory.
    fn proposal_shelf(&self) -> Result<Arc<dyn ProposalStore>, Error> {
        self.undo_stores.proposal_shelf.clone().ok_or(Error::NoState("proposals"))
    }

    /// Returns the store of snapshots; an error without a state directory.
    fn snapshot_shelf(&self) -> Result<Arc<dyn ProposalStore>, Error> {
        self.undo_stores.snapshot_shelf.clone().ok_or(Error::NoState("snapshots"))
    }
}

/// Returns an id for the list of a snapshot's contents: the hash of the snapshot, so that equal snapshots share one list.
fn snapshot_id(snapshot: &Snapshot) -> SessionId {
    let text = serde_json::to_vec(snapshot).unwrap_or_default();
    SessionId::new(windlass_core::ContentHash::of(&text).to_string())
}
