//! Names the changes of a program for a model: each one, or numbers by directory if they are many.

use std::path::{Path, PathBuf};

use super::path_and_kind;
use crate::{ChangeCounts, ProcessChange, ProcessChanges, count_by_directory, quote};

/// Maximum number of changes that are named; more are counted by directory.
const MAX_NAMED: usize = 20;
/// Maximum number of directories that are counted separately.
const MAX_DIRECTORIES: usize = 20;

/// Lists the changes of a program, one object or directory per line.
pub(crate) fn listed(changes: &ProcessChanges, workspace: &Path) -> String {
    let name = |path: &Path| match path.strip_prefix(workspace).unwrap_or(path) {
        inside if inside.as_os_str().is_empty() => ".".to_owned(),
        inside => quote::path(inside).into_owned(),
    };
    let mut lines = if changes.changes.len() > MAX_NAMED {
        counted(&changes.changes, workspace)
    } else {
        let line = |change: &ProcessChange| {
            let (path, kind) = path_and_kind(change);
            format!("  {} {}", kind.word(), name(&path))
        };
        changes.changes.iter().map(line).collect()
    };
    let built = |path: &PathBuf| format!("  changed the build directory {}/", name(path));
    lines.extend(changes.built.iter().map(built));
    lines.join("\n")
}

/// Returns the numbers of changes: of all, then below each directory.
fn counted(changes: &[ProcessChange], workspace: &Path) -> Vec<String> {
    let words: Vec<(&Path, &'static str)> = changes
        .iter()
        .map(|change| (change.path.as_path(), path_and_kind(change).1.word()))
        .collect();
    let all: ChangeCounts = words.iter().map(|(_, word)| *word).collect();
    let directories = count_by_directory(&words, workspace, MAX_DIRECTORIES);
    let below = |(name, counts): &(String, ChangeCounts)| format!("  below {name}/: {counts}");
    let mut lines = vec![format!("  {all}")];
    lines.extend(directories.iter().take(MAX_DIRECTORIES).map(below));
    let more = directories.len().saturating_sub(MAX_DIRECTORIES);
    if more > 0 {
        lines.push(format!("  and below {more} more directories"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attributes, ChangedTo, Tracking};

    fn created(path: String) -> ProcessChange {
        let to = ChangedTo::File("/stage/x".into(), Attributes::default());
        ProcessChange { path: path.into(), before: None, to }
    }

    #[test]
    fn many_changes_are_counted_by_directory() {
        let gone = |path: &str| ProcessChange { to: ChangedTo::Nothing, ..created(path.into()) };
        let library = |count: usize| (0..count).map(|it| created(format!("/w/.venv/lib/{it}")));
        let spread = (0..30).map(|it| created(format!("/w/{it}/a")));
        let mut names: Vec<String> = (0..30).map(|it| it.to_string()).collect();
        names.sort();
        let mut many = vec!["  created 30".to_owned()];
        many.extend(names.iter().take(20).map(|name| format!("  below {name}/: created 1")));
        many.push("  and below 10 more directories".to_owned());
        for (changes, built, expected) in [
            (library(2).chain([gone("/w/a")]).collect(), vec![], "  created .venv/lib/0\n  created .venv/lib/1\n  deleted a".to_owned()),
            (library(20).collect(), vec![], (0..20).map(|it| format!("  created .venv/lib/{it}")).collect::<Vec<_>>().join("\n")),
            (
                library(100).chain([gone("/w/a"), created("/w/.venv/x".into())]).collect(),
                vec!["/w/target"],
                "  created 101, deleted 1\n  below .venv/lib/: created 100\n  below ./: deleted 1\n  below .venv/: created 1\n  changed the build directory target/".to_owned(),
            ),
            (
                spread.collect::<Vec<_>>(),
                vec![],
                many.join("\n"),
            ),
        ] {
            let mut all = ProcessChanges::none(Tracking::Staged);
            all.changes = changes;
            all.built = built.into_iter().map(PathBuf::from).collect();
            assert_eq!(listed(&all, Path::new("/w")), expected);
        }
    }
}
