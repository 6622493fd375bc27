//! Output for a person or a program: text, JSON, errors, and colours.

use std::io::{IsTerminal as _, Write as _};

use anyhow::Result;
use windlass::quote;

use crate::options::{Color, Global};

/// Returns an error as the JSON object that `--json` prints.
pub(crate) fn error_line(code: &str, why: &str) -> serde_json::Value {
    serde_json::json!({
        "type": "error", "is_error": true, "outcome": "fault", "error": {"code": code, "message": why},
    })
}

/// Prints a note on stderr, unless `--quiet` is given.
pub(crate) fn note(global: &Global, message: &str) {
    if !global.quiet {
        print_to_stderr(message);
    }
}

/// Prints a line on stderr. A failure to write is ignored: there is no other place to report it.
pub(crate) fn print_to_stderr(message: &str) {
    let line = format!("windlass: {}\n", quote::visible(message));
    drop(std::io::stderr().write_all(line.as_bytes()));
}

/// Prints a result on stdout, with a final line break if it has none. On a terminal, control characters are made visible.
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

/// Prints a text that has our colours in it. The caller has made control characters from elsewhere visible.
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

/// Appends formatted text to a string: `add(&mut text, format_args!(…))`, without a temporary string.
pub(crate) fn add(text: &mut String, more: std::fmt::Arguments<'_>) {
    let written = std::fmt::Write::write_fmt(text, more);
    debug_assert!(written.is_ok(), "writing to a string does not fail");
}

/// A switch for colours: paints texts, or returns them as they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint(bool);

impl Paint {
    /// Decides by `--color`, the terminal and `NO_COLOR`.
    pub(crate) fn of(global: &Global) -> Self {
        Self(match global.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
            }
        })
    }

    /// Returns a switch that is off.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self(false)
    }

    /// Returns whether texts get colours.
    pub(crate) fn is_on(self) -> bool {
        self.0
    }

    /// Colours the lines of a diff: added lines green, removed lines red, hunk headers cyan.
    pub(crate) fn diff(self, text: &str) -> String {
        if !self.0 {
            return text.to_owned();
        }
        let paint = |line: &str| match line.as_bytes().first() {
            Some(b'+') => self.green(line),
            Some(b'-') => self.red(line),
            Some(b'@') => self.colored("36", line),
            _ => line.to_owned(),
        };
        text.lines().map(|line| paint(&quote::visible(line))).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.colored("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.colored("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.colored("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.colored("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.colored("33", text)
    }

    /// Wraps a text in an ANSI colour code, if colours are on.
    fn colored(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
