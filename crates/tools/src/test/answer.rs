//! Output of a test run: a verdict with counts, then each failure, bounded in size.

use windlass_core::{Context, Job, JobEnd, Output, ProcessEnd, ToolError};

use super::formats;
use super::report::{Failure, Report};
use crate::format::{count, push_line, short};
use crate::program::changed::{self, Base};
use crate::program::missing::Missing;
use crate::program::{answer, closing, facts};

/// Bytes at the end of the output that are searched, because runners report there.
const MAX_SEARCHED_BYTES: u64 = 8 << 20;
/// Limit of lines of one failure.
const MAX_FAILURE_LINES: usize = 40;
/// Limit of last lines of a run without a parsed report.
const MAX_LAST_LINES: usize = 60;
/// The same for a run that succeeded.
const MAX_LAST_LINES_OF_SUCCESS: usize = 10;
/// Limit of a line's length.
const MAX_LINE_CHARACTERS: usize = 500;
/// Bytes of the output limit that are reserved for the verdict and the remarks.
const RESERVED_BYTES: usize = 4_000;

/// The command of a test run.
pub(super) struct TestRun {
    pub(super) command: String,
    pub(super) filter: Option<String>,
    /// Other test commands that were detected.
    pub(super) others: Vec<String>,
}

/// Returns the output for a finished test run. Blocking.
pub(super) fn answer(
    cx: &Context,
    run: &TestRun,
    job: &Job,
    end: &JobEnd,
) -> Result<Output, ToolError> {
    let from = job.printed().saturating_sub(MAX_SEARCHED_BYTES);
    let printed: String = cx.printed(job, from..job.printed()).map(|piece| piece.text).collect();
    let report = formats::read(&run.command, &printed);
    let verdict = Verdict::of(run, report.as_ref(), job, end);
    let limit = cx.overrides().output_bytes.unwrap_or(50_000);
    let mut report_text = ReportText {
        text: verdict.line(run, end),
        left: limit.saturating_sub(RESERVED_BYTES),
        is_cut: false,
    };
    report_text.push_details(&verdict, report.as_ref(), &printed);
    let shows_all =
        verdict.shows_last_lines() && printed.lines().count() <= verdict.last_lines() && from == 0;
    let mut phrases = Vec::new();
    if !shows_all && job.printed() > 0 && cx.keep_transcript(job) {
        phrases.push(format!("the whole output: read or grep path \"output:{}\"", cx.call_id()));
    }
    if !run.others.is_empty() {
        phrases.push(format!("also here: `{}`", run.others.join("`, `")));
    }
    if let Ok(changed) = &end.changed {
        phrases.extend(changed::phrases(changed, &Base::of(cx)));
    }
    let mut text = report_text.text;
    if !phrases.is_empty() {
        push_line(&mut text, &closing::line(&phrases));
    }
    let has_failed = end.how != ProcessEnd::Exited(0);
    let missing = if has_failed { Missing::of(cx, job) } else { Missing::default() };
    missing.append_to(&mut text);
    let dropped = end.changed.as_ref().err();
    if let Some(error) = dropped {
        answer::append_drop_reason(&mut text, error)?;
    }
    let output = Output {
        is_error: !verdict.is_passed() || dropped.is_some(),
        outcome: end.cut_off(),
        ..Output::text(text)
    };
    let output = answer::with_refusal(output, dropped);
    let counts = report.as_ref().map(|report| (report.passed, report.failed));
    Ok(missing
        .facts(facts(output, cx, Some(end)))
        .with("truncated", report_text.is_cut)
        .with("passed", counts.map(|(passed, _)| passed))
        .with("failed", counts.map(|(_, failed)| failed)))
}

/// The verdict about a test run, with text for its first line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    /// All tests passed. The text has the counts, if they are known.
    Passed(String),
    /// Tests failed or could not be built, and the report names them.
    Failed(String),
    /// The run ended badly, and its report gives no reason.
    Unexplained(String),
}

impl Verdict {
    /// Decides the verdict by the report, the exit code and the time limit.
    fn of(run: &TestRun, report: Option<&Report>, job: &Job, end: &JobEnd) -> Self {
        let counts = report.map(counts).unwrap_or_default();
        let so_far = if counts.is_empty() { String::new() } else { format!("; so far {counts}") };
        if end.is_interrupted {
            return Self::Unexplained(format!("interrupted{so_far}"));
        }
        if end.timed_out {
            let after = job.limit().map(closing::limit_seconds).unwrap_or_default();
            return Self::Unexplained(format!("timed out after {after}{so_far}"));
        }
        let Some(report) = report else {
            return match end.how {
                ProcessEnd::Exited(0) => Self::Passed(counts),
                how => Self::Unexplained(how.to_string()),
            };
        };
        if report.total() == 0 && report.errors.is_empty() && run.filter.is_some() {
            return Self::Failed("no test has the filter in its name".to_owned());
        }
        let has_failures = report.failed > 0 || !report.errors.is_empty();
        match end.how {
            ProcessEnd::Exited(0) if !has_failures => Self::Passed(counts),
            ProcessEnd::Exited(0) => Self::Failed(format!("{counts}, although the exit code is 0")),
            ProcessEnd::Exited(_) if has_failures => Self::Failed(counts),
            how if counts.is_empty() => Self::Unexplained(how.to_string()),
            how => Self::Unexplained(format!("{how}, {counts}")),
        }
    }

