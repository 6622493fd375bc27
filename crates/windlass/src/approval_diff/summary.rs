//! Summarizes many changed files on one screen: numbers by directory, and the names of the first files.

use std::collections::BTreeMap;
use std::path::Path;

use windlass_core::{FileChange, quote};

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
    let mut text = format!("{} files: {}\n", changes.len(), ChangeCounts::of(changes.iter()));
    let directories = count_by_directory(changes, workspace);
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

/// The number of changes of each kind, by verb.
#[derive(Default)]
struct ChangeCounts(BTreeMap<&'static str, usize>);

impl ChangeCounts {
    fn of<'c>(changes: impl Iterator<Item = &'c FileChange>) -> Self {
        let mut counts = Self::default();
        changes.for_each(|change| counts.add(change));
        counts
    }

    fn add(&mut self, change: &FileChange) {
        *self.0.entry(change.verb).or_default() += 1;
    }

    fn total(&self) -> usize {
        self.0.values().sum()
    }
}

impl std::fmt::Display for ChangeCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<String> =
            self.0.iter().map(|(verb, count)| format!("{verb} {count}")).collect();
        f.write_str(&words.join(", "))
    }
}

/// Counts the changes by directory at one depth, from 1 to 4. Goes deeper while that yields more directories, but at most
/// [`MAX_DIRECTORIES`]; depth 1 may yield more. Directories with most changes come first.
fn count_by_directory(changes: &[FileChange], workspace: &Path) -> Vec<(String, ChangeCounts)> {
    let at_depth = |depth: usize| {
        let mut found: BTreeMap<String, ChangeCounts> = BTreeMap::new();
        for change in changes {
            let name = directory_of(&change.path, workspace, depth);
            found.entry(name).or_default().add(change);
        }
        found
    };
    let mut chosen = at_depth(1);
    for depth in 2..=4 {
        let deeper = at_depth(depth);
        if deeper.len() > MAX_DIRECTORIES || deeper.len() == chosen.len() {
            break;
        }
        chosen = deeper;
    }
    let mut directories: Vec<(String, ChangeCounts)> = chosen.into_iter().collect();
    directories.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.total()));
    directories
}

/// Returns the first `depth` components of a file's directory, quoted: relative to the workspace (`.` for the workspace itself), or
/// absolute for a file outside.
fn directory_of(path: &Path, workspace: &Path, depth: usize) -> String {
    let inside = path.strip_prefix(workspace);
    // An absolute path has its root as a part.
    let depth = if inside.is_ok() { depth } else { depth + 1 };
    let directory = inside.unwrap_or(path).parent().unwrap_or(Path::new(""));
    let named: std::path::PathBuf = directory.components().take(depth).collect();
    if named.as_os_str().is_empty() { ".".to_owned() } else { quote::path(&named).into_owned() }
}
