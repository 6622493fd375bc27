//! Parses the output of jest, vitest, mocha, bun and deno.

use super::report::{Failure, Report, dedented, is_rule, number_before, sections};

/// Parses the output of jest.
pub(super) fn jest(text: &str) -> Option<Report> {
    let summary = text.lines().rfind(|line| line.starts_with("Tests: "));
    if summary.is_none() && !text.lines().any(|line| line.starts_with("Test Suites: ")) {
        return None;
    }
    let count = |word| summary.and_then(|line| number_before(line, word)).unwrap_or(0);
    let mut report = Report {
        passed: count("passed"),
        failed: count("failed"),
        ignored: count("skipped") + count("todo"),
        ..Report::default()
    };
    let mut suite = String::new();
    let mut named: Vec<(String, Vec<&str>)> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("  ● ") {
            is_inside = name != "Console";
            if is_inside {
                let name = if name == "Test suite failed to run" {
                    suite.clone()
                } else {
                    name.to_owned()
                };
                named.push((name, Vec::new()));
            }
        } else if let Some(file) = line.strip_prefix("FAIL ") {
            file.clone_into(&mut suite);
            is_inside = false;
        } else if line.starts_with("PASS ")
            || line.starts_with("Test Suites: ")
            || line.starts_with("Summary of all")
        {
            is_inside = false;
        } else if let Some((_, lines)) = named.last_mut().filter(|_| is_inside) {
            lines.push(line);
        }
    }
    let suites: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("FAIL ")).collect();
    for (name, lines) in named {
        if suites.contains(&name.as_str()) {
            report.errors.push(format!("{name}\n{}", dedented(&lines)));
        } else {
            report.add_failure(Failure::new(name, &lines));
        }
    }
    report.into_option(true)
}

/// Parses the output of vitest.
pub(super) fn vitest(text: &str) -> Option<Report> {
    let line_of = |word: &str| text.lines().rfind(|line| line.trim_start().starts_with(word));
    line_of("Test Files  ")?;
    let summary = line_of("Tests  ");
    let count = |word| summary.and_then(|line| number_before(line, word)).unwrap_or(0);
    let mut report = Report {
        passed: count("passed"),
        failed: count("failed"),
        ignored: count("skipped") + count("todo"),
        ..Report::default()
    };
    let begins = |line: &'_ str| {
        let name = line.strip_prefix(" FAIL  ").or_else(|| line.strip_prefix("FAIL  "))?;
        Some(name.trim().to_owned())
    };
    let ends = |line: &str| line.starts_with('⎯') || line.trim_start().starts_with("Test Files  ");
    let mut waiting: Vec<String> = Vec::new();
    for (name, lines) in sections(text, begins, ends) {
        // Tests with the same failure share one text below their names.
        if dedented(&lines).is_empty() {
            waiting.push(name);
            continue;
        }
        for name in waiting.drain(..).chain([name]) {
            if name.contains(" > ") {
                report.add_failure(Failure::new(name, &lines));
            } else {
                report.errors.push(format!("{name}\n{}", dedented(&lines)));
            }
        }
    }
    report.into_option(true)
}

/// Parses the output of mocha.
pub(super) fn mocha(text: &str) -> Option<Report> {
    let lines: Vec<&str> = text.lines().collect();
    let is_count = |line: &str, word: &str| {
        let line = line.trim();
        line.split_once(' ').is_some_and(|(number, rest)| {
            number.parse::<u64>().is_ok()
                && (rest == word || rest.starts_with(&format!("{word} (")))
        })
    };
    let at = lines.iter().rposition(|line| is_count(line, "passing"))?;
    let number_behind = lines.get(at..).unwrap_or_default();
    let count = |word: &str| {
        let line = number_behind.iter().find(|line| is_count(line, word));
        line.and_then(|line| number_before(line, word)).unwrap_or(0)
    };
    let mut report = Report {
        passed: count("passing"),
        failed: count("failing"),
        ignored: count("pending"),
        ..Report::default()
    };
    let mut failures: Vec<Vec<&str>> = Vec::new();
    for line in number_behind {
        let number = format!("  {}) ", failures.len() + 1);
        if line.starts_with(&number) {
            failures.push(vec![line.get(number.len()..).unwrap_or_default()]);
        } else if let Some(lines) = failures.last_mut() {
            lines.push(line);
        }
    }
    for lines in failures {
        // The name spans several lines, up to a colon.
        let end =
            lines.iter().position(|line| line.trim_end().ends_with(':')).map_or(1, |at| at + 1);
        let name: Vec<&str> =
            lines.iter().take(end).map(|line| line.trim().trim_end_matches(':')).collect();
        report.add_failure(Failure::new(name.join(" "), lines.get(end..).unwrap_or_default()));
    }
    report.into_option(true)
}

/// Parses the output of bun, which prints a failure before the name of its test.
pub(super) fn bun(text: &str) -> Option<Report> {
    if !text.contains("bun test v") {
        return None;
    }
    let mut report = Report::default();
    let mut lines_before: Vec<&str> = Vec::new();
    for line in text.lines() {
        let line = line.trim_end();
        let trimmed = line.trim();
        let failed = trimmed.strip_prefix("(fail) ").or_else(|| trimmed.strip_prefix("✗ "));
        if let Some(name) = failed {
            let name = name.rsplit_once(" [").map_or(name, |(name, _)| name);
            report.add_failure(Failure::new(name, &lines_before));
            lines_before.clear();
        } else if trimmed.starts_with("(pass) ") || trimmed.starts_with('✓') || is_file_line(line)
        {
            lines_before.clear();
        } else if line.starts_with(' ') && trimmed.split(' ').count() == 2 {
            report.passed += number_before(line, "pass").unwrap_or(0);
            report.failed = report.failed.max(number_before(line, "fail").unwrap_or(0));
            report.ignored += number_before(line, "skip").unwrap_or(0);
        } else {
            lines_before.push(line);
        }
    }
    report.into_option(true)
}

/// Returns whether a line names a test file: `src/a.test.ts:`.
fn is_file_line(line: &str) -> bool {
    line.ends_with(':') && !line.contains(' ')
}

/// Parses the output of deno.
pub(super) fn deno(text: &str) -> Option<Report> {
    let is_summary = |line: &&str| {
        (line.starts_with("ok | ") || line.starts_with("FAILED | ")) && line.contains(" passed")
    };
    let summary = text.lines().rfind(is_summary)?;
    let count = |word| number_before(summary, word).unwrap_or(0);
    let mut report = Report {
        passed: count("passed"),
        failed: count("failed"),
        ignored: count("ignored"),
        ..Report::default()
    };
    let details = text.split_once("\n ERRORS \n").map_or("", |(_, details)| details);
    let begins = |line: &'_ str| Some(line.split_once(" => ")?.0.to_owned());
    let ends = |line: &str| line.trim() == "FAILURES" || is_rule(line, '-');
    let details = details.split("\n FAILURES \n").next().unwrap_or_default();
    for (name, lines) in sections(details, begins, ends) {
        report.add_failure(Failure::new(name, &lines));
    }
    report.into_option(true)
}
