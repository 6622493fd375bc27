//! The form between `*** Begin Patch` and `*** End Patch`.

use std::path::PathBuf;

use super::hunk::{Action, FilePatch, Hunk};
use super::parse::{Header, ParseError, check};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const UPDATE: &str = "*** Update File:";
const DELETE: &str = "*** Delete File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// Whether a line belongs to this form and to no other.
pub(super) fn is_header(line: &str) -> bool {
    [BEGIN, ADD, UPDATE, DELETE].iter().any(|header| line.starts_with(header))
}

/// What such a patch does to each file.
pub(super) fn parse(lines: &[&str]) -> Result<Vec<FilePatch>, ParseError> {
    let first = lines.iter().position(|line| is_header(line)).unwrap_or_default();
    let is_begun = lines.get(first).is_some_and(|line| line.starts_with(BEGIN));
    let end = lines.iter().position(|line| line.starts_with(END));
    if is_begun && end.is_none() {
        // Half of a patch applies as well as all of it.
        let why = format!("there is no `{END}`: the patch may have been cut off");
        return Err(ParseError::at(lines.len().saturating_sub(1), why));
    }
    let lines = lines.get(..end.unwrap_or(lines.len())).unwrap_or_default();
    let mut reader = Reader { lines, at: first + usize::from(is_begun) };
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

struct Reader<'p> {
    lines: &'p [&'p str],
    at: usize,
}

impl<'p> Reader<'p> {
    fn peek(&self) -> Option<&'p str> {
        self.lines.get(self.at).copied()
    }

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
        let (path, action) = if let Some(path) = path(ADD) {
            (path?, Action::Add(self.new_text()?))
        } else if let Some(path) = path(DELETE) {
            (path?, Action::Delete(Vec::new()))
        } else if let Some(path) = path(UPDATE) {
            (path?, self.update(at)?)
        } else {
            let why = format!("expected `{ADD} FILE`, `{UPDATE} FILE`, `{DELETE} FILE` or `{END}`");
            return Err(ParseError::at(at, why));
        };
        Ok(FilePatch { path, action, speaks_of_mode: false })
    }

    fn new_text(&mut self) -> Result<String, ParseError> {
        let mut text = String::new();
        let mut is_open = false;
        while let Some(line) = self.peek().filter(|line| !line.starts_with("*** ")) {
            match line.split_at_checked(1) {
                Some(("+", line)) => {
                    text.push_str(line);
                    text.push('\n');
                }
                Some(("\\", _)) => is_open = true,
                _ if line.trim().is_empty() && self.only_blank_lines_follow() => {}
                _ => {
                    let why = "every line of a new file begins with `+`";
                    return Err(ParseError::at(self.at, why));
                }
            }
            self.at += 1;
        }
        if is_open {
            text.pop();
        }
        Ok(text)
    }

    fn only_blank_lines_follow(&self) -> bool {
        let rest = self.lines.get(self.at..).unwrap_or_default();
        let next = rest.iter().find(|line| !line.trim().is_empty());
        next.is_none_or(|line| line.starts_with("*** "))
    }

    fn update(&mut self, header: usize) -> Result<Action, ParseError> {
        let to = self.peek().and_then(|line| line.strip_prefix(MOVE)).map(str::trim);
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

    /// The header of a unified diff after that of this form says the same once more.
    fn skip_names(&mut self) {
        let begins =
            |at: usize, with: &str| self.lines.get(at).is_some_and(|line| line.starts_with(with));
        if begins(self.at, "--- ") && begins(self.at + 1, "+++ ") && begins(self.at + 2, "@@") {
            self.at += 2;
        }
    }

    fn hunk(&mut self) -> Result<Hunk, ParseError> {
        let mut hunk = Hunk { line: self.at + 1, ..Hunk::default() };
        // Several headers narrow the place down, one after the other.
        while let Some(line) = self.peek().filter(|line| line.starts_with("@@")) {
            let line = line.trim_end();
            let header = Header::parse(line);
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
        hunk.trim(blank);
        check(&hunk)?;
        Ok(hunk)
    }
}
