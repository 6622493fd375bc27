//! A page: the lines that one call returns, decoded and numbered, with a last line that says what else the file has.
//!
//! A page ends at the end of a line, so that the next page continues with the next line. The carriage returns of a CRLF file are not
//! shown: they would be invisible, and `write` and `edit` add them again.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{Read, Seek};
use std::ops::Range;

use super::lines::{LineReader, LinesError};
use crate::cut::Cutter;
use crate::encoding::TextEncoding;

/// Limit of the shown characters of a line.
pub(crate) const MAX_CHARACTERS: usize = 2_000;

/// Number of bytes behind a page in which lines are counted; more would cost more than the page itself.
const MAX_COUNT_AHEAD_BYTES: u64 = 16 << 20;

/// Number of bytes reserved for the last line.
const CLOSING_LINE_BYTES: usize = 500;

/// The requested part of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageRequest {
    /// First line, counted from 1; 0 means 1; negative counts from the end.
    pub(crate) offset: i64,
    /// Maximum number of lines.
    pub(crate) limit: u64,
    /// True if lines are numbered.
    pub(crate) numbers: bool,
    /// Limit of the bytes of the text.
    pub(crate) max_bytes: usize,
    /// Number of bytes of the file.
    pub(crate) file_bytes: u64,
}

/// The lines of one call, ready to be shown.
#[derive(Debug)]
pub(crate) struct TextPage {
    /// Lines, and the last line in brackets.
    pub(crate) text: String,
    /// Range of the lines, counted from 0.
    pub(crate) lines: Range<u64>,
    /// Numbers of the lines that were cut.
    pub(crate) cut: Vec<u64>,
    /// Number of lines of the file, if it is known.
    pub(crate) total: Option<u64>,
    /// Encoding with which the bytes were decoded.
    pub(crate) encoding: TextEncoding,
    /// Endings of the shown lines.
    pub(crate) endings: EndingCounts,
}

/// Counts of the line endings of some lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EndingCounts {
    line_feeds: u64,
    carriage_returns: u64,
    /// True if the last line has no line feed.
    open: bool,
}

impl EndingCounts {
    /// Returns a name for unusual line endings: `CRLF` or `mixed`; `None` if all are LF.
    pub(crate) fn name(self) -> Option<&'static str> {
        match (self.carriage_returns, self.line_feeds) {
            (0, _) => None,
            (crlf, all) if crlf == all => Some("CRLF"),
            _ => Some("mixed"),
        }
    }
}

/// Reads the requested lines and makes a page of them.
pub(crate) fn show<R: Read + Seek>(
    reader: &mut LineReader<'_, R>,
    encoding: TextEncoding,
    request: &PageRequest,
    cutter: Cutter<'_>,
) -> Result<TextPage, LinesError> {
    let raw = collect_lines(reader, encoding, request)?;
    // The start of a large file can be valid UTF-8 although a later part is not.
    let encoding =
        if encoding == TextEncoding::UTF_8 { TextEncoding::of_lines(&raw.bytes) } else { encoding };
    let ahead = request.file_bytes.saturating_sub(reader.offset());
    let total =
        reader.count_rest(if ahead > MAX_COUNT_AHEAD_BYTES { 0 } else { MAX_COUNT_AHEAD_BYTES })?;
    let mut page = raw.render(encoding, request, cutter);
    page.total = total;
    let guess = estimate_lines(reader.line(), reader.offset(), request.file_bytes);
    let closing = page.closing_line(raw.first, request, guess);
    page.text.push_str(&closing);
    Ok(page)
}

/// The bytes of the requested lines.
struct RawLines {
    /// Number of the first line, counted from 0.
    first: u64,
    bytes: Vec<u8>,
    lines: Vec<RawLine>,
}

/// A line before decoding.
struct RawLine {
    /// End of the line in the bytes of all lines.
    end: usize,
    /// Number of bytes of the line in the file.
    len: u64,
    closed: bool,
}

/// Reads the requested lines without decoding them.
fn collect_lines<R: Read + Seek>(
    reader: &mut LineReader<'_, R>,
    encoding: TextEncoding,
    request: &PageRequest,
) -> Result<RawLines, LinesError> {
    let first = first_line(reader, request.offset)?;
    reader.seek(first)?;
    let mut raw = RawLines { first, bytes: Vec::new(), lines: Vec::new() };
    // Decoded text is not shorter than its bytes in the file, except ASCII in UTF-16, which is half as long.
    let max_bytes = request.max_bytes.saturating_mul(encoding.line_feed().width());
    while (raw.lines.len() as u64) < request.limit && raw.bytes.len() + raw.lines.len() <= max_bytes
    {
        let Some(line) = reader.next()? else { break };
        raw.bytes.extend_from_slice(line.bytes);
        raw.lines.push(RawLine { end: raw.bytes.len(), len: line.len, closed: line.closed });
    }
    Ok(raw)
}

/// Returns the first requested line, counted from 0.
fn first_line<R: Read + Seek>(
    reader: &mut LineReader<'_, R>,
    offset: i64,
) -> Result<u64, LinesError> {
    if offset >= 0 {
        return Ok(offset.unsigned_abs().saturating_sub(1));
    }
    reader.seek(0)?;
    let total = reader.count_rest(u64::MAX)?.unwrap_or_default();
    Ok(total.saturating_sub(offset.unsigned_abs()))
}

/// Estimates the number of lines of a file from the lines in its first bytes, rounded to two digits because it is not exact.
fn estimate_lines(lines: u64, bytes: u64, all: u64) -> u64 {
    let guess = u128::from(lines) * u128::from(all) / u128::from(bytes.max(1));
    let guess = u64::try_from(guess).unwrap_or(u64::MAX);
    let unit = 10u64.pow(guess.checked_ilog10().unwrap_or(0).saturating_sub(1));
    (guess / unit * unit).max(lines)
}

