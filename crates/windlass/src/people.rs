//! People: approvals of calls, questions of tools, and the attendants that answer them.
//!
//! An [`Attendant`] is a terminal, a chat window, a callback. Without one, a call that needs a person is denied at once.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), windlass::Error> {
//! use windlass::people::ApprovalRequest;
//! use windlass::{Outcome, ToolCall, Windlass};
//! # let folder = tempfile::tempdir().unwrap();
//! let only_notes = |request: &ApprovalRequest| request.input["path"] == "notes.md";
//! let windlass = Windlass::builder(folder.path()).attendant(only_notes).build()?;
//! let session = windlass.new_session();
//! for (path, outcome) in [("notes.md", Outcome::Ok), ("other.md", Outcome::Denied)] {
//!     let write = ToolCall::new("write", serde_json::json!({"path": path, "content": "x"}));
//!     assert_eq!(windlass.call(&session, write).await.outcome, outcome);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | to | see |
//! |---|---|
//! | ask people | [`Attendant`], [`ApprovalRequest`], [`Builder::attendant`](crate::Builder::attendant) |
//! | answer by id, from another thread or process | [`EventAttendant`], [`Engine::attend`](crate::engine::Engine::attend), [`Engine::answer`](crate::engine::Engine::answer) |
//! | say yes or no, for how long and why | [`Answer`], [`Scope`], [`AttendantReply`] |
//! | show the changes of a call | [`Difference`] |
//! | answer questions of tools | [`QuestionRequest`], [`Question`], [`QuestionAnswer`] |
//! | keep open approvals elsewhere | [`InquiryBook`], [`ApprovalFile`], [`MemoryBook`] |

pub use crate::approval_diff::Difference;
pub use windlass_core::{
    Answer, AnswerError, Approval, ApprovalAnswered, ApprovalRequest, ApprovalState, Attendant,
    AttendantRegistration, AttendantReply, BookError, BuiltChange, CommandEnd, EventAttendant,
    FileChange, HeldDiff, Inquiry, InquiryBook, InquiryState, MemoryBook, Question, QuestionAnswer,
    QuestionAnswered, QuestionOption, QuestionRequest, Requester, Scope, Selection, WaitGuard,
};
pub use windlass_store::{ApprovalFile, QuestionFile};
