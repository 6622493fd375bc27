//! Trivial changes, such as those of tool caches. They need no approval, and they are not kept.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use crate::{Attributes, ChangedTo, ProcessChange, ProcessChanges};

/// Directories in which tools cache results that they can compute again.
const TOOL_CACHES: [&str; 6] =
    ["__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".eslintcache"];

/// Removes trivial changes, so that they are not kept: a person is not shown them. Those below a directory that is removed stay,
/// since the directory could not be removed without them, and those of files that git tracks, which are sources. Blocking.
pub(super) fn leave_out_trivial(changes: &mut ProcessChanges) {
    let gone: HashSet<PathBuf> = changes
        .changes
        .iter()
        .filter(|change| !matches!(change.to, ChangedTo::Directory(_) | ChangedTo::Attributes(_)))
        .map(|change| change.path.clone())
        .collect();
    let is_below_gone = |path: &Path| path.ancestors().skip(1).any(|above| gone.contains(above));
    let tracked = tracked_in_caches(changes);
    changes.changes.retain(|change| {
        !is_trivial(change)
            || is_below_gone(&change.path)
            || (!is_time(change) && tracked.contains(&change.path))
    });
    let (caches, built): (Vec<_>, Vec<_>) =
        std::mem::take(&mut changes.built).into_iter().partition(|path| is_in_cache(path));
    changes.built = built;
    if let Some(stage) = changes.stage.as_mut().filter(|_| !caches.is_empty()) {
        stage.drop_built(&caches);
    }
}

/// Returns the changed paths in caches of tools that git tracks, or that hold files that it tracks.
fn tracked_in_caches(changes: &ProcessChanges) -> HashSet<PathBuf> {
    let in_caches = changes.changes.iter().map(|change| &change.path);
    let in_caches: Vec<PathBuf> = in_caches.filter(|path| is_in_cache(path)).cloned().collect();
    match &changes.stage {
        Some(stage) if !in_caches.is_empty() => stage.tracked(&in_caches).into_iter().collect(),
        _ => HashSet::new(),
    }
}

/// Returns whether only a time differs, or the path belongs to a tool's cache.
fn is_trivial(change: &ProcessChange) -> bool {
    is_time(change) || is_in_cache(&change.path)
}

/// Returns whether only a time differs.
fn is_time(change: &ProcessChange) -> bool {
    match &change.to {
        ChangedTo::Attributes(to) => Attributes { modified: None, ..to.clone() }.is_empty(),
        _ => false,
    }
}

/// Returns whether a path is in a cache of a tool.
pub(super) fn is_in_cache(path: &Path) -> bool {
    let is_cache = |part: Component<'_>| matches!(part, Component::Normal(name) if TOOL_CACHES.iter().any(|cache| name == *cache));
    path.components().any(is_cache)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tracking;

    fn change(path: &str, to: ChangedTo) -> ProcessChange {
        ProcessChange { path: path.into(), before: None, to }
    }

    #[test]
    fn trivial_changes_are_left_out_unless_their_directory_is_removed() {
        let file = || ChangedTo::File("/stage/x".into(), Attributes::default());
        let time =
            || ChangedTo::Attributes(Attributes { modified: Some(1), ..Attributes::default() });
        let mut changes = ProcessChanges::none(Tracking::Staged);
        changes.changes = vec![
            change("/w/out", file()),
            change("/w/a", time()),
            change("/w/__pycache__/m.pyc", file()),
            change("/w/src/__pycache__/m.pyc", ChangedTo::Nothing),
            change("/w/src/__pycache__", ChangedTo::Nothing),
            change("/w/src", ChangedTo::Nothing),
        ];
        changes.built = vec!["/w/.pytest_cache".into(), "/w/target".into()];
        leave_out_trivial(&mut changes);
        let paths: Vec<_> = changes.changes.iter().map(|one| one.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["/w/out", "/w/src/__pycache__/m.pyc", "/w/src/__pycache__", "/w/src"]);
        assert_eq!(changes.built, [PathBuf::from("/w/target")]);
    }

    #[test]
    fn times_and_caches_are_trivial() {
        let time = Attributes { modified: Some(1), ..Attributes::default() };
        let mode = Attributes { mode: Some(0o755), modified: Some(1), ..Attributes::default() };
        let file = || ChangedTo::File("/stage/x".into(), Attributes::default());
        for (change, expected) in [
            (change("/w/a", ChangedTo::Attributes(time)), true),
            (change("/w/a", ChangedTo::Attributes(mode)), false),
            (change("/w/a", file()), false),
            (change("/w/src/__pycache__/a.pyc", file()), true),
            (change("/w/.pytest_cache", ChangedTo::Directory(Attributes::default())), true),
            (change("/w/__pycache__.py", file()), false),
            (change("/w/a", ChangedTo::Nothing), false),
        ] {
            assert_eq!(is_trivial(&change), expected, "{change:?}");
        }
    }
}
