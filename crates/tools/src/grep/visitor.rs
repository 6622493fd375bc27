//! The search itself, one per thread: opens what a walk finds, and searches it with buffers that are used again and again.
//!
//! A small file is read whole and held against the pattern before anything else is done; most files of a tree end there, with
//! one system call more than it took to open them. A large one goes through the searcher's own buffer, which grows only for a
//! long line, so memory does not depend on the size of the file.

use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use windlass_core::{Context, Entry, FileErrorKind, FileKind, Note, OpenFile, Visitor, Walk};

use super::excerpt::excerpt;
use super::found::{Found, Hits, Line};
use super::query::{Mode, Query};

/// What all threads of a search share.
pub(super) struct Search<'a> {
    pub(super) cx: &'a Context,
    pub(super) query: &'a Query,
    pub(super) found: Found,
    pub(super) tally: Mutex<Tally>,
}

/// What was done besides finding.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Files that were opened.
    pub(super) searched: usize,
    /// Files that were left out for a NUL in them, without having matched.
    pub(super) binary: usize,
    /// What could not be searched.
    pub(super) notes: Vec<Note>,
}

/// Searches what one thread of a walk finds.
pub(super) struct Searching<'a> {
    search: &'a Search<'a>,
    engine: Engine<'a>,
    buffer: Buffer,
    tally: Tally,
}

impl<'a> Searching<'a> {
    pub(super) fn new(search: &'a Search<'a>) -> Self {
        Self {
            search,
            engine: Engine::new(search.cx, search.query),
            buffer: Buffer::new(),
            tally: Tally::default(),
        }
    }

    fn search(&mut self, entry: &Entry<'_>) {
        let hits = match entry.opener.open() {
            Ok(opened) => {
                self.tally.searched += 1;
                let hits = self.engine.search_file(&opened, &mut self.buffer);
                hits.map_err(|error| error.to_string())
            }
            // It went away between being found and being opened.
            Err(error) if matches!(error.kind, FileErrorKind::NotFound) => return,
            Err(error) => {
                // A look, so that the answer is no longer served when it could be opened.
                drop(entry.opener.stat());
                Err(error.kind.to_string())
            }
        };
        match hits {
            Ok(Some(hits)) if hits.matches > 0 => self.search.found.add(entry.path, hits),
            Ok(Some(hits)) => self.tally.binary += usize::from(hits.binary.is_some()),
            Ok(None) => {}
            Err(why) => self.tally.notes.push(Note { path: entry.path.to_owned(), why }),
        }
    }
}

impl Visitor for Searching<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        if self.search.found.is_beyond(entry.path) {
            return Walk::Skip;
        }
        if entry.kind == FileKind::File && self.search.query.wants(entry.path) {
            self.search(entry);
        }
        Walk::Continue
    }
}

impl Drop for Searching<'_> {
    fn drop(&mut self) {
        let mut all = self.search.tally.lock().unwrap_or_else(PoisonError::into_inner);
        all.searched += self.tally.searched;
        all.binary += self.tally.binary;
        all.notes.append(&mut self.tally.notes);
    }
}

/// Pattern, searcher and buffers.
pub(super) struct Engine<'a> {
    cx: &'a Context,
    query: &'a Query,
    matcher: RegexMatcher,
    searcher: Searcher,
    /// Whether the pattern can be held against a whole text at once: it matches inside lines only.
    by_line: bool,
}

impl<'a> Engine<'a> {
    /// What a line may grow to, or a file that is searched across lines.
    const MOST_MEMORY: usize = 64 << 20;

    pub(super) fn new(cx: &'a Context, query: &'a Query) -> Self {
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
            .build();
        let by_line = matcher.line_terminator().is_some() && !query.multiline;
        Self { cx, query, matcher, searcher, by_line }
    }

    /// What is in an open file; `None` if the pattern is not in it.
    fn search_file(&mut self, opened: &OpenFile, buffer: &mut Buffer) -> io::Result<Option<Hits>> {
        let mut file = &opened.file;
        if opened.stat.len > Buffer::SIZE as u64 {
            return self.search_reader(file).map(Some);
        }
        match buffer.read(&mut file, opened.stat.len)? {
            Filled::Whole(text) => self.search_text(text),
            // It has grown since its size was asked.
            Filled::Part(start) => self.search_reader(start.chain(file)).map(Some),
        }
    }

