//! Parses a patch in either format. Unambiguous deviations are accepted; anything else is an error that names the line.

use std::fmt;

use super::hunk::{FilePatch, Hunk};
use super::{envelope, unified};

/// Reason for which a text is not a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParseError {
    /// Line of the patch, counted from 1; 0 if the error is about the whole patch.
    pub(super) line: usize,
    pub(super) why: String,
}

impl ParseError {
    /// Makes an error at a line that is counted from 0.
    pub(super) fn at(line: usize, why: impl Into<String>) -> Self {
        Self { line: line + 1, why: why.into() }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.why),
            line => write!(f, "line {line} of the patch: {}", self.why),
        }
    }
}

/// Parses a patch into the changes of each file, in its order.
pub(super) fn parse(text: &str) -> Result<Vec<FilePatch>, ParseError> {
    let lines = lines(text);
    if lines.iter().all(|line| line.trim().is_empty()) {
        return Err(ParseError { line: 0, why: "`patch` is empty".into() });
    }
    let files = if lines.iter().any(|line| envelope::is_header(line)) {
        envelope::parse(&lines)?
    } else {
        unified::parse(&lines)?
    };
    if files.is_empty() {
        let why = "there is no file in `patch`: neither `--- a/FILE` with `+++ b/FILE` nor `*** Update File: FILE`";
        return Err(ParseError { line: 0, why: why.into() });
    }
    Ok(files)
}

/// Splits a patch into lines. If all lines end with a carriage return, these are dropped, because they say nothing about the files.
fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.split('\n').collect();
    lines.pop_if(|line| line.is_empty());
    let returns = |line: &&str| line.ends_with('\r');
    let Some((last, others)) = lines.split_last() else { return lines };
    let is_uniform = others.iter().all(returns) && (returns(last) || !others.is_empty());
    if is_uniform {
        for line in &mut lines {
            *line = line.strip_suffix('\r').unwrap_or(line);
        }
    }
    lines
}

/// The place of a hunk according to its header.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HunkHeader {
    /// Line of the old file at which it starts, counted from 0.
    pub(super) at: Option<usize>,
    /// Numbers of lines in the old and in the new file.
    pub(super) counts: Option<(usize, usize)>,
    /// Line of the file before the hunk.
    pub(super) anchor: Option<String>,
}

impl HunkHeader {
    /// Parses `@@ -3,4 +3,5 @@ …`, `@@ fn main() {`, or `@@` alone.
    pub(super) fn parse(line: &str) -> Self {
        let rest = line.trim_start_matches('@').trim();
        if let Some(header) = Self::parse_numbers(rest) {
            return header;
        }
        let anchor = rest.strip_suffix("@@").unwrap_or(rest).trim();
        let says_nothing = anchor.is_empty() || anchor.chars().all(|c| matches!(c, '.' | '…'));
        Self { anchor: (!says_nothing).then(|| anchor.to_owned()), ..Self::default() }
    }

    /// Parses the line numbers; `None` if the header has none.
    fn parse_numbers(rest: &str) -> Option<Self> {
        let mut words = rest.split_whitespace();
        let (start, old) = parse_range(words.next()?.strip_prefix('-')?)?;
        let new = words.next().and_then(|word| parse_range(word.strip_prefix('+')?));
        // The position of an empty range is the line before it.
        let at = if old == Some(0) { start } else { start.saturating_sub(1) };
        let counts = new.map(|(_, new)| (old.unwrap_or(1), new.unwrap_or(1)));
        Some(Self { at: Some(at), counts, anchor: None })
    }
}

/// Parses `3,4`, or `3` alone.
fn parse_range(word: &str) -> Option<(usize, Option<usize>)> {
    match word.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, Some(count.parse().ok()?))),
        None => Some((word.parse().ok()?, None)),
    }
}

/// Refuses a hunk without lines or without changes.
pub(super) fn check_hunk(hunk: &Hunk) -> Result<(), ParseError> {
    if hunk.changes_lines() {
        return Ok(());
    }
    let why = if hunk.lines.is_empty() {
        "no lines follow this header"
    } else {
        "this hunk changes nothing: none of its lines begins with `+` or `-`"
    };
    Err(ParseError { line: hunk.line, why: why.into() })
}
