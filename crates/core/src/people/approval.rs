//! The approval of a call, as a person is shown it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ApprovalId, CallId, ContentHash, DecidedBy, Effect, Effects, ModelCall, RiskLevel, SessionId,
};

/// The most characters of a call that are kept for a list.
const MOST_IN_SHORT: usize = 1_000;

/// What a person is asked.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{ApprovalRequest, DecidedBy, Kinds, Outcome, ToolCall};
/// # use windlass_core::{Effects, Engine, Toolbox, testing::{EmptyHost, MockTool}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("publish").with_effects(Kinds::WRITE, |_| Effects::write("index.html")))?;
/// # let builder = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools);
/// let only_writes = |request: &ApprovalRequest| {
///     matches!(request.by, DecidedBy::Mode { .. }) && Kinds::WRITE.contains(request.effects.kinds())
/// };
/// let engine = builder.attendant(only_writes).build();
/// let result = engine.call(&engine.new_session(), ToolCall::new("publish", json!({}))).await;
/// assert_eq!(result.outcome, Outcome::Ok);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the question")]
pub struct ApprovalRequest {
    /// To be named in the answer.
    pub id: ApprovalId,
    /// Which call waits for it.
    pub call: CallId,
    /// Of which session.
    pub session: SessionId,
    /// The tool.
    pub tool: String,
    /// Its arguments, as they will be used.
    pub input: Value,
    /// What it will do, paths resolved.
    pub effects: Arc<Effects>,
    /// The rule, mode or hook that asks.
    pub by: DecidedBy,
    /// The command that has run, if the question is about what it changed.
    pub ran: Option<String>,
    /// What exactly the answer is for: tool, arguments, real places, directory and confinement in one hash. Anything else asks again.
    pub subject: ContentHash,
    /// How much harm it could do.
    pub risk: RiskLevel,
    /// Who wants it.
    pub asker: Asker,
    /// Where the session has read what somebody else may have written, if it has.
    pub untrusted: Option<String>,
    /// What would become of files, found out by trying it where nothing is changed. Empty if that cannot be known beforehand.
    #[serde(skip)]
    pub changes: Arc<[FileChange]>,
    /// Build directories that a command changed.
    pub built: Vec<BuiltChange>,
    /// The sandbox and the network of programs, in words.
    pub confinement: String,
    /// Rules that can be given with a yes: the session then allows all that they cover.
    pub offers: Vec<String>,
    /// The workspace.
    pub workspace: PathBuf,
    /// Where relative paths of the call start, if not there.
    pub directory: Option<PathBuf>,
    /// When it was asked.
    pub at: SystemTime,
    /// Whether the arguments are as they were given: secrets are taken out of them for people.
    pub(crate) is_whole: bool,
    /// Whether an answer may be remembered: what holds the leash is asked about each time.
    pub can_be_remembered: bool,
    /// The rights of the session in one hash.
    pub(crate) rights: ContentHash,
    /// The rules that deny something in this session.
    pub(crate) denies: Vec<String>,
    /// The place of the call in the conversation of a model.
    #[serde(skip)]
    pub(crate) made: ModelCall,
    /// The call has run, so that the answer is about what it changed. Its arguments can then no longer be edited.
    pub has_run: bool,
    /// The subject of the call itself, where the question is about what it changed: a no that is remembered is for that.
    #[serde(skip)]
    pub(crate) call_subject: Option<ContentHash>,
    /// The answer may come after the call has ended: what it changed is held until then.
    pub(crate) can_wait: bool,
}

impl ApprovalRequest {
    /// Returns whether a no may be remembered: the call is then denied before it runs.
    pub fn can_be_denied_always(&self) -> bool {
        self.can_be_remembered || self.call_subject.is_some()
    }

    /// The command that has run, or that will if it is one of the arguments: a tool may find its command by itself.
    pub fn command(&self) -> Option<&str> {
        let given = || self.input.get("command")?.as_str();
        let runs = |command: &&str| {
            let is_it =
                |effect: &Effect| matches!(effect, Effect::Exec(line) if line.text == **command);
            self.has_run || self.effects.iter().any(is_it)
        };
        self.ran.as_deref().or_else(|| given().filter(runs))
    }

    /// The call as it is listed: its command and its other arguments, shortened.
    pub(crate) fn in_short(&self) -> String {
        let others = self.other_arguments().map(|others| others.to_string());
        let parts: Vec<&str> = self.command().into_iter().chain(others.as_deref()).collect();
        let whole = parts.join(" ");
        match whole.char_indices().nth(MOST_IN_SHORT) {
            Some((end, _)) => format!("{}…", whole.get(..end).unwrap_or_default()),
            None => whole,
        }
    }

    /// The arguments besides the [command](Self::command); `None` if there are no others.
    pub fn other_arguments(&self) -> Option<Value> {
        let mut input = self.input.clone();
        if let (Some(command), Value::Object(fields)) = (self.command(), &mut input)
            && fields.get("command").is_some_and(|given| *given == *command)
        {
            fields.remove("command");
        }
        let is_empty = input.as_object().is_some_and(serde_json::Map::is_empty);
        (!is_empty).then_some(input)
    }
}

/// Who wants something: which agent, in which session, below which other.
///
/// ```
/// use windlass_core::{Asker, SessionId};
/// let asker = Asker { agent: Some("reviewer".into()), parent: Some(SessionId::new("s1")), depth: 1 };
/// assert_eq!(asker.to_string(), "agent reviewer, 1 below session s1");
/// assert_eq!(Asker::default().to_string(), "the session's own model");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asker {
    /// The agent's name, if it has one.
    pub agent: Option<String>,
    /// The session that started this one.
    pub parent: Option<SessionId>,
    /// How deep in sub-agents.
    pub depth: u32,
}

impl fmt::Display for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.agent {
            Some(agent) => write!(f, "agent {}", crate::quote::visible(agent))?,
            None if self.parent.is_some() => f.write_str("a sub-agent")?,
            None => f.write_str("the session's own model")?,
        }
        match &self.parent {
            Some(parent) => write!(f, ", {} below session {parent}", self.depth.max(1)),
            None => Ok(()),
        }
    }
}

/// A build directory that a command changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltChange {
    /// The directory.
    #[serde(with = "crate::quote::serde_path")]
    pub path: PathBuf,
    /// The number of files in it that changed or are new.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
}

/// What a call would make of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The file.
    pub path: PathBuf,
    /// What would happen to it, in a word.
    pub verb: &'static str,
    /// What is in it now; `None` if it is no file.
    pub before: Option<Vec<u8>>,
    /// What would be in it; `None` if it would be no file.
    pub after: Option<Vec<u8>>,
    /// What its contents do not show: the target of a link, the new mode.
    pub detail: Option<String>,
}

/// The changes of a command that wait for an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeldDifference {
    /// Files, against what the command found.
    pub files: Vec<FileChange>,
    /// Build directories.
    pub built: Vec<BuiltChange>,
    /// The files that changed since, so that the changes cannot be made.
    pub changed_since: Vec<PathBuf>,
}
