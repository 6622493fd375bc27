//! The search of one file or text; matcher, searcher and memory are reused for the next one.
//!
//! A small file is read at once and searched for the pattern; most files of a tree do not match, so that one read is all they cost.
//! A large file is searched in [`chunks`]; if that is impossible, it is streamed through the searcher's own buffer, which grows only
//! for a long line. So memory use does not depend on the size of the file.

use std::io::{self, Read};

use grep_matcher::{LineMatchKind, Matcher};
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use windlass_core::{Context, OpenFile};

use super::buffer::{BufferContent, FileBuffer};
use super::chunks::{self, ChunkSizes};
use super::excerpt::excerpt;
use super::first_hits::{FileHits, HitLine};
use super::query::{Mode, Query};
use crate::cut::Cutter;

/// A pattern with everything that is needed to search one file after another.
pub(super) struct Scanner<'a> {
    cx: &'a Context,
    query: &'a Query,
    matcher: RegexMatcher,
    searcher: Searcher,
    /// True if the pattern matches only inside lines, so that a whole text can be searched at once.
    matches_inside_lines: bool,
}

impl<'a> Scanner<'a> {
    /// Limit of the memory for a line, or for a file that is searched across lines.
    pub(super) const MAX_MEMORY: usize = 64 << 20;

    /// Makes a scanner for whole files.
    pub(super) fn new(cx: &'a Context, query: &'a Query) -> Self {
        Self::build(cx, query, true)
    }

    /// Makes a scanner for the middle of a file, where a byte order mark has no meaning.
    pub(super) fn for_chunks(cx: &'a Context, query: &'a Query) -> Self {
        Self::build(cx, query, false)
    }

    /// Makes a scanner; `has_marks` says whether byte order marks are recognised.
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
            .heap_limit(Some(Self::MAX_MEMORY))
            .bom_sniffing(has_marks)
            .build();
        let matches_inside_lines = matcher.line_terminator().is_some() && !query.multiline;
        Self { cx, query, matcher, searcher, matches_inside_lines }
    }

    /// Returns the hits in an open file; `None` if it has none.
    pub(super) fn search_file(
        &mut self,
        opened: &OpenFile,
        buffer: &mut FileBuffer,
    ) -> io::Result<Option<FileHits>> {
        let mut file = &opened.file;
        if opened.stat.len > FileBuffer::MAX_SMALL_FILE_BYTES as u64 {
            return match self.search_chunks(opened, ChunkSizes::default())? {
                Some(hits) => Ok(Some(hits)),
                None => self.search_reader(file).map(Some),
            };
        }
        match buffer.read(&mut file, opened.stat.len)? {
            BufferContent::Whole(text) => self.search_text(text),
            // The file has grown since its size was read.
            BufferContent::Part(start) => self.search_reader(start.chain(file)).map(Some),
        }
    }

    /// Returns the hits in a large file; `None` if it has to be searched from start to end.
    pub(super) fn search_chunks(
        &self,
        opened: &OpenFile,
        sizes: ChunkSizes,
    ) -> io::Result<Option<FileHits>> {
        let has_context = self.query.mode == Mode::Content && self.query.has_context();
        if !self.matches_inside_lines || has_context {
            return Ok(None);
        }
        chunks::search(self.cx, self.query, &opened.file, opened.stat.len, sizes)
    }

    /// Returns the hits in a kept output, which may contain any bytes.
    pub(super) fn search_kept(&mut self, text: &str) -> io::Result<FileHits> {
        self.searcher.set_binary_detection(BinaryDetection::none());
        self.search_reader(text.as_bytes())
    }

    /// Returns the hits in the bytes of a file; `None` if there are none.
    pub(super) fn search_text(&mut self, text: &[u8]) -> io::Result<Option<FileHits>> {
        if self.cannot_match(text) {
            return Ok(None);
        }
        let mut sink = HitSink::new(self.cx, self.query, &self.matcher);
        self.searcher.search_slice(&self.matcher, text, &mut sink)?;
        Ok(Some(sink.hits))
    }

    /// Returns the hits in whole lines without a NUL or byte order mark, such as a chunk of a large file.
    pub(super) fn search_lines(&mut self, lines: &[u8]) -> io::Result<FileHits> {
        if let Some(matches) = self.count(lines) {
            return Ok(FileHits { matches, ..FileHits::default() });
        }
        Ok(self.search_text(lines)?.unwrap_or_default())
    }

    /// Counts matching lines without finding the beginning of each, which is expensive if many lines match. `None` if lines are shown, or
    /// if
    /// the matcher returns candidates that only the searcher can confirm.
    fn count(&self, text: &[u8]) -> Option<usize> {
        if !self.matches_inside_lines || self.query.mode == Mode::Content {
            return None;
        }
        let max_matches = if self.query.mode == Mode::Files { 1 } else { usize::MAX };
        let (mut rest, mut count) = (text, 0);
        while count < max_matches && !rest.is_empty() {
            let end = match self.matcher.find_candidate_line(rest) {
                Ok(Some(LineMatchKind::Confirmed(end))) => end,
                Ok(None) => break,
                Ok(Some(LineMatchKind::Candidate(_))) | Err(_) => return None,
            };
            let behind = rest.get(end..)?;
            if behind.is_empty() && rest.ends_with(b"\n") {
                // The empty text behind the last line feed is not a line.
                break;
            }
            count += 1;
            rest = memchr::memchr(b'\n', behind)
                .and_then(|feed| behind.get(feed + 1..))
                .unwrap_or_default();
        }
        Some(count)
    }

    /// Returns the hits in a stream.
    pub(super) fn search_reader(&mut self, reader: impl Read) -> io::Result<FileHits> {
        let mut sink = HitSink::new(self.cx, self.query, &self.matcher);
        let reader = CancellableReader { cx: self.cx, inner: reader };
        self.searcher.search_reader(&self.matcher, reader, &mut sink)?;
        Ok(sink.hits)
    }

    /// Returns whether a single search of the bytes shows that nothing matches.
    fn cannot_match(&self, text: &[u8]) -> bool {
        self.matches_inside_lines
            && !has_byte_order_mark(text)
            && matches!(self.matcher.find_candidate_line(text), Ok(None))
    }
}

