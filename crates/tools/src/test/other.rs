//! Parses the output of ctest, TAP producers (including node's own runner), dotnet and mix, and the errors of C compilers.

use super::report::{Failure, Report, dedented, number_before, number_behind, sections};

/// Parses the output of ctest.
pub(super) fn ctest(text: &str) -> Option<Report> {
    let summary = text.lines().rfind(|line| line.contains("% tests passed, "))?;
    let failed = failed_of(summary).unwrap_or(0);
    let total = number_behind(summary, "of").unwrap_or(0);
    let mut report = Report { failed, passed: total.saturating_sub(failed), ..Report::default() };
    let begins = |line: &'_ str| {
        let (_, rest) = line.split_once(" Test ")?;
        let (number, rest) = rest.trim_start().strip_prefix('#')?.split_once(": ")?;
        number.parse::<u64>().ok()?;
        let name = rest.split(' ').next()?.to_owned();
        Some((name, !rest.contains("   Passed ")))
    };
    let ends =
        |line: &str| line.trim_start().starts_with("Start ") || line.contains("% tests passed, ");
    for ((name, is_failed), lines) in sections(text, begins, ends) {
        if is_failed && !is_skipped(text, &name) {
            report.add_failure(Failure::new(name, &lines));
        }
    }
    report.into_option(false)
}

/// Returns the number of failed tests: 1 in `50% tests passed, 1 tests failed out of 2`.
fn failed_of(summary: &str) -> Option<u64> {
    let (_, rest) = summary.split_once("passed, ")?;
    rest.split(' ').next()?.parse().ok()
}

/// Returns whether ctest lists a test as skipped.
fn is_skipped(text: &str, name: &str) -> bool {
    text.lines().any(|line| line.ends_with("(Skipped)") && line.contains(&format!(" - {name} ")))
}

/// Parses TAP, and the summary of node's own runner.
pub(super) fn tap(text: &str) -> Option<Report> {
    let is_tap = text.lines().any(|line| {
        line.starts_with("TAP version") || is_plan(line) || line.starts_with("ℹ tests ")
    });
    if !is_tap {
        return None;
    }
    let mut report = Report::default();
    let count = |word: &str| {
        let line = text.lines().rfind(|line| {
            line.strip_prefix("# ")
                .or_else(|| line.strip_prefix("ℹ "))
                .is_some_and(|rest| rest.starts_with(word))
        });
        line.and_then(|line| number_behind(line, word))
    };
    let ends = |line: &str| is_plan(line.trim_start()) || line.starts_with("# Subtest");
    for (point, lines) in sections(text, point, ends) {
        match point {
            Point { is_ok: false, is_skipped: false, name, .. } => {
                let lines: Vec<&str> = lines
                    .into_iter()
                    .filter(|line| !matches!(line.trim(), "---" | "..."))
                    .collect();
                // A test that failed only because of its subtest was reported before.
                if !lines.iter().any(|line| line.contains("'subtestsFailed'")) {
                    report.add_failure(Failure::new(name, &lines));
                }
            }
            Point { is_inner: true, .. } => {}
            Point { is_skipped: true, .. } => report.ignored += 1,
            Point { .. } => report.passed += 1,
        }
    }
    if let (Some(passed), Some(failed)) = (count("pass"), count("fail")) {
        report.passed = passed;
        report.failed = failed;
        report.ignored = count("skipped").unwrap_or(0);
    } else {
        report.failed = report.failures.len() as u64;
    }
    for failure in spec_failures(text) {
        report.add_failure(failure);
    }
    report.into_option(false)
}

/// One test point of TAP.
struct Point {
    name: String,
    is_ok: bool,
    is_skipped: bool,
    /// True for a subtest.
    is_inner: bool,
}

/// Parses a test point: `not ok 2 - name # SKIP why`.
fn point(line: &str) -> Option<Point> {
    let is_inner = line.starts_with(' ');
    let line = line.trim_start();
    let (is_ok, rest) = match line.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok")?),
    };
    if !rest.is_empty() && !rest.starts_with(' ') {
        return None;
    }
    let rest = rest.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let name = rest.strip_prefix("- ").unwrap_or(rest);
    let (name, directive) = name.split_once(" # ").unwrap_or((name, ""));
    let directive = directive.to_ascii_uppercase();
    let is_skipped = directive.starts_with("SKIP") || directive.starts_with("TODO");
    Some(Point { name: name.to_owned(), is_ok, is_skipped, is_inner })
}

