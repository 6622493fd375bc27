//! Tools for people, not models: the command line and embedding programs call them through the engine like all other tools.

mod apply;
mod restore;

pub use apply::Apply;
pub use restore::Restore;
