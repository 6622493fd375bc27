//! Counts many changes by directory, for texts that cannot name each file: the question to a person, and the result for a model.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::quote;

/// Maximum depth of the directories that are counted.
const MAX_DEPTH: usize = 4;

/// The number of changes of each kind, by the word for the kind.
///
/// ```
/// use windlass_core::ChangeCounts;
/// let counts: ChangeCounts = ["created", "deleted", "created"].into_iter().collect();
/// assert_eq!(counts.to_string(), "created 2, deleted 1");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeCounts(BTreeMap<&'static str, usize>);

impl ChangeCounts {
    fn add(&mut self, word: &'static str) {
        *self.0.entry(word).or_default() += 1;
    }

    fn total(&self) -> usize {
        self.0.values().sum()
    }
}

impl FromIterator<&'static str> for ChangeCounts {
    fn from_iter<W: IntoIterator<Item = &'static str>>(words: W) -> Self {
        let mut counts = Self::default();
        words.into_iter().for_each(|word| counts.add(word));
        counts
    }
}

impl fmt::Display for ChangeCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> =
            self.0.iter().map(|(word, count)| format!("{word} {count}")).collect();
        f.write_str(&words.join(", "))
    }
}

/// Counts changes, each a path and the word for its kind, by directory. Goes as deep as at most `max_directories` directories allow.
/// Directories with most changes come first. Names are relative to the workspace; `.` is the workspace itself.
///
/// ```
/// use std::path::Path;
/// use windlass_core::count_by_directory;
/// let changes = [("/w/a/x", "created"), ("/w/a/y", "created"), ("/w/b", "deleted")];
/// let changes = changes.map(|(path, word)| (Path::new(path), word));
/// let counted = count_by_directory(&changes, Path::new("/w"), 20);
/// let lines: Vec<String> = counted.iter().map(|(name, counts)| format!("{name}/: {counts}")).collect();
/// assert_eq!(lines, ["a/: created 2", "./: deleted 1"]);
/// ```
pub fn count_by_directory(
    changes: &[(&Path, &'static str)],
    workspace: &Path,
    max_directories: usize,
) -> Vec<(String, ChangeCounts)> {
    let at_depth = |depth: usize| {
        let mut found: BTreeMap<String, ChangeCounts> = BTreeMap::new();
        for (path, word) in changes {
            found.entry(directory_of(path, workspace, depth)).or_default().add(word);
        }
        found
    };
    let mut chosen = at_depth(1);
    for depth in 2..=MAX_DEPTH {
        let deeper = at_depth(depth);
        if deeper.len() > max_directories || deeper.len() == chosen.len() {
            break;
        }
        chosen = deeper;
    }
    let mut directories: Vec<(String, ChangeCounts)> = chosen.into_iter().collect();
    directories.sort_by_key(|(_, counts)| Reverse(counts.total()));
    directories
}

/// Returns the first components of a file's directory, relative to the workspace; `.` for the workspace itself.
fn directory_of(path: &Path, workspace: &Path, depth: usize) -> String {
    let inside = path.strip_prefix(workspace);
    // An absolute path has its root as a part.
    let depth = if inside.is_ok() { depth } else { depth + 1 };
    let directory = inside.unwrap_or(path).parent().unwrap_or(Path::new(""));
    let named: PathBuf = directory.components().take(depth).collect();
    if named.as_os_str().is_empty() { ".".to_owned() } else { quote::path(&named).into_owned() }
}
