//! Expands the paths outside the workspace that a rule or a call's grant adds to a view.

use std::fs;
use std::path::PathBuf;

use windlass_core::OutsidePaths;

/// Maximum entries of a directory that are compared with a pattern, or masked around a single file.
pub(super) const MAX_ENTRIES: usize = 10_000;

/// Returns the existing files and directories that a rule or grant names, with links resolved.
pub(super) fn expand(paths: &OutsidePaths) -> Vec<PathBuf> {
    if paths.is_whole() {
        return paths.root.canonicalize().into_iter().flat_map(expand_root).collect();
    }
    let Ok(root) = paths.root.canonicalize() else { return Vec::new() };
    let entries = fs::read_dir(&root).into_iter().flatten().flatten().take(MAX_ENTRIES);
    let meant = entries.map(|entry| entry.path()).filter(|path| paths.covers(path));
    meant.filter_map(|path| path.canonicalize().ok()).collect()
}

/// Returns a path, or for `/` the directories in it, without those of the kernel.
fn expand_root(path: PathBuf) -> Vec<PathBuf> {
    if path.parent().is_some() {
        return vec![path];
    }
    let of_the_kernel = ["proc", "dev", "sys"];
    let entries = fs::read_dir(&path).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| {
        entry.file_type().is_ok_and(|kind| kind.is_dir())
            && of_the_kernel.iter().all(|name| entry.file_name() != *name)
    });
    entries.map(|entry| entry.path()).collect()
}

/// Does the same for paths that may be written, which need not exist yet.
pub(super) fn expand_writable(paths: &OutsidePaths) -> Vec<PathBuf> {
    if !paths.is_whole() || paths.root.symlink_metadata().is_ok() {
        return expand(paths);
    }
    let (Some(parent), Some(name)) = (paths.root.parent(), paths.root.file_name()) else {
        return Vec::new();
    };
    parent.canonicalize().map(|parent| parent.join(name)).into_iter().collect()
}
