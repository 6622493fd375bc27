//! Lines of a file of any size: found fast, and read with bounded memory.
//!
//! A file is read in large aligned blocks, in which line feeds are counted. A sparse [`LineIndex`] stores the count before every few
//! blocks, so that the next read of the same file starts near its goal. Nothing is decoded here: a line consists of
//! bytes.

use std::io::{self, Read, Seek, SeekFrom};

use crate::encoding::LineFeed;

/// Number of bytes per read: large enough to make the system call cheap, small enough for the processor's cache.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;

/// Alignment of blocks in memory. A copy from the page cache to an address with another page offset is several times slower on
/// some machines.
const ALIGNMENT: usize = 4096;

/// Number of bytes of a line that are kept; the rest is only counted.
pub(crate) const MAX_LINE_BYTES: usize = 8 << 10;

/// Limit of the counts in an index; above it, every second one is dropped.
const MAX_COUNTS: usize = 4096;

/// Reason for which lines could not be read.
#[derive(Debug)]
pub(crate) enum LinesError {
    /// A system call failed.
    Io(io::Error),
    /// The call was cancelled.
    Cancelled,
}

impl From<io::Error> for LinesError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Numbers of line feeds before certain blocks of a file, and the number of its lines if it is known.
#[derive(Debug, Clone)]
pub(crate) struct LineIndex {
    /// Number of blocks between two counts.
    stride: u64,
    /// Numbers of line feeds before block `0`, `stride`, `2 * stride` …
    before: Vec<u64>,
    /// Number of lines of the file, if it is known.
    total: Option<u64>,
}

impl Default for LineIndex {
    fn default() -> Self {
        Self { stride: 1, before: vec![0], total: None }
    }
}

impl LineIndex {
    /// Returns the last indexed block that begins before a line, and the number of line feeds before that block.
    fn nearest_block(&self, line: u64) -> (u64, u64) {
        let at = self.before.partition_point(|count| *count < line).saturating_sub(1);
        (at as u64 * self.stride, self.before.get(at).copied().unwrap_or(0))
    }

    /// Stores the number of line feeds before a block, if it is the next block of the index.
    fn add_count(&mut self, block: u64, line_feeds: u64) {
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

/// One line, without its ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileLine<'a> {
    /// First [`MAX_LINE_BYTES`] bytes of the line.
    pub(crate) bytes: &'a [u8],
    /// Number of bytes of the whole line.
    pub(crate) len: u64,
    /// True if a line feed ends the line; the last line of a file may have none.
    pub(crate) closed: bool,
}

/// Reads the lines of a file one after another.
pub(crate) struct LineReader<'a, R> {
    blocks: BlockReader<R>,
    index: &'a mut LineIndex,
    line_feed: LineFeed,
    cancelled: &'a dyn Fn() -> bool,
    /// Length of the byte order mark at the start of the file.
    mark: usize,
    /// Position of the next line in the present block.
    at: usize,
    /// Number of the next line, counted from 0.
    line: u64,
    /// True if the bytes before `at` end in the middle of a line.
    open: bool,
    /// Start of a line that continues in the next block.
    carried: Vec<u8>,
}

