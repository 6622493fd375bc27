//! The error type of the library. Failures of calls are results, not errors.

use crate::changes::HistoryError;
use crate::files::FileError;
use crate::journal::StoreError;
use crate::process::ShellError;
use crate::tool::{ToolError, ToolboxError};

/// An error in building an engine, or in an operation that is not a call.
///
/// ```
/// use windlass::{Error, Windlass};
/// # let folder = tempfile::tempdir().unwrap();
/// let error = Windlass::builder(folder.path().join("missing")).build().unwrap_err();
/// assert!(matches!(&error, Error::Workspace(_)));
/// assert!(error.to_string().starts_with("the workspace cannot be used: "));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The workspace cannot be used.
    #[error("the workspace cannot be used: {0}")]
    Workspace(#[from] FileError),
    /// The shell of commands cannot be used.
    #[error(transparent)]
    Shell(#[from] ShellError),
    /// The journal cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A tool cannot be added.
    #[error(transparent)]
    Toolbox(#[from] ToolboxError),
    /// An operation outside of a call failed.
    #[error("{0}")]
    Tool(#[from] ToolError),
    /// The operation needs a state directory.
    #[error("{0} need a state directory; give one to the builder with `state`")]
    NoState(&'static str),
}

impl From<HistoryError> for Error {
    fn from(error: HistoryError) -> Self {
        Self::Tool(error.into())
    }
}
