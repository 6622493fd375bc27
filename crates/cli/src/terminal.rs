//! What a person sees: errors with their causes, and colours where they help.

use std::io::{IsTerminal as _, Write as _};

use anyhow::Result;
use windlass::quote;

use crate::options::{Color, Global};

/// An error as a line of JSON.
pub(crate) fn error_line(code: &str, why: &str) -> serde_json::Value {
    serde_json::json!({
        "type": "error", "is_error": true, "outcome": "fault", "error": {"code": code, "message": why},
    })
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

/// Prints a value that has no form but JSON: indented for a person at a terminal, otherwise on one line.
pub(crate) fn print_json_for_reader(global: &Global, value: &serde_json::Value) -> Result<()> {
    if global.json || !std::io::stdout().is_terminal() {
        return print_json(value);
    }
    print(&serde_json::to_string_pretty(value)?)
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

    /// No colours.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self(false)
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
