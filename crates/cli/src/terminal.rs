//! What a person sees: errors with their causes, colours where they help, a question where one must be asked.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};

use anyhow::{Context as _, Result};
use windlass_core::{Answer, ApprovalRequest, Approver, BoxFuture, quote};

use crate::options::{Color, Global};

/// Prints an error with its causes.
pub(crate) fn report(error: &anyhow::Error) {
    tell(&format!("{error:#}"));
}

/// Tells a person something that is not an error.
pub(crate) fn note(global: &Global, message: &str) {
    if !global.quiet {
        tell(message);
    }
}

/// A line to whoever watches. That nobody can be told is no reason not to go on, and there is nobody to tell it.
pub(crate) fn tell(message: &str) {
    let line = format!("windlass: {}\n", quote::visible(message));
    drop(std::io::stderr().write_all(line.as_bytes()));
}

/// Prints an answer and a line's end if it has none. On a terminal, nothing in it can act as a control sequence.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    if stdout.is_terminal() {
        stdout.write_all(quote::visible(text).as_bytes())?;
    } else {
        stdout.write_all(text.as_bytes())?;
    }
    if !text.is_empty() && !text.ends_with('\n') {
        stdout.write_all(b"\n")?;
    }
    stdout.flush()?;
    Ok(())
}

/// Prints what we have put colours into ourselves; what came from elsewhere must have been made visible before.
pub(crate) fn print_painted(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Prints one line of JSON.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    serde_json::to_writer(&mut stdout, value)?;
    stdout.write_all(b"\n")?;
    stdout.flush()?;
    Ok(())
}

/// Adds to a text: `add(&mut text, format_args!(…))`, without a piece that is thrown away.
pub(crate) fn add(text: &mut String, more: std::fmt::Arguments<'_>) {
    let written = std::fmt::Write::write_fmt(text, more);
    debug_assert!(written.is_ok(), "writing to a string does not fail");
}

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint(bool);

impl Paint {
    pub(crate) fn of(global: &Global) -> Self {
        Self(match global.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
            }
        })
    }

    pub(crate) fn is_on(self) -> bool {
        self.0
    }

    /// A text with diffs in it: what is new in green, what is gone in red.
    pub(crate) fn diff(self, text: &str) -> String {
        if !self.0 {
            return text.to_owned();
        }
        let paint = |line: &str| match line.as_bytes().first() {
            Some(b'+') => self.green(line),
            Some(b'-') => self.red(line),
            Some(b'@') => self.with("36", line),
            _ => line.to_owned(),
        };
        text.lines().map(|line| paint(&quote::visible(line))).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The person at this terminal. There is one only if what we write to stderr can be seen.
pub(crate) struct Person(());

impl Person {
    pub(crate) fn at_terminal() -> Option<Self> {
        (std::io::stderr().is_terminal() && open_terminal().is_ok()).then_some(Self(()))
    }
}

impl Approver for Person {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        let question = question(request);
        Box::pin(async move {
            match tokio::task::spawn_blocking(move || yes_or_no(&question)).await {
                Ok(Ok(true)) => Answer::Allow,
                Ok(Ok(false)) => Answer::Deny("the person said no".into()),
                Ok(Err(error)) => {
                    Answer::Deny(format!("the terminal could not be asked: {error:#}"))
                }
                Err(error) => Answer::Deny(format!("the question was broken off: {error}")),
            }
        })
    }
}

fn open_terminal() -> Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/tty").context("there is no terminal")
}

/// The whole truth about a call: what it does, on what, and with which arguments, every character visible.
fn question(request: &ApprovalRequest) -> String {
    let effects: Vec<String> = request.effects.iter().map(|effect| format!("  {effect}")).collect();
    let input =
        serde_json::to_string_pretty(&request.input).unwrap_or_else(|_| request.input.to_string());
    let input = input
        .lines()
        .map(|line| format!("  {}", quote::visible(line)))
        .collect::<Vec<_>>()
        .join("\n");
    format!(
        "\n{} wants to:\n{}\nwith:\n{input}\n({} asks)\nAllow this once? [y/N] ",
        request.tool,
        effects.join("\n"),
        request.rule
    )
}

/// Asks the person at the terminal.
pub(crate) fn yes_or_no(question: &str) -> Result<bool> {
    let mut terminal = open_terminal()?;
    terminal.write_all(question.as_bytes())?;
    terminal.flush()?;
    // What was typed before the question was there is not an answer to it.
    rustix::termios::tcflush(&terminal, rustix::termios::QueueSelector::IFlush)?;
    let mut line = String::new();
    BufReader::new(terminal).read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
