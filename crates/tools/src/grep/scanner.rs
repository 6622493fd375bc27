//! The search of one file or text, with a matcher, a searcher and memory that are used again for the next.
//!
//! A small file is read whole and held against the pattern before anything else is done; most files of a tree end there, with
//! one system call more than it took to open them. A large one is searched in [`chunks`]; where that cannot be, it goes through the
//! searcher's own buffer, which grows only for a long line. So memory does not depend on the size of the file.

use std::io::{self, Read};

use grep_matcher::{LineMatchKind, Matcher};
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use windlass_core::{Context, OpenFile};

use super::buffer::{Buffer, Filled};
use super::chunks::{self, Sizes};
use super::excerpt::excerpt;
use super::found::{Hits, Line};
use super::query::{Mode, Query};
use crate::cut::Cutter;

/// A pattern with the means to search one file after another.
pub(super) struct Scanner<'a> {
    cx: &'a Context,
    query: &'a Query,
    matcher: RegexMatcher,
    searcher: Searcher,
    /// Whether the pattern can be held against a whole text at once: it matches inside lines only.
    by_line: bool,
}

impl<'a> Scanner<'a> {
    /// What a line may grow to, or a file that is searched across lines.
    pub(super) const MOST_MEMORY: usize = 64 << 20;

    pub(super) fn new(cx: &'a Context, query: &'a Query) -> Self {
        Self::build(cx, query, true)
    }

    /// One for the middle of a file, where no mark tells an encoding.
    pub(super) fn for_chunks(cx: &'a Context, query: &'a Query) -> Self {
        Self::build(cx, query, false)
    }

    fn build(cx: &'a Context, query: &'a Query, has_marks: bool) -> Self {
        // A clone has its own scratch space: threads that share one wait for each other.
        let matcher = query.matcher.clone();
        let shows_lines = query.mode == Mode::Content;
        let searcher = SearcherBuilder::new()
            .line_terminator(query.line_terminator)
            .line_number(shows_lines)
            .before_context(if shows_lines { query.before } else { 0 })
            .after_context(if shows_lines { query.after } else { 0 })
            .multi_line(query.multiline)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(Self::MOST_MEMORY))
            .bom_sniffing(has_marks)
            .build();
        let by_line = matcher.line_terminator().is_some() && !query.multiline;
        Self { cx, query, matcher, searcher, by_line }
    }

    /// What is in an open file; `None` if the pattern is not in it.
    pub(super) fn search_file(
        &mut self,
        opened: &OpenFile,
        buffer: &mut Buffer,
    ) -> io::Result<Option<Hits>> {
        let mut file = &opened.file;
        if opened.stat.len > Buffer::SIZE as u64 {
            return match self.search_chunks(opened, Sizes::default())? {
                Some(hits) => Ok(Some(hits)),
                None => self.search_reader(file).map(Some),
            };
        }
        match buffer.read(&mut file, opened.stat.len)? {
            Filled::Whole(text) => self.search_text(text),
            // It has grown since its size was asked.
            Filled::Part(start) => self.search_reader(start.chain(file)).map(Some),
        }
    }

    /// What is in a large file; `None` if it has to be searched from its beginning to its end.
    pub(super) fn search_chunks(
        &self,
        opened: &OpenFile,
        sizes: Sizes,
    ) -> io::Result<Option<Hits>> {
        let has_context = self.query.mode == Mode::Content && self.query.has_context();
        if !self.by_line || has_context {
            return Ok(None);
        }
        chunks::search(self.cx, self.query, &opened.file, opened.stat.len, sizes)
    }

    /// What is in a text that was kept, whatever bytes are in it.
    pub(super) fn search_kept(&mut self, text: &str) -> io::Result<Hits> {
        self.searcher.set_binary_detection(BinaryDetection::none());
        self.search_reader(text.as_bytes())
    }

    /// What is in the bytes of a file; `None` if the pattern is not in them.
    pub(super) fn search_text(&mut self, text: &[u8]) -> io::Result<Option<Hits>> {
        if self.rules_out(text) {
            return Ok(None);
        }
        let mut sink = Gathering::new(self.cx, self.query, &self.matcher);
        self.searcher.search_slice(&self.matcher, text, &mut sink)?;
        Ok(Some(sink.hits))
    }

    /// Searches whole lines without a NUL or a mark of an encoding, as the chunks of a large file are.
    pub(super) fn search_lines(&mut self, lines: &[u8]) -> io::Result<Hits> {
        if let Some(matches) = self.count(lines) {
            return Ok(Hits { matches, ..Hits::default() });
        }
        Ok(self.search_text(lines)?.unwrap_or_default())
    }

    /// Counts matching lines without looking for the begin of each, which costs as much as the search where many match. `None` if
    /// the lines are shown, or if the matcher finds candidates that only the searcher can confirm.
    fn count(&self, text: &[u8]) -> Option<usize> {
        if !self.by_line || self.query.mode == Mode::Content {
            return None;
        }
        let most = if self.query.mode == Mode::Files { 1 } else { usize::MAX };
        let (mut rest, mut count) = (text, 0);
        while count < most && !rest.is_empty() {
            let end = match self.matcher.find_candidate_line(rest) {
                Ok(Some(LineMatchKind::Confirmed(end))) => end,
                Ok(None) => break,
                Ok(Some(LineMatchKind::Candidate(_))) | Err(_) => return None,
            };
            let behind = rest.get(end..)?;
            if behind.is_empty() && rest.ends_with(b"\n") {
                // The empty text behind the last line feed is no line.
                break;
            }
            count += 1;
            rest = memchr::memchr(b'\n', behind)
                .and_then(|feed| behind.get(feed + 1..))
                .unwrap_or_default();
        }
        Some(count)
    }

    pub(super) fn search_reader(&mut self, reader: impl Read) -> io::Result<Hits> {
        let mut sink = Gathering::new(self.cx, self.query, &self.matcher);
        let reader = Stoppable { cx: self.cx, inner: reader };
        self.searcher.search_reader(&self.matcher, reader, &mut sink)?;
        Ok(sink.hits)
    }

    /// Whether one look at the bytes is enough to know that nothing matches.
    fn rules_out(&self, text: &[u8]) -> bool {
        self.by_line
            && !has_mark(text)
            && matches!(self.matcher.find_candidate_line(text), Ok(None))
    }
}

