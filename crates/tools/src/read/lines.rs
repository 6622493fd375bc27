//! Lines of a file of any size: found fast, read in a bounded amount of memory.
//!
//! A file is read in large aligned blocks, whose line feeds are counted, not looked at. A sparse [`LineIndex`] keeps the
//! count before every so many blocks, so that the next look at the same file starts near its goal. Nothing here decodes: a
//! line is bytes.

use std::io::{self, Read, Seek, SeekFrom};

use crate::encoding::LineFeed;

/// How much is read at once: enough for a system call to cost nothing, little enough to stay in the processor's cache.
pub(crate) const BLOCK: usize = 256 << 10;

/// Where blocks begin in memory. A copy from the page cache to an address of another page offset is several times slower on
/// some machines.
const ALIGNMENT: usize = 4096;

/// How many bytes of one line are kept; the rest is counted and passed over.
pub(crate) const MAX_LINE: usize = 8 << 10;

/// How many counts an index holds before it keeps every second one only.
const MAX_COUNTS: usize = 4096;

/// Why lines could not be read.
#[derive(Debug)]
pub(crate) enum LinesError {
    /// The machine refused.
    Io(io::Error),
    /// The call was stopped.
    Cancelled,
}

impl From<io::Error> for LinesError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// How many line feeds come before certain places of a file, and how many lines it has if that is known.
#[derive(Debug, Clone)]
pub(crate) struct LineIndex {
    /// How many blocks lie between two counts.
    stride: u64,
    /// Line feeds before block `0`, `stride`, `2 * stride` …
    before: Vec<u64>,
    total: Option<u64>,
}

impl Default for LineIndex {
    fn default() -> Self {
        Self { stride: 1, before: vec![0], total: None }
    }
}

impl LineIndex {
    /// The last known block that begins before the line does, and how many line feeds come before it.
    fn nearest(&self, line: u64) -> (u64, u64) {
        let at = self.before.partition_point(|count| *count < line).saturating_sub(1);
        (at as u64 * self.stride, self.before.get(at).copied().unwrap_or(0))
    }

    /// Notes the line feeds before a block, if it is the next one to note.
    fn note(&mut self, block: u64, line_feeds: u64) {
        if block != self.before.len() as u64 * self.stride {
            return;
        }
        self.before.push(line_feeds);
        if self.before.len() > MAX_COUNTS {
            let mut keep = false;
            self.before.retain(|_| {
                keep = !keep;
                keep
            });
            self.stride *= 2;
        }
    }
}

/// One line, without what ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// Its first [`MAX_LINE`] bytes.
    pub(crate) bytes: &'a [u8],
    /// How many bytes it has in all.
    pub(crate) len: u64,
    /// Whether a line feed ends it: the last line of a file may have none.
    pub(crate) closed: bool,
}

/// Goes through the lines of a file.
pub(crate) struct LineReader<'a, R> {
    blocks: Blocks<R>,
    index: &'a mut LineIndex,
    line_feed: LineFeed,
    cancelled: &'a dyn Fn() -> bool,
    /// How many bytes at the beginning of the file are no text.
    mark: usize,
    /// Where in the present block the next line begins.
    at: usize,
    /// The number of the next line, counted from 0.
    line: u64,
    /// Whether the bytes before `at` end in the middle of a line.
    open: bool,
    /// A line that begins in one block and ends in another.
    carried: Vec<u8>,
}

impl<'a, R: Read + Seek> LineReader<'a, R> {
    /// Begins before the first line, which begins after `mark` bytes.
    pub(crate) fn new(
        blocks: Blocks<R>,
        index: &'a mut LineIndex,
        line_feed: LineFeed,
        mark: usize,
        cancelled: &'a dyn Fn() -> bool,
    ) -> Self {
        Self {
            blocks,
            index,
            line_feed,
            cancelled,
            mark,
            at: mark,
            line: 0,
            open: false,
            carried: Vec::new(),
        }
    }

