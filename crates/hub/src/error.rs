//! Errors of the assembly.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use windlass::journal::StoreError;
use windlass::policy::RuleError;

use crate::config::ConfigError;
use crate::trust::TrustError;

/// The reason why a workspace cannot be opened, or a session cannot be made.
///
/// ```
/// use windlass_hub::{Error, Hub, Settings};
/// # let folder = tempfile::tempdir().unwrap();
/// let hub = Hub::new(Settings::new(folder.path()));
/// let error = hub.open(&folder.path().join("missing")).unwrap_err();
/// assert!(matches!(error, Error::Workspace { .. }));
/// ```
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The workspace is not there, or cannot be reached.
    #[error("the workspace {} cannot be used", path.display())]
    Workspace {
        /// The path that was given.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A path of the key `hidden` does not make a rule.
    #[error(transparent)]
    Hidden(#[from] RuleError),
    /// A tool that there is not.
    #[error("{place}: there is no tool `{tool}`{}", .nearest.as_ref().map_or_else(String::new, |near| format!("; did you mean `{near}`?")))]
    UnknownTool {
        /// The name that was given.
        tool: String,
        /// The option or key, and the file.
        place: String,
        /// The tool with the most similar name.
        nearest: Option<String>,
    },
    /// The files that take effect only after trust cannot be looked at.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The engine cannot be built.
    #[error(transparent)]
    Windlass(#[from] windlass::Error),
    /// The journal cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An error and its causes in one line.
pub(crate) fn with_causes(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let written = write!(text, ": {error}");
        debug_assert!(written.is_ok(), "writing to a string does not fail");
        cause = error.source();
    }
    text
}
