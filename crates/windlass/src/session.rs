//! Sessions: who calls, with which rights and which budget, and the ids of sessions, turns and calls.
//!
//! A session below another one has at most its rights, and ends with it:
//!
//! ```
//! use windlass::Session;
//! use windlass::session::{Limits, SessionId};
//! use windlass::tool::{Overrides, Predicate};
//! let parent = Session::new(SessionId::new("s1"));
//! let limits = Limits { tools: Predicate::allow(["read", "grep"]), ..Limits::default() };
//! let reviewer = parent.child(SessionId::new("s2"), limits, &Overrides::default());
//! assert_eq!(reviewer.parent(), Some(parent.id()));
//! ```

pub use windlass_core::{
    ApprovalId, Budget, CallId, IdSource, JobId, Limits, Principal, QuestionId, Rights,
    SESSION_TMP, SequentialIds, Session, SessionId, Spent, TurnId, Unseen, below_session_tmp,
    id_number, usual_tmp_path,
};
pub use windlass_host::RandomIds;
