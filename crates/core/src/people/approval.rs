//! The request for an approval, as a person sees it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ApprovalId, CallId, CommandEnd, ContentHash, DecidedBy, Effect, Effects, ModelCallPosition,
    RiskLevel, SessionId,
};

/// Maximum number of characters of a call that are kept for lists.
const MAX_SHORT_CHARS: usize = 1_000;

/// A request to a person to allow a call.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{ApprovalRequest, DecidedBy, EffectKinds, Outcome, ToolCall};
/// # use windlass_core::{Effects, Engine, Toolbox, testing::{EmptyHost, MockTool}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("publish").with_effects(EffectKinds::WRITE, |_| Effects::write("index.html")))?;
/// # let builder = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools);
/// let only_writes = |request: &ApprovalRequest| {
///     matches!(request.by, DecidedBy::Mode { .. }) && EffectKinds::WRITE.contains(request.effects.kinds())
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
    /// Id to name in the answer.
    pub id: ApprovalId,
    /// Call that waits for the answer.
    pub call: CallId,
    /// Session of the call.
    pub session: SessionId,
    /// Tool of the call.
    pub tool: String,
    /// Arguments of the call, as they will be used.
    pub input: Value,
    /// Effects of the call, with resolved paths.
    pub effects: Arc<Effects>,
    /// Rule, mode or hook that asks.
    pub by: DecidedBy,
    /// Command that has run, if the request is about its changes.
    pub ran: Option<String>,
    /// End of that command: its exit and the last lines of its output. `None` if no command has run.
    pub ended: Option<CommandEnd>,
    /// Hash of everything that the answer is for: tool, arguments, resolved paths, directory and confinement. Anything else asks again.
    pub subject: ContentHash,
    /// Harm that the call could do.
    pub risk: RiskLevel,
    /// Agent and sessions behind the call.
    pub asker: Requester,
    /// Origin of the first untrusted text that the session has read, if it has read any.
    pub untrusted: Option<String>,
    /// Changes that the call would make to files, found by a trial run. Empty if that cannot be known beforehand.
    #[serde(skip)]
    pub changes: Arc<[FileChange]>,
    /// Build directories that a command changed.
    pub built: Vec<BuiltChange>,
    /// Sandbox and network of programs, in words.
    pub confinement: String,
    /// Rules that can be given together with an approval: the session then allows everything that they cover.
    pub offers: Vec<String>,
    /// Workspace of the session.
    pub workspace: PathBuf,
    /// Directory that relative paths of the call start from, if not the workspace.
    pub directory: Option<PathBuf>,
    /// Time at which it was asked.
    pub at: SystemTime,
    /// True if the arguments are complete; false if secrets were redacted in them.
    pub(crate) is_whole: bool,
    /// True if an answer may be remembered. False for calls that ask each time.
    pub can_be_remembered: bool,
    /// Hash of the rights of the session.
    pub(crate) rights: ContentHash,
    /// Rules that deny in this session.
    pub(crate) denies: Vec<String>,
    /// Ids of the call in the conversation of a model.
    #[serde(skip)]
    pub(crate) made: ModelCallPosition,
    /// True if the call has run, so that the answer is about its changes. Its arguments can then no longer be edited.
    pub has_run: bool,
    /// Subject of the call itself, if the request is about its changes: a remembered denial counts for that subject.
    #[serde(skip)]
    pub(crate) call_subject: Option<ContentHash>,
    /// True if the answer may come after the call has ended: its changes are held until then.
    pub(crate) can_wait: bool,
}

impl ApprovalRequest {
    /// Returns whether a denial may be remembered, so that the call is denied before it runs.
    pub fn can_be_denied_always(&self) -> bool {
        self.can_be_remembered || self.call_subject.is_some()
    }

    /// Returns the command that has run, or that will run if it is one of the arguments. Some tools make up their command by themselves.
    pub fn command(&self) -> Option<&str> {
        let given = || self.input.get("command")?.as_str();
        let runs = |command: &&str| {
            let is_it =
                |effect: &Effect| matches!(effect, Effect::Exec(line) if line.text == **command);
            self.has_run || self.effects.iter().any(is_it)
        };
        self.ran.as_deref().or_else(|| given().filter(runs))
    }

    /// Returns the call for a list: its command and its other arguments, shortened.
    pub(crate) fn short_form(&self) -> String {
        let others = self.other_arguments().map(|others| others.to_string());
        let parts: Vec<&str> = self.command().into_iter().chain(others.as_deref()).collect();
        let whole = parts.join(" ");
        match whole.char_indices().nth(MAX_SHORT_CHARS) {
            Some((end, _)) => format!("{}…", whole.get(..end).unwrap_or_default()),
            None => whole,
        }
    }

    /// Returns the arguments besides the [command](Self::command); `None` if there are no others.
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

/// The origin of a call: its agent, its session's parent, and its depth in sub-agents.
///
/// ```
/// use windlass_core::{Requester, SessionId};
/// let asker = Requester { agent: Some("reviewer".into()), parent: Some(SessionId::new("s1")), depth: 1 };
/// assert_eq!(asker.to_string(), "agent reviewer, 1 below session s1");
/// assert_eq!(Requester::default().to_string(), "the session's own model");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// Name of the agent, if it has one.
    pub agent: Option<String>,
    /// Session that started this one.
    pub parent: Option<SessionId>,
    /// Depth in sub-agents.
    pub depth: u32,
}

impl fmt::Display for Requester {
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
    /// Number of files in it that changed or are new.
    pub files: u64,
    /// Size of these files in bytes.
    pub bytes: u64,
}

/// The change that a call would make to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The file.
    pub path: PathBuf,
    /// Kind of change, in a word.
    pub verb: &'static str,
    /// Content now; `None` if it is no file.
    pub before: Option<Vec<u8>>,
    /// Content after the call; `None` if it would be no file.
    pub after: Option<Vec<u8>>,
    /// Facts that the contents do not show: the target of a link, the new mode.
    pub detail: Option<String>,
}

/// The changes of a command that wait for an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeldDiff {
    /// Changed files, compared with the state that the command found.
    pub files: Vec<FileChange>,
    /// Changed build directories.
    pub built: Vec<BuiltChange>,
    /// Files that changed since, so that the changes cannot be committed.
    pub changed_since: Vec<PathBuf>,
}
