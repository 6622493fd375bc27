//! What a program changed, in a few words: each path while they are few, whole directories and counts when they are many.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_core::{ChangeKind, Changed, Context, Tracking, git_record, quote};

use crate::shown;

/// So many paths are named.
const NAMED: usize = 20;
/// They take so many bytes at most.
const NAMED_BYTES: usize = 2_000;
/// So many directories are named with how much else changed in them.
const SUMMED_UP: usize = 5;
/// So many notes are passed on, of so many characters each.
const NOTED: usize = 5;
const NOTE: usize = 300;
/// So many are in the metadata.
const LISTED: usize = 200;

/// The workspace, or where relative paths of this call start: what is in it is named from there.
pub(crate) struct Base(PathBuf);

impl Base {
    pub(crate) fn of(cx: &Context) -> Self {
        Self(cx.files().resolve(Path::new(".")).map(|resolved| resolved.path).unwrap_or_default())
    }

    fn name<'p>(&self, path: &'p Path) -> &'p Path {
        path.strip_prefix(&self.0).ok().filter(|name| !name.as_os_str().is_empty()).unwrap_or(path)
    }
}

/// What is to be said of it, if anything.
pub(crate) fn told(changed: &Changed, base: &Base) -> Vec<String> {
    let mut told = Vec::new();
    let names = || names(&changed.paths, base);
    if changed.is_dropped {
        told.extend(would_have_changed(changed, base));
        told.extend(notes(changed));
        return told;
    }
    match changed.tracking {
        Some(Tracking::Unknown) => {
            told.push("what it changed is not tracked, and cannot be undone".to_owned());
        }
        _ if changed.paths.is_empty() => {}
        // The files were looked at before and after: others may have changed them too.
        Some(Tracking::Scanned) => {
            told.push(format!("changed while it ran: {}; this cannot be undone", names()));
        }
        _ => told.push(format!("changed: {}", names())),
    }
    if !changed.built.is_empty() {
        let names: Vec<_> = changed
            .built
            .iter()
            .take(NAMED)
            .map(|path| format!("{}/", quote::path(base.name(path))))
            .collect();
        told.push(format!("kept without history, which cannot be undone: {}", names.join(", ")));
    }
    told.extend(notes(changed));
    told
}

fn notes(changed: &Changed) -> Vec<String> {
    let notes = changed.notes.iter().take(NOTED);
    let mut notes: Vec<String> = notes.map(|note| shown::short(note, NOTE).into_owned()).collect();
    if changed.notes.len() > NOTED {
        notes.push(format!("and {} more like this", changed.notes.len() - NOTED));
    }
    notes
}

/// Names the changes of a command whose view was thrown away, if there were any.
fn would_have_changed(changed: &Changed, base: &Base) -> Option<String> {
    let built = changed.built.iter().take(NAMED);
    let built = built.map(|path| format!("{}/", quote::path(base.name(path))));
    let paths = (!changed.paths.is_empty()).then(|| names(&changed.paths, base));
    let all: Vec<String> = paths.into_iter().chain(built).collect();
    (!all.is_empty())
        .then(|| format!("would have changed, and nothing is kept: {}", all.join(", ")))
}

/// The same as data: path and change of each, up to a limit.
pub(super) fn listed(changed: &Changed, base: &Base) -> Value {
    let one = |(path, kind): &(PathBuf, ChangeKind)| {
        let change = match kind {
            ChangeKind::Created => "created",
            ChangeKind::Changed => "changed",
            ChangeKind::Attributes => "attributes",
            ChangeKind::Removed => "removed",
        };
        json!({"path": quote::path(base.name(path)), "change": change})
    };
    changed.paths.iter().take(LISTED).map(one).collect()
}

/// Something that was changed, with all that was changed in the same way below it.
struct Tree<'p> {
    path: &'p Path,
    kind: ChangeKind,
    /// How many are in it, without the directories among them.
    inside: usize,
}

