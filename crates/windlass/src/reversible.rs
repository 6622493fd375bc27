//! Taking back, proposing, and coming back to a snapshot: what people and programs do beside a model's calls.
//!
//! Each of these is a call of the one engine, on behalf of a person ([`Engine::act_for_person`](windlass_core::Engine::act_for_person)): it is
//! told to those who listen, is on the record, and can be undone.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::{
    ApprovalId, Book as _, CallId, CallResult, CommitState, Handle, History, Host, Journal,
    MemoryHistory, PLANTED_REMOVAL, Proposal, Proposals, Query, Record, RecordKind, Recovered,
    Recovery, Session, SessionId, Shelf, Snapshot, ToolError, TurnId, UndoPlan, finish_removal,
    recover,
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
    /// The last change of the workspace that is not undone. Undos do not count; [`Undo::Call`] takes one back. A change without a
    /// history (a build directory, a job) is no step: the last change with a history is undone, and what stays is named.
    Last,
    /// The changes of one call, without those of calls that it made.
    Call(CallId),
    /// The changes of one turn.
    Turn(TurnId),
    /// All changes of one session, without those of sessions below it.
    Session(SessionId),
}

impl Undo {
    fn input(&self) -> Value {
        match self {
            Self::Last => json!({}),
            Self::Call(call) => json!({"call": call}),
            Self::Turn(turn) => json!({"turn": turn}),
            Self::Session(session) => json!({"session": session}),
        }
    }
}

/// The history and the shelves that taking back needs.
pub(crate) struct Reversible {
    host: Arc<dyn Host>,
    pub(crate) history: Arc<dyn History>,
    /// The same history, if it lasts.
    pub(crate) lasting: Option<Arc<UndoHistory>>,
    shelf: Option<Arc<dyn Shelf>>,
    snapshots: Option<Arc<dyn Shelf>>,
    pub(crate) recovered: Vec<String>,
}

impl std::fmt::Debug for Reversible {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reversible").field("recovered", &self.recovered).finish_non_exhaustive()
    }
}

impl Reversible {
    /// Opens the history and puts right what was left half-done.
    pub(crate) fn open(
        host: Arc<dyn Host>,
        state: Option<&Path>,
        settings: HistorySettings,
    ) -> Result<Self, Error> {
        let Some(state) = state else {
            return Ok(Self {
                host,
                history: Arc::new(MemoryHistory::default()),
                lasting: None,
                shelf: None,
                snapshots: None,
                recovered: Vec::new(),
            });
        };
        let history = Arc::new(UndoHistory::open_with(state, settings)?);
        let recovered = put_right(&*host, state, &history)?;
        Ok(Self {
            host,
            history: history.clone(),
            lasting: Some(history),
            shelf: Some(Arc::new(ProposalShelf::in_state(state))),
            snapshots: Some(Arc::new(ProposalShelf::for_snapshots(state))),
            recovered,
        })
    }

