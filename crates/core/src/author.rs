//! The author of a file that acts: a command file, or a file of hooks.

/// The author of a file that acts, which decides how far its word counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// The person whose machine it is.
    Person,
    /// The authors of the workspace; a person has trusted it.
    Workspace,
}