/// Returns whether a line is the plan of TAP: `1..5`.
fn is_plan(line: &str) -> bool {
    line.strip_prefix("1..").is_some_and(|rest| {
        rest.split(' ').next().is_some_and(|number| number.parse::<u64>().is_ok())
    })
}

/// Returns the failures that node's own runner lists behind `✖ failing tests:`.
fn spec_failures(text: &str) -> Vec<Failure> {
    let Some((_, details)) = text.split_once("✖ failing tests:") else { return Vec::new() };
    let begins = |line: &'_ str| {
        let name = line.strip_prefix("✖ ")?;
        Some(name.rsplit_once(" (").map_or(name, |(name, _)| name).to_owned())
    };
    let all = sections(details, begins, |line| line.starts_with("test at "));
    all.into_iter().map(|(name, lines)| Failure::new(name, &lines)).collect()
}

/// Parses the output of dotnet.
pub(super) fn dotnet(text: &str) -> Option<Report> {
    let is_summary = |line: &&str| {
        (line.starts_with("Passed!") || line.starts_with("Failed!")) && line.contains("Total:")
    };
    let mut report = Report::default();
    for line in text.lines().filter(is_summary) {
        let counts = line.split_once("- ").map_or(line, |(_, counts)| counts);
        report.passed += number_behind(counts, "Passed").unwrap_or(0);
        report.failed += number_behind(counts, "Failed").unwrap_or(0);
        report.ignored += number_behind(counts, "Skipped").unwrap_or(0);
    }
    let begins = |line: &'_ str| {
        let (name, time) = line.strip_prefix("  Failed ")?.rsplit_once(" [")?;
        time.ends_with(']').then(|| name.to_owned())
    };
    let ends = |line: &str| line.starts_with("  Passed ") || is_summary(&line);
    for (name, lines) in sections(text, begins, ends) {
        report.add_failure(Failure::new(name, &lines));
    }
    let is_error = |line: &&str| line.contains("): error ");
    report.errors = text.lines().filter(is_error).map(|line| line.trim().to_owned()).collect();
    report.into_option(false)
}

/// Parses the output of mix (Elixir).
pub(super) fn mix(text: &str) -> Option<Report> {
    let is_summary = |line: &&str| {
        number_before(line, "failures").or_else(|| number_before(line, "failure")).is_some()
            && (number_before(line, "tests").or_else(|| number_before(line, "test")).is_some())
    };
    let summary = text.lines().rfind(is_summary)?;
    let count = |one: &str, many: &str| {
        number_before(summary, many).or_else(|| number_before(summary, one)).unwrap_or(0)
    };
    let (total, failed) = (count("test", "tests"), count("failure", "failures"));
    let ignored = count("excluded", "excluded") + count("skipped", "skipped");
    let passed = total.saturating_sub(failed + ignored);
    let mut report = Report { passed, failed, ignored, ..Report::default() };
    let begins = |line: &'_ str| {
        let (number, name) = line.strip_prefix("  ")?.split_once(") ")?;
        number.trim().parse::<u64>().ok()?;
        Some(name.to_owned())
    };
    for (name, lines) in sections(text, begins, |line| line.starts_with("Finished in ")) {
        report.add_failure(Failure::new(name, &lines));
    }
    report.into_option(false)
}

/// Parses errors of C compilers and similar ones with their source lines: `file:12:3: error: …`.
pub(super) fn compiler(text: &str) -> Option<Report> {
    let is_error = |line: &str| {
        line.split_once(": error: ").or_else(|| line.split_once(": fatal error: ")).is_some_and(
            |(location, _)| {
                location.split(':').nth(1).is_some_and(|number| number.parse::<u64>().is_ok())
            },
        )
    };
    let begins = |line: &'_ str| is_error(line).then(|| line.to_owned());
    let ends = |line: &str| !line.starts_with(' ');
    let join = |(first, lines): (String, Vec<&str>)| {
        let mut text = first;
        for line in lines {
            text.push('\n');
            text.push_str(line.trim_end());
        }
        text
    };
    let errors: Vec<String> = sections(text, begins, ends).into_iter().map(join).collect();
    let failed_link = text.lines().filter(|line| line.contains("undefined reference to"));
    let errors = errors.into_iter().chain(failed_link.map(|line| dedented(&[line]))).collect();
    Report { errors, ..Report::default() }.into_option(false)
}
