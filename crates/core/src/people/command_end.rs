//! The end of a command that has run, as it is shown to the person who is asked about its changes.
//!
//! Only the last lines of the output are kept: an error stands at the end, and a question has to stay short enough to be read.

use serde::{Deserialize, Serialize};

use crate::ProcessEnd;

/// Maximum number of lines of output in a question.
const MAX_LINES: usize = 10;
/// Maximum bytes of output in a question.
const MAX_BYTES: usize = 2_000;

/// The end of a command: its exit and the last lines of its output.
///
/// ```
/// use windlass_core::{CommandEnd, ProcessEnd};
/// let end = CommandEnd::new(ProcessEnd::Exited(128), "Author identity unknown\n");
/// assert_eq!(end.headline().as_deref(), Some("it ended with exit code 128 and printed:"));
/// assert_eq!(CommandEnd::new(ProcessEnd::Exited(0), "").headline(), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CommandEnd {
    /// Exit code or signal of the program.
    pub how: ProcessEnd,
    /// True if its time limit ended it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// True if a person interrupted it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_interrupted: bool,
    /// Last lines of its output, with secrets redacted. Control characters in it are not made visible.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_lines: String,
    /// Number of bytes of its whole output, if `last_lines` is a part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed_bytes: Option<u64>,
}

impl CommandEnd {
    /// Makes the end of a command that printed this text. Keeps the last lines of the text.
    pub fn new(how: ProcessEnd, printed: &str) -> Self {
        let printed = printed.trim_end();
        let last_lines = last_lines(printed);
        let printed_bytes = (last_lines.len() < printed.len()).then_some(printed.len() as u64);
        let last_lines = last_lines.to_owned();
        Self { how, timed_out: false, is_interrupted: false, last_lines, printed_bytes }
    }

    /// Returns a clause with the exit, the signal or the limit that ended the command.
    pub fn ending(&self) -> String {
        match self.how {
            _ if self.timed_out => "it was ended at its time limit".to_owned(),
            _ if self.is_interrupted => "it was ended by an interruption".to_owned(),
            how @ ProcessEnd::Exited(_) => format!("it ended with {how}"),
            how => format!("it was {how}"),
        }
    }

    /// Returns a line about the end, to be followed by [`last_lines`](Self::last_lines). `None` for a command that exited with 0 and
    /// printed nothing.
    pub fn headline(&self) -> Option<String> {
        let ending = self.ending();
        match self.printed_bytes {
            _ if self.is_silent_success() => None,
            _ if self.last_lines.is_empty() => Some(format!("{ending} and printed nothing")),
            None => Some(format!("{ending} and printed:")),
            Some(bytes) => Some(format!("{ending}; the end of its output ({bytes} bytes in all):")),
        }
    }

    /// Returns whether the command exited with 0 by itself.
    pub fn is_success(&self) -> bool {
        self.how == ProcessEnd::Exited(0) && !self.timed_out && !self.is_interrupted
    }

    /// Returns whether the command exited with 0 and printed nothing.
    fn is_silent_success(&self) -> bool {
        self.is_success() && self.last_lines.is_empty()
    }
}

/// Returns the last lines of a text. A line that is too long is cut at its beginning.
fn last_lines(text: &str) -> &str {
    let from_line = text.rmatch_indices('\n').nth(MAX_LINES - 1).map_or(0, |(at, _)| at + 1);
    let by_lines = text.get(from_line..).unwrap_or_default();
    let Some(excess) = by_lines.len().checked_sub(MAX_BYTES).filter(|excess| *excess > 0) else {
        return by_lines;
    };
    // A line begins after the first line end in the part that fits, unless the last line alone is too long.
    let from_byte = by_lines.ceil_char_boundary(excess);
    let fitting = by_lines.get(from_byte..).unwrap_or_default();
    fitting.split_once('\n').map_or(fitting, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns 30 lines, each with its number.
    fn numbers() -> String {
        (0..30).map(|number| number.to_string()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn headline_says_how_it_ended_and_what_was_left_out() {
        let end = |how, printed: &str| CommandEnd::new(how, printed);
        let timed_out = CommandEnd { timed_out: true, ..end(ProcessEnd::Signalled(9), "") };
        let interrupted = CommandEnd { is_interrupted: true, ..end(ProcessEnd::Exited(0), "") };
        for (end, expected) in [
            (end(ProcessEnd::Exited(0), ""), None),
            (end(ProcessEnd::Exited(0), "\n"), None),
            (end(ProcessEnd::Exited(0), "ok\n"), Some("it ended with exit code 0 and printed:")),
            (end(ProcessEnd::Exited(1), ""), Some("it ended with exit code 1 and printed nothing")),
            (
                end(ProcessEnd::Signalled(11), "x"),
                Some("it was ended by signal 11 (SEGV) and printed:"),
            ),
            (timed_out, Some("it was ended at its time limit and printed nothing")),
            (interrupted, Some("it was ended by an interruption and printed nothing")),
            (
                end(ProcessEnd::Exited(2), &numbers()),
                Some("it ended with exit code 2; the end of its output (79 bytes in all):"),
            ),
        ] {
            assert_eq!(end.headline().as_deref(), expected, "{end:?}");
        }
    }

    #[test]
    fn last_lines_are_few_and_short() {
        let ten = (20..30).map(|number| number.to_string()).collect::<Vec<_>>().join("\n");
        let long = "é".repeat(3_000);
        for (text, expected) in [
            ("", ""),
            ("one", "one"),
            ("one\ntwo\n\n", "one\ntwo"),
            (&numbers(), &ten),
            (&format!("{long}\nlast"), "last"),
            (&long, &"é".repeat(1_000)),
        ] {
            assert_eq!(CommandEnd::new(ProcessEnd::Exited(1), text).last_lines, expected);
        }
    }

    #[test]
    fn end_is_read_as_it_was_written() {
        for end in [
            CommandEnd::new(ProcessEnd::Exited(128), "fatal\n"),
            CommandEnd { timed_out: true, ..CommandEnd::new(ProcessEnd::OutOfMemory(1 << 20), "") },
        ] {
            let text = serde_json::to_string(&end).unwrap();
            assert_eq!(serde_json::from_str::<CommandEnd>(&text).unwrap(), end, "{text}");
        }
    }
}