    /// What is in a text that was kept, whatever bytes are in it.
    pub(super) fn search_kept(&mut self, text: &str) -> io::Result<Hits> {
        self.searcher.set_binary_detection(BinaryDetection::none());
        self.search_reader(text.as_bytes())
    }

    /// What is in the bytes of a file; `None` if the pattern is not in them.
    fn search_text(&mut self, text: &[u8]) -> io::Result<Option<Hits>> {
        if self.rules_out(text) {
            return Ok(None);
        }
        let mut sink = Gathering::new(self.cx, self.query, &self.matcher);
        self.searcher.search_slice(&self.matcher, text, &mut sink)?;
        Ok(Some(sink.hits))
    }

    fn search_reader(&mut self, reader: impl Read) -> io::Result<Hits> {
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
fn has_mark(text: &[u8]) -> bool {
    [&b"\xff\xfe"[..], b"\xfe\xff", b"\xef\xbb\xbf"].iter().any(|mark| text.starts_with(mark))
}

/// Room for one small file, used for one after another.
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

/// What a [`Buffer`] holds.
enum Filled<'a> {
    /// All of a file.
    Whole(&'a [u8]),
    /// Only the beginning: there is more than fits.
    Part(&'a [u8]),
}

impl Buffer {
    /// What counts as small: as much as the searcher reads at once, so that binary files are told by the same bytes either way.
    const SIZE: usize = 64 << 10;
    /// The kernel copies faster to the beginning of a page.
    const PAGE: usize = 4096;

    fn new() -> Self {
        // One byte more than is needed: a read that leaves it free has reached the end.
        let bytes = vec![0; Self::SIZE + 1 + Self::PAGE];
        let start = bytes.as_ptr().align_offset(Self::PAGE).min(Self::PAGE);
        Self { bytes, start }
    }

    /// Reads a file. One read is enough if it brings as much as `expected`.
    fn read(&mut self, file: &mut impl Read, expected: u64) -> io::Result<Filled<'_>> {
        let room = self.bytes.get_mut(self.start..=self.start + Self::SIZE).unwrap_or_default();
        let mut len = 0;
        while let Some(free) = room.get_mut(len..).filter(|free| !free.is_empty()) {
            let more = match file.read(free) {
                Ok(more) => more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            len += more;
            if more == 0 || (len as u64 == expected && len < room.len()) {
                return Ok(Filled::Whole(room.get(..len).unwrap_or_default()));
            }
        }
        Ok(Filled::Part(room))
    }
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
        let enough = match self.query.mode {
            Mode::Content => self.hits.is_enough(self.query.limit),
            Mode::Files => self.hits.matches > 0,
            Mode::Count => false,
        };
        !enough && !self.cx.is_cancelled()
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
                let text = excerpt(line, |line| self.place(line));
                self.push(number, true, text);
            }
            if !self.goes_on() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        let text = excerpt(context.bytes(), |_| 0);
        self.push(context.line_number().unwrap_or(1), false, text);
        Ok(self.goes_on())
    }

    fn binary_data(&mut self, _: &Searcher, offset: u64) -> Result<bool, io::Error> {
        self.hits.binary = Some(offset);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a text in pieces of so many bytes.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let size = self.1.min(buffer.len());
            self.0.read(&mut buffer[..size])
        }
    }

    #[test]
    fn small_files_are_read_whole_whatever_their_size_was_said_to_be() {
        let mut buffer = Buffer::new();
        for len in [0, 1, 5000, Buffer::SIZE - 1, Buffer::SIZE, Buffer::SIZE + 1, Buffer::SIZE * 2]
        {
            let text = vec![b'x'; len];
            for (expected, piece) in
                [(len, usize::MAX), (0, usize::MAX), (len, 999), (len + 7, 999)]
            {
                let mut file = Pieces(&text, piece);
                match buffer.read(&mut file, expected as u64).unwrap() {
                    Filled::Whole(read) => assert_eq!(read, text, "{len} {expected} {piece}"),
                    Filled::Part(start) => {
                        assert!(len > Buffer::SIZE, "{len} {expected} {piece}");
                        assert_eq!(start.len() + file.0.len(), len);
                    }
                }
            }
        }
    }
}
