//! The bodies of the journal's records, as types with a version.
//!
//! A body is stored as the text of a JSON object. Version 2 stores decisions as types; version 1, which has no version number, stored
//! them as words. Readers accept both. Readers ignore unknown fields, so that an older program can read a newer journal.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ApprovalId, CallId, Content, DecidedBy, Decision, Effects, ExplainedDecision, Metadata,
    Principal, SeenRecord, SessionId,
};

/// The version of the bodies that this program writes.
pub const BODY_VERSION: u32 = 2;

/// The body of the record of the start of a call.
///
/// ```
/// use windlass_core::{CallStarted, Decision};
/// let old = r#"{"input": {}, "effects": [], "decided_by": "allowed by mode auto"}"#;
/// let body: CallStarted<'_> = serde_json::from_str(old)?;
/// assert_eq!((body.version, body.decided.decision), (1, Decision::Allow));
/// assert_eq!(body.decided.to_string(), "allowed by mode auto");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "AnyStarted")]
pub struct CallStarted<'a> {
    /// The version of the body.
    #[serde(rename = "v")]
    pub version: u32,
    /// The arguments.
    pub input: Cow<'a, Value>,
    /// The effects, with resolved paths.
    pub effects: Cow<'a, Effects>,
    /// The decision that allows it.
    pub decided: ExplainedDecision,
    /// The principal behind the call.
    #[serde(skip_serializing_if = "Principal::is_default")]
    pub principal: Principal,
    /// The call that makes this one, if it is a nested call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_call: Option<CallId>,
    /// The position of the call in the conversation of a model.
    #[serde(skip_serializing_if = "ModelCallPosition::is_empty")]
    pub made: ModelCallPosition,
}

/// The position of a call in the conversation of a model, as far as its caller said.
///
/// ```
/// use windlass_core::ModelCallPosition;
/// let made = ModelCallPosition { tool_use_id: Some("toolu_1".into()), ..ModelCallPosition::default() };
/// assert_eq!(serde_json::to_string(&made)?, r#"{"tool_use_id":"toolu_1"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelCallPosition {
    /// The model's own id of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// The id of the message that the call stands in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The model that asked for the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl ModelCallPosition {
    /// Returns whether no field is known.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A [`CallStarted`] body of any version.
#[derive(Deserialize)]
struct AnyStarted {
    #[serde(rename = "v", default = "first_version")]
    version: u32,
    #[serde(default)]
    input: Value,
    #[serde(default)]
    effects: Effects,
    decided: Option<ExplainedDecision>,
    /// The decision in words, in version 1.
    #[serde(default)]
    decided_by: String,
    #[serde(default)]
    principal: Principal,
    parent_call: Option<CallId>,
    #[serde(default)]
    made: ModelCallPosition,
}

impl From<AnyStarted> for CallStarted<'_> {
    fn from(any: AnyStarted) -> Self {
        Self {
            version: any.version,
            input: Cow::Owned(any.input),
            effects: Cow::Owned(any.effects),
            decided: any.decided.unwrap_or_else(|| parse_decision_words(any.decided_by)),
            principal: any.principal,
            parent_call: any.parent_call,
            made: any.made,
        }
    }
}

/// Parses the words of version 1: `allowed by RULE`, or `approval ID (SCOPE)` if a person was asked.
fn parse_decision_words(text: String) -> ExplainedDecision {
    let approved = text.strip_prefix("approval ").map(|rest| {
        let id = rest.split(' ').next().unwrap_or(rest);
        DecidedBy::Approval { id: ApprovalId::new(id), scope: None, who: None }
    });
    match (approved, text.strip_prefix("allowed by ")) {
        (Some(approval), _) => {
            let by = DecidedBy::Words { text: "a question".to_owned() };
            ExplainedDecision { decision: Decision::Ask, by, settled_by: Some(approval) }
        }
        (None, Some(rule)) => {
            let by = DecidedBy::Words { text: rule.to_owned() };
            ExplainedDecision { decision: Decision::Allow, by, settled_by: None }
        }
        (None, None) => {
            let by = DecidedBy::Words { text };
            ExplainedDecision { decision: Decision::Allow, by, settled_by: None }
        }
    }
}

/// The version of a body without a version number.
fn first_version() -> u32 {
    1
}

