//! The record of an approval: the request, and the answer once there is one. Both outlive the program.
//!
//! An approval binds to its *subject*: one hash of the tool, its arguments, its resolved paths, its directory and the confinement of
//! programs. A call that differs in any of these asks again. Paths in the workspace count relative to it, so that an answer that always
//! counts also covers the same call in another workspace.

use super::BookError;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Answer, ApprovalRequest, Inquiry, InquiryBook, InquiryState, Requester};
use crate::{
    ApprovalId, CallId, CommandEnd, ContentHash, Effects, ModelCallPosition, PathPattern,
    Principal, SessionId,
};

/// Time in which a question has to be answered, unless the engine is set to another.
pub(crate) const EXPIRES_AFTER: Duration = Duration::from_hours(7 * 24);

/// Input of the subject hash of an answer that is used up for its call but still gives rules to its session.
const RULES_ONLY_SUBJECT: &[u8] = b"the rules of a session";

/// The calls that an answer counts for.
///
/// ```
/// use windlass_core::Scope;
/// assert_eq!("project".parse(), Ok(Scope::Project));
/// assert_eq!(Scope::Once.to_string(), "once");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// For this call.
    Once,
    /// For this very call, as often as this session makes it.
    Session,
    /// In this workspace, in every session.
    Project,
    /// In every workspace.
    Always,
}

impl Scope {
    /// Every scope, by its name.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("once", Self::Once),
        ("session", Self::Session),
        ("project", Self::Project),
        ("always", Self::Always),
    ];
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, scope)| scope == self);
        f.write_str(name.map_or("once", |(name, _)| name))
    }
}

impl std::str::FromStr for Scope {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, scope)| *scope).ok_or_else(|| {
            format!("unknown scope `{text}`: it is one of once, session, project, always")
        })
    }
}

/// The answer to an approval, if there is one.
///
/// ```
/// use windlass_core::ApprovalState;
/// assert_eq!(ApprovalState::Denied("not on a Friday".into()).to_string(), "denied: not on a Friday");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// Not answered yet.
    Pending,
    /// A person allowed the call.
    Allowed,
    /// A person denied the call, for this reason.
    Denied(String),
}

impl fmt::Display for ApprovalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("pending"),
            Self::Allowed => f.write_str("allowed"),
            Self::Denied(why) if why.is_empty() => f.write_str("denied"),
            Self::Denied(why) => write!(f, "denied: {why}"),
        }
    }
}

/// The record of one approval and its answer.
///
/// ```
/// use windlass_core::{Approval, InquiryBook, MemoryBook, ApprovalState};
/// # use windlass_core::{ApprovalId, ContentHash, Scope, SessionId};
/// # let approval = Approval {
/// #     id: ApprovalId::new("a1"), call: None, subject: ContentHash::of(b"make"), settled: ApprovalState::Pending, scope: Scope::Once,
/// #     session: SessionId::new("s1"), workspace: "/w".into(), tool: "bash".into(),
/// #     input: None, effects: "exec make".into(), rule: "mode ask".into(), at: std::time::SystemTime::UNIX_EPOCH,
/// #     asker: Default::default(), directory: None, expires: None, who: None, reason: None, edited: None,
/// #     rights: None, denies: vec![], offers: vec![], rules: vec![], has_run: false, ended: None, call_subject: None, can_be_remembered: true,
/// #     shown: None, made: Default::default(), is_journaled: false,
/// # };
/// let book = MemoryBook::default();
/// book.put(&approval)?;
/// assert_eq!(book.list()?[0].settled, ApprovalState::Pending);
/// assert!(book.remove(approval.id.as_str())?, "it can be used once");
/// assert!(!book.remove(approval.id.as_str())?);
/// # Ok::<(), windlass_core::BookError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// Id of the approval.
    pub id: ApprovalId,
    /// Call that asked; `None` if the record is from a version that did not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// Hash of everything that the approval is about.
    pub subject: ContentHash,
    /// Answer, if there is one.
    pub settled: ApprovalState,
    /// Calls that the answer counts for.
    pub scope: Scope,
    /// Session that asked.
    pub session: SessionId,
    /// Workspace of that session.
    pub workspace: PathBuf,
    /// Tool of the call.
    pub tool: String,
    /// Arguments of the call, if they hold no secret: with them, the call can be made once a person has answered.
    pub input: Option<Value>,
    /// The call as it is shown in lists: its command and its other arguments, shortened and without secrets. `None` if the record is from
    /// a version that did not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
    /// Effects of the call, in words.
    pub effects: String,
    /// Rule or mode that asked.
    pub rule: String,
    /// Time at which it was asked or answered.
    pub at: SystemTime,
    /// Agent and sessions behind the call.
    #[serde(default)]
    pub asker: Requester,
    /// Directory that relative paths of the call start from, if not the workspace.
    #[serde(default)]
    pub directory: Option<PathBuf>,
    /// Time after which it can no longer be answered, and an answer that counts once can no longer be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<SystemTime>,
    /// Identity that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Principal>,
    /// Reason of the answer, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Arguments that the answer puts in place of those of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<Value>,
    /// Hash of the rights of the session that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rights: Option<ContentHash>,
    /// Rules that deny in the session that asked. They bind the call also when another process makes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denies: Vec<String>,
    /// Rules that can be given together with an approval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<String>,
    /// Rules of these that the answer gave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// True if the call has run, so that the answer is about its changes.
    #[serde(default)]
    pub has_run: bool,
    /// End of the command that has run. `None` if none has, or if the record is from a version that did not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<CommandEnd>,
    /// Subject of the call itself, if the approval is about its changes: a remembered denial counts for that subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_subject: Option<ContentHash>,
    /// True if an answer may count for more than this call.
    #[serde(default = "default_true")]
    pub can_be_remembered: bool,
    /// Ids of the call in the conversation of a model.
    #[serde(default, skip_serializing_if = "ModelCallPosition::is_empty")]
    pub made: ModelCallPosition,
    /// True once the answer is in the journal. If its process was killed before, the answer is journaled when it is used.
    #[serde(default = "default_true")]
    pub is_journaled: bool,
}

