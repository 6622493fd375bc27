//! `cargo xtask test`: all checks and tests that must pass before a change is merged, the fastest first.

use std::io::IsTerminal;
use std::process::Command;

use anyhow::Result;

use crate::setup::{self, TestTools};
use crate::workspace::Workspace;
use crate::{faults, process, tidy};

/// `cargo xtask test`.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    crate::no_arguments(arguments)?;
    let tools = process::step("setup", || setup::for_tests(workspace))?;
    for (heading, arguments) in BEFORE {
        process::step(heading, || process::run(&mut workspace.cargo(arguments)))?;
    }
    let summary = process::step("tests", || tests(workspace, &tools))?;
    process::step("faults", || faults::sample(workspace))?;
    process::step("doc tests", || {
        process::run(with_tools(&tools, &mut workspace.cargo(&["test", "--workspace", "--doc"])))
    })?;
    process::step("documentation", || process::run(&mut documentation(workspace)))?;
    process::step("tidy", || tidy::run(workspace, &[]))?;
    for line in summary {
        println!("{line}");
    }
    Ok(())
}

/// The cargo commands before the tests, with their headings.
const BEFORE: &[(&str, &[&str])] = &[
    ("format", &["fmt", "--all", "--check"]),
    (
        "clippy",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--features",
            "xtask/engine",
            "--",
            "-D",
            "warnings",
        ],
    ),
    ("the binary that the tests run", &["build", "--package", "windlass-cli"]),
];

/// Runs the tests; returns the summary lines of the test runner, which are repeated at the very end.
fn tests(workspace: &Workspace, tools: &TestTools) -> Result<Vec<String>> {
    if !tools.nextest {
        let mut command = workspace.cargo(&["test", "--workspace", "--all-targets"]);
        let results =
            process::run_and_keep(with_tools(tools, &mut command), |line| counts(line).is_some())?;
        return Ok(vec![total(&results)]);
    }
    let mut command = workspace.cargo(&["nextest", "run", "--workspace", "--profile", "ci"]);
    // Its output is a pipe, so it does not detect the terminal itself.
    if std::io::stderr().is_terminal() {
        command.args(["--color", "always"]);
    }
    command.env("PATH", setup::search_path(workspace)?);
    process::run_and_keep(with_tools(tools, &mut command), is_summary)
}

fn with_tools<'a>(tools: &TestTools, command: &'a mut Command) -> &'a mut Command {
    command.envs(tools.variables.iter().map(|(name, value)| (name, value)))
}

fn documentation(workspace: &Workspace) -> Command {
    let mut command = workspace.cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}

/// Returns whether this is the summary line of nextest, with or without colours.
fn is_summary(line: &str) -> bool {
    line.contains("Summary") && line.contains("tests run:")
}

/// The counts in the result line of `cargo test`: passed, failed, ignored.
fn counts(line: &str) -> Option<[u64; 3]> {
    let counts = line.trim().strip_prefix("test result: ")?.split_once(". ")?.1;
    let mut numbers = counts.split("; ").map(|count| count.split(' ').next()?.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

/// The sum of all result lines.
fn total(results: &[String]) -> String {
    let [mut passed, mut failed, mut skipped] = [0, 0, 0];
    for [p, f, s] in results.iter().filter_map(|line| counts(line)) {
        passed += p;
        failed += f;
        skipped += s;
    }
    format!("{passed} passed, {failed} failed, {skipped} skipped")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_line_of_nextest_is_recognized() {
        for (line, expected) in [
            ("     Summary [   0.003s] 3 tests run: 3 passed, 0 skipped", true),
            (
                "\u{1b}[32m     Summary\u{1b}[0m [   0.003s] \u{1b}[1m3\u{1b}[0m tests run: 2 passed",
                true,
            ),
            ("        PASS [   0.003s] xtask tests::summary", false),
            ("", false),
        ] {
            assert_eq!(is_summary(line), expected, "{line:?}");
        }
    }

    #[test]
    fn the_result_lines_of_cargo_test_are_added_up() {
        let lines = [
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: none of ours",
        ];
        assert_eq!(total(&lines.map(String::from)), "13 passed, 2 failed, 1 skipped");
    }
}
