//! The lines that one call shows: chosen, decoded, numbered, bounded, and a last line that says what there is besides.
//!
//! A page ends at a line, so that the next one begins with the next line and nothing is lost between them. The carriage
//! return of a CRLF file is not shown: it would be invisible, and `write` and `edit` put it back by themselves.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{Read, Seek};
use std::ops::Range;

use super::lines::{LineReader, LinesError};
use crate::cut::Cutter;
use crate::encoding::TextEncoding;

/// Longer lines are cut after so many characters.
pub(crate) const MAX_CHARACTERS: usize = 2_000;

/// How far the file is counted behind the last line of a page: more would cost more than the page itself.
const COUNT_AHEAD: u64 = 16 << 20;

/// Room for the last line.
const CLOSING: usize = 500;

/// What to show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    /// The first line, counted from 1; 0 means 1; negative counts from the end.
    pub(crate) offset: i64,
    /// How many lines at most.
    pub(crate) limit: u64,
    /// Whether each line gets its number.
    pub(crate) numbers: bool,
    /// How many bytes the text may have.
    pub(crate) max_bytes: usize,
    /// How many bytes the file has.
    pub(crate) file_bytes: u64,
}

/// What is shown.
#[derive(Debug)]
pub(crate) struct Page {
    /// The lines, and the last line in brackets.
    pub(crate) text: String,
    /// Which lines, counted from 0.
    pub(crate) lines: Range<u64>,
    /// Those of them that were cut.
    pub(crate) cut: Vec<u64>,
    /// How many lines the file has, if that was worth finding out.
    pub(crate) total: Option<u64>,
    /// How the bytes were read.
    pub(crate) encoding: TextEncoding,
    /// How the lines end that were shown.
    pub(crate) endings: Endings,
}

/// How lines end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Endings {
    line_feeds: u64,
    carriage_returns: u64,
    /// Whether the last line has no end.
    open: bool,
}

impl Endings {
    /// A name for what there is, if it is not the usual.
    pub(crate) fn name(self) -> Option<&'static str> {
        match (self.carriage_returns, self.line_feeds) {
            (0, _) => None,
            (crlf, all) if crlf == all => Some("CRLF"),
            _ => Some("mixed"),
        }
    }
}

/// Reads and shows lines.
pub(crate) fn show<R: Read + Seek>(
    reader: &mut LineReader<'_, R>,
    encoding: TextEncoding,
    ask: &Ask,
    cutter: Cutter<'_>,
) -> Result<Page, LinesError> {
    let raw = collect(reader, encoding, ask)?;
    // A large file can look like UTF-8 for long before it turns out not to be.
    let encoding =
        if encoding == TextEncoding::UTF_8 { TextEncoding::of_lines(&raw.bytes) } else { encoding };
    let ahead = ask.file_bytes.saturating_sub(reader.offset());
    let total = reader.count_rest(if ahead > COUNT_AHEAD { 0 } else { COUNT_AHEAD })?;
    let mut page = raw.render(encoding, ask, cutter);
    page.total = total;
    let guess = estimate(reader.line(), reader.offset(), ask.file_bytes);
    let closing = page.closing(raw.first, ask, guess);
    page.text.push_str(&closing);
    Ok(page)
}

/// Lines as bytes.
struct Raw {
    /// The first one, counted from 0.
    first: u64,
    bytes: Vec<u8>,
    lines: Vec<RawLine>,
}

struct RawLine {
    /// Where it ends in the bytes of all.
    end: usize,
    /// How many bytes it has in the file.
    len: u64,
    closed: bool,
}

