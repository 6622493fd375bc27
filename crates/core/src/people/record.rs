//! The record of an approval: the question, and the answer once there is one. Both outlive the program.
//!
//! An approval binds to its *subject*: the tool, its arguments, the real places, where it works and how programs are confined, in one
//! hash. A call that differs in any of it asks again. Places in the workspace count by where they are in it, so that what is always
//! allowed is the same call in another workspace.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Answer, ApprovalRequest, Asker, Book, Inquiry, InquiryState};
use crate::{
    ApprovalId, CallId, ContentHash, Effects, ModelCall, PathPattern, Principal, SessionId,
};

/// The time in which a question has to be answered, unless the engine is told otherwise.
pub(crate) const EXPIRES_AFTER: Duration = Duration::from_hours(7 * 24);

/// In place of the subject of a call, where an answer gave rules and is used up for the call itself.
const RULES_ALONE: &[u8] = b"the rules of a session";

/// For how long an answer counts.
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
    /// In this workspace, whatever the session.
    Project,
    /// Everywhere.
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

/// How far a question has come.
///
/// ```
/// use windlass_core::Settled;
/// assert_eq!(Settled::Denied("not on a Friday".into()).to_string(), "denied: not on a Friday");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// Nobody has answered.
    Pending,
    /// Somebody said yes.
    Allowed,
    /// Somebody said no, and why.
    Denied(String),
}

impl fmt::Display for Settled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("pending"),
            Self::Allowed => f.write_str("allowed"),
            Self::Denied(why) if why.is_empty() => f.write_str("denied"),
            Self::Denied(why) => write!(f, "denied: {why}"),
        }
    }
}

/// One question, and what became of it.
///
/// ```
/// use windlass_core::{Approval, Book, MemoryBook, Settled};
/// # use windlass_core::{ApprovalId, ContentHash, Scope, SessionId};
/// # let approval = Approval {
/// #     id: ApprovalId::new("a1"), call: None, subject: ContentHash::of(b"make"), settled: Settled::Pending, scope: Scope::Once,
/// #     session: SessionId::new("s1"), workspace: "/w".into(), tool: "bash".into(),
/// #     input: None, effects: "exec make".into(), rule: "mode ask".into(), at: std::time::SystemTime::UNIX_EPOCH,
/// #     asker: Default::default(), directory: None, expires: None, who: None, reason: None, edited: None,
/// #     rights: None, denies: vec![], offers: vec![], rules: vec![], has_run: false, call_subject: None, can_be_remembered: true,
/// #     shown: None, made: Default::default(), is_journaled: false,
/// # };
/// let book = MemoryBook::default();
/// book.put(&approval)?;
/// assert_eq!(book.list()?[0].settled, Settled::Pending);
/// assert!(book.remove(approval.id.as_str())?, "it can be used once");
/// assert!(!book.remove(approval.id.as_str())?);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// Its name.
    pub id: ApprovalId,
    /// The call that asked; `None` if a version that did not write it down asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// What exactly it is about.
    pub subject: ContentHash,
    /// How far it has come.
    pub settled: Settled,
    /// For how long the answer counts.
    pub scope: Scope,
    /// Which session asked.
    pub session: SessionId,
    /// In which workspace.
    pub workspace: PathBuf,
    /// The tool.
    pub tool: String,
    /// Its arguments, if they hold no secret: with them, the call can be made once somebody has answered.
    pub input: Option<Value>,
    /// The call as it is listed: its command and its other arguments, shortened and without secrets. `None` if a version that did not
    /// write it down asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
    /// What it does, in words.
    pub effects: String,
    /// Which rule or mode asked.
    pub rule: String,
    /// When it was asked or answered.
    pub at: SystemTime,
    /// Who asked.
    #[serde(default)]
    pub asker: Asker,
    /// Where relative paths of the call start, if not at the workspace.
    #[serde(default)]
    pub directory: Option<PathBuf>,
    /// The time from which it can no longer be answered, or a single answer no longer be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<SystemTime>,
    /// The identity that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Principal>,
    /// The reason of the answer, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The arguments that the answer puts in place of those of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<Value>,
    /// The rights of the session that asked, in one hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rights: Option<ContentHash>,
    /// The rules that deny something in the session that asked. They hold for the call also when another process makes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denies: Vec<String>,
    /// The rules that can be given with a yes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<String>,
    /// Those that the answer gave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// The call has run, so that the answer is about what it changed.
    #[serde(default)]
    pub has_run: bool,
    /// The subject of the call itself, where the question is about what it changed: a no that is remembered is for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_subject: Option<ContentHash>,
    /// An answer may count for more than this call.
    #[serde(default = "yes")]
    pub can_be_remembered: bool,
    /// The place of the call in the conversation of a model.
    #[serde(default, skip_serializing_if = "ModelCall::is_empty")]
    pub made: ModelCall,
    /// The answer is in the journal. An answer whose process was killed before that is put there when it is used.
    #[serde(default = "yes")]
    pub is_journaled: bool,
}

