//! Shared parts of the tests: a workspace with its state, a tree that can be compared, and a tool that changes files as the delta of a
//! command does.

mod delta;
mod dice;
mod place;
mod tools;
mod tree;

pub(crate) use delta::delta;
pub(crate) use dice::Dice;
pub(crate) use place::{Place, text};
pub(crate) use tools::tools;
pub(crate) use tree::Tree;
