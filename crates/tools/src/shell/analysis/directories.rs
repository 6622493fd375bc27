//! The directories in which a command may run, given the commands before it.

use std::path::PathBuf;

/// The possible working directories of a command, without duplicates.
pub(super) type Directories = Vec<PathBuf>;

/// The possible working directories after a command succeeds and after it fails.
pub(super) struct DirectoriesAfter {
    pub(super) success: Directories,
    pub(super) failure: Directories,
}

impl DirectoriesAfter {
    /// Returns the same directories for success and failure.
    pub(super) fn same(directories: Directories) -> Self {
        Self { success: directories.clone(), failure: directories }
    }

    /// Returns the directories of both cases.
    pub(super) fn all(self) -> Directories {
        union(self.success, self.failure)
    }
}

/// Returns the entries of both lists, without duplicates.
pub(super) fn union(mut one: Directories, other: Directories) -> Directories {
    for directory in other {
        if !one.contains(&directory) {
            one.push(directory);
        }
    }
    one
}
