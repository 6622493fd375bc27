//! Compares the ids in docs/guarantees.md with the ids in the names of tests: every row has a test, and every id in a name has a row.
//!
//! An id is one or two parts of a name between underscores: `h4`, or `un_1`. The prefixes of ids (`h`, `un_`) are taken from the rows.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{self, Part};
use super::{File, numbered};

const PAGE: &str = "docs/guarantees.md";

/// Rows without a test, ids in test names without a row, and ids in test names that lack their underscore.
pub(super) fn find(files: &[File]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return vec![format!("{PAGE} is missing")];
    };
    let rows: BTreeSet<&str> = page.text.lines().filter_map(row_id).collect();
    let prefixes = Prefixes::of(&rows);
    let mut tested = BTreeSet::new();
    let mut findings = Vec::new();
    for (place, name) in files.iter().filter(|file| file.is_rust()).flat_map(test_functions) {
        for id in prefixes.ids_in(&name) {
            if !rows.contains(id.as_str()) {
                findings.push(format!("{place}: `{id}` in `{name}` has no row in {PAGE}"));
            }
            tested.insert(id);
        }
        let misspelt = prefixes.ids_without_underscore(&name);
        findings.extend(misspelt.map(|id| format!("{place}: write `{id}` in `{name}`")));
    }
    let untested = rows.iter().filter(|id| !tested.contains(**id));
    findings.extend(untested.map(|id| format!("{PAGE}: no test has `{id}` in its name")));
    findings
}

/// The id of a row of a table: the text in backticks in its first column.
fn row_id(line: &str) -> Option<&str> {
    let id = line.strip_prefix("| `")?.split_once("` |")?.0;
    id.ends_with(|last: char| last.is_ascii_digit()).then_some(id)
}

/// The prefixes of ids: with the number in the next part of a name (`un_1`), or in the same part (`h4`).
#[derive(Debug)]
struct Prefixes<'p> {
    with_underscore: BTreeSet<&'p str>,
    without: BTreeSet<&'p str>,
}

impl<'p> Prefixes<'p> {
    fn of(ids: &BTreeSet<&'p str>) -> Self {
        let (with, without): (Vec<&str>, Vec<&str>) = ids.iter().partition(|id| id.contains('_'));
        let before_underscore = |id: &'p str| id.split_once('_').map_or(id, |(prefix, _)| prefix);
        Self {
            with_underscore: with.into_iter().map(before_underscore).collect(),
            without: without.into_iter().map(without_number).collect(),
        }
    }

    /// The ids in the name of a test.
    fn ids_in(&self, name: &str) -> Vec<String> {
        let parts: Vec<&str> = name.split('_').collect();
        let pairs = parts.windows(2).filter_map(|pair| match pair {
            [prefix, number] if self.with_underscore.contains(prefix) && is_number(number) => {
                Some(format!("{prefix}_{number}"))
            }
            _ => None,
        });
        let single = parts.iter().filter(|part| is_id_of(part, &self.without));
        pairs.chain(single.map(|part| (*part).to_owned())).collect()
    }

    /// The right spelling of parts such as `un1`. A prefix of one letter is left out: `i64` is a type.
    fn ids_without_underscore(&self, name: &str) -> impl Iterator<Item = String> {
        let misspelt =
            |part: &&str| without_number(part).len() > 1 && is_id_of(part, &self.with_underscore);
        let parts: Vec<&str> = name.split('_').filter(misspelt).collect();
        parts.into_iter().map(|part| {
            let prefix = without_number(part);
            format!("{prefix}_{}", part.trim_start_matches(prefix))
        })
    }
}

/// Returns whether a part of a name is one of these prefixes followed by a number.
fn is_id_of(part: &str, prefixes: &BTreeSet<&str>) -> bool {
    let prefix = without_number(part);
    prefix.len() < part.len() && prefixes.contains(prefix)
}

/// The text without the digits at its end.
fn without_number(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_ascii_digit())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && without_number(text).is_empty()
}

/// The test functions of a file: `PATH:LINE` and name.
fn test_functions(file: &File) -> BTreeMap<String, String> {
    let code = source::only(Part::Code, &file.text);
    let mut functions = BTreeMap::new();
    let mut has_attribute = false;
    for (number, line) in numbered(&code) {
        has_attribute |= ["#[test]", "::test]", "::test("].iter().any(|test| line.contains(test));
        let Some(at) = source::occurrences(line, "fn").next().filter(|_| has_attribute) else {
            continue;
        };
        let after = line.get(at + 2..).unwrap_or_default().trim_start();
        let name: String = after.chars().take_while(|c| source::is_name(*c)).collect();
        functions.insert(format!("{}:{number}", file.path), name);
        has_attribute = false;
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const ROWS: &str =
        "| id | guarantee |\n|---|---|\n| `un_1` | x |\n| `h4` | x |\n| `3a_2` | x |\n";

    /// Compares the findings for a page with `ROWS` and a file with these tests.
    fn check(names: &[&str], expected: &[&str]) {
        let tests: Vec<String> =
            names.iter().map(|name| format!("#[test]\nfn {name}() {{}}\n")).collect();
        let files = [file(PAGE, ROWS), file("a.rs", &tests.concat())];
        assert_eq!(find(&files), expected, "{names:?}");
    }

    #[test]
    fn every_row_has_a_test_and_every_id_a_row() {
        check(&["un_1_h4_both", "agentctl_3a_2_links"], &[]);
        check(
            &["un_1_x", "h4_x", "x_3a_2", "un_2_x", "h40_x"],
            &[
                "a.rs:10: `h40` in `h40_x` has no row in docs/guarantees.md",
                "a.rs:8: `un_2` in `un_2_x` has no row in docs/guarantees.md",
            ],
        );
        check(&["un_1_x", "h4_x"], &["docs/guarantees.md: no test has `3a_2` in its name"]);
    }

    #[test]
    fn an_id_without_its_underscore_is_found() {
        check(&["un_1_x", "h4_x", "a_3a_2", "un1_x"], &["a.rs:8: write `un_1` in `un1_x`"]);
    }

    #[test]
    fn other_words_and_functions_that_are_no_tests_have_no_ids() {
        check(&["un_1_x", "h4_x", "a_3a_2", "run_2_of_i64_and_un_one"], &[]);
        let text = "fn un_9_helper() {}\n// #[test]\nfn un_8() {}\n#[cfg(test)]\nfn un_7() {}\n";
        assert!(test_functions(&file("a.rs", text)).is_empty());
        let text =
            "#[tokio::test(flavor = \"multi_thread\")]\n#[cfg(unix)]\nasync fn un_1_x() {}\n";
        let names: Vec<String> = test_functions(&file("a.rs", text)).into_values().collect();
        assert_eq!(names, ["un_1_x"]);
    }

    #[test]
    fn a_missing_page_is_a_finding() {
        assert_eq!(find(&[]), ["docs/guarantees.md is missing"]);
    }
}
