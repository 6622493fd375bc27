//! Summarizes many changed files on one screen: numbers by directory, and the names of the first files.

use std::path::Path;

use windlass_core::{ChangeCounts, FileChange, count_by_directory};

/// Maximum number of files that are listed with a line each instead of a summary.
pub(super) const MAX_LISTED_FILES: usize = 100;
/// Maximum number of directories with a line each. The others are only counted.
const MAX_DIRECTORIES: usize = 20;
/// Number of files that a summary names. Deletions, links and modes come first, because they are easily missed.
const NAMED_FILES: usize = 20;

/// Writes the summary: changes by kind, changes below each directory, and the first files as lines of `change_line`.
pub(super) fn summary(
    changes: &[FileChange],
    workspace: &Path,
    change_line: &dyn Fn(&FileChange) -> String,
) -> String {
    let verbs: Vec<(&Path, &'static str)> =
        changes.iter().map(|change| (change.path.as_path(), change.verb)).collect();
    let all: ChangeCounts = verbs.iter().map(|(_, verb)| *verb).collect();
    let mut text = format!("{} files: {all}\n", changes.len());
    let directories = count_by_directory(&verbs, workspace, MAX_DIRECTORIES);
    for (name, counts) in directories.iter().take(MAX_DIRECTORIES) {
        append(&mut text, format_args!("  below {name}/: {counts}\n"));
    }
    let more = directories.len().saturating_sub(MAX_DIRECTORIES);
    if more > 0 {
        append(&mut text, format_args!("  and {more} more directories\n"));
    }
    let mut first: Vec<&FileChange> = changes.iter().collect();
    first.sort_by_key(|change| only_changes_content(change));
    for change in first.iter().take(NAMED_FILES) {
        text.push_str(&change_line(change));
    }
    let more = changes.len().saturating_sub(NAMED_FILES);
    append(&mut text, format_args!("and {more} more files\n"));
    text
}

/// Appends formatted text.
fn append(text: &mut String, more: std::fmt::Arguments<'_>) {
    let written = std::fmt::Write::write_fmt(text, more);
    debug_assert!(written.is_ok(), "writing to a string does not fail");
}

/// Returns whether a change only creates a file or changes its content.
fn only_changes_content(change: &FileChange) -> bool {
    change.detail.is_none() && matches!(change.verb, "create" | "change")
}
