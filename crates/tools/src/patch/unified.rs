//! Parses unified diffs as `diff -u` and git write them.
//!
//! The counts in a hunk's header decide where the hunk ends, if they fit its lines: only they distinguish a removed line `-- x`
//! from the header of a file. If counts are missing or wrong, as models often write them, the shape of the lines decides.

use std::path::PathBuf;

use super::hunk::{Action, FilePatch, Hunk, LineSign, join_lines};
use super::name::{PatchName, without_prefixes};
use super::parse::{HunkHeader, ParseError, check_hunk};

/// Parses a unified diff into the changes of each file.
pub(super) fn parse(lines: &[&str]) -> Result<Vec<FilePatch>, ParseError> {
    let mut reader =
        DiffReader { lines, at: 0, section: None, files: Vec::new(), allows_prose: true };
    while let Some(line) = lines.get(reader.at) {
        reader.read(line.trim_end_matches('\r'))?;
    }
    reader.finish()?;
    Ok(reader.files)
}

/// Reads the lines of a diff one after another.
struct DiffReader<'p> {
    lines: &'p [&'p str],
    at: usize,
    section: Option<FileSection>,
    files: Vec<FilePatch>,
    /// True where other text is permitted: before the first file, and between the mails of a series.
    allows_prose: bool,
}

/// The parts of one file's diff that have been read.
#[derive(Debug, Default)]
struct FileSection {
    /// Number of its first line, counted from 0.
    line: usize,
    /// Names in `diff --git`.
    git: Option<(PatchName, PatchName)>,
    /// Names in `---` and `+++`.
    names: Option<(PatchName, PatchName)>,
    /// Names in `rename from` and `rename to`.
    rename: (Option<PatchName>, Option<PatchName>),
    is_new: bool,
    is_deleted: bool,
    changes_mode: bool,
    hunks: Vec<Hunk>,
}

