//! The record of a session: what the engine writes down before anything else is told about it.

use std::time::SystemTime;

use crate::sync::Lock;
use crate::{BoxFuture, CallId, Outcome, SessionId, TurnId};

/// One line of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// When.
    pub at: SystemTime,
    /// In which session.
    pub session: SessionId,
    /// In which turn.
    pub turn: TurnId,
    /// Of which call.
    pub call: CallId,
    /// Of which tool, as it was called.
    pub tool: String,
    /// What happened.
    pub kind: RecordKind,
    /// The details, as the text of a JSON object; secrets are already taken out.
    pub body: String,
}

/// What a record tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// A call passed the policy and is about to begin.
    Started,
    /// A call ended, whether it had begun or not.
    Finished(Outcome),
}

impl RecordKind {
    /// The name in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Finished(_) => "finished",
        }
    }
}

/// Why a record could not be written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct JournalError(pub String);

/// Where records go. They are taken in the order of the calls of [`Journal::append`].
pub trait Journal: Send + Sync {
    /// Takes a record at once; the future ends when it is safe. Dropping the future does not take the record back.
    fn append(&self, record: Record) -> BoxFuture<'static, Result<(), JournalError>>;
}

/// Keeps whole outputs whose text was too long for the model.
pub trait Outputs: Send + Sync {
    /// Keeps the text of a call.
    fn keep(&self, session: &SessionId, call: &CallId, text: &str) -> Result<(), JournalError>;
    /// The text of a call, if it is still there.
    fn get(&self, call: &CallId) -> Result<Option<String>, JournalError>;
}

/// Keeps outputs as long as the process lives: what an embedder without a store gets.
///
/// ```
/// use windlass_core::{CallId, MemoryOutputs, Outputs, SessionId};
/// let outputs = MemoryOutputs::default();
/// outputs.keep(&SessionId::new("s"), &CallId::new("c"), "all of it")?;
/// assert_eq!(outputs.get(&CallId::new("c"))?.as_deref(), Some("all of it"));
/// # Ok::<(), windlass_core::JournalError>(())
/// ```
#[derive(Debug, Default)]
pub struct MemoryOutputs(Lock<std::collections::VecDeque<(CallId, String)>>);

impl MemoryOutputs {
    /// The oldest are dropped above this.
    const MAX_BYTES: usize = 64 << 20;
}

impl Outputs for MemoryOutputs {
    fn keep(&self, _: &SessionId, call: &CallId, text: &str) -> Result<(), JournalError> {
        let mut kept = self.0.lock();
        kept.push_back((call.clone(), text.to_owned()));
        let mut bytes: usize = kept.iter().map(|(_, text)| text.len()).sum();
        while bytes > Self::MAX_BYTES && kept.len() > 1 {
            bytes -= kept.pop_front().map_or(0, |(_, text)| text.len());
        }
        Ok(())
    }

    fn get(&self, call: &CallId) -> Result<Option<String>, JournalError> {
        Ok(self.0.lock().iter().find(|(kept, _)| kept == call).map(|(_, text)| text.clone()))
    }
}