fn collect<R: Read + Seek>(
    reader: &mut LineReader<'_, R>,
    encoding: TextEncoding,
    ask: &Ask,
) -> Result<Raw, LinesError> {
    let first = first_line(reader, ask.offset)?;
    reader.seek(first)?;
    let mut raw = Raw { first, bytes: Vec::new(), lines: Vec::new() };
    // Text takes no less room decoded than in the file, but for ASCII in UTF-16, which takes half.
    let max_bytes = ask.max_bytes.saturating_mul(encoding.line_feed().width());
    while (raw.lines.len() as u64) < ask.limit && raw.bytes.len() + raw.lines.len() <= max_bytes {
        let Some(line) = reader.next()? else { break };
        raw.bytes.extend_from_slice(line.bytes);
        raw.lines.push(RawLine { end: raw.bytes.len(), len: line.len, closed: line.closed });
    }
    Ok(raw)
}

/// The line to begin with, counted from 0.
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

/// How many lines a file probably has, if so many were in so many of its bytes; to two digits, since more would be a lie.
fn estimate(lines: u64, bytes: u64, all: u64) -> u64 {
    let guess = u128::from(lines) * u128::from(all) / u128::from(bytes.max(1));
    let guess = u64::try_from(guess).unwrap_or(u64::MAX);
    let unit = 10u64.pow(guess.checked_ilog10().unwrap_or(0).saturating_sub(1));
    (guess / unit * unit).max(lines)
}

impl Raw {
    fn render(&self, encoding: TextEncoding, ask: &Ask, cutter: Cutter<'_>) -> Page {
        let mut page = Page {
            text: String::with_capacity(
                (self.bytes.len() + self.lines.len() * 8).min(ask.max_bytes),
            ),
            lines: self.first..self.first,
            cut: Vec::new(),
            total: None,
            encoding,
            endings: Endings::default(),
        };
        let room = ask.max_bytes.saturating_sub(CLOSING);
        let mut start = 0;
        for line in &self.lines {
            let bytes = self.bytes.get(start..line.end).unwrap_or_default();
            start = line.end;
            let before = page.text.len();
            let endings = page.endings;
            page.push(bytes, line, ask.numbers, cutter);
            // The first line is shown whatever its size: a page without lines would lead nowhere.
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

impl Page {
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

    /// The text of a line as it is shown, and whether that is only a part of it.
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

    /// The last line of a page: the total, what remains and how to get it, and what else a reader should know.
    fn closing(&self, first: u64, ask: &Ask, guess: u64) -> String {
        let mut facts = vec![self.place(first, guess)];
        if let Some(next) = self.next_offset() {
            let asked = self.lines.end - self.lines.start >= ask.limit;
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
            let count = lines(self.cut.len() as u64);
            facts.push(format!("{count} cut at {MAX_CHARACTERS} characters"));
        }
        format!("[{}]", facts.join("; "))
    }

    fn place(&self, first: u64, guess: u64) -> String {
        let (from, to) = (self.lines.start + 1, self.lines.end);
        match self.total {
            Some(0) => "empty file".into(),
            Some(total) if self.lines.is_empty() => {
                format!("line {} is past the end: the file has {}", first + 1, lines(total))
            }
            Some(total) if self.lines == (0..total) && !self.cut.is_empty() => lines(total),
            Some(total) if self.lines == (0..total) => format!("{}, all shown", lines(total)),
            Some(total) if to == total => format!("lines {from}-{to} of {total}, the end"),
            Some(total) => format!("lines {from}-{to} of {total}; {} remain", total - to),
            None => format!("lines {from}-{to} of about {guess}; more remain"),
        }
    }

    /// The line to go on with, counted from 1; `None` at the end.
    pub(crate) fn next_offset(&self) -> Option<u64> {
        let more = self.total.is_none_or(|total| self.lines.end < total);
        (more && !self.lines.is_empty()).then_some(self.lines.end + 1)
    }

    fn write(&mut self, words: std::fmt::Arguments<'_>) {
        let written = self.text.write_fmt(words);
        debug_assert!(written.is_ok(), "writing to a string does not fail");
    }
}

fn lines(count: u64) -> String {
    if count == 1 { "1 line".into() } else { format!("{count} lines") }
}
