//! The output of the tour: text for a person, one line per step with `--quiet`, JSON lines with `--json`.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Map, Value, json};
use windlass::{CallResult, ToolCall, quote};

use super::guest::Guest;
use super::sample::Tree;
use crate::options::Global;
use crate::person::Person;
use crate::terminal::{self, Paint};

/// The number of lines of a call's result that are shown.
const SHOWN_LINES: usize = 12;
/// The number of characters of a result that is shown on one line.
const MAX_LINE_CHARS: usize = 60;
/// The maximum width of explanations, and the assumed width of a terminal that does not report its size.
const MAX_COLUMNS: usize = 96;

/// The form of the output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutputForm {
    /// Text for a person.
    Text,
    /// One line per step.
    Brief,
    /// One JSON object per step, and one at the end.
    Json,
}

/// Prints the tour, and records which steps failed or were skipped.
pub(super) struct Narrator {
    form: OutputForm,
    paint: Paint,
    columns: usize,
    /// The output goes to a terminal as text, so that a person reads along.
    is_watched: bool,
    /// The reason why the tour answers approvals itself; `None` if a person does.
    answers_itself: Option<&'static str>,
    steps: usize,
    current: CurrentStep,
    skipped: Vec<&'static str>,
    failed: Vec<&'static str>,
}

/// The step that is running, with everything that its JSON object needs.
#[derive(Default)]
struct CurrentStep {
    number: usize,
    name: &'static str,
    title: &'static str,
    /// The calls and command lines of the step, each with its output once there is one.
    done: Vec<Value>,
    questions: Vec<String>,
    trees: Map<String, Value>,
    checks: Vec<Value>,
    has_failed: bool,
    skipped: Option<String>,
}

