//! Measures `grep` in one file of 1 GiB beside ripgrep. The file is in the page cache, so only the search itself counts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use super::Bench;
use super::measure::alternate;
use super::table::{Row, Target, Unit};
use super::tree::{self, NEEDLE};
use crate::process;

pub(super) const ROWS: &[&str] = &[
    "grep/1gib-few",
    "grep/1gib-many",
    "grep/1gib-regex",
    "grep/1gib-ignore-case",
    "grep/1gib-none",
];

const FILE: &str = "large.txt";
const RECIPE: &str = "one file of 1 GiB 1";
/// The file is made of blocks of this size, each with one needle, and one more in every other.
const BLOCKS: u64 = 128;
const BLOCK_BYTES: usize = 8 << 20;

/// One search and its arguments for both sides. Both print lines with their numbers, or count them if there are too many.
struct SearchCase {
    name: &'static str,
    ours: fn() -> Value,
    theirs: &'static [&'static str],
    /// Both end with this exit code.
    exit_code: i32,
}

const SEARCHES: &[SearchCase] = &[
    SearchCase {
        name: "grep/1gib-few",
        ours: || json!({"pattern": NEEDLE, "literal": true}),
        theirs: &["--line-number", "--fixed-strings", NEEDLE],
        exit_code: 0,
    },
    SearchCase {
        name: "grep/1gib-many",
        ours: || json!({"pattern": "account", "literal": true, "mode": "count"}),
        theirs: &["--count", "--fixed-strings", "account"],
        exit_code: 0,
    },
    SearchCase {
        name: "grep/1gib-regex",
        ours: || json!({"pattern": r"\w+_(ledger|journal)\(&mut \w+, [0-9]+\)"}),
        theirs: &["--line-number", r"\w+_(ledger|journal)\(&mut \w+, [0-9]+\)"],
        exit_code: 0,
    },
    SearchCase {
        name: "grep/1gib-ignore-case",
        ours: || json!({"pattern": NEEDLE, "literal": true, "ignore_case": true}),
        theirs: &["--line-number", "--fixed-strings", "--ignore-case", NEEDLE],
        exit_code: 0,
    },
    SearchCase {
        name: "grep/1gib-none",
        ours: || json!({"pattern": "nowhere_in_it", "literal": true}),
        theirs: &["--line-number", "--fixed-strings", "nowhere_in_it"],
        exit_code: 1,
    },
];

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let directory = bench.input("large-file", RECIPE, |directory| make(&directory.join(FILE)))?;
    let searches = SEARCHES.iter().filter(|search| bench.options.wants(search.name));
    searches.map(|search| row(bench, &directory, search)).collect()
}

fn make(path: &Path) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for block in 0..BLOCKS {
        file.write_all(tree::block(block, BLOCK_BYTES).as_bytes())?;
    }
    file.flush()?;
    Ok(())
}

fn row(bench: &Bench, directory: &PathBuf, search: &SearchCase) -> Result<Row> {
    let mut input = (search.ours)();
    if let Some(input) = input.as_object_mut() {
        input.insert("path".into(), FILE.into());
        input.insert("limit".into(), 10_000.into());
    }
    let input = input.to_string();
    let ours = || bench.windlass(directory, &["call", "grep", &input]);
    let theirs = || {
        let mut command = Command::new(&bench.tools.ripgrep);
        command.args(["--no-config", "--with-filename", "--no-heading"]).args(search.theirs);
        command.arg(FILE).current_dir(directory);
        command
    };
    let expected = run(&mut theirs(), search.exit_code)?.0;
    let found = run(&mut ours(), search.exit_code)?.0;
    ensure!(
        lines(&found) == lines(&expected),
        "{}: we find {} lines and rg finds {}",
        search.name,
        lines(&found).len(),
        lines(&expected).len()
    );
    let time = |command: &mut Command| Ok(run(command, search.exit_code)?.1);
    let [ours, theirs] =
        alternate(bench.runs(20), [&mut || time(&mut ours()), &mut || time(&mut theirs())])?;
    let target = Target::AtMostTimes(1.2);
    Ok(Row { name: search.name, unit: Unit::Seconds, ours, peer: Some(("rg", theirs)), target })
}

/// Runs a program, which must end with this exit code; returns its output and its duration.
fn run(command: &mut Command, exit_code: i32) -> Result<(String, f64)> {
    let start = Instant::now();
    let output = command.stdin(Stdio::null()).output()?;
    let seconds = start.elapsed().as_secs_f64();
    if output.status.code() != Some(exit_code) {
        bail!("{} ended with {}", process::line(command), output.status);
    }
    Ok((String::from_utf8(output.stdout)?, seconds))
}

/// The matching lines by number; other lines of output are ignored.
fn lines(text: &str) -> BTreeMap<&str, &str> {
    let found = text.lines().filter_map(|line| line.strip_prefix(FILE)?.strip_prefix(':'));
    found.map(|found| found.split_once(':').unwrap_or((found, ""))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_search() {
        let names: Vec<&str> = SEARCHES.iter().map(|search| search.name).collect();
        assert_eq!(names, ROWS);
    }

    #[test]
    fn matches_are_read_from_either_side() {
        let expected = BTreeMap::from([("3", "a: b"), ("17", "")]);
        assert_eq!(lines("large.txt:3:a: b\nlarge.txt:17:\n[2 matches]\n"), expected);
        assert_eq!(lines("large.txt:12\n"), BTreeMap::from([("12", "")]));
        assert!(lines("no match for `x` in large.txt\n").is_empty());
    }
}
