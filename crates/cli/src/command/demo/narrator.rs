//! The telling of the tour: in words for a person, as one line a step with `--quiet`, as JSON lines with `--json`.

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

/// The most lines of an answer that are shown.
const SHOWN_LINES: usize = 12;
/// The most characters of an answer that is told on one line.
const SHORT: usize = 60;
/// The most columns that words take, and those of a terminal that does not tell its size.
const COLUMNS: usize = 96;

/// The form of the telling.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Telling {
    Words,
    Brief,
    Json,
}

/// Tells the tour, and keeps the score.
pub(super) struct Narrator {
    telling: Telling,
    paint: Paint,
    columns: usize,
    /// Somebody looks at it as it comes.
    is_watched: bool,
    /// The reason why the tour answers its questions itself, if it does.
    answers_itself: Option<&'static str>,
    steps: usize,
    now: Now,
    skipped: Vec<&'static str>,
    failed: Vec<&'static str>,
}

/// The step that is being taken.
#[derive(Default)]
struct Now {
    number: usize,
    name: &'static str,
    title: &'static str,
    /// Calls and what was typed, each with its answer once that is there.
    done: Vec<Value>,
    questions: Vec<String>,
    trees: Map<String, Value>,
    checks: Vec<Value>,
    has_failed: bool,
    skipped: Option<String>,
}