    /// Puts what was put right on the journal.
    pub(crate) fn record(&self, journal: &dyn Journal) {
        for text in &self.recovered {
            let body = serde_json::to_string(&Recovery::new(text)).unwrap_or_default();
            // It is taken at once. A journal that cannot be written tells so with the first call.
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

/// Puts right what programs that were killed left half-done, in whichever workspace that was.
fn put_right(host: &dyn Host, state: &Path, history: &UndoHistory) -> Result<Vec<String>, Error> {
    let unfinished = match history.unfinished() {
        Ok(unfinished) => unfinished,
        // What is damaged is set aside and told; it must not keep everybody from working.
        Err(error) => return Ok(vec![error.to_string()]),
    };
    let mut told = Vec::new();
    let mut taken_back = HashSet::new();
    for unfinished in unfinished {
        let origin = &unfinished.origin;
        let Ok(mut files) = LocalFiles::open(&origin.workspace) else {
            // It may be on a disk that is not there now; whoever finds it again puts it right.
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
        told.push(format!("{} ({}) was cut off: {outcome}", origin.call, origin.tool));
        if matches!(outcome, Recovered::RolledBack { .. }) {
            taken_back.insert(origin.call.clone());
        }
        match outcome {
            // Also where somebody else changed a file meanwhile: that file is theirs, and there is nothing left to undo.
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
        told.extend(processes.recover_stages(&state_of, &close));
    }
    Ok(told)
}

/// # Undo, proposals and snapshots
impl Windlass {
    /// Takes back changes, in the name of this session. It can be undone itself. [`Undo`] has an example.
    pub async fn undo(&self, session: &Arc<Session>, what: Undo) -> CallResult {
        self.undo_with(session, &what, what.input()).await
    }

    /// Tells what an undo would do, without doing it.
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

    async fn undo_with(&self, session: &Arc<Session>, what: &Undo, input: Value) -> CallResult {
        let session = self.reaching_changes(session, what);
        self.engine().act_for_person(&session, Handle::Static(UNDO_ANY), input).await
    }

    /// A session whose changes are held until they are applied. Needs [`Builder::state`](crate::Builder::state). The
    /// [guide](crate#undo-and-proposals) has an example.
    pub fn proposing(&self, session: Session) -> Result<Arc<Session>, Error> {
        let proposals = self.proposals(session.id())?;
        Ok(Arc::new(session.with_proposals(proposals)))
    }

    /// The proposals of a session.
    pub fn proposals(&self, session: &SessionId) -> Result<Arc<Proposals>, Error> {
        let shelf = self.shelf()?;
        Ok(Arc::new(Proposals::open(shelf, session.clone())?))
    }

    /// The sessions that have proposals.
    pub fn proposing_sessions(&self) -> Result<Vec<SessionId>, Error> {
        Ok(self.shelf()?.sessions()?)
    }

    /// Makes what was proposed, that of these paths or all, in the name of this session: all of it or nothing.
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

    /// The session, with the `/tmp` that the changes were made in.
    fn reaching_changes(&self, session: &Arc<Session>, what: &Undo) -> Arc<Session> {
        let query = match what {
            Undo::Last => Query::LastOfWorkspace(self.reversible.host.files().workspace().into()),
            Undo::Call(call) => Query::Call(call.clone()),
            Undo::Turn(turn) => Query::Turn(turn.clone()),
            Undo::Session(session) => Query::Session(session.clone()),
        };
        // If there is nothing to undo, the undo itself says why.
        match UndoPlan::tmp_session(&*self.reversible.history, &query) {
            Ok(Some(other)) => Arc::new(session.reaching_tmp_of(other)),
            Ok(None) | Err(_) => session.clone(),
        }
    }

    /// Keeps what is at these paths, and below them, to come back to it. Needs [`Builder::state`](crate::Builder::state).
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
        let snapshot = Snapshot::take(self.reversible.host.files(), &*shelf, paths)?;
        // Contents stay for as long as a list names them.
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

    /// Makes everything that a snapshot is about what it was, in the name of this session. It can be undone.
    pub async fn restore(
        &self,
        session: &Arc<Session>,
        snapshot: &Snapshot,
    ) -> Result<CallResult, Error> {
        let tool = Restore::new(snapshot.clone(), self.snapshot_shelf()?);
        Ok(self.engine().act_for_person(session, tool, json!({})).await)
    }

    /// Lets go of what a snapshot kept.
    pub fn forget_snapshot(&self, snapshot: &Snapshot) -> Result<(), Error> {
        Ok(self.snapshot_shelf()?.save(&snapshot_id(snapshot), &[])?)
    }

    /// The history, if it lasts.
    pub fn lasting_history(&self) -> Option<&Arc<UndoHistory>> {
        self.reversible.lasting.as_ref()
    }

    fn shelf(&self) -> Result<Arc<dyn Shelf>, Error> {
        self.reversible.shelf.clone().ok_or(Error::NoState("proposals"))
    }

    fn snapshot_shelf(&self) -> Result<Arc<dyn Shelf>, Error> {
        self.reversible.snapshots.clone().ok_or(Error::NoState("snapshots"))
    }
}

/// Two snapshots of the same state are one.
fn snapshot_id(snapshot: &Snapshot) -> SessionId {
    let text = serde_json::to_vec(snapshot).unwrap_or_default();
    SessionId::new(windlass_core::ContentHash::of(&text).to_string())
}
