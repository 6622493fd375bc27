//! Parses the output of `cargo test` and `cargo nextest run`.

use super::report::{Failure, Report, dedented, is_rule, number_before, sections};

/// Parses the output of `cargo test`, with one summary per test binary.
pub(super) fn cargo(text: &str) -> Option<Report> {
    const MARKERS: [&str; 3] = ["test result: ", "error: could not compile", "error: test failed"];
    if !text.lines().any(|line| MARKERS.iter().any(|sign| line.starts_with(sign))) {
        return None;
    }
    let mut report = Report::default();
    for line in text.lines().filter(|line| line.starts_with("test result: ")) {
        report.passed += number_before(line, "passed").unwrap_or(0);
        report.failed += number_before(line, "failed").unwrap_or(0);
        report.ignored += number_before(line, "ignored").unwrap_or(0);
    }
    let begins = |line: &'_ str| -> Option<String> {
        let name = line.strip_prefix("---- ")?.strip_suffix(" ----")?;
        Some(name.strip_suffix(" stdout").unwrap_or(name).to_owned())
    };
    let ends = |line: &str| line == "failures:" || line.starts_with("test result: ");
    for (name, lines) in sections(text, begins, ends) {
        let is_relevant = |line: &&&str| !line.starts_with("note: run with `RUST_BACKTRACE=");
        let lines: Vec<&str> = lines.iter().filter(is_relevant).copied().collect();
        report.add_failure(Failure::new(name, &lines));
    }
    // For a test that printed nothing, only its name is listed.
    for line in text.lines() {
        let name = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"));
        if let Some(name) = name {
            let name = name.strip_suffix(" - should panic").unwrap_or(name);
            report.add_failure(Failure::new(name, &[]));
        }
    }
    report.errors = compiler_errors(text);
    report.errors.extend(crashes(text));
    report.into_option(true)
}

/// Parses the output of `cargo nextest run`, with one summary for all.
pub(super) fn nextest(text: &str) -> Option<Report> {
    let summary = text.lines().rfind(|line| line.trim_start().starts_with("Summary ["));
    let is_nextest = summary.is_some() || text.contains("Nextest run ID");
    if !is_nextest {
        return None;
    }
    let mut report = Report { errors: compiler_errors(text), ..Report::default() };
    if let Some(line) = summary.and_then(|line| line.split_once(']')).map(|(_, rest)| rest) {
        let count = |word| number_before(line, word).unwrap_or(0);
        report.passed = count("passed");
        // `1 exec failed` and `1 timed out` stand beside `1 failed`, in any order.
        report.failed =
            line.split(',').filter(|part| part.contains("failed")).map(first_number).sum::<u64>()
                + line
                    .split(',')
                    .filter(|part| part.contains("timed out"))
                    .map(first_number)
                    .sum::<u64>();
        report.ignored = count("skipped");
    }
    let begins = |line: &'_ str| failed_status(line).map(str::to_owned);
    let ends = |line: &str| is_status(line) || is_rule(line, '─') || line.starts_with("error: ");
    for (name, lines) in sections(text, begins, ends) {
        let is_relevant = |line: &&&str| {
            let line = line.trim();
            !(line.starts_with("stdout ─")
                || line.starts_with("stderr ─")
                || line.starts_with("--- STD")
                || line.starts_with("note: run with `RUST_BACKTRACE=")
                || line.starts_with("running 1 test")
                || line.starts_with("test result: ")
                || line == "failures:"
                || line == name_in(&name)
                || line.ends_with(" ... FAILED"))
        };
        let lines: Vec<&str> = lines.iter().filter(is_relevant).copied().collect();
        report.add_failure(Failure::new(name, &lines));
    }
    report.into_option(true)
}

/// Returns the name of a test without that of its binary.
fn name_in(name: &str) -> &str {
    name.split_once(' ').map_or(name, |(_, test)| test)
}

/// Returns the last number in a part of the summary.
fn first_number(part: &str) -> u64 {
    let mut words = part.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
    // `2 tests run: 1 failed`: the number before the word is the last one.
    words.next_back().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Words before the time in a line about one test.
const STATUSES: [&str; 10] =
    ["PASS", "FAIL", "SKIP", "SLOW", "LEAK", "TIMEOUT", "SIGABRT", "SIGSEGV", "ABORT", "FLAKY"];

/// Parses `  FAIL [   0.003s] (1/3) binary tests::name`. Returns the status and the name.
fn status(line: &str) -> Option<(&str, &str)> {
    let (word, rest) = line.split_once(" [")?;
    let word = word.trim();
    let word = if word.starts_with("TRY ") { word.rsplit(' ').next()? } else { word };
    let word = word.split(' ').next()?;
    let (time, name) = rest.split_once(']')?;
    let is_time =
        time.trim().trim_start_matches('>').trim_end_matches('s').trim().parse::<f64>().is_ok();
    let name = name.trim();
    let name = match name.strip_prefix('(').and_then(|rest| rest.split_once(") ")) {
        Some((_, name)) => name.trim(),
        None => name,
    };
    (STATUSES.contains(&word) && is_time).then_some((word, name))
}

/// Returns whether a line is about one test.
fn is_status(line: &str) -> bool {
    status(line).is_some()
}

/// Returns the name of the test in a line about a failed test.
fn failed_status(line: &str) -> Option<&str> {
    let (word, name) = status(line)?;
    matches!(word, "FAIL" | "TIMEOUT" | "SIGABRT" | "SIGSEGV" | "ABORT").then_some(name)
}

/// Returns each compiler error, up to the empty line behind it.
fn compiler_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let mut current: Option<Vec<&str>> = None;
    for line in text.lines() {
        if is_error(line) {
            errors.extend(current.take());
            current = Some(vec![line]);
        } else if line.trim().is_empty() {
            errors.extend(current.take());
        } else if let Some(lines) = &mut current {
            lines.push(line);
        }
    }
    errors.extend(current);
    errors.iter().map(|lines| dedented(lines)).collect()
}

/// Returns whether a line begins an error of the compiler or of cargo that is no summary of others.
fn is_error(line: &str) -> bool {
    const SUMMARY_ERRORS: [&str; 8] = [
        "test failed",
        "could not compile",
        "aborting due to",
        "test run failed",
        "1 target failed",
        "doctest failed",
        "no tests to run",
        "command `",
    ];
    let Some(message) = line.strip_prefix("error").filter(|rest| rest.starts_with([':', '[']))
    else {
        return false;
    };
    let message = message.trim_start_matches(": ");
    let is_count = message.split_once(' ').is_some_and(|(number, rest)| {
        number.parse::<u64>().is_ok() && rest.starts_with("targets failed")
    });
    !is_count && !SUMMARY_ERRORS.iter().any(|sum| message.starts_with(sum))
}

/// Returns the signals of test binaries that crashed without a summary.
fn crashes(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let crash = |pair: &[&str]| match pair {
        [first, second] if first.trim() == "Caused by:" && second.contains("(signal: ") => {
            Some(second.trim().to_owned())
        }
        _ => None,
    };
    lines.windows(2).filter_map(crash).collect()
}