/// Whether a text begins with the mark of an encoding: it must be decoded before it is looked at.
pub(super) fn has_mark(text: &[u8]) -> bool {
    [&b"\xff\xfe"[..], b"\xfe\xff", b"\xef\xbb\xbf"].iter().any(|mark| text.starts_with(mark))
}

/// A reader that ends with an error when the call is stopped, also in the middle of a huge file.
struct Stoppable<'a, R> {
    cx: &'a Context,
    inner: R,
}

impl<R: Read> Read for Stoppable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cx.is_cancelled() {
            return Err(io::Error::other("the call was stopped"));
        }
        self.inner.read(buffer)
    }
}

/// Takes down what the searcher finds in one file.
struct Gathering<'a> {
    cx: &'a Context,
    query: &'a Query,
    matcher: &'a RegexMatcher,
    hits: Hits,
}

impl<'a> Gathering<'a> {
    fn new(cx: &'a Context, query: &'a Query, matcher: &'a RegexMatcher) -> Self {
        Self { cx, query, matcher, hits: Hits::default() }
    }

    fn goes_on(&self) -> bool {
        !self.query.is_enough(&self.hits) && !self.cx.is_cancelled()
    }

    fn push(&mut self, number: u64, is_match: bool, text: String) {
        self.hits.bytes += text.len() + size_of::<Line>();
        self.hits.lines.push(Line { number, is_match, text });
    }

    /// Where in a line the match is, to cut the line around it.
    fn place(&self, line: &[u8]) -> usize {
        self.matcher.find(line).ok().flatten().map_or(0, |found| found.start())
    }
}

impl Sink for Gathering<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let first = found.line_number().unwrap_or(1);
        for (number, line) in (first..).zip(found.lines()) {
            self.hits.matches += 1;
            if self.query.mode == Mode::Content {
                let text = excerpt(line, |line| self.place(line), Cutter::of(self.cx));
                self.push(number, true, text);
            }
            if !self.goes_on() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        let text = excerpt(context.bytes(), |_| 0, Cutter::of(self.cx));
        self.push(context.line_number().unwrap_or(1), false, text);
        Ok(self.goes_on())
    }

    fn binary_data(&mut self, _: &Searcher, offset: u64) -> Result<bool, io::Error> {
        self.hits.binary = Some(offset);
        Ok(true)
    }
}
