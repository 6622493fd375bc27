//! People: the attendants that ask them, the approvals and questions, and the answers.
//!
//! A front door registers an [`Attendant`] for a session, or for all. A call that needs a person puts an approval or a set of questions
//! on record, and the [`Broker`] asks every registered attendant. The first answer counts, whichever process gives it: it is written to
//! the record under a lock, and the waiting call reads it from there. Books are on disks and behind locks, so they are read and changed
//! on threads of their own, where a slow disk delays no call.

mod answer;
mod approval;
mod attendant;
mod awaited;
mod book;
mod broker;
mod command_end;
mod desk;
mod question;
mod record;
mod watcher;
mod worker;

pub use answer::{Answer, AnswerError, AttendantReply};
pub use approval::{ApprovalRequest, BuiltChange, FileChange, HeldDiff, Requester};
pub use attendant::{Attendant, AttendantRegistration, EventAttendant};
pub use book::{BookError, Inquiry, InquiryBook, InquiryState, MemoryBook, WaitGuard};
pub(crate) use broker::{Broker, Permission, Settings, decided_by, denial_by_answer};
pub use command_end::CommandEnd;
pub use question::{Question, QuestionAnswer, QuestionOption, QuestionRequest, Selection};
pub use record::{Approval, ApprovalState, Scope};
pub(crate) use record::{CallLocation, approval_subject};
