//! Many changed files on one screen: how many there are below each directory, and the first of them by name.

use std::collections::BTreeMap;
use std::path::Path;

use windlass_core::{FileChange, quote};

/// The most files that have a line each.
pub(super) const MOST_FILES: usize = 100;
/// The most directories that are counted on their own.
const MOST_DIRECTORIES: usize = 20;
/// The files that are named where not all are. Of these come first what a look at new files does not tell: deletions, links, modes.
const FIRST_FILES: usize = 20;

/// Counts the changes below each directory and names the first ones by `line_of`.
pub(super) fn summary(
    changes: &[FileChange],
    workspace: &Path,
    line_of: &dyn Fn(&FileChange) -> String,
) -> String {
    let mut text = format!("{} files: {}\n", changes.len(), Counts::of(changes.iter()));
    let directories = by_directory(changes, workspace);
    for (name, counts) in directories.iter().take(MOST_DIRECTORIES) {
        add(&mut text, format_args!("  below {name}/: {counts}\n"));
    }
    let more = directories.len().saturating_sub(MOST_DIRECTORIES);
    if more > 0 {
        add(&mut text, format_args!("  and {more} more directories\n"));
    }
    let mut first: Vec<&FileChange> = changes.iter().collect();
    first.sort_by_key(|change| is_plain(change));
    for change in first.iter().take(FIRST_FILES) {
        text.push_str(&line_of(change));
    }
    let more = changes.len().saturating_sub(FIRST_FILES);
    add(&mut text, format_args!("and {more} more files\n"));
    text
}

fn add(text: &mut String, more: std::fmt::Arguments<'_>) {
    let written = std::fmt::Write::write_fmt(text, more);
    debug_assert!(written.is_ok(), "writing to a string does not fail");
}

/// Tells whether a change is the new content of a file.
fn is_plain(change: &FileChange) -> bool {
    change.detail.is_none() && matches!(change.verb, "create" | "change")
}

/// How many changes there are of each kind.
#[derive(Default)]
struct Counts(BTreeMap<&'static str, usize>);

impl Counts {
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

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<String> =
            self.0.iter().map(|(verb, count)| format!("{verb} {count}")).collect();
        f.write_str(&words.join(", "))
    }
}

/// The directories that hold the changes, as deep as not too many are to be told apart, those with most changes first.
fn by_directory(changes: &[FileChange], workspace: &Path) -> Vec<(String, Counts)> {
    let at_depth = |depth: usize| {
        let mut found: BTreeMap<String, Counts> = BTreeMap::new();
        for change in changes {
            let name = directory_of(&change.path, workspace, depth);
            found.entry(name).or_default().add(change);
        }
        found
    };
    let mut chosen = at_depth(1);
    for depth in 2..=4 {
        let deeper = at_depth(depth);
        if deeper.len() > MOST_DIRECTORIES || deeper.len() == chosen.len() {
            break;
        }
        chosen = deeper;
    }
    let mut directories: Vec<(String, Counts)> = chosen.into_iter().collect();
    directories.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.total()));
    directories
}

/// The first parts of the directory of a file; `.` is the workspace.
fn directory_of(path: &Path, workspace: &Path, depth: usize) -> String {
    let inside = path.strip_prefix(workspace);
    // An absolute path has its root as a part.
    let depth = if inside.is_ok() { depth } else { depth + 1 };
    let directory = inside.unwrap_or(path).parent().unwrap_or(Path::new(""));
    let named: std::path::PathBuf = directory.components().take(depth).collect();
    if named.as_os_str().is_empty() { ".".to_owned() } else { quote::path(&named).into_owned() }
}
