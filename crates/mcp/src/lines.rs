//! Splits bytes into lines, with a maximum length.
//!
//! A line that is complete in the read buffer is returned from there; only a line that continues is copied. A line that is too long
//! is reported as soon as that is certain, and the rest of it is skipped without being stored.

use std::io;
use std::ops::Range;

use memchr::memchr;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes of one read: the capacity of a pipe.
const BLOCK_BYTES: usize = 64 * 1024;

/// Alignment of the read buffer. Reads into page-aligned memory are several times faster on some machines.
const PAGE_BYTES: usize = 4096;

/// Maximum capacity that the buffer for continued lines keeps for the next one.
const MAX_KEPT_BYTES: usize = 1024 * 1024;

/// Reads lines from a stream.
pub(crate) struct Lines<R> {
    input: R,
    longest: usize,
    block: Vec<u8>,
    /// Offset of the first page boundary in the block.
    base: usize,
    /// Range of the block that was read and not yet searched.
    unread: Range<usize>,
    /// Beginning of a line that continues in the next block.
    begun: Vec<u8>,
    /// True if `begun` was returned as a line and is to be cleared.
    handed_out: bool,
    /// True while the rest of a line that was too long is skipped.
    skipping: bool,
}

/// One line, without its line end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    Whole(&'a [u8]),
    TooLong,
}

/// Location of a found line: in the block, in `begun`, or too long.
enum FoundLine {
    InBlock(Range<usize>),
    Begun,
    TooLong,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Creates a reader of lines of at most `longest` bytes.
    pub(crate) fn new(input: R, longest: usize) -> Self {
        let block = vec![0; BLOCK_BYTES + PAGE_BYTES];
        let base = block.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
        Self {
            input,
            longest,
            block,
            base,
            unread: base..base,
            begun: Vec::new(),
            handed_out: false,
            skipping: false,
        }
    }

    /// Returns the maximum bytes of a line.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Returns the next line; `None` at the end. Bytes after the last line end are a line, too. Dropping the future loses no data.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.forget_handed_out();
        let found = loop {
            if let Some(found) = self.find() {
                break found;
            }
            let space = self.base..self.base + BLOCK_BYTES;
            let read = self.input.read(self.block.get_mut(space).unwrap_or_default()).await?;
            self.unread = self.base..self.base + read;
            if read == 0 {
                if self.begun.is_empty() {
                    return Ok(None);
                }
                break FoundLine::Begun;
            }
        };
        Ok(Some(match found {
            FoundLine::InBlock(range) => Line::Whole(self.block.get(range).unwrap_or_default()),
            FoundLine::Begun => {
                self.handed_out = true;
                Line::Whole(&self.begun)
            }
            FoundLine::TooLong => Line::TooLong,
        }))
    }

    /// Finds the next line in the block; stores the beginning of a line that does not end there.
    fn find(&mut self) -> Option<FoundLine> {
        while !self.unread.is_empty() {
            let start = self.unread.start;
            let unread = self.block.get(self.unread.clone()).unwrap_or_default();
            let Some(len) = memchr(b'\n', unread) else {
                self.unread = self.base..self.base;
                let too_long = !self.skipping && !append(&mut self.begun, unread, self.longest);
                self.skipping |= too_long;
                return too_long.then_some(FoundLine::TooLong);
            };
            self.unread.start += len + 1;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if self.begun.is_empty() {
                let whole = len <= self.longest;
                return Some(if whole {
                    FoundLine::InBlock(start..start + len)
                } else {
                    FoundLine::TooLong
                });
            }
            let whole =
                append(&mut self.begun, unread.get(..len).unwrap_or_default(), self.longest);
            return Some(if whole { FoundLine::Begun } else { FoundLine::TooLong });
        }
        None
    }

    /// Clears `begun` after it was returned as a line.
    fn forget_handed_out(&mut self) {
        if std::mem::take(&mut self.handed_out) {
            self.begun.clear();
            self.begun.shrink_to(MAX_KEPT_BYTES);
        }
    }
}

/// Appends to a line. Drops the line and returns false if it gets too long.
fn append(line: &mut Vec<u8>, more: &[u8], longest: usize) -> bool {
    if line.len() + more.len() > longest {
        *line = Vec::new();
        return false;
    }
    line.extend_from_slice(more);
    true
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use proptest::prelude::*;
    use tokio::io::ReadBuf;

    use super::*;

    /// A stream that yields its bytes in pieces of the given sizes, and is not ready in between.
    struct Pieces {
        bytes: Vec<u8>,
        at: usize,
        sizes: Vec<usize>,
        ready: bool,
    }

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            out: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.ready = !self.ready;
            if !self.ready {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let size = self.sizes.pop().unwrap_or(BLOCK_BYTES).min(out.remaining()).max(1);
            let end = (self.at + size).min(self.bytes.len());
            out.put_slice(&self.bytes[self.at..end]);
            self.at = end;
            Poll::Ready(Ok(()))
        }
    }

    fn lines_of(bytes: &[u8], sizes: Vec<usize>, longest: usize) -> Vec<Option<Vec<u8>>> {
        let input = Pieces { bytes: bytes.to_vec(), at: 0, sizes, ready: false };
        let mut lines = Lines::new(input, longest);
        let mut found = Vec::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            while let Some(line) = lines.next().await.unwrap() {
                found.push(match line {
                    Line::Whole(line) => Some(line.to_vec()),
                    Line::TooLong => None,
                });
            }
        });
        found
    }

    /// Computes the expected lines in the simplest way.
    fn split(bytes: &[u8], longest: usize) -> Vec<Option<Vec<u8>>> {
        let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        lines.pop_if(|last| last.is_empty());
        lines.into_iter().map(|line| (line.len() <= longest).then(|| line.to_vec())).collect()
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_they_arrive(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), Just(b'b')], 0..200),
            sizes in prop::collection::vec(1_usize..20, 0..100),
            longest in 0_usize..30,
        ) {
            prop_assert_eq!(lines_of(&bytes, sizes, longest), split(&bytes, longest));
        }
    }

    #[test]
    fn lines_longer_than_a_block_are_put_together() {
        let mut bytes = vec![b'x'; 3 * BLOCK_BYTES];
        bytes.extend_from_slice(b"\nshort\n");
        let whole = lines_of(&bytes, Vec::new(), 4 * BLOCK_BYTES);
        assert_eq!(whole.iter().flatten().map(Vec::len).collect::<Vec<_>>(), [3 * BLOCK_BYTES, 5]);
        assert_eq!(lines_of(&bytes, Vec::new(), 2 * BLOCK_BYTES), [None, Some(b"short".to_vec())]);
    }
}
