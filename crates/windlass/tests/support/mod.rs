//! Shared parts of the tests: a workspace with its state, a tree that can be compared, and a tool that changes files as the delta of a
//! command does.

mod delta;
mod random;
mod tools;
mod tree;
mod workspace;

pub(crate) use delta::delta;
pub(crate) use random::Random;
pub(crate) use tools::tool_links;
pub(crate) use tree::Tree;
pub(crate) use workspace::{TestWorkspace, text};
