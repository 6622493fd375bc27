//! The author of a file that configures actions: a command file or a hook file.

/// The author of a command file or hook file, which decides what the file may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// The person who owns the machine.
    Person,
    /// The authors of the workspace, after a person has trusted it.
    Workspace,
}
