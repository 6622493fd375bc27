//! Changes to record, and a history to record them in.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use windlass_core::{
    Attributes, CallId, Checkpoint, CheckpointQuery, ContentHash, ContentSource, FileState,
    History as _, HistoryError, NewCheckpoint, NewContent, Origin, PendingCheckpoint,
    RecordedChange, SessionId, TurnId,
};
use windlass_store::{HistorySettings, UndoHistory};

use crate::common::{TestState, test_time};

pub(crate) fn settings() -> HistorySettings {
    HistorySettings { sync: false, clock: test_time, ..HistorySettings::default() }
}

pub(crate) fn open(state: &TestState) -> UndoHistory {
    UndoHistory::open_with(state.dir(), settings()).unwrap()
}

pub(crate) fn slot(state: &TestState, number: u32) -> PathBuf {
    state.file(&format!("undo/writers/{number}"))
}

/// A change of one file in a workspace.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) origin: Origin,
    pub(crate) before: Option<Vec<u8>>,
    pub(crate) after: Option<Vec<u8>>,
}

pub(crate) fn change(number: u64, before: &[u8], after: &[u8]) -> Change {
    Change { origin: origin(number), before: Some(before.to_vec()), after: Some(after.to_vec()) }
}

/// The calls of one session, a second apart.
pub(crate) fn origin(number: u64) -> Origin {
    Origin {
        call: CallId::new(format!("c{number}")),
        session: SessionId::new("s"),
        turn: TurnId::new(format!("t{}", number / 3)),
        tool: "edit".into(),
        workspace: "/w".into(),
        at: test_time() + Duration::from_secs(number),
        undoes: Vec::new(),
    }
}

pub(crate) fn undo(number: u64, undoes: &[u64]) -> Change {
    let undoes = undoes.iter().map(|call| CallId::new(format!("c{call}"))).collect();
    Change { origin: Origin { undoes, ..origin(number) }, before: None, after: None }
}

impl Change {
    pub(crate) fn at(mut self, at: SystemTime) -> Self {
        self.origin.at = at;
        self
    }

    pub(crate) fn of(mut self, session: &str, workspace: &str) -> Self {
        self.origin.session = SessionId::new(session);
        self.origin.workspace = workspace.into();
        self
    }

    pub(crate) fn changes(&self) -> Vec<RecordedChange> {
        let state = |bytes: &Option<Vec<u8>>| match bytes {
            None => FileState::Absent,
            Some(bytes) => FileState::File {
                hash: ContentHash::of(bytes),
                len: bytes.len() as u64,
                attributes: Attributes { mode: Some(0o640), ..Attributes::default() },
                object: None,
            },
        };
        vec![RecordedChange::new("/w/file", state(&self.before), state(&self.after))]
    }

    pub(crate) fn record<'h>(
        &self,
        history: &'h UndoHistory,
    ) -> Result<Box<dyn PendingCheckpoint + 'h>, HistoryError> {
        let before = self.before.as_deref().map(|bytes| content(bytes, None));
        let base = before.map(|before| before.hash);
        let after = self.after.as_deref().map(|bytes| content(bytes, base));
        let contents: Vec<NewContent<'_>> = before.into_iter().chain(after).collect();
        let changes = self.changes();
        let new = NewCheckpoint {
            origin: &self.origin,
            changes: &changes,
            contents: &contents,
            without_history: &[],
        };
        history.record(&new)
    }

    pub(crate) fn make(&self, history: &UndoHistory) {
        self.record(history).unwrap().finish().unwrap();
    }
}

pub(crate) fn content(bytes: &[u8], base: Option<ContentHash>) -> NewContent<'_> {
    NewContent { hash: ContentHash::of(bytes), source: ContentSource::Bytes(bytes), base }
}

pub(crate) fn workspace(path: &str) -> CheckpointQuery {
    CheckpointQuery::Workspace(Path::new(path).to_owned())
}

/// The calls of all checkpoints of the workspace, the newest first.
pub(crate) fn calls(history: &UndoHistory) -> Vec<String> {
    names(&history.checkpoints(&workspace("/w")).unwrap())
}

pub(crate) fn names(checkpoints: &[Checkpoint]) -> Vec<String> {
    checkpoints.iter().map(|checkpoint| checkpoint.origin.call.to_string()).collect()
}

pub(crate) fn content_of(history: &UndoHistory, bytes: &[u8]) -> Result<Vec<u8>, HistoryError> {
    history.content(&ContentHash::of(bytes))
}

/// Bytes that nothing makes small, another for each seed.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[4]
    };
    (0..length).map(next).collect()
}
