//! Sessions: the rights, the budget and the owner of calls, and the ids of sessions, turns and calls.
//!
//! A child session has at most the rights of its parent, and ends with it:
//!
//! ```
//! use windlass::Windlass;
//! use windlass::tool::Predicate;
//! # let folder = tempfile::tempdir().unwrap();
//! let windlass = Windlass::builder(folder.path()).build()?;
//! let parent = windlass.new_session();
//! let reviewer = windlass.child_session(&parent, Predicate::allow(["read", "grep"]));
//! assert_eq!(reviewer.parent(), Some(parent.id()));
//! parent.cancel();
//! assert!(reviewer.is_cancelled());
//! # Ok::<(), windlass::Error>(())
//! ```
//!
//! | to | see |
//! |---|---|
//! | begin a session | [`Windlass::new_session`](crate::Windlass::new_session), [`Windlass::new_session_with`](crate::Windlass::new_session_with), [`Session`] |
//! | begin a child session for a sub-agent | [`Windlass::child_session`](crate::Windlass::child_session), [`Session::child`] |
//! | give fewer rights | [`SessionLimits`], [`Rights`], [`Predicate`](crate::tool::Predicate), [`ToolSelection`](crate::tool::ToolSelection) |
//! | give a budget, and read what was spent | [`Budget`], [`Spent`], [`Session::with_budget`] |
//! | name the owner of the calls | [`Principal`], [`Session::for_principal`] |
//! | give ids of your own | [`IdSource`], [`SequentialIds`], [`RandomIds`] |

pub use windlass_core::{
    ApprovalId, Budget, CallId, IdSource, JobId, Principal, QuestionId, Rights, SESSION_TMP,
    SequentialIds, Session, SessionId, SessionLimits, Spent, TurnId, Unseen, below_session_tmp,
    id_number, usual_tmp_path,
};
pub use windlass_host::RandomIds;