impl Narrator {
    /// Chooses form, colours, width and answering from the options and the terminal.
    pub(super) fn of(global: &Global) -> Self {
        let form = match global {
            Global { json: true, .. } => OutputForm::Json,
            Global { quiet: true, .. } => OutputForm::Brief,
            _ => OutputForm::Text,
        };
        let is_watched = form == OutputForm::Text && std::io::stdout().is_terminal();
        let answers_itself = if global.yes {
            Some("--yes")
        } else if is_watched && std::io::stdin().is_terminal() {
            None
        } else {
            Some("no person can be asked here")
        };
        Self {
            form,
            paint: Paint::of(global),
            columns: if is_watched { columns() } else { MAX_COLUMNS },
            is_watched,
            answers_itself,
            steps: 0,
            current: CurrentStep::default(),
            skipped: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Returns whether a person reads along and needs pauses.
    pub(super) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Returns a new attendant for approvals.
    pub(super) fn guest(&self) -> Guest {
        let person = match self.answers_itself {
            None => Person::at_terminal(self.paint),
            Some(_) => None,
        };
        Guest::new(person, self.paint)
    }

    /// Prints the heading of the tour and its directory.
    pub(super) fn print_heading(&mut self, place: &Path, steps: usize) -> Result<()> {
        self.steps = steps;
        let head = self.paint.bold(&format!("Windlass in {steps} steps."));
        let place = quote::path(place);
        self.print_text(&format!(
            "{head} All of it happens, in a sample project that is removed at the end:\n{place}\n"
        ))
    }

    /// Begins a step and prints its heading.
    pub(super) fn begin_step(
        &mut self,
        number: usize,
        name: &'static str,
        title: &'static str,
    ) -> Result<()> {
        self.current = CurrentStep { number, name, title, ..CurrentStep::default() };
        let number = self.paint.dim(&format!("[{number}/{}]", self.steps));
        self.print_text(&format!("\n{number} {}\n", self.paint.bold(title)))
    }

    /// Prints an explanation.
    pub(super) fn explain(&mut self, text: &str) -> Result<()> {
        let lines = wrapped(text, self.columns.min(MAX_COLUMNS) - 2);
        self.print_text(&(indented("  ", &lines) + "\n"))
    }

    /// Prints and records a call before it is made.
    pub(super) fn print_call(&mut self, call: &ToolCall) -> Result<()> {
        self.current.done.push(json!({"tool": call.name, "input": call.input}));
        let input = match call.input.get("command").and_then(Value::as_str) {
            Some(command) => command.to_owned(),
            None => call.input.to_string(),
        };
        let line = format!("{} {}", self.paint.bold(&call.name), quote::visible(&input));
        self.print_text(&format!("  > {line}\n"))
    }

    /// Prints and records the command line that a person would type for the next action.
    pub(super) fn print_command_line(&mut self, command: &str) -> Result<()> {
        self.current.done.push(json!({"command": command}));
        self.print_text(&format!("  $ {}\n", self.paint.bold(command)))
    }

    /// Records a call's result and prints its first line with the duration.
    pub(super) fn print_result_line(&mut self, result: &CallResult) -> Result<()> {
        self.add_result(result);
        let text = result.output.to_text();
        let first = quote::visible(text.lines().next().unwrap_or_default()).replace('\t', " ");
        let more = text.lines().count().saturating_sub(1);
        let more = match more {
            0 => String::new(),
            1 => " (and 1 more line)".to_owned(),
            more => format!(" (and {more} more lines)"),
        };
        let cut: String = first.chars().take(MAX_LINE_CHARS).collect();
        let dots = if cut.len() < first.len() { "…" } else { "" };
        let time = format!("{:>5} ms", result.duration.as_millis());
        let line = format!("{:<4} {} {cut}{dots}{}", result.tool, time, self.paint.dim(&more));
        // The line has no control characters but our own colours.
        self.print_text(&(barred(self.paint, &line) + "\n"))
    }

    /// Records a call's result and prints its first lines.
    pub(super) fn print_result(&mut self, result: &CallResult) -> Result<()> {
        self.add_result(result);
        let text = result.output.to_text();
        self.print_barred(&first_lines(&text))
    }

    /// Records and prints the output of a command line.
    pub(super) fn print_output(&mut self, text: &str) -> Result<()> {
        self.add_output(&json!({"text": text}));
        self.print_barred(text)
    }

    /// Prints a file's name and content.
    pub(super) fn print_file(&mut self, name: &str, content: &str) -> Result<()> {
        self.print_text(&format!("  {}:\n", self.paint.bold(name)))?;
        self.print_barred(content)
    }

    /// Records and prints the names and the hash of the project's files.
    pub(super) fn print_tree(&mut self, when: &'static str, tree: &Tree) -> Result<()> {
        let (hash, names) = (tree.hash(), tree.names());
        self.current.trees.insert(when.to_owned(), json!({"hash": hash, "files": names}));
        self.print_text(&format!("  {when:<8} {} {names}\n", self.paint.yellow(&hash)))
    }

    /// Records the text of an approval, and prints it with the tour's answer unless a person has just seen it.
    pub(super) fn print_approval(&mut self, question: &str, was_seen: bool) -> Result<()> {
        self.current.questions.push(question.to_owned());
        if was_seen {
            return Ok(());
        }
        let why = self.answers_itself.unwrap_or("there is no terminal to ask at");
        let answered = format!("y   ({why}: the tour answers)");
        // Lines of the diff have their colours already, and no other control characters.
        let text = format!("{}{answered}", question.trim_start_matches('\n'));
        self.print_text(&(barred(self.paint, &text) + "\n"))
    }

    /// Records and prints whether a claim holds. The step fails if it does not.
    pub(super) fn check(&mut self, claim: &str, holds: bool) -> Result<()> {
        self.current.checks.push(json!({"claim": claim, "holds": holds}));
        self.current.has_failed |= !holds;
        let mark = if holds { self.paint.green("ok ") } else { self.paint.red("NOT") };
        self.print_text(&format!("  {mark} {}\n", quote::visible(claim)))
    }

    /// Records and prints the reason why the rest of the step is skipped.
    pub(super) fn skip(&mut self, why: &str) -> Result<()> {
        self.current.skipped = Some(why.to_owned());
        let mark = self.paint.yellow("-- ");
        self.print_text(&format!("  {mark} skipped: {}\n", quote::visible(why)))
    }

    /// Ends the step: counts its outcome, and prints its line or its JSON object.
    pub(super) fn end_step(&mut self) -> Result<()> {
        let current = std::mem::take(&mut self.current);
        let outcome = current.outcome();
        match outcome {
            "failed" => self.failed.push(current.name),
            "skipped" => self.skipped.push(current.name),
            _ => {}
        }
        match self.form {
            OutputForm::Text => Ok(()),
            OutputForm::Brief => terminal::print(&format!("{outcome:<7} {}", current.title)),
            OutputForm::Json => terminal::print_json(&current.into_json(outcome)),
        }
    }

    /// Prints that the tour was interrupted and its directory removed.
    pub(super) fn print_interrupted(&self, place: &Path) -> Result<()> {
        if self.form == OutputForm::Json {
            return self.json_end("interrupted", place);
        }
        self.print_text(&format!("\nInterrupted. {} is removed.\n", quote::path(place)))
    }

    /// Prints the summary and further commands. Returns exit code 1 if a step failed.
    pub(super) fn print_summary(&self, place: &Path) -> Result<ExitCode> {
        let code = ExitCode::from(u8::from(!self.failed.is_empty()));
        if self.form == OutputForm::Json {
            let outcome = if self.failed.is_empty() { "ok" } else { "failed" };
            self.json_end(outcome, place)?;
            return Ok(code);
        }
        let said = match (self.failed.as_slice(), self.skipped.as_slice()) {
            ([], []) => self.paint.green("Every step did what it says."),
            ([], skipped) => {
                self.paint.yellow(&format!("Skipped, at least in part: {}.", skipped.join(", ")))
            }
            (failed, _) => self.paint.red(&format!("Not as it should be: {}.", failed.join(", "))),
        };
        let place = quote::path(place);
        self.print_text(&format!(
            "\n{said} {place} is removed.\n\n\
             In a project of yours:\n  \
             windlass call grep '{{\"pattern\": \"TODO\"}}'    one call; what it prints is what a model sees\n  \
             windlass mcp                                the tools for an agent host\n  \
             windlass doctor                             what works on this machine\n"
        ))?;
        Ok(code)
    }

    /// Prints the last JSON object of the tour.
    fn json_end(&self, outcome: &str, place: &Path) -> Result<()> {
        terminal::print_json(&json!({
            "type": "tour", "outcome": outcome, "steps": self.steps, "skipped": self.skipped,
            "failed": self.failed, "removed": quote::path(place),
        }))
    }

    /// Adds an output to the first call or command line that has none.
    fn add_output(&mut self, answer: &Value) {
        let waiting = self.current.done.iter_mut().find(|one| one.get("text").is_none());
        let (Some(one), Value::Object(answer)) = (waiting, answer) else { return };
        for (name, value) in answer {
            one[name.as_str()] = value.clone();
        }
    }

    /// Adds a call's outcome, text and duration to its record.
    fn add_result(&mut self, result: &CallResult) {
        self.add_output(&json!({
            "outcome": result.outcome.as_str(), "text": result.output.to_text(),
            "duration_ms": u64::try_from(result.duration.as_millis()).unwrap_or(u64::MAX),
        }));
    }

    /// Prints an output with a bar before each line.
    fn print_barred(&self, text: &str) -> Result<()> {
        let text = quote::visible(text);
        // In a file or a pipe, lines are not broken.
        let text = if self.is_watched { wrapped(&text, self.columns - 4) } else { text.into() };
        self.print_text(&(barred(self.paint, &text) + "\n"))
    }

    /// Prints a text, if the form is text.
    fn print_text(&self, text: &str) -> Result<()> {
        if self.form == OutputForm::Text {
            terminal::print_painted(text)?;
        }
        Ok(())
    }
}

impl CurrentStep {
    /// Returns `failed`, `skipped` or `ok`.
    fn outcome(&self) -> &'static str {
        match (self.has_failed, &self.skipped) {
            (true, _) => "failed",
            (false, Some(_)) => "skipped",
            (false, None) => "ok",
        }
    }

    /// Returns the step as its JSON object.
    fn into_json(self, outcome: &str) -> Value {
        json!({
            "type": "step", "number": self.number, "name": self.name, "title": self.title,
            "outcome": outcome, "why": self.skipped, "done": self.done, "questions": self.questions,
            "trees": self.trees, "checks": self.checks,
        })
    }
}

/// Returns the first lines of a text, and a line with the number of the others.
fn first_lines(text: &str) -> String {
    let more = text.lines().count().saturating_sub(SHOWN_LINES);
    let mut lines: Vec<String> = text.lines().take(SHOWN_LINES).map(str::to_owned).collect();
    if more > 0 {
        lines.push(format!("({more} more lines)"));
    }
    lines.join("\n")
}

/// Returns the width of the terminal at stdout, at least 40 columns.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { MAX_COLUMNS } else { columns.max(40) }
}