    /// Goes to where a line begins, counted from 0; to the end of the file if it has no such line.
    pub(crate) fn seek(&mut self, line: u64) -> Result<(), LinesError> {
        let (block, line_feeds) = self.index.nearest(line);
        self.load(block)?;
        self.line = line_feeds;
        self.open = block > 0;
        self.at = if block == 0 { self.mark.min(self.blocks.bytes().len()) } else { 0 };
        while self.line < line {
            self.skip_in_block(line - self.line);
            if self.line < line && !self.next_block()? {
                break;
            }
        }
        Ok(())
    }

    /// The next line, or `None` at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>, LinesError> {
        self.carried.clear();
        let mut len = 0u64;
        loop {
            let rest = self.blocks.bytes().get(self.at..).unwrap_or_default();
            if let Some(end) = self.line_feed.first(rest) {
                return Ok(Some(self.finish(len, end)));
            }
            if !rest.is_empty() {
                let room = MAX_LINE.saturating_sub(self.carried.len());
                self.carried.extend_from_slice(rest.get(..room).unwrap_or(rest));
                len += rest.len() as u64;
                self.open = true;
            }
            if !self.next_block()? {
                break;
            }
        }
        if len == 0 {
            return Ok(None);
        }
        self.line += 1;
        self.open = false;
        Ok(Some(Line { bytes: &self.carried, len, closed: false }))
    }

    /// Counts to the end of the file, but gives up after so many bytes; the number of lines if it is known now.
    pub(crate) fn count_rest(&mut self, max_bytes: u64) -> Result<Option<u64>, LinesError> {
        let mut left = max_bytes;
        while self.index.total.is_none() {
            let rest = self.blocks.bytes().get(self.at..).unwrap_or_default();
            if rest.len() as u64 > left {
                return Ok(None);
            }
            left -= rest.len() as u64;
            self.skip_in_block(u64::MAX);
            self.next_block()?;
        }
        Ok(self.index.total)
    }

    /// The number of the next line, counted from 0.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// How many bytes of the file were passed.
    pub(crate) fn offset(&self) -> u64 {
        self.blocks.offset() + self.at as u64
    }

    /// Ends a line `end` bytes further on, of which `carried` bytes came in earlier blocks.
    fn finish(&mut self, carried: u64, end: usize) -> Line<'_> {
        let text = end - self.line_feed.width();
        let from = self.at;
        self.at += end;
        self.line += 1;
        self.open = false;
        let here = self.blocks.bytes().get(from..from + text).unwrap_or_default();
        let len = carried + text as u64;
        if carried == 0 {
            let bytes = here.get(..MAX_LINE).unwrap_or(here);
            return Line { bytes, len, closed: true };
        }
        let room = MAX_LINE.saturating_sub(self.carried.len());
        self.carried.extend_from_slice(here.get(..room).unwrap_or(here));
        Line { bytes: &self.carried, len, closed: true }
    }

    /// Passes over as many line feeds as are wanted, or all that the block has.
    fn skip_in_block(&mut self, wanted: u64) {
        let rest = self.blocks.bytes().get(self.at..).unwrap_or_default();
        let count = self.line_feed.count(rest);
        if count < wanted {
            self.open =
                if rest.is_empty() { self.open } else { !self.line_feed.ends_with_line_feed(rest) };
            self.line += count;
            self.at += rest.len();
            return;
        }
        let nth = usize::try_from(wanted.saturating_sub(1)).unwrap_or(usize::MAX);
        let end = self.line_feed.nth(rest, nth).unwrap_or(rest.len());
        self.at += end;
        self.line += wanted;
        self.open = false;
    }

    /// Goes on to the next block; false at the end of the file, whose number of lines is then known.
    fn next_block(&mut self) -> Result<bool, LinesError> {
        let full = self.blocks.is_full();
        let next = self.blocks.block + 1;
        if full {
            self.load(next)?;
        }
        if full && !self.blocks.bytes().is_empty() {
            self.at = 0;
            self.index.note(next, self.line);
            return Ok(true);
        }
        self.at = self.blocks.bytes().len();
        self.index.total.get_or_insert(self.line + u64::from(self.open));
        Ok(false)
    }

    fn load(&mut self, block: u64) -> Result<(), LinesError> {
        if (self.cancelled)() {
            return Err(LinesError::Cancelled);
        }
        Ok(self.blocks.load(block)?)
    }
}

