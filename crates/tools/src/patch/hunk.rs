//! A parsed patch, independent of the format in which it was written.

use std::path::PathBuf;

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePatch {
    /// Path of the file, as the patch names it.
    pub(super) path: PathBuf,
    pub(super) action: Action,
    /// True if the patch also changes permissions, which the tool does not do.
    pub(super) changes_mode: bool,
}

impl FilePatch {
    /// Returns the number of hunks; a change without hunks counts as one.
    pub(super) fn hunks(&self) -> usize {
        match &self.action {
            Action::Add(_) => 1,
            Action::Change { hunks, .. } | Action::Delete(hunks) => hunks.len().max(1),
        }
    }
}

/// The kind of change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Creates the file with this text.
    Add(String),
    /// Changes lines, moves the file, or both.
    Change { hunks: Vec<Hunk>, to: Option<PathBuf> },
    /// Deletes the file; the hunks, if there are any, say what it contained.
    Delete(Vec<Hunk>),
}

/// Lines that are replaced by others, with the lines around them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Hunk {
    /// Number of its first line in the patch, counted from 1.
    pub(super) line: usize,
    /// Header as written; empty if there is none.
    pub(super) header: String,
    /// Line of the old file at which it starts, counted from 0, if the header says so.
    pub(super) at: Option<usize>,
    /// Lines that come before it in the file, in their order.
    pub(super) anchors: Vec<String>,
    /// True if it ends at the end of the file.
    pub(super) at_end: bool,
    pub(super) lines: Vec<HunkLine>,
}

/// A line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HunkLine {
    pub(super) sign: LineSign,
    /// Text without line feed. It has a carriage return only if some lines of the patch have one and some do not.
    pub(super) text: String,
    /// True if the patch says that the line has no line feed.
    pub(super) open: bool,
}

/// The role of a line in a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineSign {
    Keep,
    Remove,
    Add,
}

impl Hunk {
    /// Returns the lines that must be in the old file.
    pub(super) fn old_lines(&self) -> impl Iterator<Item = &HunkLine> {
        self.lines.iter().filter(|line| line.sign != LineSign::Add)
    }

    /// Returns the lines that will be in the new file.
    pub(super) fn new_lines(&self) -> impl Iterator<Item = &HunkLine> {
        self.lines.iter().filter(|line| line.sign != LineSign::Remove)
    }

    /// Returns whether any line is added or removed.
    pub(super) fn changes_lines(&self) -> bool {
        self.lines.iter().any(|line| line.sign != LineSign::Keep)
    }

    /// Returns whether its lines show carriage returns.
    pub(super) fn shows_carriage_returns(&self) -> bool {
        self.lines.iter().any(|line| line.text.ends_with('\r'))
    }

    /// Returns whether it ends at the end of the file: it says so, or one of its lines has no line feed.
    pub(super) fn ends_file(&self) -> bool {
        self.at_end || self.shows_missing_line_feed()
    }

    /// Returns whether it says which lines have no line feed.
    pub(super) fn shows_missing_line_feed(&self) -> bool {
        self.lines.iter().any(|line| line.open)
    }

    /// Adds a line of a patch; returns false if the line has no sign.
    pub(super) fn push(&mut self, line: &str) -> bool {
        let (sign, text) = match line.split_at_checked(1) {
            Some((" ", text)) => (LineSign::Keep, text),
            Some(("-", text)) => (LineSign::Remove, text),
            Some(("+", text)) => (LineSign::Add, text),
            Some(("\\", _)) => {
                if let Some(last) = self.lines.last_mut() {
                    last.open = true;
                }
                return true;
            }
            // An empty line has lost its leading space.
            None | Some(("\r", "")) => (LineSign::Keep, line),
            _ => return false,
        };
        self.lines.push(HunkLine { sign, text: text.into(), open: false });
        true
    }

    /// Drops up to `count` empty lines at the end, because they may stand between this hunk and the next.
    pub(super) fn drop_blank_end(&mut self, count: usize) {
        let is_blank = |line: &HunkLine| line.sign == LineSign::Keep && line.text.trim().is_empty();
        for _ in 0..count {
            self.lines.pop_if(|line| is_blank(line));
        }
    }
}

/// Joins lines to a text, each with its line feed.
pub(super) fn join_lines<'l>(lines: impl Iterator<Item = &'l HunkLine>) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(&line.text);
        if !line.open {
            text.push('\n');
        }
    }
    text
}
