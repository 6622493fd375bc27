//! Parses the patch format between `*** Begin Patch` and `*** End Patch`.

use std::path::PathBuf;

use super::hunk::{Action, FilePatch, Hunk};
use super::parse::{HunkHeader, ParseError, check_hunk};

const BEGIN_PATCH: &str = "*** Begin Patch";
const END_PATCH: &str = "*** End Patch";
const ADD_FILE: &str = "*** Add File:";
const UPDATE_FILE: &str = "*** Update File:";
const DELETE_FILE: &str = "*** Delete File:";
const MOVE_TO: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// Returns whether a line is a header of this format.
pub(super) fn is_header(line: &str) -> bool {
    [BEGIN_PATCH, ADD_FILE, UPDATE_FILE, DELETE_FILE].iter().any(|header| line.starts_with(header))
}

/// Parses a patch into the changes of each file.
pub(super) fn parse(lines: &[&str]) -> Result<Vec<FilePatch>, ParseError> {
    let first = lines.iter().position(|line| is_header(line)).unwrap_or_default();
    let is_begun = lines.get(first).is_some_and(|line| line.starts_with(BEGIN_PATCH));
    let end = lines.iter().position(|line| line.starts_with(END_PATCH));
    if is_begun && end.is_none() {
        // A truncated patch would apply without an error.
        let why = format!("there is no `{END_PATCH}`: the patch may have been cut off");
        return Err(ParseError::at(lines.len().saturating_sub(1), why));
    }
    let lines = lines.get(..end.unwrap_or(lines.len())).unwrap_or_default();
    let mut reader = EnvelopeReader { lines, at: first + usize::from(is_begun) };
    let mut files = Vec::new();
    while let Some(line) = reader.peek() {
        if line.trim().is_empty() || line.starts_with("```") {
            reader.at += 1;
        } else {
            files.push(reader.file(line)?);
        }
    }
    Ok(files)
}

/// Reads the lines of a patch one after another.
struct EnvelopeReader<'p> {
    lines: &'p [&'p str],
    at: usize,
}

impl<'p> EnvelopeReader<'p> {
    /// Returns the present line without moving on.
    fn peek(&self) -> Option<&'p str> {
        self.lines.get(self.at).copied()
    }

    /// Reads the entry of one file.
    fn file(&mut self, line: &str) -> Result<FilePatch, ParseError> {
        let at = self.at;
        self.at += 1;
        let path = |header: &str| {
            let name = line.strip_prefix(header).map(str::trim)?;
            Some(if name.is_empty() {
                Err(ParseError::at(at, "the name of a file is missing"))
            } else {
                Ok(PathBuf::from(name))
            })
        };
        let (path, action) = if let Some(path) = path(ADD_FILE) {
            (path?, Action::Add(self.new_text()?))
        } else if let Some(path) = path(DELETE_FILE) {
            (path?, Action::Delete(Vec::new()))
        } else if let Some(path) = path(UPDATE_FILE) {
            (path?, self.update(at)?)
        } else {
            let why = format!(
                "expected `{ADD_FILE} FILE`, `{UPDATE_FILE} FILE`, `{DELETE_FILE} FILE` or `{END_PATCH}`"
            );
            return Err(ParseError::at(at, why));
        };
        Ok(FilePatch { path, action, changes_mode: false })
    }

    /// Reads the lines of a new file.
    fn new_text(&mut self) -> Result<String, ParseError> {
        let mut text = String::new();
        let mut lacks_final_line_feed = false;
        while let Some(line) = self.peek().filter(|line| !line.starts_with("*** ")) {
            match line.split_at_checked(1) {
                Some(("+", line)) => {
                    text.push_str(line);
                    text.push('\n');
                }
                Some(("\\", _)) => lacks_final_line_feed = true,
                _ if line.trim().is_empty() && self.only_blank_lines_follow() => {}
                _ => {
                    let why = "every line of a new file begins with `+`";
                    return Err(ParseError::at(self.at, why));
                }
            }
            self.at += 1;
        }
        if lacks_final_line_feed {
            text.pop();
        }
        Ok(text)
    }

    /// Returns whether only blank lines remain before the next header.
    fn only_blank_lines_follow(&self) -> bool {
        let rest = self.lines.get(self.at..).unwrap_or_default();
        let next = rest.iter().find(|line| !line.trim().is_empty());
        next.is_none_or(|line| line.starts_with("*** "))
    }

    /// Reads the entry of a changed file, with the path that it moves to.
    fn update(&mut self, header: usize) -> Result<Action, ParseError> {
        let to = self.peek().and_then(|line| line.strip_prefix(MOVE_TO)).map(str::trim);
        let to = to.map(PathBuf::from);
        self.at += usize::from(to.is_some());
        if to.as_ref().is_some_and(|to| to.as_os_str().is_empty()) {
            return Err(ParseError::at(self.at - 1, "the name of a file is missing"));
        }
        let hunks = self.hunks()?;
        if hunks.is_empty() && to.is_none() {
            return Err(ParseError::at(header, "no hunk follows this header"));
        }
        Ok(Action::Change { hunks, to })
    }

    /// Reads all hunks of a file.
    fn hunks(&mut self) -> Result<Vec<Hunk>, ParseError> {
        self.skip_names();
        let mut hunks = Vec::new();
        while let Some(line) = self.peek() {
            if line.trim().is_empty() {
                self.at += 1;
            } else if line.starts_with("*** ") || line.starts_with("```") {
                break;
            } else {
                hunks.push(self.hunk()?);
            }
        }
        Ok(hunks)
    }

    /// Skips `---` and `+++`, which some patches repeat after a header of this format.
    fn skip_names(&mut self) {
        let begins =
            |at: usize, with: &str| self.lines.get(at).is_some_and(|line| line.starts_with(with));
        if begins(self.at, "--- ") && begins(self.at + 1, "+++ ") && begins(self.at + 2, "@@") {
            self.at += 2;
        }
    }

    /// Reads one hunk with its headers.
    fn hunk(&mut self) -> Result<Hunk, ParseError> {
        let mut hunk = Hunk { line: self.at + 1, ..Hunk::default() };
        // Several `@@` headers narrow down the place, one after another.
        while let Some(line) = self.peek().filter(|line| line.starts_with("@@")) {
            let line = line.trim_end();
            let header = HunkHeader::parse(line);
            hunk.at = header.at.or(hunk.at);
            hunk.anchors.extend(header.anchor);
            if !hunk.header.is_empty() {
                hunk.header.push(' ');
            }
            hunk.header.push_str(line);
            self.at += 1;
        }
        let mut blank = 0;
        while let Some(line) = self.peek() {
            if line.starts_with(END_OF_FILE) {
                (hunk.at_end, blank) = (true, 0);
                self.at += 1;
                break;
            }
            if line.starts_with("@@") || line.starts_with("*** ") || line.starts_with("```") {
                break;
            }
            if !hunk.push(line) {
                let shown: String = line.chars().take(60).collect();
                let why = format!("`{shown}`: a line of a hunk begins with ` `, `+` or `-`");
                return Err(ParseError::at(self.at, why));
            }
            blank = if line.trim_end_matches('\r').is_empty() { blank + 1 } else { 0 };
            self.at += 1;
        }
        hunk.drop_blank_end(blank);
        check_hunk(&hunk)?;
        Ok(hunk)
    }
}