    /// Returns the first line of the output.
    fn line(&self, run: &TestRun, end: &JobEnd) -> String {
        let command = short(&run.command, 100);
        let took = format!("({}, {})", command.replace('\n', " "), closing::seconds(end.duration));
        match self {
            Self::Passed(counts) if counts.is_empty() => format!("PASSED {took}"),
            Self::Passed(counts) => format!("PASSED: {counts} {took}"),
            Self::Failed(why) | Self::Unexplained(why) => format!("FAILED: {why} {took}"),
        }
    }

    /// Returns whether all tests passed.
    fn is_passed(&self) -> bool {
        matches!(self, Self::Passed(_))
    }

    /// Returns whether the last lines of the output are shown.
    fn shows_last_lines(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }

    /// Returns the limit of last lines for this verdict.
    fn last_lines(&self) -> usize {
        if self.is_passed() { MAX_LAST_LINES_OF_SUCCESS } else { MAX_LAST_LINES }
    }
}

/// Returns the counts of a report: `2 failed, 40 passed, 1 ignored`.
fn counts(report: &Report) -> String {
    let mut words = Vec::new();
    if !report.errors.is_empty() {
        words.push(format!(
            "cannot be built or loaded ({})",
            count(report.errors.len(), "error", "errors")
        ));
    }
    if report.failed > 0 {
        words.push(format!("{} failed", report.failed));
    }
    if report.passed > 0 || words.is_empty() {
        words.push(format!("{} passed", report.passed));
    }
    if report.ignored > 0 {
        words.push(format!("{} ignored", report.ignored));
    }
    words.join(", ")
}

/// The text of the output while it is built.
struct ReportText {
    text: String,
    /// Bytes that are left of the limit.
    left: usize,
    /// True if something was left out for lack of space.
    is_cut: bool,
}

impl ReportText {
    /// Adds the failures or the last lines, depending on the verdict.
    fn push_details(&mut self, verdict: &Verdict, report: Option<&Report>, printed: &str) {
        match (verdict, report) {
            (Verdict::Passed(_), Some(_)) => {}
            (Verdict::Failed(_), Some(report)) => self.push_failures(report),
            (Verdict::Unexplained(_), Some(report)) => {
                self.push_failures(report);
                self.push_last_lines(printed, MAX_LAST_LINES);
            }
            (verdict, None) => self.push_last_lines(printed, verdict.last_lines()),
        }
    }

    /// Adds the errors and failures until the limit is reached, then the names of the others.
    fn push_failures(&mut self, report: &Report) {
        for error in &report.errors {
            if !self.try_push(error) {
                self.push_more(report.errors.len(), "errors");
                break;
            }
        }
        for (at, failure) in report.failures.iter().enumerate() {
            let Failure { name, text } = failure;
            if !self.try_push(format!("--- {name}\n{text}").trim_end()) {
                self.push_names(report.failures.get(at..).unwrap_or_default());
                break;
            }
        }
    }

    /// Adds a section, shortened to a few lines. Returns false if there is no space.
    fn try_push(&mut self, part: &str) -> bool {
        let lines: Vec<&str> = part.lines().collect();
        let mut text = String::from("\n");
        for line in lines.iter().take(MAX_FAILURE_LINES) {
            text.push('\n');
            text.push_str(&short(line, MAX_LINE_CHARACTERS));
        }
        if lines.len() > MAX_FAILURE_LINES {
            let more = format!("\n[{} more lines]", lines.len() - MAX_FAILURE_LINES);
            text.push_str(&more);
            self.is_cut = true;
        }
        if text.len() > self.left {
            return false;
        }
        self.left -= text.len();
        self.text.push_str(&text);
        true
    }

    /// Adds the names of failures for which there is no space.
    fn push_names(&mut self, failures: &[Failure]) {
        let names: Vec<&str> =
            failures.iter().map(|failure| failure.name.as_str()).take(100).collect();
        self.push_more(failures.len(), &format!("failures: {}", short(&names.join(", "), 3_000)));
    }

    /// Adds a note about sections that were left out.
    fn push_more(&mut self, number: usize, what: &str) {
        let more = format!("\n\n[{number} more {what}]");
        self.text.push_str(&more);
        self.is_cut = true;
    }

    /// Adds the last lines of the printed text.
    fn push_last_lines(&mut self, printed: &str, most: usize) {
        let printed = printed.trim_end();
        let lines: Vec<&str> = printed.lines().collect();
        let from = lines.len().saturating_sub(most);
        let shown: Vec<_> =
            lines.iter().skip(from).map(|line| short(line, MAX_LINE_CHARACTERS)).collect();
        let shown = shown.join("\n");
        if shown.is_empty() {
            return;
        }
        let from = shown.ceil_char_boundary(shown.len().saturating_sub(self.left));
        self.text.push_str("\n\n");
        self.text.push_str(shown.get(from..).unwrap_or_default());
    }
}