/// Default of fields that records of earlier versions do not have.
pub(super) fn default_true() -> bool {
    true
}

impl Approval {
    /// Returns the reason of the person who allowed the call as a note for the model, marked so that it cannot pass for other text.
    pub(crate) fn note_for_model(&self) -> Option<String> {
        let reason = self.reason.as_ref()?;
        let who = self.who.clone().unwrap_or_default();
        Some(format!("[{who}, who allowed this call, says: {reason}]"))
    }

    /// Returns whether an answer can count for more than this call. It cannot if it allows the changes of a command, has other arguments,
    /// or is about a call that asks each time.
    pub fn can_remember(&self, answer: &Answer) -> bool {
        let is_no_to_call = !answer.is_yes() && self.call_subject.is_some();
        answer.input.is_none() && (self.can_be_remembered || is_no_to_call)
    }

    /// Returns whether its call can be made from the record: it is answered, and no call has used the answer.
    pub fn can_be_resumed(&self, now: SystemTime) -> bool {
        self.state(now) == InquiryState::Answered && (self.edited.is_some() || self.input.is_some())
    }

    /// Removes the answer: the approval is open again until it expires.
    pub(crate) fn reopen(&mut self) {
        self.settled = ApprovalState::Pending;
        (self.reason, self.edited, self.who) = (None, None, None);
        self.rules.clear();
    }

    /// Returns the rules that this answer gave to a session, as long as it is on record.
    pub fn rules_of(&self, session: &SessionId, workspace: &Path) -> &[String] {
        let is_it = self.gives_rules() && self.session == *session && self.workspace == *workspace;
        if is_it { &self.rules } else { &[] }
    }

    /// Returns whether the answer gives rules to its session.
    fn gives_rules(&self) -> bool {
        self.settled == ApprovalState::Allowed && !self.rules.is_empty() && self.edited.is_none()
    }

    /// Returns whether the answer is a denial that counts for more than one call.
    pub(crate) fn is_remembered_no(&self) -> bool {
        matches!(self.settled, ApprovalState::Denied(_)) && self.scope != Scope::Once
    }

    /// Returns whether this record answers a query: same subject, answered, and in scope for its session and workspace.
    fn matches(&self, query: &AnswerQuery) -> bool {
        let AnswerQuery { subject, session, workspace, now } = query;
        self.subject == *subject
            && self.edited.is_none()
            && (!self.has_run || self.is_remembered_no())
            && self.state(*now) == InquiryState::Answered
            && match self.scope {
                Scope::Once | Scope::Session => {
                    self.session == *session && self.workspace == *workspace
                }
                Scope::Project => self.workspace == *workspace,
                Scope::Always => true,
            }
    }
}

impl Inquiry for Approval {
    type Answer = Answer;

    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn asked(&self) -> SystemTime {
        self.at
    }

    fn expires(&self) -> SystemTime {
        self.expires.or_else(|| self.at.checked_add(EXPIRES_AFTER)).unwrap_or(self.at)
    }

    /// An answer that counts once expires with its question. A remembered one counts until it is revoked.
    fn state(&self, now: SystemTime) -> InquiryState {
        match (&self.settled, self.scope) {
            (ApprovalState::Allowed | ApprovalState::Denied(_), scope) if scope != Scope::Once => {
                InquiryState::Answered
            }
            _ if now > self.expires() => InquiryState::Expired,
            (ApprovalState::Pending, _) => InquiryState::Open,
            (ApprovalState::Allowed | ApprovalState::Denied(_), _) => InquiryState::Answered,
        }
    }