impl RawLines {
    /// Decodes and numbers the lines until the page is full.
    fn render(
        &self,
        encoding: TextEncoding,
        request: &PageRequest,
        cutter: Cutter<'_>,
    ) -> TextPage {
        let mut page = TextPage {
            text: String::with_capacity(
                (self.bytes.len() + self.lines.len() * 8).min(request.max_bytes),
            ),
            lines: self.first..self.first,
            cut: Vec::new(),
            total: None,
            encoding,
            endings: EndingCounts::default(),
        };
        let room = request.max_bytes.saturating_sub(CLOSING_LINE_BYTES);
        let mut start = 0;
        for line in &self.lines {
            let bytes = self.bytes.get(start..line.end).unwrap_or_default();
            start = line.end;
            let before = page.text.len();
            let endings = page.endings;
            page.push(bytes, line, request.numbers, cutter);
            // The first line is always shown: a page without lines would have no continuation.
            if page.text.len() > room && before > 0 {
                page.text.truncate(before);
                page.endings = endings;
                break;
            }
            page.lines.end += 1;
        }
        let last = page.lines.end;
        page.cut.retain(|line| *line < last);
        page
    }
}

impl TextPage {
    /// Adds a line with its number, and a remark if it is cut.
    fn push(&mut self, bytes: &[u8], line: &RawLine, numbers: bool, cutter: Cutter<'_>) {
        if numbers {
            self.write(format_args!("{}\t", self.lines.end + 1));
        }
        let text = self.encoding.decode(bytes);
        let whole = bytes.len() as u64 == line.len;
        let (text, cut) = self.without_end(text, line.closed, whole, cutter);
        self.text.push_str(&text);
        if cut {
            self.cut.push(self.lines.end);
            self.write(format_args!("… [cut: the line has {} bytes]", line.len));
        }
        self.text.push('\n');
    }

    /// Returns the shown text of a line, and whether it is only a part of the line. Counts the line ending.
    fn without_end<'t>(
        &mut self,
        mut text: Cow<'t, str>,
        closed: bool,
        whole: bool,
        cutter: Cutter<'_>,
    ) -> (Cow<'t, str>, bool) {
        self.endings.line_feeds += u64::from(closed);
        self.endings.open = !closed;
        if closed && whole && text.ends_with('\r') {
            self.endings.carriage_returns += 1;
            text = match text {
                Cow::Borrowed(text) => Cow::Borrowed(text.strip_suffix('\r').unwrap_or(text)),
                Cow::Owned(mut text) => {
                    text.pop();
                    Cow::Owned(text)
                }
            };
        }
        if text.len() <= MAX_CHARACTERS {
            return (text, !whole);
        }
        match cutter.beginning(&text, MAX_CHARACTERS) {
            Some(beginning) => (beginning.into(), true),
            None => (text, !whole),
        }
    }

    /// Returns the last line of a page: the total, the rest and how to get it, and other facts about the file.
    fn closing_line(&self, first: u64, request: &PageRequest, guess: u64) -> String {
        let mut facts = vec![self.position(first, guess)];
        if let Some(next) = self.next_offset() {
            let asked = self.lines.end - self.lines.start >= request.limit;
            let why = if asked { "" } else { "; the size of a result is limited" };
            facts.push(format!("go on with offset {next}{why}"));
        }
        if !self.encoding.is_utf8() || self.encoding.has_bom() {
            let mark = if self.encoding.has_bom() { " with BOM" } else { "" };
            facts.push(format!("encoding {}{mark}", self.encoding.name()));
        }
        if let Some(endings) = self.endings.name() {
            facts.push(format!("{endings} line endings"));
        }
        if self.endings.open && !self.lines.is_empty() {
            facts.push("no newline at the end".into());
        }
        if !self.cut.is_empty() {
            let count = line_count(self.cut.len() as u64);
            facts.push(format!("{count} cut at {MAX_CHARACTERS} characters"));
        }
        format!("[{}]", facts.join("; "))
    }

    /// Says which lines of how many are shown.
    fn position(&self, first: u64, guess: u64) -> String {
        let (from, to) = (self.lines.start + 1, self.lines.end);
        match self.total {
            Some(0) => "empty file".into(),
            Some(total) if self.lines.is_empty() => {
                format!("line {} is past the end: the file has {}", first + 1, line_count(total))
            }
            Some(total) if self.lines == (0..total) && !self.cut.is_empty() => line_count(total),
            Some(total) if self.lines == (0..total) => format!("{}, all shown", line_count(total)),
            Some(total) if to == total => format!("lines {from}-{to} of {total}, the end"),
            Some(total) => format!("lines {from}-{to} of {total}; {} remain", total - to),
            None => format!("lines {from}-{to} of about {guess}; more remain"),
        }
    }

    /// Returns the line with which the next page starts, counted from 1; `None` at the end of the file.
    pub(crate) fn next_offset(&self) -> Option<u64> {
        let more = self.total.is_none_or(|total| self.lines.end < total);
        (more && !self.lines.is_empty()).then_some(self.lines.end + 1)
    }

    /// Adds formatted text.
    fn write(&mut self, words: std::fmt::Arguments<'_>) {
        let written = self.text.write_fmt(words);
        debug_assert!(written.is_ok(), "writing to a string does not fail");
    }
}

/// Returns text such as `1 line` or `3 line_count`.
fn line_count(count: u64) -> String {
    if count == 1 { "1 line".into() } else { format!("{count} lines") }
}
