//! People: the front doors where they can be asked, what they are asked, and what they answered.
//!
//! A front door registers an [`Attendant`] for a session, or for all. A call that needs a person puts an approval or a set of questions
//! on record, and the [`Broker`] asks every attendant that is there. The first answer counts, in whichever process it was given: it is
//! written to the record under a lock, and the waiting call takes it from there. Books are on disks, behind locks: what is done with
//! one is done on threads where that holds up no call.

mod answer;
mod approval;
mod attendant;
mod book;
mod broker;
mod desk;
mod entry;
mod question;
mod record;
mod watcher;
mod worker;

pub use answer::{Answer, AnswerError, Reply};
pub use approval::{ApprovalRequest, Asker, BuiltChange, FileChange, HeldDifference};
pub use attendant::{Attendance, Attendant, Listening};
pub use book::{Book, Held, Inquiry, InquiryState, MemoryBook};
pub(crate) use broker::{Broker, Permission, Settings};
pub use question::{Question, QuestionAnswer, QuestionOption, QuestionRequest, Selection};
pub use record::{Approval, Scope, Settled};
pub(crate) use record::{Place, subject};
