//! Describes the files that a program changed: every path if there are few, otherwise whole directories with counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_core::{ChangeKind, Context, ProgramChangeReport, Tracking, git_record, quote};

use crate::format;

/// Limit of named paths.
const MAX_NAMED_PATHS: usize = 20;
/// Limit of the bytes of all named paths.
const MAX_NAMES_BYTES: usize = 2_000;
/// Limit of directories that are named with a count of further changes.
const MAX_SUMMARY_DIRECTORIES: usize = 5;
/// Limit of notes in one output.
const MAX_NOTES: usize = 5;
/// Limit of the length of a note.
const MAX_NOTE_CHARACTERS: usize = 300;
/// Limit of paths in the metadata.
const MAX_LISTED_PATHS: usize = 200;

/// The directory where relative paths of this call start. Paths below it are named relative to it.
pub(crate) struct Base(PathBuf);

impl Base {
    /// Returns the base of this call.
    pub(crate) fn of(cx: &Context) -> Self {
        Self(cx.files().resolve(Path::new(".")).map(|resolved| resolved.path).unwrap_or_default())
    }

    /// Returns a path relative to the base, or the whole path if it is elsewhere.
    fn name<'p>(&self, path: &'p Path) -> &'p Path {
        path.strip_prefix(&self.0).ok().filter(|name| !name.as_os_str().is_empty()).unwrap_or(path)
    }
}

/// Returns phrases about the changes for the closing line; none if nothing changed.
pub(crate) fn phrases(changed: &ProgramChangeReport, base: &Base) -> Vec<String> {
    let mut phrases = Vec::new();
    let names = || names(&changed.paths, base);
    if changed.is_dropped {
        phrases.extend(would_have_changed(changed, base));
        phrases.extend(notes(changed));
        return phrases;
    }
    match changed.tracking {
        Some(Tracking::Unknown) => {
            phrases.push("what it changed is not tracked, and cannot be undone".to_owned());
        }
        _ if changed.paths.is_empty() => {}
        // The files were scanned before and after the run, so another program may have changed them too.
        Some(Tracking::Scanned) => {
            phrases.push(format!("changed while it ran: {}; this cannot be undone", names()));
        }
        _ => phrases.push(format!("changed: {}", names())),
    }
    if !changed.built.is_empty() {
        let names: Vec<_> = changed
            .built
            .iter()
            .take(MAX_NAMED_PATHS)
            .map(|path| format!("{}/", quote::path(base.name(path))))
            .collect();
        phrases.push(format!("kept without history, which cannot be undone: {}", names.join(", ")));
    }
    phrases.extend(notes(changed));
    phrases
}

/// Returns the notes of the host about the changes, shortened.
fn notes(changed: &ProgramChangeReport) -> Vec<String> {
    let notes = changed.notes.iter().take(MAX_NOTES);
    let mut notes: Vec<String> =
        notes.map(|note| format::short(note, MAX_NOTE_CHARACTERS).into_owned()).collect();
    if changed.notes.len() > MAX_NOTES {
        notes.push(format!("and {} more like this", changed.notes.len() - MAX_NOTES));
    }
    notes
}

/// Returns a phrase about the changes of a command whose stage was dropped; `None` without changes.
fn would_have_changed(changed: &ProgramChangeReport, base: &Base) -> Option<String> {
    let built = changed.built.iter().take(MAX_NAMED_PATHS);
    let built = built.map(|path| format!("{}/", quote::path(base.name(path))));
    let paths = (!changed.paths.is_empty()).then(|| names(&changed.paths, base));
    let all: Vec<String> = paths.into_iter().chain(built).collect();
    (!all.is_empty()).then(|| {
        format!("would have changed, and nothing but files in /tmp is kept: {}", all.join(", "))
    })
}

/// Returns the changed paths as JSON, each with the kind of its change, up to a limit.
pub(super) fn as_json(changed: &ProgramChangeReport, base: &Base) -> Value {
    let one = |(path, kind): &(PathBuf, ChangeKind)| {
        let change = match kind {
            ChangeKind::Created => "created",
            ChangeKind::Changed => "changed",
            ChangeKind::Attributes => "attributes",
            ChangeKind::Removed => "removed",
        };
        json!({"path": quote::path(base.name(path)), "change": change})
    };
    changed.paths.iter().take(MAX_LISTED_PATHS).map(one).collect()
}

/// A changed path, with all that changed in the same way below it.
struct ChangedTree<'p> {
    path: &'p Path,
    kind: ChangeKind,
    /// Number of changes below the path. A directory with changes in it does not count.
    inside: usize,
}

/// Returns a text that names the changed paths, or their directories if there are too many.
fn names(paths: &[(PathBuf, ChangeKind)], base: &Base) -> String {
    let (own, mut sorted): (Vec<_>, Vec<_>) = paths
        .iter()
        .map(|(path, kind)| (base.name(path), *kind))
        .partition(|(path, _)| git_record(path).is_some());
    sorted.sort_by_key(|(path, _)| *path);
    let mut trees = leaf_changes(&sorted);
    if trees.len() > MAX_NAMED_PATHS {
        trees = outermost_trees(&sorted);
    }
    let mut names: Vec<String> = Vec::new();
    let mut bytes = 0;
    for tree in trees.iter().take(MAX_NAMED_PATHS) {
        let name = tree.name();
        bytes += name.len() + 2;
        if bytes > MAX_NAMES_BYTES {
            break;
        }
        names.push(name);
    }
    let rest = trees.get(names.len()..).unwrap_or_default();
    if !rest.is_empty() {
        names.push(summary(rest));
    }
    match own.as_slice() {
        [] => {}
        [(path, kind)] => names.push(ChangedTree { path, kind: *kind, inside: 0 }.name()),
        own => names.push(format!("{} files of git's own in .git/", own.len())),
    }
    names.join(", ")
}