/// Breaks long lines between words. A word that is longer than a line stays whole.
fn wrapped(text: &str, columns: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let mut rest = line;
        while let Some((end, _)) = rest.char_indices().nth(columns) {
            // A space directly after the last column is the best place for the break.
            let space = rest[..=end].rfind(' ').filter(|at| !rest[..*at].trim().is_empty());
            let Some(space) = space.or_else(|| rest[end..].find(' ').map(|at| end + at)) else {
                break;
            };
            lines.push(rest[..space].to_owned());
            rest = rest[space..].trim_start();
        }
        lines.push(rest.to_owned());
    }
    lines.join("\n")
}

/// Puts a prefix before each line.
fn indented(indent: &str, text: &str) -> String {
    text.lines().map(|line| format!("{indent}{line}")).collect::<Vec<_>>().join("\n")
}

/// Puts an indented vertical bar before each line.
fn barred(paint: Paint, text: &str) -> String {
    indented(&format!("  {} ", paint.dim("|")), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_is_shortened_with_the_number_of_lines_left_out() {
        let text = (0..20).map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
        let shown = first_lines(&text);
        assert!(shown.starts_with("0\n1\n") && shown.ends_with("11\n(8 more lines)"), "{shown}");
        assert_eq!(first_lines("one\n"), "one");
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        for (text, shown) in [
            ("one two three", "one two\nthree"),
            ("one two\n  three four", "one two\n  three\nfour"),
            ("toolongforit it is", "toolongforit\nit is"),
            ("größer größer", "größer\ngrößer"),
            ("", ""),
        ] {
            assert_eq!(wrapped(text, 8), shown, "{text:?}");
        }
    }

    #[test]
    fn step_with_a_failed_claim_has_failed_even_if_skipped() {
        let mut current =
            CurrentStep { skipped: Some("no sandbox".into()), ..CurrentStep::default() };
        assert_eq!(current.outcome(), "skipped");
        current.has_failed = true;
        assert_eq!(current.outcome(), "failed");
    }
}