impl Narrator {
    pub(super) fn of(global: &Global) -> Self {
        let telling = match global {
            Global { json: true, .. } => Telling::Json,
            Global { quiet: true, .. } => Telling::Brief,
            _ => Telling::Words,
        };
        let is_watched = telling == Telling::Words && std::io::stdout().is_terminal();
        let answers_itself = if global.yes {
            Some("--yes")
        } else if is_watched && std::io::stdin().is_terminal() {
            None
        } else {
            Some("nobody is asked here")
        };
        Self {
            telling,
            paint: Paint::of(global),
            columns: if is_watched { columns() } else { COLUMNS },
            is_watched,
            answers_itself,
            steps: 0,
            now: Now::default(),
            skipped: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Returns whether somebody reads along, who needs time.
    pub(super) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// The one who answers questions.
    pub(super) fn guest(&self) -> Guest {
        let person = match self.answers_itself {
            None => Person::at_terminal(self.paint),
            Some(_) => None,
        };
        Guest::new(person, self.paint)
    }

    /// Tells where the tour takes place.
    pub(super) fn open(&mut self, place: &Path, steps: usize) -> Result<()> {
        self.steps = steps;
        let head = self.paint.bold(&format!("Windlass in {steps} steps."));
        let place = quote::path(place);
        self.words(&format!(
            "{head} All of it happens, in a sample project that is removed at the end:\n{place}\n"
        ))
    }

    /// Begins a step.
    pub(super) fn begin(
        &mut self,
        number: usize,
        name: &'static str,
        title: &'static str,
    ) -> Result<()> {
        self.now = Now { number, name, title, ..Now::default() };
        let number = self.paint.dim(&format!("[{number}/{}]", self.steps));
        self.words(&format!("\n{number} {}\n", self.paint.bold(title)))
    }

    /// Tells what is about to be seen.
    pub(super) fn say(&mut self, text: &str) -> Result<()> {
        let words = wrapped(text, self.columns.min(COLUMNS) - 2);
        self.words(&(indented("  ", &words) + "\n"))
    }

    /// Tells a call that is about to be made.
    pub(super) fn call(&mut self, call: &ToolCall) -> Result<()> {
        self.now.done.push(json!({"tool": call.name, "input": call.input}));
        let input = match call.input.get("command").and_then(Value::as_str) {
            Some(command) => command.to_owned(),
            None => call.input.to_string(),
        };
        let line = format!("{} {}", self.paint.bold(&call.name), quote::visible(&input));
        self.words(&format!("  > {line}\n"))
    }

    /// Tells what a person would type for what is about to happen.
    pub(super) fn typed(&mut self, command: &str) -> Result<()> {
        self.now.done.push(json!({"command": command}));
        self.words(&format!("  $ {}\n", self.paint.bold(command)))
    }

    /// Tells the answer of a call on a line of its own.
    pub(super) fn result_in_short(&mut self, result: &CallResult) -> Result<()> {
        self.note_result(result);
        let text = result.output.to_text();
        let first = quote::visible(text.lines().next().unwrap_or_default()).replace('\t', " ");
        let more = text.lines().count().saturating_sub(1);
        let more = match more {
            0 => String::new(),
            1 => " (and 1 more line)".to_owned(),
            more => format!(" (and {more} more lines)"),
        };
        let cut: String = first.chars().take(SHORT).collect();
        let dots = if cut.len() < first.len() { "…" } else { "" };
        let time = format!("{:>5} ms", result.duration.as_millis());
        let line = format!("{:<4} {} {cut}{dots}{}", result.tool, time, self.paint.dim(&more));
        // Nothing in it acts but our own colours.
        self.words(&(barred(self.paint, &line) + "\n"))
    }

    /// Tells the answer of a call.
    pub(super) fn result(&mut self, result: &CallResult) -> Result<()> {
        self.note_result(result);
        let text = result.output.to_text();
        self.answer(&cut(&text))
    }

    /// Tells the answer to what was typed.
    pub(super) fn show(&mut self, text: &str) -> Result<()> {
        self.note(&json!({"text": text}));
        self.answer(text)
    }

    /// Tells what is in a file.
    pub(super) fn file(&mut self, name: &str, content: &str) -> Result<()> {
        self.words(&format!("  {}:\n", self.paint.bold(name)))?;
        self.answer(content)
    }

    /// Tells which files are there.
    pub(super) fn tree(&mut self, when: &'static str, tree: &Tree) -> Result<()> {
        let (hash, names) = (tree.hash(), tree.names());
        self.now.trees.insert(when.to_owned(), json!({"hash": hash, "files": names}));
        self.words(&format!("  {when:<8} {} {names}\n", self.paint.yellow(&hash)))
    }

    /// Tells a question as a person sees it, unless a person has just seen it.
    pub(super) fn question(&mut self, question: &str, was_seen: bool) -> Result<()> {
        self.now.questions.push(question.to_owned());
        if was_seen {
            return Ok(());
        }
        let why = self.answers_itself.unwrap_or("there is no terminal to ask at");
        let answered = format!("y   ({why}: the tour answers)");
        // Lines of the difference have their colours already, and nothing else in them that acts.
        let text = format!("{}{answered}", question.trim_start_matches('\n'));
        self.words(&(barred(self.paint, &text) + "\n"))
    }

    /// Tells whether it is as it was told.
    pub(super) fn check(&mut self, claim: &str, holds: bool) -> Result<()> {
        self.now.checks.push(json!({"claim": claim, "holds": holds}));
        self.now.has_failed |= !holds;
        let mark = if holds { self.paint.green("ok ") } else { self.paint.red("NOT") };
        self.words(&format!("  {mark} {}\n", quote::visible(claim)))
    }

    /// Tells why the rest of the step is left out.
    pub(super) fn skip(&mut self, why: &str) -> Result<()> {
        self.now.skipped = Some(why.to_owned());
        let mark = self.paint.yellow("-- ");
        self.words(&format!("  {mark} passed over: {}\n", quote::visible(why)))
    }

    /// Ends the step.
    pub(super) fn end(&mut self) -> Result<()> {
        let now = std::mem::take(&mut self.now);
        let outcome = now.outcome();
        match outcome {
            "failed" => self.failed.push(now.name),
            "skipped" => self.skipped.push(now.name),
            _ => {}
        }
        match self.telling {
            Telling::Words => Ok(()),
            Telling::Brief => terminal::print(&format!("{outcome:<7} {}", now.title)),
            Telling::Json => terminal::print_json(&now.into_json(outcome)),
        }
    }

    /// Tells that somebody ended the tour.
    pub(super) fn interrupted(&self, place: &Path) -> Result<()> {
        if self.telling == Telling::Json {
            return self.json_end("interrupted", place);
        }
        self.words(&format!("\nInterrupted. {} is removed.\n", quote::path(place)))
    }

    /// Tells how it went, and what a person could do next. The exit code says whether all was as it was told.
    pub(super) fn close(&self, place: &Path) -> Result<ExitCode> {
        let code = ExitCode::from(u8::from(!self.failed.is_empty()));
        if self.telling == Telling::Json {
            let outcome = if self.failed.is_empty() { "ok" } else { "failed" };
            self.json_end(outcome, place)?;
            return Ok(code);
        }
        let said = match (self.failed.as_slice(), self.skipped.as_slice()) {
            ([], []) => self.paint.green("Every step did what it says."),
            ([], skipped) => self
                .paint
                .yellow(&format!("Passed over, at least in part: {}.", skipped.join(", "))),
            (failed, _) => self.paint.red(&format!("Not as it should be: {}.", failed.join(", "))),
        };
        let place = quote::path(place);
        self.words(&format!(
            "\n{said} {place} is removed.\n\n\
             In a project of yours:\n  \
             windlass call grep '{{\"pattern\": \"TODO\"}}'    one call; what it prints is what a model sees\n  \
             windlass mcp                                the tools for an agent host\n  \
             windlass doctor                             what holds on this machine\n"
        ))?;
        Ok(code)
    }

    fn json_end(&self, outcome: &str, place: &Path) -> Result<()> {
        terminal::print_json(&json!({
            "type": "tour", "outcome": outcome, "steps": self.steps, "skipped": self.skipped,
            "failed": self.failed, "removed": quote::path(place),
        }))
    }

    /// Adds an answer to the last thing that has none.
    fn note(&mut self, answer: &Value) {
        let waiting = self.now.done.iter_mut().find(|one| one.get("text").is_none());
        let (Some(one), Value::Object(answer)) = (waiting, answer) else { return };
        for (name, value) in answer {
            one[name.as_str()] = value.clone();
        }
    }

    fn note_result(&mut self, result: &CallResult) {
        self.note(&json!({
            "outcome": result.outcome.as_str(), "text": result.output.to_text(),
            "duration_ms": u64::try_from(result.duration.as_millis()).unwrap_or(u64::MAX),
        }));
    }

    /// Tells an answer, with a bar before each line.
    fn answer(&self, text: &str) -> Result<()> {
        let text = quote::visible(text);
        // Whoever reads it from a file gets the lines as they are.
        let text = if self.is_watched { wrapped(&text, self.columns - 4) } else { text.into() };
        self.words(&(barred(self.paint, &text) + "\n"))
    }

    /// Tells something to those who are told in words.
    fn words(&self, text: &str) -> Result<()> {
        if self.telling == Telling::Words {
            terminal::print_painted(text)?;
        }
        Ok(())
    }
}

impl Now {
    fn outcome(&self) -> &'static str {
        match (self.has_failed, &self.skipped) {
            (true, _) => "failed",
            (false, Some(_)) => "skipped",
            (false, None) => "ok",
        }
    }

    fn into_json(self, outcome: &str) -> Value {
        json!({
            "type": "step", "number": self.number, "name": self.name, "title": self.title,
            "outcome": outcome, "why": self.skipped, "done": self.done, "questions": self.questions,
            "trees": self.trees, "checks": self.checks,
        })
    }
}

/// The first lines of a text, and how many more there are.
fn cut(text: &str) -> String {
    let more = text.lines().count().saturating_sub(SHOWN_LINES);
    let mut lines: Vec<String> = text.lines().take(SHOWN_LINES).map(str::to_owned).collect();
    if more > 0 {
        lines.push(format!("({more} more lines)"));
    }
    lines.join("\n")
}

/// The columns of the terminal that stdout is, no fewer than a word needs.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { COLUMNS } else { columns.max(40) }
}

/// A text whose lines are broken between words where they are too long. A word that is longer than a line stays whole.
fn wrapped(text: &str, columns: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let mut rest = line;
        while let Some((end, _)) = rest.char_indices().nth(columns) {
            // A space right behind what fits is where it fits best.
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

fn indented(indent: &str, text: &str) -> String {
    text.lines().map(|line| format!("{indent}{line}")).collect::<Vec<_>>().join("\n")
}

fn barred(paint: Paint, text: &str) -> String {
    indented(&format!("  {} ", paint.dim("|")), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_is_cut_and_says_so() {
        let text = (0..20).map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
        let shown = cut(&text);
        assert!(shown.starts_with("0\n1\n") && shown.ends_with("11\n(8 more lines)"), "{shown}");
        assert_eq!(cut("one\n"), "one");
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
    fn a_step_with_a_claim_that_does_not_hold_has_failed_also_if_it_was_passed_over() {
        let mut now = Now { skipped: Some("no sandbox".into()), ..Now::default() };
        assert_eq!(now.outcome(), "skipped");
        now.has_failed = true;
        assert_eq!(now.outcome(), "failed");
    }
}
