//! Errors of the hub.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use windlass::journal::StoreError;
use windlass::policy::RuleError;

use crate::config::ConfigError;
use crate::trust::TrustError;

/// Reason why a workspace cannot be opened, or a session cannot be created.
///
/// ```
/// use windlass_hub::{HubError, Hub, HubSettings};
/// # let folder = tempfile::tempdir().unwrap();
/// let hub = Hub::new(HubSettings::new(folder.path()));
/// let error = hub.open(&folder.path().join("missing")).unwrap_err();
/// assert!(matches!(error, HubError::Workspace { .. }));
/// ```
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The workspace does not exist or cannot be reached.
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
    /// A path of the key `hidden` cannot be turned into a rule.
    #[error(transparent)]
    Hidden(#[from] RuleError),
    /// A tool name is unknown.
    #[error("{place}: there is no tool `{tool}`{}", .nearest.as_ref().map_or_else(String::new, |near| format!("; did you mean `{near}`?")))]
    UnknownTool {
        /// The unknown name.
        tool: String,
        /// The option, or the key and the file, that contains the name.
        place: String,
        /// The tool with the most similar name.
        nearest: Option<String>,
    },
    /// The files that take effect only after trust cannot be read.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The engine cannot be built.
    #[error(transparent)]
    Windlass(#[from] windlass::Error),
    /// The journal cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Returns an error and its causes in one line.
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
