//! Measures `grep` and `glob` beside ripgrep, on a small tree and on a large one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Bench;
use super::measure::{alternate, time};
use super::table::{Row, Target, Unit};
use super::tree::{self, NEEDLE};
use crate::process;

pub(super) const SMALL_ROWS: &[&str] =
    &["grep/6000/literal", "grep/6000/regex", "grep/6000/ignore-case", "glob/6000"];
pub(super) const LARGE_ROWS: &[&str] =
    &["grep/100000/literal", "grep/100000/regex", "grep/100000/ignore-case", "glob/100000"];

pub(super) fn measure_small(bench: &Bench) -> Result<Vec<Row>> {
    measure(bench, 6_000, bench.runs(30), SMALL_ROWS)
}

pub(super) fn measure_large(bench: &Bench) -> Result<Vec<Row>> {
    measure(bench, 100_000, bench.runs(10), LARGE_ROWS)
}

/// Dotfiles are searched, version control is not, ignore files count also outside of a repository; nothing from above the tree
/// or from the person's own settings. These are the rules of our own tools.
const SAME_RULES: &[&str] = &[
    "--no-config",
    "--hidden",
    "--no-require-git",
    "--no-ignore-parent",
    "--no-ignore-global",
    "--glob=!.git",
];

/// One search and its arguments for both sides.
struct SearchCase {
    kind: &'static str,
    ours: fn() -> Value,
    theirs: &'static [&'static str],
}

const REGEX: &str = r"reconcile_(ledger|journal)\w*\(&mut \w+, [0-9]+\)";

const SEARCHES: &[SearchCase] = &[
    SearchCase {
        kind: "literal",
        ours: || json!({"pattern": NEEDLE, "literal": true}),
        theirs: &["--fixed-strings", NEEDLE],
    },
    SearchCase { kind: "regex", ours: || json!({"pattern": REGEX}), theirs: &[REGEX] },
    SearchCase {
        kind: "ignore-case",
        ours: || json!({"pattern": NEEDLE, "ignore_case": true}),
        theirs: &["--ignore-case", NEEDLE],
    },
];

fn measure(bench: &Bench, files: u64, runs: usize, names: &[&'static str]) -> Result<Vec<Row>> {
    let tree = bench
        .input(&format!("tree-{files}"), tree::RECIPE, |directory| tree::make(directory, files))?;
    let mut rows = Vec::new();
    for &name in names.iter().filter(|name| bench.options.wants(name)) {
        let search = SEARCHES.iter().find(|search| name.ends_with(search.kind));
        rows.push(match search {
            Some(search) => grep(bench, &tree, runs, name, search)?,
            None => glob(bench, &tree, runs, name)?,
        });
    }
    Ok(rows)
}

fn grep(
    bench: &Bench,
    tree: &PathBuf,
    runs: usize,
    name: &'static str,
    search: &SearchCase,
) -> Result<Row> {
    let mut input = (search.ours)();
    if let Some(input) = input.as_object_mut() {
        input.insert("mode".into(), "count".into());
        input.insert("limit".into(), 10_000.into());
    }
    let input = input.to_string();
    let ours = || bench.windlass(tree, &["call", "grep", &input]);
    let theirs = || ripgrep(bench, tree, &[&["--count"], search.theirs, &["./"]].concat());
    let (their_text, our_text) = (process::capture(&mut theirs())?, process::capture(&mut ours())?);
    let (expected, answer) = (counts(&their_text), counts(&our_text));
    ensure!(!expected.is_empty(), "{name}: rg found nothing, so there is nothing to compare");
    ensure!(answer == expected, "{name}: {}", difference(&answer, &expected));
    row(runs, name, "rg", ours, theirs)
}

/// Few enough files for the largest limit, whatever the size of the tree.
const PATTERN: &str = "*.toml";

fn glob(bench: &Bench, tree: &PathBuf, runs: usize, name: &'static str) -> Result<Row> {
    let input = json!({"pattern": PATTERN, "limit": 10_000}).to_string();
    let ours = || bench.windlass(tree, &["call", "glob", &input]);
    let theirs = || ripgrep(bench, tree, &["--files", "--glob", PATTERN, "./"]);
    let expected = process::capture(&mut theirs())?.lines().count();
    let answer = process::capture(&mut bench.windlass(tree, &["--json", "call", "glob", &input]))?;
    let answer: Value = serde_json::from_str(&answer).context("`windlass --json call glob`")?;
    let count = answer.pointer("/metadata/count").and_then(Value::as_u64);
    ensure!(
        count == u64::try_from(expected).ok(),
        "{name}: rg lists {expected} files, we count {count:?}"
    );
    row(runs, name, "rg --files", ours, theirs)
}

fn row(
    runs: usize,
    name: &'static str,
    peer: &'static str,
    our_command: impl Fn() -> Command,
    their_command: impl Fn() -> Command,
) -> Result<Row> {
    let [ours, theirs] =
        alternate(runs, [&mut || time(&mut our_command()), &mut || time(&mut their_command())])?;
    let target = Target::AtMostTimes(1.1);
    Ok(Row { name, unit: Unit::Seconds, ours, peer: Some((peer, theirs)), target })
}

fn ripgrep(bench: &Bench, tree: &PathBuf, arguments: &[&str]) -> Command {
    let mut command = Command::new(&bench.tools.ripgrep);
    command.args(SAME_RULES).args(arguments).current_dir(tree);
    command
}

/// The counts in lines of the form `path:count`; other lines are ignored.
fn counts(text: &str) -> BTreeMap<&str, u64> {
    text.lines()
        .filter_map(|line| {
            let (path, count) = line.rsplit_once(':')?;
            Some((path.strip_prefix("./").unwrap_or(path), count.trim().parse().ok()?))
        })
        .collect()
}

fn difference(ours: &BTreeMap<&str, u64>, theirs: &BTreeMap<&str, u64>) -> String {
    let odd = theirs.iter().find(|(path, count)| ours.get(*path) != Some(count));
    let odd = odd.or_else(|| ours.iter().find(|(path, count)| theirs.get(*path) != Some(count)));
    let path = odd.map_or("none", |(path, _)| path);
    format!(
        "rg finds {} files and we find {}; the first that differs is {path} (rg: {:?}, ours: {:?})",
        theirs.len(),
        ours.len(),
        theirs.get(path),
        ours.get(path)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_either_side() {
        let expected = BTreeMap::from([("a/b.rs", 3), ("c:d.rs", 1)]);
        assert_eq!(counts("./a/b.rs:3\n./c:d.rs:1\n"), expected);
        assert_eq!(
            counts("a/b.rs:3\nc:d.rs:1\n\n4 matches in 2 files\nnote: unreadable\n"),
            expected
        );
    }

    #[test]
    fn a_difference_is_named() {
        let ours = BTreeMap::from([("a", 1)]);
        let theirs = BTreeMap::from([("a", 1), ("b", 2)]);
        assert!(difference(&ours, &theirs).contains("first that differs is b"));
        assert!(difference(&theirs, &ours).contains("first that differs is b"));
    }

    #[test]
    fn every_row_is_a_search_or_a_glob() {
        for name in SMALL_ROWS.iter().chain(LARGE_ROWS) {
            let searches = SEARCHES.iter().filter(|search| name.ends_with(search.kind)).count();
            assert_eq!(searches, usize::from(name.starts_with("grep/")), "{name}");
        }
    }
}
