//! Default values that parameters of several tools share.

use std::path::PathBuf;

/// Returns `.`, the directory in which a tool works by default.
pub(crate) fn here() -> PathBuf {
    PathBuf::from(".")
}

/// Returns the default limit of files or entries in an output.
pub(crate) fn five_hundred() -> usize {
    500
}
