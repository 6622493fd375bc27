//! Changes of files: commit, record and undo.
//!
//! [`commit`] makes several changes together or not at all, after [`history`] has saved the content that they replace. [`rollback`]
//! takes back a commit that failed half-way, [`recover`] repairs one that a kill interrupted, and [`undo`] takes back a finished
//! one on request. [`snapshot`] restores paths to a moment, and [`proposals`] holds changes that wait to be applied. [`state`]
//! reads and compares the object at a path; [`hard_links`] finds out which paths are hard links of one file. [`by_directory`] counts
//! changes that are too many to be named.

pub(crate) mod by_directory;
pub(crate) mod commit;
pub(crate) mod hard_links;
pub(crate) mod history;
pub(crate) mod proposals;
pub(crate) mod recover;
pub(crate) mod rollback;
pub(crate) mod snapshot;
pub(crate) mod state;
pub(crate) mod undo;
