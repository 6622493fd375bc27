//! Reads the calls of a recorded session from the journal, for `windlass replay` and `windlass policy replay`.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use windlass::journal::{CallFinished, CallStarted, JournalRow, Store, StoredKind};
use windlass::policy::{DecidedBy, Decision, ExplainedDecision};
use windlass::session::{CallId, SessionId};
use windlass::tool::Metadata;
use windlass::{Outcome, Output};

use crate::options::Global;
use crate::{setup, terminal};

/// The number of records that are read at a time.
const PAGE_SIZE: usize = 1_000;

/// A recorded call. Its texts are those of the journal, with secrets redacted.
#[derive(Debug, Clone)]
pub(super) struct RecordedCall {
    pub(super) id: CallId,
    pub(super) tool: String,
    pub(super) input: Value,
    pub(super) metadata: Metadata,
    /// The text of the result.
    pub(super) text: String,
    /// The shell of the command, if the call began and the shell is not bash.
    pub(super) shell: Option<String>,
    /// The outcome; `None` if the call never ended.
    pub(super) outcome: Option<Outcome>,
    /// The decision about the call, if one is on record.
    decided: Option<ExplainedDecision>,
    /// Set if the record of the call's start was found.
    pub(super) began: bool,
}

/// The recorded decision about a call, in short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordedDecision {
    Allowed,
    /// Asked, whatever the answer was.
    Asked,
    Denied,
    /// The call ended before a decision, for example because its arguments were wrong.
    Undecided,
}

impl RecordedDecision {
    /// Returns the decision as a word for people.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Asked => "asked",
            Self::Denied => "denied",
            Self::Undecided => "not decided",
        }
    }
}

impl RecordedCall {
    /// Returns the decision, derived from the outcome if none is on record.
    pub(super) fn recorded_decision(&self) -> RecordedDecision {
        match (&self.decided, self.outcome) {
            (Some(ExplainedDecision { by: DecidedBy::Budget, .. }), _) => {
                RecordedDecision::Undecided
            }
            (Some(decided), _) => match decided.decision {
                Decision::Allow => RecordedDecision::Allowed,
                Decision::Ask => RecordedDecision::Asked,
                Decision::Deny => RecordedDecision::Denied,
            },
            (None, Some(Outcome::Denied)) => RecordedDecision::Denied,
            // A result without a start on record was served from the cache.
            (None, Some(Outcome::Ok)) => RecordedDecision::Allowed,
            (None, _) if self.began => RecordedDecision::Allowed,
            (None, _) => RecordedDecision::Undecided,
        }
    }

    /// Returns whether the arguments are on record unchanged, without a redacted secret.
    pub(super) fn is_whole(&self) -> bool {
        !self.input.to_string().contains("[secret ")
    }

    /// Returns the source of untrusted content, if the call brought in some.
    pub(super) fn untrusted(&self) -> Option<&str> {
        self.metadata.get("untrusted")?.as_str()
    }

    /// Returns the rule, mode or approval that decided, if it is on record.
    pub(super) fn decided_by(&self) -> Option<String> {
        self.decided.as_ref().map(|decided| decided.cause().to_string())
    }
}

/// Reads the calls of a session, in the order in which they began; fails if the session's records were deleted.
pub(super) fn read_calls(store: &Store, session: &SessionId) -> Result<Vec<RecordedCall>> {
    let mut calls: Vec<RecordedCall> = Vec::new();
    let mut positions: HashMap<CallId, usize> = HashMap::new();
    let mut after = 0;
    loop {
        let rows = store.records(Some(session), after, PAGE_SIZE)?;
        let Some(last) = rows.last() else { return Ok(calls) };
        after = last.seq;
        for row in rows {
            let (Some(id), Some(tool)) = (row.call.clone(), row.tool.clone()) else { continue };
            if row.body.is_none() {
                bail!("session {session} was deleted: what its calls said is gone")
            }
            let at = *positions.entry(id.clone()).or_insert_with(|| {
                calls.push(RecordedCall::new(id, tool));
                calls.len() - 1
            });
            if let Some(call) = calls.get_mut(at) {
                call.add_record(&row);
            }
        }
    }
}

impl RecordedCall {
    /// Makes a call of which only id and tool are known.
    fn new(id: CallId, tool: String) -> Self {
        Self {
            id,
            tool,
            input: Value::Null,
            metadata: Metadata::new(),
            text: String::new(),
            shell: None,
            outcome: None,
            decided: None,
            began: false,
        }
    }

    /// Adds the facts of a start or end record.
    fn add_record(&mut self, row: &JournalRow) {
        match row.kind {
            StoredKind::Started => {
                self.began = true;
                if let Some(body) = row.body_as::<CallStarted<'_>>() {
                    self.shell = body.effects.shell().map(str::to_owned);
                    self.input = body.input.into_owned();
                    self.decided = Some(body.decided);
                }
            }
            StoredKind::Finished => {
                self.outcome = row.outcome;
                if let Some(body) = row.body_as::<CallFinished<'_>>() {
                    self.add_end(body);
                }
            }
            _ => {}
        }
    }

    /// Adds the facts of an end record.
    fn add_end(&mut self, body: CallFinished<'_>) {
        if let Some(input) = body.input {
            self.input = input.into_owned();
        }
        self.decided = body.decided.or(self.decided.take());
        self.metadata = body.metadata.into_owned();
        let content = body.content.into_owned();
        self.text = Output { content, ..Output::default() }.to_text();
    }
}

/// Returns the workspace of a session; if that directory is gone, the workspace of `--workspace` with a note.
pub(super) fn workspace_of(global: &Global, store: &Store, session: &SessionId) -> Result<PathBuf> {
    let recorded = store.session(session)?.workspace;
    match recorded {
        Some(path) if path.is_dir() => Ok(path),
        gone => {
            let here =
                setup::workspace_path(global).context("and the session's own is not known")?;
            if let Some(gone) = gone {
                let (gone, here) = (gone.display(), here.display());
                terminal::note(
                    global,
                    &format!("{gone} is not there any more: {here} stands for it"),
                );
            }
            Ok(here)
        }
    }
}
