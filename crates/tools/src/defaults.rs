//! Defaults that parameters of several tools share.

use std::path::PathBuf;

/// The directory in which a tool works if none is named.
pub(crate) fn here() -> PathBuf {
    PathBuf::from(".")
}

/// How many files or entries are shown at most.
pub(crate) fn five_hundred() -> usize {
    500
}
