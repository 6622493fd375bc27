//! Parses the output of Maven (surefire) and Gradle.

use super::report::{Failure, Report, number_before, number_behind, sections};

/// Parses the output of Maven: a line per class, then a summary per module.
pub(super) fn maven(text: &str) -> Option<Report> {
    if !text.lines().any(|line| line.starts_with("[INFO] ") || line.starts_with("[ERROR] ")) {
        return None;
    }
    let mut report = Report::default();
    let is_sum = |line: &&str| line.contains("Tests run: ") && !line.contains("Time elapsed");
    for line in text.lines().filter(is_sum) {
        let count = |word| number_behind(line, word).unwrap_or(0);
        let failed = count("Failures") + count("Errors");
        report.failed += failed;
        report.ignored += count("Skipped");
        report.passed += count("run").saturating_sub(failed + count("Skipped"));
    }
    let begins = |line: &'_ str| {
        let line = line.strip_prefix("[ERROR] ")?;
        let is_verdict = line.ends_with("<<< FAILURE!") || line.ends_with("<<< ERROR!");
        let name = line.split("  Time elapsed").next()?.split(" -- Time elapsed").next()?;
        (is_verdict && !line.starts_with("Tests run: ")).then(|| name.trim().to_owned())
    };
    for (name, lines) in
        sections(text, begins, |line| line.starts_with('[') || line.trim().is_empty())
    {
        report.add_failure(Failure::new(name, &lines));
    }
    report.errors = compile_errors(text);
    report.into_option(false)
}

/// Returns the errors between `COMPILATION ERROR` and the next summary.
fn compile_errors(text: &str) -> Vec<String> {
    let begins = |line: &'_ str| line.contains("COMPILATION ERROR").then_some(());
    let ends = |line: &str| {
        let text = line.strip_prefix("[INFO] ").unwrap_or_default();
        text.ends_with(" error") || text.ends_with(" errors") || text.starts_with("BUILD")
    };
    let has_text =
        |line: &&str| !line.trim_start_matches("[INFO]").trim_start_matches('-').trim().is_empty();
    let strip = |line: &'_ str| line.strip_prefix("[ERROR] ").unwrap_or(line).to_owned();
    let all = sections(text, begins, ends);
    let texts = all.into_iter().map(|((), lines)| {
        let lines: Vec<String> = lines.into_iter().filter(has_text).map(strip).collect();
        lines.join("\n")
    });
    texts.collect()
}

/// Parses the output of Gradle, which prints counts only if there are failures.
pub(super) fn gradle(text: &str) -> Option<Report> {
    let is_gradle = text.lines().any(|line| {
        line.starts_with("BUILD FAILED")
            || line.starts_with("BUILD SUCCESSFUL")
            || line.starts_with("> Task :")
    });
    if !is_gradle {
        return None;
    }
    let mut report = Report::default();
    for line in text.lines().filter(|line| line.contains(" completed")) {
        if let Some(total) = number_before(line, "tests").or_else(|| number_before(line, "test")) {
            let failed = number_before(line, "failed").unwrap_or(0);
            let skipped = number_before(line, "skipped").unwrap_or(0);
            report.failed += failed;
            report.ignored += skipped;
            report.passed += total.saturating_sub(failed + skipped);
        }
    }
    let begins = |line: &'_ str| {
        let name = line.strip_suffix(" FAILED")?;
        (name.contains(" > ") && !name.starts_with('>')).then(|| name.to_owned())
    };
    for (name, lines) in sections(text, begins, |line| !line.starts_with(' ') && !line.is_empty()) {
        report.add_failure(Failure::new(name, &lines));
    }
    report.errors = javac_errors(text);
    report.into_option(false)
}

/// Returns compiler errors with their source lines: `File.java:5: error: …` and `e: file:///File.kt:5:10 …`.
fn javac_errors(text: &str) -> Vec<String> {
    let is_error = |line: &str| line.contains(": error: ") || line.starts_with("e: ");
    let begins = |line: &'_ str| is_error(line).then(|| line.to_owned());
    let ends = |line: &str| {
        line.trim().is_empty()
            || line.starts_with("> ")
            || number_before(line, "error").is_some()
            || number_before(line, "errors").is_some()
    };
    let join = |(first, lines): (String, Vec<&str>)| {
        let rest = lines.join("\n");
        format!("{first}\n{rest}").trim_end().to_owned()
    };
    sections(text, begins, ends).into_iter().map(join).collect()
}