/// The body of the record of the end of a call.
///
/// ```
/// use windlass_core::CallFinished;
/// let lost = CallFinished::interrupted(4711);
/// let text = serde_json::to_string(&lost)?;
/// assert_eq!(serde_json::from_str::<CallFinished<'_>>(&text)?, lost);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallFinished<'a> {
    /// The version of the body.
    #[serde(rename = "v", default = "first_version")]
    pub version: u32,
    /// The arguments, if the call never began. Otherwise the record of its start has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Cow<'a, Value>>,
    /// The decision, if the call was decided on and never began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided: Option<ExplainedDecision>,
    /// The output for the model.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub content: Cow<'a, [Content]>,
    /// The same facts as data.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub metadata: Cow<'a, Metadata>,
    /// The time that the call took, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<u64>,
    /// The files that the session learnt of through this call; see [`Session::recall`](crate::Session::recall).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<SeenRecord>,
    /// The principal behind the call, if the call never began.
    #[serde(skip_serializing_if = "Principal::is_default")]
    pub principal: Principal,
    /// The call that made this one, if the call never began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_call: Option<CallId>,
    /// The position of the call in the conversation of a model, if the call never began.
    #[serde(skip_serializing_if = "ModelCallPosition::is_empty")]
    pub made: ModelCallPosition,
    /// The id of the process that ended before the call did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// The process ended before the call did.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// A message about an interrupted call.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
}

impl CallFinished<'_> {
    /// Makes the body for a call whose process ended before it.
    pub fn interrupted(process: u32) -> Self {
        Self {
            version: BODY_VERSION,
            interrupted: true,
            process: Some(process),
            text: format!(
                "process {process} ended before this call did; what it had done by then stays done"
            ),
            ..Self::default()
        }
    }

    /// Returns the sentence that says why the call was denied. The output of a command that has run stands before it.
    pub fn refusal(&self) -> Option<&str> {
        const REFUSAL: &str = "not allowed: ";
        let mut texts = self.content.iter().rev().filter_map(|content| match content {
            Content::Text { text } => Some(text),
            _ => None,
        });
        // The names of files that would have changed are indented, and the hint on how to allow them comes last.
        let is_refusal = |line: &&str| {
            line.contains(REFUSAL) && !line.starts_with(' ') && !line.starts_with("to allow")
        };
        let line = texts.find_map(|text| text.lines().rfind(is_refusal))?;
        line.get(line.find(REFUSAL)?..)
    }

    /// Returns the first line of the output, if the output begins with text.
    pub fn first_line(&self) -> Option<&str> {
        match self.content.first()? {
            Content::Text { text } => text.lines().next(),
            _ => None,
        }
    }
}

/// The part of a [`CallFinished`] that a resumed session has to know. Parsing this alone is cheap, however long the output was.
///
/// ```
/// use windlass_core::ResumedCallFacts;
/// let body = r#"{"content": [{"type": "text", "text": "long"}], "metadata": {"untrusted": "https://example.org"}}"#;
/// let news: ResumedCallFacts = serde_json::from_str(body)?;
/// assert_eq!((news.seen, news.metadata.untrusted.as_deref()), (None, Some("https://example.org")));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ResumedCallFacts {
    /// The files that the session learnt of through the call; see [`Session::recall`](crate::Session::recall).
    pub seen: Option<SeenRecord>,
    /// The facts of the call that concern the session.
    pub metadata: ProvenanceFacts,
}

/// The source of untrusted text, in the metadata of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ProvenanceFacts {
    /// The source, if the call brought in untrusted text.
    pub untrusted: Option<String>,
}

/// The metadata key of the source of untrusted text.
pub(crate) const UNTRUSTED: &str = "untrusted";

/// The body of the record of a session that begins, or continues in another workspace.
///
/// ```
/// use windlass_core::SessionBegun;
/// let begun: SessionBegun<'_> = serde_json::from_str(r#"{"workspace": "/w", "parent": null}"#)?;
/// assert_eq!((begun.version, &*begun.workspace), (1, "/w"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionBegun<'a> {
    /// The version of the body.
    #[serde(rename = "v", default = "first_version")]
    pub version: u32,
    /// The workspace; empty if none is known.
    #[serde(default)]
    pub workspace: Cow<'a, str>,
    /// The session that started it.
    #[serde(default)]
    pub parent: Option<SessionId>,
    /// The principal behind the session.
    #[serde(default, skip_serializing_if = "Principal::is_default")]
    pub principal: Principal,
}

/// The body of the record of a job that ended after it had changed files. A job works on the real directory and may end long after its
/// call, so no checkpoint and no record of the call names its changes.
///
/// ```
/// use windlass_core::{JobChange, JobEnded};
/// let change = JobChange { path: "log.txt".into(), change: "A".into() };
/// let ended = JobEnded { job: "j1".into(), changed: vec![change], changed_count: 1, ..JobEnded::default() };
/// assert!(serde_json::to_string(&ended)?.contains(r#""path":"log.txt""#));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnded {
    /// The version of the body.
    #[serde(rename = "v", default = "first_version")]
    pub version: u32,
    /// The job.
    pub job: String,
    /// The call that started it. The record itself belongs to the session, since the call has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// The changed files, up to the maximum that a record names.
    #[serde(default)]
    pub changed: Vec<JobChange>,
    /// The number of all changed files.
    #[serde(default)]
    pub changed_count: usize,
    /// Messages for a person or a model about its end.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A file that a job changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobChange {
    /// The path, relative to the workspace if it is inside.
    pub path: String,
    /// `A`, `M` or `D`.
    pub change: String,
}

