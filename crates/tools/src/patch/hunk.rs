//! A patch as data, whichever form it was written in.

use std::path::PathBuf;

/// What happens to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePatch {
    /// The file, as the patch names it.
    pub(super) path: PathBuf,
    pub(super) action: Action,
    /// Whether the patch also speaks of permissions, which stay as they are.
    pub(super) speaks_of_mode: bool,
}

impl FilePatch {
    /// How many hunks it has; what has none counts as one.
    pub(super) fn hunks(&self) -> usize {
        match &self.action {
            Action::Add(_) => 1,
            Action::Change { hunks, .. } | Action::Delete(hunks) => hunks.len().max(1),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// A new file with this text.
    Add(String),
    /// Other lines, another place, or both.
    Change { hunks: Vec<Hunk>, to: Option<PathBuf> },
    /// No file any more; the hunks say what was in it, if there are any.
    Delete(Vec<Hunk>),
}

/// Lines that are replaced by others, and the lines around them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Hunk {
    /// Its first line in the patch, counted from 1.
    pub(super) line: usize,
    /// The header as it was written; empty if there was none.
    pub(super) header: String,
    /// The line of the old file where it begins, counted from 0, if the header says so.
    pub(super) at: Option<usize>,
    /// Lines that come before it in the file, each after the one before.
    pub(super) anchors: Vec<String>,
    /// Whether it ends where the file ends.
    pub(super) at_end: bool,
    pub(super) lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) sign: Sign,
    /// Without its line feed. A carriage return is there only if the patch has some lines with and some without.
    pub(super) text: String,
    /// Whether the patch says that no line feed ends it.
    pub(super) open: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Keep,
    Remove,
    Add,
}

impl Hunk {
    /// The lines that must be in the file.
    pub(super) fn old_lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.sign != Sign::Add)
    }

    /// The lines that will be in the file.
    pub(super) fn new_lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.sign != Sign::Remove)
    }

    /// Whether anything is added or removed.
    pub(super) fn changes(&self) -> bool {
        self.lines.iter().any(|line| line.sign != Sign::Keep)
    }

    /// Whether it tells how its lines end.
    pub(super) fn tells_returns(&self) -> bool {
        self.lines.iter().any(|line| line.text.ends_with('\r'))
    }

    /// Whether it ends where the file ends: it says so, or it speaks of a line that no line feed ends.
    pub(super) fn ends_file(&self) -> bool {
        self.at_end || self.tells_open()
    }

    /// Whether it tells which lines no line feed ends.
    pub(super) fn tells_open(&self) -> bool {
        self.lines.iter().any(|line| line.open)
    }

    /// Adds a line as it is in a patch; `false` if it begins with no sign.
    pub(super) fn push(&mut self, line: &str) -> bool {
        let (sign, text) = match line.split_at_checked(1) {
            Some((" ", text)) => (Sign::Keep, text),
            Some(("-", text)) => (Sign::Remove, text),
            Some(("+", text)) => (Sign::Add, text),
            Some(("\\", _)) => {
                if let Some(last) = self.lines.last_mut() {
                    last.open = true;
                }
                return true;
            }
            // An empty line lost the blank that it should begin with.
            None | Some(("\r", "")) => (Sign::Keep, line),
            _ => return false,
        };
        self.lines.push(Line { sign, text: text.into(), open: false });
        true
    }

    /// Drops empty lines at the end: nobody can tell whether they belong to the hunk or stand between it and the next.
    pub(super) fn trim(&mut self, count: usize) {
        let is_blank = |line: &Line| line.sign == Sign::Keep && line.text.trim().is_empty();
        for _ in 0..count {
            self.lines.pop_if(|line| is_blank(line));
        }
    }
}

/// Lines as a text, each ended by a line feed.
pub(super) fn text<'l>(lines: impl Iterator<Item = &'l Line>) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(&line.text);
        if !line.open {
            text.push('\n');
        }
    }
    text
}