fn names(paths: &[(PathBuf, ChangeKind)], base: &Base) -> String {
    let (own, mut sorted): (Vec<_>, Vec<_>) = paths
        .iter()
        .map(|(path, kind)| (base.name(path), *kind))
        .partition(|(path, _)| git_record(path).is_some());
    sorted.sort_by_key(|(path, _)| *path);
    let mut trees = leaves(&sorted);
    if trees.len() > NAMED {
        trees = together(&sorted);
    }
    let mut names: Vec<String> = Vec::new();
    let mut bytes = 0;
    for tree in trees.iter().take(NAMED) {
        let name = tree.name();
        bytes += name.len() + 2;
        if bytes > NAMED_BYTES {
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
        [(path, kind)] => names.push(Tree { path, kind: *kind, inside: 0 }.name()),
        own => names.push(format!("{} files of git's own in .git/", own.len())),
    }
    names.join(", ")
}

/// Each on its own; a directory that came or went with what is in it is not named besides.
fn leaves<'p>(sorted: &[(&'p Path, ChangeKind)]) -> Vec<Tree<'p>> {
    let next = |at: usize| sorted.get(at + 1);
    let is_above = |at: usize, path: &Path, kind| {
        next(at).is_some_and(|(below, other)| *other == kind && below.starts_with(path))
    };
    let all = sorted.iter().enumerate();
    all.filter(|(at, (path, kind))| !is_above(*at, path, *kind))
        .map(|(_, (path, kind))| Tree { path, kind: *kind, inside: 0 })
        .collect()
}

/// The outermost directories that came or went, with how much is in them, and what is in none.
fn together<'p>(sorted: &[(&'p Path, ChangeKind)]) -> Vec<Tree<'p>> {
    let mut trees: Vec<Tree<'p>> = Vec::new();
    for (path, kind) in sorted {
        match trees.last_mut() {
            Some(tree) if tree.kind == *kind && path.starts_with(tree.path) => {}
            _ => trees.push(Tree { path, kind: *kind, inside: 0 }),
        }
    }
    let mut at = 0;
    for leaf in leaves(sorted) {
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

impl Tree<'_> {
    fn name(&self) -> String {
        let (letter, path) = (self.kind.letter(), quote::path(self.path));
        match self.inside {
            0 => format!("{letter} {path}"),
            inside => format!("{letter} {path}/ ({inside} in it)"),
        }
    }

    fn count(&self) -> usize {
        self.inside.max(1)
    }
}

/// `and 30 more: 20 in src/, 10 in docs/`.
fn summary(trees: &[Tree<'_>]) -> String {
    let mut counts: BTreeMap<&Path, usize> = BTreeMap::new();
    for tree in trees {
        let directory = tree.path.parent().unwrap_or(Path::new(""));
        *counts.entry(directory).or_default() += tree.count();
    }
    let total: usize = counts.values().sum();
    let mut counts: Vec<(&Path, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let places: Vec<String> = counts
        .iter()
        .take(SUMMED_UP)
        .map(|(directory, count)| {
            if directory.as_os_str().is_empty() {
                return format!("{count} here");
            }
            format!("{count} in {}/", shown::short(&quote::path(directory), 100))
        })
        .collect();
    let more = if counts.len() > SUMMED_UP { ", …" } else { "" };
    format!("and {total} more: {}{more}", places.join(", "))
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
    fn few_are_named() {
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
                (".git/objects/ab/cd", Created),
                (".git/refs/heads/main", Changed),
                (".git/config", Changed),
            ],
            "M .git/config, M a, 2 files of git's own in .git/",
        );
    }

    #[test]
    fn many_are_summed_up() {
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
    fn long_names_do_not_flood() {
        let names: Vec<String> = (10..20).map(|n| format!("{n}{}", "x".repeat(900))).collect();
        let all: Vec<_> = names.iter().map(|name| (name.as_str(), ChangeKind::Created)).collect();
        let paths: Vec<_> =
            all.iter().map(|(name, kind)| (Path::new(name).into(), *kind)).collect();
        let text = super::names(&paths, &Base("/w".into()));
        assert!(text.len() < 2_100 && text.ends_with("and 8 more: 8 here"), "{text}");
    }
}