/// The default of facts that records of earlier versions do not tell.
pub(super) fn yes() -> bool {
    true
}

impl Approval {
    /// What the person who allowed it wants the model to know, marked so that it cannot pass for anything else.
    pub(crate) fn said(&self) -> Option<String> {
        let reason = self.reason.as_ref()?;
        let who = self.who.clone().unwrap_or_default();
        Some(format!("[{who}, who allowed this call, says: {reason}]"))
    }

    /// Returns whether an answer can count for more than this call. A yes to what a command changed cannot, nor one with other arguments,
    /// nor one to what is asked about each time.
    pub fn can_remember(&self, answer: &Answer) -> bool {
        let is_no_to_call = !answer.is_yes() && self.call_subject.is_some();
        answer.input.is_none() && (self.can_be_remembered || is_no_to_call)
    }

    /// Returns whether its call can be made from the record: it is answered, and no call has used the answer for it.
    pub fn can_be_resumed(&self, now: SystemTime) -> bool {
        self.state(now) == InquiryState::Answered && (self.edited.is_some() || self.input.is_some())
    }

    /// Takes the answer back: the question is open again until it expires.
    pub(crate) fn reopen(&mut self) {
        self.settled = Settled::Pending;
        (self.reason, self.edited, self.who) = (None, None, None);
        self.rules.clear();
    }

    /// The rules that a person gave a session with this answer, for as long as it is on record.
    pub fn rules_of(&self, session: &SessionId, workspace: &Path) -> &[String] {
        let is_it = self.is_of_rules() && self.session == *session && self.workspace == *workspace;
        if is_it { &self.rules } else { &[] }
    }

    /// Tells whether it gives its session rules.
    fn is_of_rules(&self) -> bool {
        self.settled == Settled::Allowed && !self.rules.is_empty() && self.edited.is_none()
    }

    /// Tells whether it is a no that counts for more than one call.
    fn is_remembered_no(&self) -> bool {
        matches!(self.settled, Settled::Denied(_)) && self.scope != Scope::Once
    }