/// Returns whether a text begins with a byte order mark, so that it must be decoded first.
pub(super) fn has_byte_order_mark(text: &[u8]) -> bool {
    [&b"\xff\xfe"[..], b"\xfe\xff", b"\xef\xbb\xbf"].iter().any(|mark| text.starts_with(mark))
}

/// A reader that fails once the call is cancelled, also in the middle of a huge file.
struct CancellableReader<'a, R> {
    cx: &'a Context,
    inner: R,
}

impl<R: Read> Read for CancellableReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cx.is_cancelled() {
            return Err(io::Error::other("the call was stopped"));
        }
        self.inner.read(buffer)
    }
}

/// Collects the hits that the searcher finds in one file.
struct HitSink<'a> {
    cx: &'a Context,
    query: &'a Query,
    matcher: &'a RegexMatcher,
    hits: FileHits,
}

impl<'a> HitSink<'a> {
    fn new(cx: &'a Context, query: &'a Query, matcher: &'a RegexMatcher) -> Self {
        Self { cx, query, matcher, hits: FileHits::default() }
    }

    /// Returns whether more hits are needed and the call is not cancelled.
    fn needs_more(&self) -> bool {
        !self.query.is_enough(&self.hits) && !self.cx.is_cancelled()
    }

    /// Adds a line to the hits.
    fn push(&mut self, number: u64, is_match: bool, text: String) {
        self.hits.bytes += text.len() + size_of::<HitLine>();
        self.hits.lines.push(HitLine { number, is_match, text });
    }

    /// Returns the position of the match in a line, around which the line is cut.
    fn match_position(&self, line: &[u8]) -> usize {
        self.matcher.find(line).ok().flatten().map_or(0, |found| found.start())
    }
}

impl Sink for HitSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let first = found.line_number().unwrap_or(1);
        for (number, line) in (first..).zip(found.lines()) {
            self.hits.matches += 1;
            if self.query.mode == Mode::Content {
                let text = excerpt(line, |line| self.match_position(line), Cutter::of(self.cx));
                self.push(number, true, text);
            }
            if !self.needs_more() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        let text = excerpt(context.bytes(), |_| 0, Cutter::of(self.cx));
        self.push(context.line_number().unwrap_or(1), false, text);
        Ok(self.needs_more())
    }

    fn binary_data(&mut self, _: &Searcher, offset: u64) -> Result<bool, io::Error> {
        self.hits.binary = Some(offset);
        Ok(true)
    }
}
