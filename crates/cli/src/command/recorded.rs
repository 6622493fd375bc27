//! The calls of an earlier session as the journal has them.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use windlass::journal::{CallFinished, CallStarted, JournalRow, Kind, Store};
use windlass::policy::{Decided, DecidedBy, Decision};
use windlass::session::{CallId, SessionId};
use windlass::tool::Metadata;
use windlass::{Outcome, Output};

use crate::options::Global;
use crate::{setup, terminal};

/// How many records are fetched at a time.
const PORTION: usize = 1_000;

/// A call of an earlier session. Secrets are taken out of what it says.
#[derive(Debug, Clone)]
pub(super) struct Recorded {
    pub(super) id: CallId,
    pub(super) tool: String,
    pub(super) input: Value,
    pub(super) metadata: Metadata,
    /// What the model was told.
    pub(super) text: String,
    /// The shell of its command, if it began and that was another than bash.
    pub(super) shell: Option<String>,
    /// How it ended; `None` if it never did.
    pub(super) outcome: Option<Outcome>,
    /// The decision about it, if there was one and it is on record.
    decided: Option<Decided>,
    /// Set once its beginning was found on record.
    pub(super) began: bool,
}

/// What was decided about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Was {
    Allowed,
    /// And then a person said yes, or nobody did.
    Asked,
    Denied,
    /// It ended before: its arguments were wrong, say.
    Undecided,
}

impl Was {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Asked => "asked",
            Self::Denied => "denied",
            Self::Undecided => "not decided",
        }
    }
}

impl Recorded {
    pub(super) fn was(&self) -> Was {
        match (&self.decided, self.outcome) {
            (Some(Decided { by: DecidedBy::Budget, .. }), _) => Was::Undecided,
            (Some(decided), _) => match decided.decision {
                Decision::Allow => Was::Allowed,
                Decision::Ask => Was::Asked,
                Decision::Deny => Was::Denied,
            },
            (None, Some(Outcome::Denied)) => Was::Denied,
            // Without a beginning, an answer that was still true was served again.
            (None, Some(Outcome::Ok)) => Was::Allowed,
            (None, _) if self.began => Was::Allowed,
            (None, _) => Was::Undecided,
        }
    }

    /// Whether the arguments are on record as they were: secrets are taken out of them.
    pub(super) fn is_whole(&self) -> bool {
        !self.input.to_string().contains("[secret ")
    }

    /// The source of text that others may have written, if the call brought in such text.
    pub(super) fn untrusted(&self) -> Option<&str> {
        self.metadata.get("untrusted")?.as_str()
    }

    /// The rule, the mode or the approval that decided, as far as it is on record.
    pub(super) fn decided_by(&self) -> Option<String> {
        self.decided.as_ref().map(|decided| decided.cause().to_string())
    }
}

/// The calls of a session, in the order in which they began.
pub(super) fn calls(store: &Store, session: &SessionId) -> Result<Vec<Recorded>> {
    let mut calls: Vec<Recorded> = Vec::new();
    let mut places: HashMap<CallId, usize> = HashMap::new();
    let mut after = 0;
    loop {
        let rows = store.records(Some(session), after, PORTION)?;
        let Some(last) = rows.last() else { return Ok(calls) };
        after = last.seq;
        for row in rows {
            let (Some(id), Some(tool)) = (row.call.clone(), row.tool.clone()) else { continue };
            if row.body.is_none() {
                bail!("session {session} was deleted: what its calls said is gone")
            }
            let at = *places.entry(id.clone()).or_insert_with(|| {
                calls.push(Recorded::new(id, tool));
                calls.len() - 1
            });
            if let Some(call) = calls.get_mut(at) {
                call.learn(&row);
            }
        }
    }
}

impl Recorded {
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

    fn learn(&mut self, row: &JournalRow) {
        match row.kind {
            Kind::Started => {
                self.began = true;
                if let Some(body) = row.body_as::<CallStarted<'_>>() {
                    self.shell = body.effects.shell().map(str::to_owned);
                    self.input = body.input.into_owned();
                    self.decided = Some(body.decided);
                }
            }
            Kind::Finished => {
                self.outcome = row.outcome;
                if let Some(body) = row.body_as::<CallFinished<'_>>() {
                    self.end(body);
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, body: CallFinished<'_>) {
        if let Some(input) = body.input {
            self.input = input.into_owned();
        }
        self.decided = body.decided.or(self.decided.take());
        self.metadata = body.metadata.into_owned();
        let content = body.content.into_owned();
        self.text = Output { content, ..Output::default() }.to_text();
    }
}

/// Where a session worked, or the workspace that was given if that is no longer there.
pub(super) fn workspace(global: &Global, store: &Store, session: &SessionId) -> Result<PathBuf> {
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