/// The blocks of a file, one at a time, in one buffer.
pub(crate) struct Blocks<R> {
    source: R,
    /// The bytes that the file is said to have.
    len: u64,
    /// How many bytes a block has.
    size: usize,
    buffer: Vec<u8>,
    /// Where in the buffer a page begins.
    start: usize,
    filled: usize,
    /// The block that the buffer holds.
    block: u64,
    loaded: bool,
}

impl<R: Read + Seek> Blocks<R> {
    /// For a file that is said to have so many bytes; it may have more or fewer.
    pub(crate) fn new(source: R, len: u64) -> Self {
        Self::of_size(BLOCK, source, len)
    }

    fn of_size(size: usize, source: R, len: u64) -> Self {
        // One byte more than the file has, so that its end is seen by the first read.
        let room = usize::try_from(len.saturating_add(1)).unwrap_or(size).min(size);
        let mut blocks = Self {
            source,
            len,
            size,
            buffer: Vec::new(),
            start: 0,
            filled: 0,
            block: 0,
            loaded: false,
        };
        blocks.make_room(room);
        blocks
    }

    /// What the present block holds: it is short only at the end of the file.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.start + self.filled).unwrap_or_default()
    }

    /// The file, at no place in particular.
    pub(crate) fn into_source(self) -> R {
        self.source
    }

    /// Reads the first block of a file that may stand anywhere.
    pub(crate) fn rewind(&mut self) -> io::Result<()> {
        self.source.rewind()?;
        self.load(0)
    }

    /// Reads a block, unless it is there already.
    pub(crate) fn load(&mut self, block: u64) -> io::Result<()> {
        if self.loaded && self.block == block {
            return Ok(());
        }
        let in_sequence =
            if self.loaded { block == self.block + 1 && self.is_full() } else { block == 0 };
        if !in_sequence {
            self.source.seek(SeekFrom::Start(block * self.size as u64))?;
        }
        (self.block, self.filled, self.loaded) = (block, 0, true);
        self.fill()
    }

    fn fill(&mut self) -> io::Result<()> {
        while !self.is_full() {
            if self.start + self.filled == self.buffer.len() {
                self.make_room(self.size);
            }
            let room = self.buffer.get_mut(self.start + self.filled..).unwrap_or_default();
            let asked = room.len();
            match self.source.read(room) {
                Ok(0) => break,
                Ok(count) => {
                    self.filled += count;
                    // It ended where it was said to end: a second look would find nothing more.
                    if count < asked && self.offset() + self.filled as u64 == self.len {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.filled == self.size
    }

    /// Where in the file the present block begins.
    fn offset(&self) -> u64 {
        self.block * self.size as u64
    }

    /// Makes a buffer of `room` bytes that begins at a page if it is larger than one, and keeps what was read.
    fn make_room(&mut self, room: usize) {
        let alignment = if room > ALIGNMENT { ALIGNMENT } else { 1 };
        let mut buffer = vec![0; room + alignment];
        let start = buffer.as_ptr().align_offset(alignment).min(alignment);
        buffer.truncate(start + room);
        if let Some(kept) = buffer.get_mut(start..start + self.filled) {
            kept.copy_from_slice(self.bytes());
        }
        (self.buffer, self.start) = (buffer, start);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    /// Lines `first..first + count`, whether each is closed, and the number of lines if it came out.
    fn read(
        index: &mut LineIndex,
        block: usize,
        text: &[u8],
        first: u64,
        count: usize,
    ) -> (Vec<(Vec<u8>, bool)>, Option<u64>) {
        let blocks = Blocks::of_size(block, Cursor::new(text), text.len() as u64);
        let mut reader = LineReader::new(blocks, index, LineFeed::Byte, 0, &|| false);
        reader.seek(first).unwrap();
        let mut lines = Vec::new();
        while lines.len() < count
            && let Some(line) = reader.next().unwrap()
        {
            assert_eq!(line.len, line.bytes.len() as u64);
            lines.push((line.bytes.to_vec(), line.closed));
        }
        let total = reader.count_rest(0).unwrap();
        (lines, total)
    }

    fn expected(text: &[u8]) -> Vec<(Vec<u8>, bool)> {
        text.split_inclusive(|byte| *byte == b'\n')
            .map(|line| match line.strip_suffix(b"\n") {
                Some(line) => (line.to_vec(), true),
                None => (line.to_vec(), false),
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn any_range_of_any_text_is_exact_with_any_index(
            text in "[a\n]{0,120}",
            block in 1usize..24,
            ranges in proptest::collection::vec((0u64..60, 0usize..30), 1..6),
        ) {
            let all = expected(text.as_bytes());
            let mut index = LineIndex::default();
            for (first, count) in ranges {
                let (lines, total) = read(&mut index, block, text.as_bytes(), first, count);
                let wanted: Vec<_> =
                    all.iter().skip(usize::try_from(first).unwrap()).take(count).cloned().collect();
                prop_assert_eq!(lines, wanted);
                prop_assert!(total.is_none_or(|total| total == all.len() as u64));
            }
            let blocks = Blocks::of_size(block, Cursor::new(text.as_bytes()), 0);
            let mut reader = LineReader::new(blocks, &mut index, LineFeed::Byte, 0, &|| false);
            reader.seek(0).unwrap();
            prop_assert_eq!(reader.count_rest(u64::MAX).unwrap(), Some(all.len() as u64));
        }
    }

    #[test]
    fn an_index_stays_small_and_right() {
        let text = b"ab\ncdefg\n".repeat(40_000);
        let mut index = LineIndex::default();
        read(&mut index, 16, &text, 79_999, 1);
        assert!(index.before.len() <= MAX_COUNTS && index.stride > 1, "{}", index.before.len());
        for line in [0u64, 1, 7, 39_999, 79_998] {
            let expected: &[u8] = if line % 2 == 0 { b"ab" } else { b"cdefg" };
            let (lines, _) = read(&mut index, 16, &text, line, 1);
            assert_eq!(lines, [(expected.to_vec(), true)]);
        }
    }

    #[test]
    fn an_endless_line_takes_little_memory() {
        let text = [vec![b'x'; 3 << 20], b"\nnext".to_vec()].concat();
        let mut index = LineIndex::default();
        let blocks = Blocks::new(Cursor::new(&text), text.len() as u64);
        let mut reader = LineReader::new(blocks, &mut index, LineFeed::Byte, 0, &|| false);
        reader.seek(0).unwrap();
        let line = reader.next().unwrap().unwrap();
        assert_eq!((line.bytes.len(), line.len, line.closed), (MAX_LINE, 3 << 20, true));
        assert_eq!(reader.next().unwrap().unwrap().bytes, b"next");
        assert_eq!(reader.next().unwrap(), None);
    }

    #[test]
    fn a_stopped_call_reads_no_further() {
        let mut index = LineIndex::default();
        let blocks = Blocks::new(Cursor::new(b"a\n"), 2);
        let mut reader = LineReader::new(blocks, &mut index, LineFeed::Byte, 0, &|| true);
        assert!(matches!(reader.seek(0), Err(LinesError::Cancelled)));
    }

    #[test]
    fn blocks_begin_at_a_page() {
        for len in [0, 1, 5_000, 1 << 20] {
            let mut blocks = Blocks::new(Cursor::new(vec![b'x'; BLOCK + 1]), len);
            blocks.load(0).unwrap();
            assert_eq!(blocks.bytes().as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!(blocks.bytes().len(), BLOCK);
        }
    }
}
