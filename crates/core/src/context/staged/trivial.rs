//! Changes that count as none: a command that leaves nothing else behind is asked about by nobody, and they are dropped.

use std::path::{Component, Path};

use crate::{Attributes, ChangedTo, ProcessChange, ProcessChanges};

/// Directories in which tools remember results that they can compute again.
const TOOL_CACHES: [&str; 6] =
    ["__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".eslintcache"];

/// Returns whether a command changed nothing that a person would want to decide on.
pub(super) fn are_all_trivial(changes: &ProcessChanges) -> bool {
    changes.changes.iter().all(is_trivial) && changes.built.iter().all(|path| is_in_cache(path))
}

/// Returns whether only a time differs, or the path belongs to a tool's cache.
pub(in crate::context) fn is_trivial(change: &ProcessChange) -> bool {
    let is_time = match &change.to {
        ChangedTo::Attributes(to) => Attributes { modified: None, ..to.clone() }.is_empty(),
        _ => false,
    };
    is_time || is_in_cache(&change.path)
}

pub(super) fn is_in_cache(path: &Path) -> bool {
    let is_cache = |part: Component<'_>| matches!(part, Component::Normal(name) if TOOL_CACHES.iter().any(|cache| name == *cache));
    path.components().any(is_cache)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, to: ChangedTo) -> ProcessChange {
        ProcessChange { path: path.into(), before: None, to }
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