    fn write(&mut self, answer: Answer) -> Result<(), String> {
        if answer.input.is_some() && self.has_run {
            return Err("the call has run already, so that its input cannot be changed".to_owned());
        }
        if answer.input.as_ref().is_some_and(|input| !input.is_object()) {
            return Err("the arguments of a call are a JSON object".to_owned());
        }
        if let Some(other) = answer.rules.iter().find(|rule| !self.offers.contains(rule)) {
            return Err(format!("the rule `{other}` was not offered"));
        }
        self.settled = if answer.is_yes() {
            ApprovalState::Allowed
        } else {
            ApprovalState::Denied(answer.why_not().to_owned())
        };
        let call_subject = self.call_subject.filter(|_| !answer.is_yes());
        self.scope = if self.can_remember(&answer) { answer.scope } else { Scope::Once };
        if self.scope != Scope::Once {
            self.subject = call_subject.unwrap_or(self.subject);
        }
        (self.reason, self.edited, self.who) = (answer.reason, answer.input, Some(answer.who));
        self.rules = answer.rules;
        self.is_journaled = false;
        Ok(())
    }

    fn is_journaled(&self) -> bool {
        self.is_journaled
    }

    fn set_journaled(&mut self) {
        self.is_journaled = true;
    }

    /// A remembered answer keeps the subject, not the arguments. Rules given together with an answer to one call stay with the session,
    /// in a record that answers no call.
    fn after_use(self) -> Option<Self> {
        match self.scope {
            Scope::Once if self.gives_rules() => {
                let subject = ContentHash::of(RULES_ONLY_SUBJECT);
                let scope = Scope::Session;
                Some(Self { input: None, edited: None, ended: None, scope, subject, ..self })
            }
            Scope::Once => None,
            Scope::Session | Scope::Project | Scope::Always => {
                Some(Self { input: None, ended: None, ..self })
            }
        }
    }
}

/// Search for earlier answers: the subject, session, workspace and time of a request.
pub(super) struct AnswerQuery {
    subject: ContentHash,
    session: SessionId,
    workspace: PathBuf,
    now: SystemTime,
}

impl AnswerQuery {
    /// Makes the query for a request.
    pub(super) fn by(request: &ApprovalRequest, now: SystemTime) -> Self {
        let ApprovalRequest { subject, session, workspace, .. } = request;
        Self { subject: *subject, session: session.clone(), workspace: workspace.clone(), now }
    }
}

/// Returns the earlier answers that match, denials before approvals.
pub(super) fn find_answers(
    book: &dyn InquiryBook<Approval>,
    query: &AnswerQuery,
) -> Result<Vec<Approval>, BookError> {
    let mut found: Vec<Approval> = book.list()?;
    found.retain(|one| one.matches(query));
    found.sort_by_key(|one| one.settled == ApprovalState::Allowed);
    Ok(found)
}

/// Returns the hash of everything that an approval is about.
pub(crate) fn approval_subject(
    tool: &str,
    input: &Value,
    effects: &Effects,
    location: CallLocation<'_>,
    confinement: &str,
) -> ContentHash {
    let inside = |pattern: PathPattern, _| {
        let path = relative_to_workspace(&pattern.path, location.workspace);
        Ok::<_, std::convert::Infallible>(PathPattern { path, ..pattern })
    };
    let effects = effects.clone().try_map_paths(inside).unwrap_or_else(|never| match never {});
    let directory = relative_to_workspace(location.directory, location.workspace);
    let whole = Value::Array(vec![
        tool.into(),
        canonical(input),
        canonical(&serde_json::to_value(effects).unwrap_or_default()),
        crate::quote::path(&directory).as_ref().into(),
        confinement.into(),
    ]);
    ContentHash::of(whole.to_string().as_bytes())
}

/// Workspace and working directory of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallLocation<'a> {
    pub(crate) workspace: &'a Path,
    pub(crate) directory: &'a Path,
}

/// Returns a path relative to the workspace if it is inside, or unchanged.
fn relative_to_workspace(path: &Path, workspace: &Path) -> PathBuf {
    path.strip_prefix(workspace).unwrap_or(path).to_owned()
}

