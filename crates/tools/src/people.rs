//! Tools that people use, not models: the command line and embedders call them, through the engine like all others.

mod apply;
mod restore;

pub use apply::Apply;
pub use restore::Restore;
