//! Parses the output of pytest and unittest.

use super::report::{Failure, Report, dedented, is_rule, number_before, number_behind, sections};

/// Parses the output of pytest, with or without `-q`.
pub(super) fn pytest(text: &str) -> Option<Report> {
    let summary = text.lines().rfind(|line| is_summary(line))?;
    let count = |words: &[&str]| words.iter().filter_map(|word| number_before(summary, word)).sum();
    let mut report = Report {
        passed: count(&["passed", "xpassed"]),
        failed: count(&["failed", "error", "errors"]),
        ignored: count(&["skipped", "xfailed"]),
        ..Report::default()
    };
    let begins = |line: &'_ str| titled(line, '_').map(str::to_owned);
    for (name, lines) in
        sections(text, begins, |line| titled(line, '=').is_some() || is_summary(line))
    {
        match name.strip_prefix("ERROR collecting ") {
            Some(file) => {
                report.errors.push(format!("{file}\n{}", dedented(&lines)));
                report.failed = report.failed.saturating_sub(1);
            }
            None => report.add_failure(Failure::new(name, &lines)),
        }
    }
    report.into_option(true)
}

/// Returns whether a line is the summary: `1 failed, 2 passed in 0.12s`, alone or between `=`.
fn is_summary(line: &str) -> bool {
    const WORDS: [&str; 6] = ["passed", "failed", "error", "errors", "skipped", "deselected"];
    let line = line.trim().trim_matches('=').trim();
    let Some((counts, time)) = line.rsplit_once(" in ") else { return false };
    let seconds = time.split(' ').next().and_then(|time| time.strip_suffix('s'));
    let is_time = seconds.is_some_and(|seconds| seconds.parse::<f64>().is_ok());
    is_time
        && (counts == "no tests ran"
            || WORDS.iter().any(|word| number_before(counts, word).is_some()))
}

/// Returns the title in a line such as `____ test_name ____`.
fn titled(line: &str, with: char) -> Option<&str> {
    let is_drawn = line.starts_with(with) && line.ends_with(with);
    let title = line.trim_matches(with);
    (is_drawn && title.starts_with(' ') && title.ends_with(' ') && title.len() > 2)
        .then(|| title.trim())
        .filter(|title| *title != "_")
}

/// Parses the output of unittest.
pub(super) fn unittest(text: &str) -> Option<Report> {
    let ran = text.lines().rfind(|line| line.starts_with("Ran ") && line.contains(" test"))?;
    let total = number_behind(ran, "Ran")?;
    let verdict = text
        .lines()
        .rfind(|line| *line == "OK" || line.starts_with("OK (") || line.starts_with("FAILED ("))?;
    let count = |word| number_behind(verdict, word).unwrap_or(0);
    let mut report = Report {
        failed: count("failures") + count("errors") + count("unexpected"),
        ignored: count("skipped"),
        ..Report::default()
    };
    report.passed = total.saturating_sub(report.failed + report.ignored);
    let begins = |line: &'_ str| {
        let name = line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: "))?;
        Some(name.to_owned())
    };
    for (name, lines) in
        sections(text, begins, |line| is_rule(line, '=') || line.starts_with("Ran "))
    {
        let lines: Vec<&str> = lines.into_iter().filter(|line| !is_rule(line, '-')).collect();
        if name.contains("_FailedTest") {
            report.errors.push(format!("{name}\n{}", dedented(&lines)));
            report.failed = report.failed.saturating_sub(1);
        } else {
            report.add_failure(Failure::new(name, &lines));
        }
    }
    report.into_option(true)
}