impl DiffReader<'_> {
    /// Reads the next line, and the lines that belong to it.
    fn read(&mut self, line: &str) -> Result<(), ParseError> {
        if let Some(names) = line.strip_prefix("diff --git ") {
            self.finish()?;
            let git = PatchName::parse_pair(names);
            self.section = Some(FileSection { line: self.at, git, ..FileSection::default() });
        } else if self.is_file_header(self.at) {
            return self.read_names();
        } else if line.starts_with("@@") {
            return self.read_hunk();
        } else if self.section.as_mut().is_some_and(|section| section.hunks.is_empty())
            && self.read_extended(line)?
        {
        } else if line == "-- " || line == "--" || line.starts_with("From ") {
            self.allows_prose = true;
            self.at += 1;
            return Ok(());
        } else if !self.allows_prose && !is_separator(line) {
            return Err(ParseError::at(self.at, unexpected_line(line)));
        } else {
            self.at += 1;
            return Ok(());
        }
        self.allows_prose = false;
        self.at += 1;
        Ok(())
    }

    /// Returns whether `---` and `+++` start here.
    fn is_file_header(&self, at: usize) -> bool {
        let begins =
            |at: usize, with: &str| self.lines.get(at).is_some_and(|l| l.starts_with(with));
        begins(at, "--- ") && begins(at + 1, "+++ ")
    }

    /// Reads the names in `---` and `+++`.
    fn read_names(&mut self) -> Result<(), ParseError> {
        let name = |at: usize, sign: &str| {
            let line = self.lines.get(at).and_then(|line| line.strip_prefix(sign));
            line.and_then(PatchName::parse)
                .ok_or_else(|| ParseError::at(at, "the name of a file is missing"))
        };
        let names = Some((name(self.at, "--- ")?, name(self.at + 1, "+++ ")?));
        match &mut self.section {
            // These names continue the section that `diff --git` started.
            Some(section) if section.names.is_none() && section.hunks.is_empty() => {
                section.names = names;
            }
            _ => {
                self.finish()?;
                self.section = Some(FileSection { line: self.at, names, ..FileSection::default() });
            }
        }
        self.allows_prose = false;
        self.at += 2;
        Ok(())
    }

    /// Reads a line that git writes between `diff --git` and `---`; returns false if it is another line.
    fn read_extended(&mut self, line: &str) -> Result<bool, ParseError> {
        let at = self.at;
        let Some(section) = &mut self.section else { return Ok(false) };
        let known = |prefix: &str| line.strip_prefix(prefix).map(str::trim);
        if let Some(mode) = known("new file mode ") {
            section.is_new = true;
            section.changes_mode |= mode.ends_with("755");
        } else if known("deleted file mode ").is_some() {
            section.is_deleted = true;
        } else if known("old mode ").or(known("new mode ")).is_some() {
            section.changes_mode = true;
        } else if let Some(name) = known("rename from ") {
            section.rename.0 = PatchName::parse(name);
        } else if let Some(name) = known("rename to ") {
            section.rename.1 = PatchName::parse(name);
        } else if known("copy from ").or(known("copy to ")).is_some() {
            return Err(ParseError::at(
                at,
                "files are not copied by a patch; add the new file with its content",
            ));
        } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
            return Err(ParseError::at(at, "binary files are not patched"));
        } else {
            return Ok(["index ", "similarity index ", "dissimilarity index "]
                .iter()
                .any(|prefix| line.starts_with(prefix)));
        }
        Ok(true)
    }

    /// Reads a hunk with its header.
    fn read_hunk(&mut self) -> Result<(), ParseError> {
        let first = self.at;
        let Some(section) = &mut self.section else {
            let why = "a hunk comes before the name of a file (`--- a/FILE` and `+++ b/FILE`)";
            return Err(ParseError::at(first, why));
        };
        let line = self.lines.get(first).copied().unwrap_or_default().trim_end();
        let HunkHeader { at, counts, anchor } = HunkHeader::parse(line);
        let mut hunk = Hunk {
            line: first + 1,
            header: line.into(),
            at,
            anchors: anchor.into_iter().collect(),
            ..Hunk::default()
        };
        let body = self.lines.get(first + 1..).unwrap_or_default();
        let by_count = counts.and_then(|(old, new)| lines_by_count(body, old, new));
        let (end, blank) = match by_count {
            Some(end) => (end, 0),
            None => lines_by_shape(body),
        };
        for line in body.get(..end).unwrap_or_default() {
            hunk.push(line);
        }
        hunk.drop_blank_end(blank);
        check_hunk(&hunk)?;
        section.hunks.push(hunk);
        self.at = first + 1 + end;
        Ok(())
    }

    /// Ends the section of the present file.
    fn finish(&mut self) -> Result<(), ParseError> {
        if let Some(section) = self.section.take() {
            self.files.push(section.finish()?);
        }
        Ok(())
    }
}

impl FileSection {
    /// Turns the section into the change of a file.
    fn finish(self) -> Result<FilePatch, ParseError> {
        let changes_mode = self.changes_mode;
        let (path, action) = self.into_action()?;
        Ok(FilePatch { path, action, changes_mode })
    }

    /// Returns the path and the kind of change.
    fn into_action(self) -> Result<(PathBuf, Action), ParseError> {
        let line = self.line;
        if let (Some(from), Some(to)) = &self.rename {
            let action = Action::Change { hunks: self.hunks, to: Some(to.path()) };
            return Ok((from.path(), action));
        }
        let Some((old, new)) = self.names.or(self.git) else {
            return Err(ParseError::at(
                line,
                "the names of the files cannot be told apart; write `--- a/FILE` and `+++ b/FILE`",
            ));
        };
        let had_prefixes = without_prefixes(old.clone(), new.clone()) != (old.clone(), new.clone());
        let (old, new) = without_prefixes(old, new);
        match (old.is_dev_null() || self.is_new, new.is_dev_null() || self.is_deleted) {
            (true, true) => Err(ParseError::at(line, "there is no file on either side")),
            (true, false) => Ok((new.path(), Action::Add(new_text(&self.hunks)?))),
            (false, true) => Ok((old.path(), Action::Delete(self.hunks))),
            (false, false) if self.hunks.is_empty() => {
                let why = if self.changes_mode {
                    "only permissions are to change here, and a patch changes the content of files"
                } else {
                    "no hunk follows this header"
                };
                Err(ParseError::at(line, why))
            }
            (false, false) if old == new => {
                Ok((old.path(), Action::Change { hunks: self.hunks, to: None }))
            }
            (false, false) if had_prefixes => {
                Ok((old.path(), Action::Change { hunks: self.hunks, to: Some(new.path()) }))
            }
            (false, false) => Err(ParseError::at(
                line,
                "the two names differ; write the same one twice, or `a/OLD` and `b/NEW` for a move",
            )),
        }
    }
}