/// The body of the record of a running call that asked for effects beyond its plan, and of the decision. The record itself belongs to
/// the session; `call` names the call.
///
/// ```
/// use windlass_core::{CallExtended, CallId, ExplainedDecision, DecidedBy, Decision, Effect, Mode};
/// let effect = Effect::Net { origin: "https://docs.rs:443".into(), method: "GET".into() };
/// let decided = ExplainedDecision { decision: Decision::Allow, by: DecidedBy::Mode { mode: Mode::Auto }, settled_by: None };
/// let body = CallExtended::new(CallId::new("c1"), effect.into(), decided);
/// let text = serde_json::to_string(&body)?;
/// assert_eq!(serde_json::from_str::<CallExtended>(&text)?, body);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallExtended {
    /// The version of the body.
    #[serde(rename = "v", default = "first_version")]
    pub version: u32,
    /// The call.
    pub call: CallId,
    /// The effects that the call asked for.
    pub effects: Effects,
    /// The decision. The call continues with these effects only if they are allowed.
    pub decided: ExplainedDecision,
}

impl CallExtended {
    /// Makes the body.
    pub fn new(call: CallId, effects: Effects, decided: ExplainedDecision) -> Self {
        Self { version: BODY_VERSION, call, effects, decided }
    }
}

/// The body of the record of a recovery: the repair of changes that a killed process had left unfinished.
///
/// ```
/// use windlass_core::Recovery;
/// let body = serde_json::to_string(&Recovery::new("c1 (bash) was cut off: it had been made whole"))?;
/// assert_eq!(body, r#"{"v":2,"text":"c1 (bash) was cut off: it had been made whole"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// The version of the body.
    #[serde(rename = "v", default = "first_version")]
    pub version: u32,
    /// The result of the recovery, in words.
    #[serde(default)]
    pub text: String,
}

impl Recovery {
    /// Makes the body with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { version: BODY_VERSION, text: text.into() }
    }
}

/// The body of the record that notes that records before it are missing.
///
/// ```
/// use windlass_core::RecordsMissing;
/// let missing: RecordsMissing = serde_json::from_str(r#"{"anchored": 10, "found": 7}"#)?;
/// assert_eq!((missing.anchored, missing.found), (Some(10), 7));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordsMissing {
    /// The version of the body.
    #[serde(rename = "v", default = "first_version")]
    pub version: u32,
    /// The number of the spool that is too short, if the records are missing in a spool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spool: Option<u32>,
    /// The last record number according to the anchor; `None` if the anchor itself is missing.
    pub anchored: Option<u64>,
    /// The last record number that was found.
    pub found: u64,
    /// The loss was noticed by the anchor outside of the state directory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outside: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn decisions_of_version_1_are_read() {
        for (words, decision, text_of_decision) in [
            ("allowed by mode auto", Decision::Allow, "allowed by mode auto"),
            ("allowed by deny x (why)", Decision::Allow, "allowed by deny x (why)"),
            ("approval a1 (session)", Decision::Ask, "approval a1"),
            ("approval a1", Decision::Ask, "approval a1"),
            ("approved beforehand", Decision::Allow, "allowed by approved beforehand"),
        ] {
            let body = json!({"input": {"a": 1}, "effects": [], "decided_by": words});
            let body: CallStarted<'_> = serde_json::from_value(body).expect("a body");
            assert_eq!((body.version, body.decided.decision), (1, decision), "{words}");
            assert_eq!(body.decided.to_string(), text_of_decision);
        }
    }

    #[test]
    fn call_finished_of_any_version_is_read() {
        let old = json!({
            "input": {}, "content": [{"type": "text", "text": "one\ntwo"}],
            "metadata": {"untrusted": "https://example.org"}, "duration_us": 12, "later": true,
        });
        let old: CallFinished<'_> = serde_json::from_value(old).expect("a body");
        assert_eq!((old.version, old.first_line(), old.duration_us), (1, Some("one"), Some(12)));
        assert_eq!(old.metadata["untrusted"], "https://example.org");
        let empty: CallFinished<'_> = serde_json::from_str("{}").expect("a body");
        assert_eq!(empty, CallFinished { version: 1, ..CallFinished::default() });
    }
}
