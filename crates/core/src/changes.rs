//! Changes of files: how they are made, recorded and taken back.
//!
//! [`commit`] makes several changes together or not at all, after [`history`] has what they replace. [`rollback`] takes back a commit
//! that failed half-way, [`recover`] one that a kill interrupted, [`undo`] one that a person or model regrets. [`snapshot`] restores
//! paths to a moment, and [`proposals`] holds changes that wait to be applied. [`state`] reads and compares what is at a path;
//! [`hard_links`] tells files with several names apart.

pub(crate) mod commit;
pub(crate) mod hard_links;
pub(crate) mod history;
pub(crate) mod proposals;
pub(crate) mod recover;
pub(crate) mod rollback;
pub(crate) mod snapshot;
pub(crate) mod state;
pub(crate) mod undo;
