//! Finds moved files among changes: one file is deleted, and another is created with the same content.
//!
//! The content was in the workspace before, so a person needs only the two names. A file of git is shown with its lines: git may run it.

use std::collections::HashMap;
use std::path::Path;

use windlass_core::FileChange;

use super::{change_detail, relative_name};

/// The moved files: each created path with the deleted path whose content it has.
pub(super) struct Moves<'c> {
    from: HashMap<&'c Path, &'c Path>,
    to: HashMap<&'c Path, &'c Path>,
}

impl<'c> Moves<'c> {
    /// Finds the moved files among these changes. Each file is moved once. An empty file is never moved.
    pub(super) fn among(changes: &'c [FileChange]) -> Self {
        let mut gone: HashMap<&[u8], Vec<&Path>> = HashMap::new();
        for change in changes.iter().filter(|change| change.verb == "delete") {
            if let (Some(content), None) = (&change.before, &change.after) {
                gone.entry(content).or_default().push(&change.path);
            }
        }
        let mut moves = Self { from: HashMap::new(), to: HashMap::new() };
        for change in changes.iter().filter(|change| change.verb == "create") {
            let (None, Some(content)) = (&change.before, &change.after) else { continue };
            if content.is_empty() || is_git_file(&change.path) {
                continue;
            }
            let Some(candidates) = gone.get_mut(content.as_slice()) else { continue };
            if candidates.is_empty() {
                continue;
            }
            let has_same_name = |path: &&Path| path.file_name() == change.path.file_name();
            let old = candidates.remove(candidates.iter().position(has_same_name).unwrap_or(0));
            moves.from.insert(&change.path, old);
            moves.to.insert(old, &change.path);
        }
        moves
    }

    /// Returns the line of a change that is a part of a move: it stands at the created file, and the deleted one has none. `None` if the
    /// change is no part of a move.
    pub(super) fn line(&self, change: &FileChange, workspace: &Path) -> Option<String> {
        let path = change.path.as_path();
        if change.verb == "delete" && self.to.contains_key(path) {
            return Some(String::new());
        }
        let old = self.from.get(path).filter(|_| change.verb == "create")?;
        let [old, new] = [old, path].map(|path| relative_name(path, workspace));
        Some(format!("moved {old} -> {new}{}\n", change_detail(change)))
    }
}

/// Returns whether a path is below a directory `.git`.
fn is_git_file(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == ".git")
}
