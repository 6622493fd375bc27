//! The calls of an earlier session as the journal has them.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use windlass_core::{CallId, Content, Outcome, Output, SessionId};
use windlass_store::{JournalRow, Kind, Store};

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
    pub(super) metadata: Value,
    /// What the model was told.
    pub(super) text: String,
    /// How it ended; `None` if it never did.
    pub(super) outcome: Option<Outcome>,
    /// Who let it run, if it did.
    granted_by: Option<String>,
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
        match (&self.granted_by, self.outcome) {
            (Some(by), _) if by.starts_with("approval") => Was::Asked,
            // Without a beginning, an answer that was still true was served again.
            (Some(_), _) | (None, Some(Outcome::Ok)) => Was::Allowed,
            (None, Some(Outcome::Denied)) => match self.refusal() {
                Some((_, answer)) if !answer.is_empty() => Was::Asked,
                _ => Was::Denied,
            },
            (None, _) => Was::Undecided,
        }
    }

    /// Whether the arguments are on record as they were: secrets are taken out of them.
    pub(super) fn is_whole(&self) -> bool {
        !self.input.to_string().contains("[secret ")
    }

    /// The rule, the mode or the approval that decided, as far as it is on record.
    pub(super) fn decided_by(&self) -> Option<String> {
        match &self.granted_by {
            Some(by) => Some(by.strip_prefix("allowed by ").unwrap_or(by).to_owned()),
            None => self.refusal().map(|(rule, _)| rule.to_owned()),
        }
    }

    /// Of a refusal, the rule that decided and what was answered if somebody was asked.
    fn refusal(&self) -> Option<(&str, &str)> {
        let (_, said) = self.text.rsplit_once("(decided by ")?;
        let said = said.lines().next()?;
        match said.split_once("): ") {
            Some((rule, answer)) => Some((rule, answer)),
            None => Some((said.trim_end().trim_end_matches(')'), "")),
        }
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
            let Some(body) = body(&row) else {
                bail!("session {session} was deleted: what its calls said is gone")
            };
            let at = *places.entry(id.clone()).or_insert_with(|| {
                calls.push(Recorded::new(id, tool));
                calls.len() - 1
            });
            if let Some(call) = calls.get_mut(at) {
                call.learn(row.kind, row.outcome, body);
            }
        }
    }
}

impl Recorded {
    fn new(id: CallId, tool: String) -> Self {
        let (input, metadata) = (Value::Null, Value::Null);
        Self { id, tool, input, metadata, text: String::new(), outcome: None, granted_by: None }
    }

    fn learn(&mut self, kind: Kind, outcome: Option<Outcome>, mut body: Value) {
        if let Some(input) = body.get_mut("input") {
            self.input = input.take();
        }
        match kind {
            Kind::Started => {
                self.granted_by = body["decided_by"].as_str().map(str::to_owned);
            }
            Kind::Finished => {
                self.outcome = outcome;
                self.metadata = body["metadata"].take();
                let content: Vec<Content> =
                    serde_json::from_value(body["content"].take()).unwrap_or_default();
                self.text = Output { content, ..Output::default() }.to_text();
            }
            _ => {}
        }
    }
}

fn body(row: &JournalRow) -> Option<Value> {
    serde_json::from_str(row.body.as_deref()?).ok()
}

/// Where a session worked, or the workspace that was given if that is no longer there.
pub(super) fn workspace(global: &Global, store: &Store, session: &SessionId) -> Result<PathBuf> {
    let recorded = store.session(session)?.workspace;
    match recorded {
        Some(path) if path.is_dir() => Ok(path),
        gone => {
            let here = setup::workspace(global).context("and the session's own is not known")?;
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
