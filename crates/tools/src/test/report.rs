//! The parsed result of a test run, and helpers for the parsers.

use std::collections::HashSet;

/// The parsed result of a test run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) ignored: u64,
    /// The failed tests.
    pub(super) failures: Vec<Failure>,
    /// Errors that kept tests from running: code that does not compile, a file that cannot be loaded.
    pub(super) errors: Vec<String>,
}

/// A failed test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) name: String,
    /// The runner's text about the failure; may be empty.
    pub(super) text: String,
}

impl Failure {
    /// Returns a failure with its lines as text.
    pub(super) fn new(name: impl Into<String>, lines: &[&str]) -> Self {
        Self { name: name.into(), text: dedented(lines) }
    }
}

impl Report {
    /// Returns whether the report contains nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.total() == 0 && self.failures.is_empty() && self.errors.is_empty()
    }

    /// Returns the number of tests that ran.
    pub(super) fn total(&self) -> u64 {
        self.passed + self.failed
    }

    /// Removes duplicate errors. Returns `None` if the report is empty, unless the format of the output is `certain`.
    pub(super) fn into_option(mut self, certain: bool) -> Option<Self> {
        let mut seen = HashSet::new();
        self.errors.retain(|error| !error.is_empty() && seen.insert(error.clone()));
        self.failed = self.failed.max(self.failures.len() as u64);
        (certain || !self.is_empty()).then_some(self)
    }

    /// Adds a failure. Of two failures with the same name, the one with the longer text is kept.
    pub(super) fn add_failure(&mut self, failure: Failure) {
        match self.failures.iter_mut().find(|known| known.name == failure.name) {
            Some(known) if known.text.len() < failure.text.len() => *known = failure,
            Some(_) => {}
            None => self.failures.push(failure),
        }
    }
}

/// Joins lines without their common indentation, without blank lines at both ends, and with at most one between others.
pub(super) fn dedented(lines: &[&str]) -> String {
    let is_empty = |line: &&str| line.trim().is_empty();
    let Some(first) = lines.iter().position(|line| !is_empty(line)) else { return String::new() };
    let last = lines.iter().rposition(|line| !is_empty(line)).unwrap_or(first);
    let lines = lines.get(first..=last).unwrap_or_default();
    let indent = |line: &&str| line.len() - line.trim_start_matches(' ').len();
    let common = lines.iter().filter(|line| !is_empty(line)).map(indent).min().unwrap_or(0);
    let mut texts: Vec<&str> =
        lines.iter().map(|line| line.get(common..).unwrap_or_default().trim_end()).collect();
    texts.dedup_by(|next, line| next.is_empty() && line.is_empty());
    texts.join("\n")
}

/// Returns the number before a word: 3 in `3 passed, 1 failed` for `passed`.
pub(super) fn number_before(line: &str, word: &str) -> Option<u64> {
    let mut last = None;
    for token in tokens(line) {
        if token == word {
            return last;
        }
        last = token.parse().ok();
    }
    None
}

/// Returns the number behind a word: 3 in `Passed: 3, Failed: 1` for `Passed`.
pub(super) fn number_behind(line: &str, word: &str) -> Option<u64> {
    let mut all = tokens(line).skip_while(|token| *token != word);
    all.next()?;
    all.next()?.parse().ok()
}

/// Splits a line into words and numbers.
fn tokens(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric()).filter(|token| !token.is_empty())
}

/// Returns whether a line consists of at least five times this character.
pub(super) fn is_rule(line: &str, of: char) -> bool {
    let line = line.trim();
    line.chars().count() >= 5 && line.chars().all(|c| c == of)
}

/// Splits a text into sections. `begins` returns the title if a line begins a section; `ends` returns true for a line behind one.
pub(super) fn sections<'t, T>(
    text: &'t str,
    begins: impl Fn(&'t str) -> Option<T>,
    ends: impl Fn(&'t str) -> bool,
) -> Vec<(T, Vec<&'t str>)> {
    let mut sections: Vec<(T, Vec<&'t str>)> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        if let Some(name) = begins(line) {
            sections.push((name, Vec::new()));
            is_inside = true;
        } else if ends(line) {
            is_inside = false;
        } else if let Some((_, lines)) = sections.last_mut().filter(|_| is_inside) {
            lines.push(line);
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beside_words_are_found() {
        let line = "== 1 failed, 40 passed (2 flaky), 3 skipped in 0.12s ==";
        assert_eq!(number_before(line, "failed"), Some(1));
        assert_eq!(number_before(line, "passed"), Some(40));
        assert_eq!(number_before(line, "skipped"), Some(3));
        assert_eq!(number_before(line, "errors"), None);
        assert_eq!(number_before("nothing failed", "failed"), None);
        assert_eq!(number_behind("Tests run: 5, Failures: 1", "Failures"), Some(1));
        assert_eq!(number_behind("failures=2, errors=1)", "errors"), Some(1));
        assert_eq!(number_behind("Failures: none", "Failures"), None);
    }

    #[test]
    fn dedented_lines_are_trimmed() {
        assert_eq!(dedented(&["", "    a", "      b", "", " ", "    c", " "]), "a\n  b\n\nc");
        assert_eq!(dedented(&["", " "]), "");
        assert_eq!(dedented(&[]), "");
    }

    #[test]
    fn repeated_failures_are_merged() {
        let mut report = Report::default();
        report.add_failure(Failure::new("a", &[]));
        report.add_failure(Failure::new("a", &["why"]));
        report.add_failure(Failure::new("a", &[]));
        assert_eq!(report.failures, [Failure { name: "a".into(), text: "why".into() }]);
    }
}