/// Returns the text of a file that the patch creates.
fn new_text(hunks: &[Hunk]) -> Result<String, ParseError> {
    for hunk in hunks {
        if hunk.lines.iter().any(|line| line.sign != LineSign::Add) {
            let why = "a new file has only lines that begin with `+`";
            return Err(ParseError { line: hunk.line, why: why.into() });
        }
    }
    Ok(join_lines(hunks.iter().flat_map(Hunk::new_lines)))
}

/// Returns the number of lines of a hunk by the counts of its header; `None` if the counts do not fit the lines.
fn lines_by_count(body: &[&str], mut old: usize, mut new: usize) -> Option<usize> {
    let mut end = 0;
    while old > 0 || new > 0 {
        match body.get(end)?.as_bytes().first() {
            Some(b' ' | b'\r') | None => (old, new) = (old.checked_sub(1)?, new.checked_sub(1)?),
            Some(b'-') => old = old.checked_sub(1)?,
            Some(b'+') => new = new.checked_sub(1)?,
            Some(b'\\') => {}
            Some(_) => return None,
        }
        end += 1;
    }
    end += body.iter().skip(end).take_while(|line| line.starts_with('\\')).count();
    let rest = body.get(end..).unwrap_or_default();
    let blank = rest.iter().take_while(|line| line.trim().is_empty()).count();
    let rest = rest.get(blank..).unwrap_or_default();
    let goes_on = rest.first().is_some_and(|line| line.starts_with([' ', '+', '-']));
    (!goes_on || is_header(rest) || is_signature(rest)).then_some(end)
}

/// Returns the number of lines of a hunk by the shape of its lines, and the number of empty lines at its end.
fn lines_by_shape(body: &[&str]) -> (usize, usize) {
    let goes_on = |at: &usize| {
        let rest = body.get(*at..).unwrap_or_default();
        let line = rest.first().copied().unwrap_or_default();
        let has_sign =
            line.trim_end_matches('\r').is_empty() || line.starts_with([' ', '+', '-', '\\']);
        let is_header = is_header(rest) && rest.get(2).is_some_and(|line| line.starts_with("@@"));
        has_sign && !is_header && !is_signature(rest)
    };
    let end = (0..body.len()).take_while(goes_on).count();
    let lines = body.get(..end).unwrap_or_default();
    (end, lines.iter().rev().take_while(|line| line.trim_end_matches('\r').is_empty()).count())
}

/// Returns whether `---` and `+++` start here.
fn is_header(rest: &[&str]) -> bool {
    matches!(rest, [old, new, ..] if old.starts_with("--- ") && new.starts_with("+++ "))
}

/// Returns whether the end of a mail by `git format-patch` starts here: two hyphens, and the version of git.
fn is_signature(rest: &[&str]) -> bool {
    let is_version = |line: &str| line.starts_with(|c: char| c.is_ascii_digit());
    matches!(rest, [hyphens, version, ..] if hyphens.trim_end() == "--" && is_version(version))
}

/// Returns whether a line is one that tools write between files, without further meaning.
fn is_separator(line: &str) -> bool {
    const BEGINNINGS: [&str; 6] = ["diff ", "Index: ", "====", "Only in ", "```", "index "];
    line.trim().is_empty() || BEGINNINGS.iter().any(|beginning| line.starts_with(beginning))
}

/// Returns the message for a line that cannot be read here.
fn unexpected_line(line: &str) -> String {
    let hint = if line.starts_with([' ', '+', '-']) {
        "it is not part of a hunk: a hunk begins with `@@`"
    } else {
        "a line of a hunk begins with ` `, `+` or `-`, and a file with `--- a/FILE`"
    };
    let shown: String = line.chars().take(60).collect();
    format!("`{shown}` is not expected here; {hint}")
}