/// Returns an entry for each change. A directory that was created or removed with content has none of its own.
fn leaf_changes<'p>(sorted: &[(&'p Path, ChangeKind)]) -> Vec<ChangedTree<'p>> {
    let next = |at: usize| sorted.get(at + 1);
    let is_above = |at: usize, path: &Path, kind| {
        next(at).is_some_and(|(below, other)| *other == kind && below.starts_with(path))
    };
    let all = sorted.iter().enumerate();
    all.filter(|(at, (path, kind))| !is_above(*at, path, *kind))
        .map(|(_, (path, kind))| ChangedTree { path, kind: *kind, inside: 0 })
        .collect()
}

/// Returns an entry for each outermost directory that was created or removed, with the number of files in it, and for each other change.
fn outermost_trees<'p>(sorted: &[(&'p Path, ChangeKind)]) -> Vec<ChangedTree<'p>> {
    let mut trees: Vec<ChangedTree<'p>> = Vec::new();
    for (path, kind) in sorted {
        match trees.last_mut() {
            Some(tree) if tree.kind == *kind && path.starts_with(tree.path) => {}
            _ => trees.push(ChangedTree { path, kind: *kind, inside: 0 }),
        }
    }
    let mut at = 0;
    for leaf in leaf_changes(sorted) {
        while let Some(tree) = trees.get_mut(at) {
            if leaf.path.starts_with(tree.path) && leaf.kind == tree.kind {
                tree.inside += usize::from(leaf.path != tree.path);
                break;
            }
            at += 1;
        }
    }
    trees
}

impl ChangedTree<'_> {
    /// Returns the entry as text: the letter of the change, the path, and the number of files in it.
    fn name(&self) -> String {
        let (letter, path) = (self.kind.letter(), quote::path(self.path));
        match self.inside {
            0 => format!("{letter} {path}"),
            inside => format!("{letter} {path}/ ({inside} in it)"),
        }
    }

    /// Returns the number of changes that the entry stands for.
    fn count(&self) -> usize {
        self.inside.max(1)
    }
}

/// Returns a count of the changes that are not named, by directory: `and 30 more: 20 in src/, 10 in docs/`.
fn summary(trees: &[ChangedTree<'_>]) -> String {
    let mut counts: BTreeMap<&Path, usize> = BTreeMap::new();
    for tree in trees {
        let directory = tree.path.parent().unwrap_or(Path::new(""));
        *counts.entry(directory).or_default() += tree.count();
    }
    let total: usize = counts.values().sum();
    let mut counts: Vec<(&Path, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let counted: Vec<String> = counts
        .iter()
        .take(MAX_SUMMARY_DIRECTORIES)
        .map(|(directory, count)| {
            if directory.as_os_str().is_empty() {
                return format!("{count} here");
            }
            format!("{count} in {}/", format::short(&quote::path(directory), 100))
        })
        .collect();
    let more = if counts.len() > MAX_SUMMARY_DIRECTORIES { ", …" } else { "" };
    format!("and {total} more: {}{more}", counted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(paths: &[(&str, ChangeKind)], expected: &str) {
        let paths: Vec<_> =
            paths.iter().map(|(path, kind)| (Path::new("/w").join(path), *kind)).collect();
        assert_eq!(names(&paths, &Base("/w".into())), expected);
    }

    #[test]
    fn few_changes_are_named() {
        use ChangeKind::{Attributes, Changed, Created, Removed};
        check(&[("b", Changed), ("a", Created)], "A a, M b");
        check(&[("d", Created), ("d/x", Created), ("d/y", Created)], "A d/x, A d/y");
        check(&[("d/x", Removed), ("d", Removed)], "D d/x");
        check(&[("d", Attributes), ("d/x", Changed)], "m d, M d/x");
        check(&[("/etc/x", Changed), ("caf\u{1b}", Created)], "M /etc/x, A $'caf\\x1b'");
        check(&[(".git/index", Changed)], "M .git/index");
        check(
            &[
                ("a", Changed),
                (".git/objects/ab/825dc642cb6eb9a060e54bf8d69288fbee4904", Created),
                (".git/refs/heads/main", Changed),
                (".git/config", Changed),
                (".git/objects/ab/run.sh", Created),
            ],
            "M .git/config, A .git/objects/ab/run.sh, M a, 2 files of git's own in .git/",
        );
    }

    #[test]
    fn many_changes_are_summarized() {
        let names: Vec<String> = (10..40).map(|number| format!("src/{number}")).collect();
        let gone: Vec<_> = names.iter().map(|name| (name.as_str(), ChangeKind::Removed)).collect();
        let mut whole = gone.clone();
        whole.push(("src", ChangeKind::Removed));
        check(&whole, "D src/ (30 in it)");
        let listed: Vec<String> = (10..30).map(|number| format!("D src/{number}")).collect();
        check(&gone, &format!("{}, and 10 more: 10 in src/", listed.join(", ")));
        let mut apart = whole;
        apart.push(("tool", ChangeKind::Changed));
        check(&apart, "D src/ (30 in it), M tool");
    }

    #[test]
    fn long_names_are_limited() {
        let names: Vec<String> = (10..20).map(|n| format!("{n}{}", "x".repeat(900))).collect();
        let all: Vec<_> = names.iter().map(|name| (name.as_str(), ChangeKind::Created)).collect();
        let paths: Vec<_> =
            all.iter().map(|(name, kind)| (Path::new(name).into(), *kind)).collect();
        let text = super::names(&paths, &Base("/w".into()));
        assert!(text.len() < 2_100 && text.ends_with("and 8 more: 8 here"), "{text}");
    }
}