impl<'a, R: Read + Seek> LineReader<'a, R> {
    /// Makes a reader before the first line, which begins after `mark` bytes.
    pub(crate) fn new(
        blocks: BlockReader<R>,
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

    /// Moves to the start of a line, counted from 0; to the end of the file if there is no such line.
    pub(crate) fn seek(&mut self, line: u64) -> Result<(), LinesError> {
        let (block, line_feeds) = self.index.nearest_block(line);
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

    /// Reads the next line; `None` at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<FileLine<'_>>, LinesError> {
        self.carried.clear();
        let mut len = 0u64;
        loop {
            let rest = self.blocks.bytes().get(self.at..).unwrap_or_default();
            if let Some(end) = self.line_feed.first(rest) {
                return Ok(Some(self.finish(len, end)));
            }
            if !rest.is_empty() {
                let room = MAX_LINE_BYTES.saturating_sub(self.carried.len());
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
        Ok(Some(FileLine { bytes: &self.carried, len, closed: false }))
    }

    /// Counts lines up to the end of the file, but at most `max_bytes` bytes. Returns the number of lines of the file if it is known then.
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

    /// Returns the number of the next line, counted from 0.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// Returns the number of bytes of the file before the present position.
    pub(crate) fn offset(&self) -> u64 {
        self.blocks.offset() + self.at as u64
    }

    /// Ends a line at `end` bytes from here, of which `carried` bytes were in earlier blocks.
    fn finish(&mut self, carried: u64, end: usize) -> FileLine<'_> {
        let text = end - self.line_feed.width();
        let from = self.at;
        self.at += end;
        self.line += 1;
        self.open = false;
        let here = self.blocks.bytes().get(from..from + text).unwrap_or_default();
        let len = carried + text as u64;
        if carried == 0 {
            let bytes = here.get(..MAX_LINE_BYTES).unwrap_or(here);
            return FileLine { bytes, len, closed: true };
        }
        let room = MAX_LINE_BYTES.saturating_sub(self.carried.len());
        self.carried.extend_from_slice(here.get(..room).unwrap_or(here));
        FileLine { bytes: &self.carried, len, closed: true }
    }

    /// Skips `wanted` line feeds, or all that the block has.
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

    /// Loads the next block. Returns false at the end of the file, whose number of lines is then known.
    fn next_block(&mut self) -> Result<bool, LinesError> {
        let full = self.blocks.is_full();
        let next = self.blocks.block + 1;
        if full {
            self.load(next)?;
        }
        if full && !self.blocks.bytes().is_empty() {
            self.at = 0;
            self.index.add_count(next, self.line);
            return Ok(true);
        }
        self.at = self.blocks.bytes().len();
        self.index.total.get_or_insert(self.line + u64::from(self.open));
        Ok(false)
    }

    /// Loads a block, unless the call was cancelled.
    fn load(&mut self, block: u64) -> Result<(), LinesError> {
        if (self.cancelled)() {
            return Err(LinesError::Cancelled);
        }
        Ok(self.blocks.load(block)?)
    }
}

/// Reads a file block by block into one buffer.
pub(crate) struct BlockReader<R> {
    source: R,
    /// Expected number of bytes of the file.
    len: u64,
    /// Number of bytes of a block.
    size: usize,
    buffer: Vec<u8>,
    /// Position in the buffer at which a memory page begins.
    start: usize,
    /// Number of bytes of the block that are in the buffer.
    filled: usize,
    /// Number of the block that is in the buffer.
    block: u64,
    loaded: bool,
}

impl<R: Read + Seek> BlockReader<R> {
    /// Makes a reader for a file with an expected number of bytes; the file may have more or fewer.
    pub(crate) fn new(source: R, len: u64) -> Self {
        Self::of_size(BLOCK_BYTES, source, len)
    }

    /// Makes a reader with blocks of this size.
    fn of_size(size: usize, source: R, len: u64) -> Self {
        // One byte more than the file has, so that the first read reaches its end.
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
        blocks.grow_buffer(room);
        blocks
    }

    /// Returns the bytes of the present block, which is short only at the end of the file.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.start + self.filled).unwrap_or_default()
    }

    /// Returns the file, at an unspecified position.
    pub(crate) fn into_source(self) -> R {
        self.source
    }

    /// Reads the first block, wherever the file is positioned.
    pub(crate) fn rewind(&mut self) -> io::Result<()> {
        self.source.rewind()?;
        self.load(0)
    }

    /// Reads a block, unless it is already in the buffer.
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

    /// Reads until the block is full or the file ends.
    fn fill(&mut self) -> io::Result<()> {
        while !self.is_full() {
            if self.start + self.filled == self.buffer.len() {
                self.grow_buffer(self.size);
            }
            let room = self.buffer.get_mut(self.start + self.filled..).unwrap_or_default();
            let asked = room.len();
            match self.source.read(room) {
                Ok(0) => break,
                Ok(count) => {
                    self.filled += count;
                    // The file ended where it was expected to end: another read would return nothing.
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

    /// Returns whether the whole block is in the buffer.
    fn is_full(&self) -> bool {
        self.filled == self.size
    }

    /// Returns the position of the present block in the file.
    fn offset(&self) -> u64 {
        self.block * self.size as u64
    }

    /// Makes a buffer of `room` bytes, page-aligned if it is larger than a page, and copies the bytes read so far.
    fn grow_buffer(&mut self, room: usize) {
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

    /// Reads lines `first..first + count`. Returns each with its line feed flag, and the number of lines of the file if it was found.
    fn read(
        index: &mut LineIndex,
        block: usize,
        text: &[u8],
        first: u64,
        count: usize,
    ) -> (Vec<(Vec<u8>, bool)>, Option<u64>) {
        let blocks = BlockReader::of_size(block, Cursor::new(text), text.len() as u64);
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

    /// Splits a text into lines, each with its line feed flag.
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
        fn any_line_range_is_exact_with_any_index(
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
            let blocks = BlockReader::of_size(block, Cursor::new(text.as_bytes()), 0);
            let mut reader = LineReader::new(blocks, &mut index, LineFeed::Byte, 0, &|| false);
            reader.seek(0).unwrap();
            prop_assert_eq!(reader.count_rest(u64::MAX).unwrap(), Some(all.len() as u64));
        }
    }

    #[test]
    fn index_stays_small_and_correct() {
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
        let blocks = BlockReader::new(Cursor::new(&text), text.len() as u64);
        let mut reader = LineReader::new(blocks, &mut index, LineFeed::Byte, 0, &|| false);
        reader.seek(0).unwrap();
        let line = reader.next().unwrap().unwrap();
        assert_eq!((line.bytes.len(), line.len, line.closed), (MAX_LINE_BYTES, 3 << 20, true));
        assert_eq!(reader.next().unwrap().unwrap().bytes, b"next");
        assert_eq!(reader.next().unwrap(), None);
    }

    #[test]
    fn cancelled_call_stops_reading() {
        let mut index = LineIndex::default();
        let blocks = BlockReader::new(Cursor::new(b"a\n"), 2);
        let mut reader = LineReader::new(blocks, &mut index, LineFeed::Byte, 0, &|| true);
        assert!(matches!(reader.seek(0), Err(LinesError::Cancelled)));
    }

    #[test]
    fn blocks_are_page_aligned() {
        for len in [0, 1, 5_000, 1 << 20] {
            let mut blocks = BlockReader::new(Cursor::new(vec![b'x'; BLOCK_BYTES + 1]), len);
            blocks.load(0).unwrap();
            assert_eq!(blocks.bytes().as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!(blocks.bytes().len(), BLOCK_BYTES);
        }
    }
}