/// Returns the same value with the fields of objects in order.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Array(values) => values.iter().map(canonical).collect(),
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            fields.into_iter().map(|(name, value)| (name.clone(), canonical(value))).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::MemoryBook;

    fn approval(id: &str, settled: ApprovalState, scope: Scope) -> Approval {
        Approval {
            id: ApprovalId::new(id),
            call: None,
            subject: ContentHash::of(b"x"),
            settled,
            scope,
            session: SessionId::new("s"),
            workspace: "/w".into(),
            tool: "bash".into(),
            input: None,
            shown: None,
            effects: String::new(),
            rule: String::new(),
            at: SystemTime::UNIX_EPOCH,
            asker: Requester::default(),
            directory: None,
            expires: None,
            who: None,
            reason: None,
            edited: None,
            rights: None,
            denies: Vec::new(),
            offers: Vec::new(),
            rules: Vec::new(),
            has_run: false,
            ended: None,
            call_subject: None,
            can_be_remembered: true,
            made: ModelCallPosition::default(),
            is_journaled: false,
        }
    }

    #[test]
    fn record_without_the_end_of_its_command_is_read() {
        let old = Approval { has_run: true, ..approval("a1", ApprovalState::Pending, Scope::Once) };
        let text = serde_json::to_string(&old).unwrap();
        assert!(!text.contains("ended"), "{text}");
        assert_eq!(serde_json::from_str::<Approval>(&text).unwrap(), old);
        let end = CommandEnd::new(crate::ProcessEnd::Exited(128), "fatal\n");
        let new = Approval { ended: Some(end), ..old };
        let text = serde_json::to_string(&new).unwrap();
        assert_eq!(serde_json::from_str::<Approval>(&text).unwrap(), new, "{text}");
    }

    fn query(subject: &[u8], session: &str, workspace: &str) -> AnswerQuery {
        let now = SystemTime::UNIX_EPOCH + Duration::from_mins(1);
        let (subject, session) = (ContentHash::of(subject), SessionId::new(session));
        AnswerQuery { subject, session, workspace: workspace.into(), now }
    }

    #[test]
    fn scope_decides_who_an_answer_counts_for() {
        let here = ("s", "/w");
        let there = ("t", "/v");
        for (scope, asks, is_answered) in [
            (Scope::Once, here, true),
            (Scope::Once, ("t", "/w"), false),
            (Scope::Session, ("s", "/v"), false),
            (Scope::Session, here, true),
            (Scope::Session, ("t", "/w"), false),
            (Scope::Project, ("t", "/w"), true),
            (Scope::Project, ("s", "/v"), false),
            (Scope::Always, there, true),
        ] {
            let book = MemoryBook::default();
            book.put(&approval("a", ApprovalState::Allowed, scope)).unwrap();
            let ask = |subject: &[u8]| {
                !find_answers(&book, &query(subject, asks.0, asks.1)).unwrap().is_empty()
            };
            assert!(!ask(b"y"), "another subject");
            assert_eq!(ask(b"x"), is_answered, "{scope} {asks:?}");
        }
    }

    #[test]
    fn denial_counts_before_approval_and_open_question_is_no_answer() {
        let book = MemoryBook::default();
        let ask = || {
            find_answers(&book, &query(b"x", "s", "/w"))
                .unwrap()
                .into_iter()
                .next()
                .map(|one| one.settled)
        };
        book.put(&approval("a", ApprovalState::Pending, Scope::Once)).unwrap();
        assert_eq!(ask(), None);
        book.put(&approval("b", ApprovalState::Allowed, Scope::Always)).unwrap();
        book.put(&approval("c", ApprovalState::Denied("no".into()), Scope::Session)).unwrap();
        assert_eq!(ask(), Some(ApprovalState::Denied("no".into())));
    }

    #[test]
    fn subject_differs_by_tool_input_path_directory_and_confinement() {
        let of = |tool: &str, input: Value, path: &str, directory: &str, confinement: &str| {
            let location = CallLocation { workspace: "/w".as_ref(), directory: directory.as_ref() };
            approval_subject(tool, &input, &Effects::write(path), location, confinement)
        };
        let this = of("write", json!({"a": 1, "b": {"c": 2, "d": 3}}), "/w/a", "/w", "workspace");
        let same = of("write", json!({"b": {"d": 3, "c": 2}, "a": 1}), "/w/a", "/w", "workspace");
        assert_eq!(this, same, "the order of fields does not matter");
        let elsewhere = CallLocation { workspace: "/v".as_ref(), directory: "/v".as_ref() };
        let input = json!({"a": 1, "b": {"c": 2, "d": 3}});
        let other =
            approval_subject("write", &input, &Effects::write("/v/a"), elsewhere, "workspace");
        assert_eq!(this, other, "the same in another workspace");
        let other =
            approval_subject("write", &input, &Effects::write("/w/a"), elsewhere, "workspace");
        assert_ne!(this, other, "that path is outside the other workspace");
        for other in [
            of("edit", input.clone(), "/w/a", "/w", "workspace"),
            of("write", json!({"a": 1, "b": {"c": 2, "d": 4}}), "/w/a", "/w", "workspace"),
            of("write", input.clone(), "/etc/a", "/w", "workspace"),
            of("write", input.clone(), "/w/a", "/w/b", "workspace"),
            of("write", input, "/w/a", "/w", "off"),
        ] {
            assert_ne!(this, other);
        }
    }
}