    /// Whether it is an answer to this question, asked by this session in this workspace.
    fn answers(&self, asked: &Asked) -> bool {
        let Asked { subject, session, workspace, now } = asked;
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

    /// An answer that counts once expires with its question. One that is remembered counts until it is taken back.
    fn state(&self, now: SystemTime) -> InquiryState {
        match (&self.settled, self.scope) {
            (Settled::Allowed | Settled::Denied(_), scope) if scope != Scope::Once => {
                InquiryState::Answered
            }
            _ if now > self.expires() => InquiryState::Expired,
            (Settled::Pending, _) => InquiryState::Open,
            (Settled::Allowed | Settled::Denied(_), _) => InquiryState::Answered,
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
            Settled::Allowed
        } else {
            Settled::Denied(answer.why_not().to_owned())
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

    /// A remembered answer needs the subject, not the arguments. Rules that came with an answer to one call stay with the session, and
    /// are an answer to no call.
    fn after_use(self) -> Option<Self> {
        match self.scope {
            Scope::Once if self.is_of_rules() => {
                let subject = ContentHash::of(RULES_ALONE);
                Some(Self { input: None, edited: None, scope: Scope::Session, subject, ..self })
            }
            Scope::Once => None,
            Scope::Session | Scope::Project | Scope::Always => Some(Self { input: None, ..self }),
        }
    }
}

/// A question with its place and time.
pub(super) struct Asked {
    subject: ContentHash,
    session: SessionId,
    workspace: PathBuf,
    now: SystemTime,
}

impl Asked {
    pub(super) fn by(request: &ApprovalRequest, now: SystemTime) -> Self {
        let ApprovalRequest { subject, session, workspace, .. } = request;
        Self { subject: *subject, session: session.clone(), workspace: workspace.clone(), now }
    }
}

/// The answers that were given before. A no comes before a yes.
pub(super) fn answers(book: &dyn Book<Approval>, asked: &Asked) -> Result<Vec<Approval>, String> {
    let mut found: Vec<Approval> = book.list()?;
    found.retain(|one| one.answers(asked));
    found.sort_by_key(|one| one.settled == Settled::Allowed);
    Ok(found)
}

/// What an approval is about, in one hash.
pub(crate) fn subject(
    tool: &str,
    input: &Value,
    effects: &Effects,
    place: Place<'_>,
    surroundings: &str,
) -> ContentHash {
    let inside = |pattern: PathPattern, _| {
        let path = within(&pattern.path, place.workspace);
        Ok::<_, std::convert::Infallible>(PathPattern { path, ..pattern })
    };
    let effects = effects.clone().try_map_paths(inside).unwrap_or_else(|never| match never {});
    let directory = within(place.directory, place.workspace);
    let whole = Value::Array(vec![
        tool.into(),
        canonical(input),
        canonical(&serde_json::to_value(effects).unwrap_or_default()),
        crate::quote::path(&directory).as_ref().into(),
        surroundings.into(),
    ]);
    ContentHash::of(whole.to_string().as_bytes())
}

/// Where a call works.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) workspace: &'a Path,
    pub(crate) directory: &'a Path,
}

/// A path in the workspace by where it is there; another one as it is.
fn within(path: &Path, workspace: &Path) -> PathBuf {
    path.strip_prefix(workspace).unwrap_or(path).to_owned()
}

/// The same value with the names of its fields in order.
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

    fn approval(id: &str, settled: Settled, scope: Scope) -> Approval {
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
            asker: Asker::default(),
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
            call_subject: None,
            can_be_remembered: true,
            made: ModelCall::default(),
            is_journaled: false,
        }
    }

    fn asked(subject: &[u8], session: &str, workspace: &str) -> Asked {
        let now = SystemTime::UNIX_EPOCH + Duration::from_mins(1);
        let (subject, session) = (ContentHash::of(subject), SessionId::new(session));
        Asked { subject, session, workspace: workspace.into(), now }
    }

    #[test]
    fn whom_an_answer_is_for() {
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
            book.put(&approval("a", Settled::Allowed, scope)).unwrap();
            let ask = |subject: &[u8]| {
                !answers(&book, &asked(subject, asks.0, asks.1)).unwrap().is_empty()
            };
            assert!(!ask(b"y"), "another subject");
            assert_eq!(ask(b"x"), is_answered, "{scope} {asks:?}");
        }
    }

    #[test]
    fn a_no_counts_before_a_yes_and_a_question_is_no_answer() {
        let book = MemoryBook::default();
        let ask = || {
            answers(&book, &asked(b"x", "s", "/w"))
                .unwrap()
                .into_iter()
                .next()
                .map(|one| one.settled)
        };
        book.put(&approval("a", Settled::Pending, Scope::Once)).unwrap();
        assert_eq!(ask(), None);
        book.put(&approval("b", Settled::Allowed, Scope::Always)).unwrap();
        book.put(&approval("c", Settled::Denied("no".into()), Scope::Session)).unwrap();
        assert_eq!(ask(), Some(Settled::Denied("no".into())));
    }

    #[test]
    fn what_makes_a_call_another_one() {
        let of = |tool: &str, input: Value, path: &str, directory: &str, surroundings: &str| {
            let place = Place { workspace: "/w".as_ref(), directory: directory.as_ref() };
            subject(tool, &input, &Effects::write(path), place, surroundings)
        };
        let this = of("write", json!({"a": 1, "b": {"c": 2, "d": 3}}), "/w/a", "/w", "workspace");
        let same = of("write", json!({"b": {"d": 3, "c": 2}, "a": 1}), "/w/a", "/w", "workspace");
        assert_eq!(this, same, "the order of fields means nothing");
        let elsewhere = Place { workspace: "/v".as_ref(), directory: "/v".as_ref() };
        let input = json!({"a": 1, "b": {"c": 2, "d": 3}});
        let other = subject("write", &input, &Effects::write("/v/a"), elsewhere, "workspace");
        assert_eq!(this, other, "the same in another workspace");
        let other = subject("write", &input, &Effects::write("/w/a"), elsewhere, "workspace");
        assert_ne!(this, other, "what is outside there");
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
