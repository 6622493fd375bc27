//! Parses the output of `go test`, with or without `-v`.

use std::collections::HashMap;

use super::report::{Failure, Report, dedented};

/// Parses `go test`. With `-v`, every line belongs to the test that was named last, also if several run in parallel.
pub(super) fn go(text: &str) -> Option<Report> {
    let mut run = GoOutput::default();
    for line in text.lines() {
        run.read_line(line);
    }
    run.end_package();
    let GoOutput { mut report, is_go, .. } = run;
    report.errors.extend(build_errors(text));
    if is_go { report.into_option(true) } else { None }
}

#[derive(Default)]
/// The state of the parser.
struct GoOutput<'t> {
    report: Report,
    /// True if a line has been found that only `go test` prints.
    is_go: bool,
    /// The test to which the next lines belong.
    current: Option<&'t str>,
    /// The lines of each test in the present package.
    lines_of: HashMap<&'t str, Vec<&'t str>>,
    /// Failed tests of the present package, in order.
    failed: Vec<&'t str>,
}

impl<'t> GoOutput<'t> {
    /// Reads one line of the output.
    fn read_line(&mut self, line: &'t str) {
        if let Some((mark, name)) = named_test(line) {
            self.current = Some(name);
            self.is_go |= mark == "RUN";
        } else if let Some((verdict, name)) = verdict(line) {
            self.verdict(verdict, name);
        } else if is_package_line(line) {
            self.is_go = true;
            self.end_package();
        } else if let Some(current) = self.current {
            self.lines_of.entry(current).or_default().push(line);
        }
    }

    /// Records the verdict of a test.
    fn verdict(&mut self, verdict: &str, name: &'t str) {
        match verdict {
            "PASS" => self.report.passed += 1,
            "SKIP" => self.report.ignored += 1,
            _ => self.failed.push(name),
        }
        // Without `-v` the lines of a failed test follow its verdict.
        self.current = Some(name);
        self.is_go = true;
    }

    /// Adds the failures of a package to the report.
    fn end_package(&mut self) {
        let all = std::mem::take(&mut self.failed);
        // A test that failed only because of its subtest prints nothing itself.
        let has_part = |name: &str| {
            all.iter()
                .any(|other| other.strip_prefix(name).is_some_and(|rest| rest.starts_with('/')))
        };
        for name in &all {
            let lines = self.lines_of.remove(name).unwrap_or_default();
            if dedented(&lines).is_empty() && has_part(name) {
                continue;
            }
            self.report.add_failure(Failure::new(*name, &lines));
        }
        self.lines_of.clear();
        self.current = None;
    }
}

/// Parses `=== RUN   TestName`, which names the test of the next lines. Returns the mark and the name.
fn named_test(line: &str) -> Option<(&str, &str)> {
    let (mark, name) = line.strip_prefix("=== ")?.split_once(' ')?;
    matches!(mark, "RUN" | "NAME" | "CONT" | "PAUSE").then_some((mark, name.trim()))
}

/// Parses `--- FAIL: TestName (0.00s)`, indented for a subtest. Returns the verdict and the name.
fn verdict(line: &str) -> Option<(&str, &str)> {
    let (verdict, rest) = line.trim_start().strip_prefix("--- ")?.split_once(": ")?;
    let (name, time) = rest.rsplit_once(" (")?;
    (matches!(verdict, "PASS" | "FAIL" | "SKIP") && time.ends_with("s)")).then_some((verdict, name))
}

/// Returns whether a line is the summary of a package: `ok`, `FAIL` or `?`, its name and a time, separated by tabs.
fn is_package_line(line: &str) -> bool {
    let begins = ["ok  \t", "FAIL\t", "?   \t"].iter().any(|begin| line.starts_with(begin));
    begins || line == "PASS" || line == "FAIL"
}

/// Returns the compiler errors behind each line `# package`, if a package could not be built.
fn build_errors(text: &str) -> Vec<String> {
    let is_built = !(text.contains("[build failed]") || text.contains("[setup failed]"));
    if is_built {
        return Vec::new();
    }
    let mut errors: Vec<Vec<&str>> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        if line.starts_with("# ") {
            errors.push(vec![line]);
            is_inside = true;
        } else if is_package_line(line) || line.starts_with("=== ") {
            is_inside = false;
        } else if let Some(lines) = errors.last_mut().filter(|_| is_inside) {
            lines.push(line);
        }
    }
    errors.iter().map(|lines| dedented(lines)).collect()
}
