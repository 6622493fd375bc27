//! The output of a program, of any length: the beginning and the end are kept, the bytes between are counted.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Maximum bytes of the beginning that are kept in a file.
const MAX_HEAD_IN_FILE: u64 = 60 << 20;
/// Maximum bytes of the beginning that are kept in memory if there is no file.
const MAX_HEAD_IN_MEMORY: u64 = 1 << 20;
/// Minimum bytes of the end that are kept, in memory.
const MIN_TAIL: usize = 4 << 20;

/// The output of a program.
///
/// ```
/// use windlass_core::Transcript;
/// let mut transcript = Transcript::default();
/// transcript.push(b"one\ntwo\n");
/// assert_eq!(transcript.since(4, 100).bytes, b"two\n");
/// ```
#[derive(Debug)]
pub struct Transcript {
    /// The first bytes that have left the tail.
    head: Head,
    /// Number of bytes in the head.
    head_len: u64,
    /// The last bytes: at least `min_tail` of them once so many are printed, at most twice as many.
    tail: Vec<u8>,
    /// The number of last bytes that are kept in any case.
    min_tail: usize,
    /// Number of bytes printed.
    total: u64,
    /// Number of line ends printed.
    lines: u64,
}

/// Storage of the beginning. The file is made when it is needed, since most programs print too little.
enum Head {
    Wanted(Box<dyn FnOnce() -> io::Result<File> + Send + Sync>),
    File(File),
    Memory(Vec<u8>),
}

impl Default for Head {
    fn default() -> Self {
        Self::Memory(Vec::new())
    }
}

impl Head {
    /// Makes the file if it is still wanted. Falls back to memory if that fails.
    fn make_wanted_file(&mut self) {
        *self = match std::mem::take(self) {
            Self::Wanted(make) => make().map_or_else(|_| Self::default(), Self::File),
            other => other,
        };
    }
}
/// Counts line ends. Sums them in a byte, for up to 255 bytes at a time, so that the compiler can vectorize the loop.
fn count_line_ends(bytes: &[u8]) -> u64 {
    let in_one = |part: &[u8]| part.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>();
    bytes.chunks(usize::from(u8::MAX)).map(|part| u64::from(in_one(part))).sum()
}

/// A part of a transcript.
///
/// ```
/// use windlass_core::{TranscriptPiece, Transcript};
/// let mut transcript = Transcript::default();
/// transcript.push(b"hello");
/// assert_eq!(transcript.since(0, 4), TranscriptPiece { missed: 0, bytes: b"hell".to_vec(), next: 4 });
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct TranscriptPiece {
    /// Number of bytes that should come first and are not kept any more.
    pub missed: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The offset of the byte after these.
    pub next: u64,
}

impl Default for Transcript {
    fn default() -> Self {
        let (head, tail) = (Head::default(), Vec::new());
        Self { head, head_len: 0, tail, min_tail: MIN_TAIL, total: 0, lines: 0 }
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wanted(_) => "Wanted",
            Self::File(_) => "File",
            Self::Memory(_) => "Memory",
        })
    }
}

impl Transcript {
    /// Makes an empty transcript that calls `make` for a file when it gets long.
    ///
    /// ```
    /// use windlass_core::Transcript;
    /// let mut transcript = Transcript::with_scratch(tempfile::tempfile);
    /// transcript.push(&vec![b'x'; 20 << 20]);
    /// assert_eq!(transcript.dropped(), 0);
    /// ```
    pub fn with_scratch(make: impl FnOnce() -> io::Result<File> + Send + Sync + 'static) -> Self {
        Self { head: Head::Wanted(Box::new(make)), ..Self::default() }
    }

    /// Appends output.
    pub fn push(&mut self, bytes: &[u8]) {
        let (over, new) = bytes.split_at(bytes.len().saturating_sub(2 * self.min_tail));
        // The kept bytes are moved to the front only after as many new ones have come, so that each byte is moved once at most.
        if self.tail.len() + bytes.len() > 2 * self.min_tail {
            let keep = self.min_tail.saturating_sub(bytes.len()).min(self.tail.len());
            let mut tail = std::mem::take(&mut self.tail);
            let leaving = tail.drain(..tail.len() - keep);
            self.extend_head(leaving.as_slice(), self.total - (leaving.len() + keep) as u64);
            drop(leaving);
            self.tail = tail;
            self.extend_head(over, self.total);
        }
        self.total += bytes.len() as u64;
        self.lines += count_line_ends(bytes);
        self.tail.extend_from_slice(new);
    }

    /// Appends bytes that left the tail, if all bytes before offset `at` are in the head and there is room.
    fn extend_head(&mut self, bytes: &[u8], at: u64) {
        if at != self.head_len || bytes.is_empty() {
            return;
        }
        self.head.make_wanted_file();
        let limit = match self.head {
            Head::File(_) => MAX_HEAD_IN_FILE,
            Head::Memory(_) | Head::Wanted(_) => MAX_HEAD_IN_MEMORY,
        };
        let min_tail = usize::try_from(limit.saturating_sub(self.head_len)).unwrap_or(0);
        let bytes = bytes.get(..min_tail.min(bytes.len())).unwrap_or_default();
        let is_kept = match &mut self.head {
            Head::File(file) => file.write_all_at(bytes, self.head_len).is_ok(),
            Head::Memory(head) => {
                head.extend_from_slice(bytes);
                true
            }
            Head::Wanted(_) => false,
        };
        // A full disk loses only the middle of a long output.
        if is_kept {
            self.head_len += bytes.len() as u64;
        }
    }

    /// Returns the number of bytes printed.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of line ends printed.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns the number of bytes, between the beginning and the end, that are not kept.
    pub fn dropped(&self) -> u64 {
        self.tail_start().saturating_sub(self.head_len)
    }

    /// Returns at most `limit` bytes from offset `at` on. If these are not kept, returns the first bytes of the tail and counts the
    /// missed ones.
    pub fn since(&self, at: u64, limit: usize) -> TranscriptPiece {
        let at = at.min(self.total);
        let bytes = self.read(at, limit);
        if bytes.is_empty() && at < self.total && limit > 0 {
            let start = self.tail_start();
            let bytes = self.read(start, limit);
            return TranscriptPiece { missed: start - at, next: start + bytes.len() as u64, bytes };
        }
        TranscriptPiece { missed: 0, next: at + bytes.len() as u64, bytes }
    }

    /// Returns the offset of the first byte of the tail.
    fn tail_start(&self) -> u64 {
        self.total - self.tail.len() as u64
    }

    /// Returns at most `limit` kept bytes from offset `at` on, or none if the byte at that offset is not kept.
    fn read(&self, at: u64, limit: usize) -> Vec<u8> {
        let start = self.tail_start();
        if at >= start {
            let from = usize::try_from(at - start).unwrap_or(usize::MAX);
            let rest = self.tail.get(from..).unwrap_or_default();
            return rest.get(..limit.min(rest.len())).unwrap_or_default().to_vec();
        }
        let kept = usize::try_from(self.head_len.saturating_sub(at)).unwrap_or(0);
        let mut bytes = self.read_head(at, kept.min(limit));
        if bytes.len() < limit && at + bytes.len() as u64 == start {
            bytes.extend(self.read(start, limit - bytes.len()));
        }
        bytes
    }

    /// Reads bytes of the head. Returns none if they cannot be read.
    fn read_head(&self, at: u64, len: usize) -> Vec<u8> {
        match &self.head {
            Head::Memory(head) => {
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                head.get(at..at.saturating_add(len)).unwrap_or_default().to_vec()
            }
            Head::File(file) => {
                let mut bytes = vec![0; len];
                match file.read_exact_at(&mut bytes, at) {
                    Ok(()) => bytes,
                    Err(_) => Vec::new(),
                }
            }
            Head::Wanted(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn long_output_loses_its_middle_and_counts_it() {
        let mut transcript = Transcript::default();
        let piece: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
        for _ in 0..20 {
            transcript.push(&piece);
        }
        let total = 20 << 20;
        assert_eq!((transcript.total(), transcript.lines()), (total, total / 256));
        let dropped = transcript.dropped();
        assert!(dropped > 0 && dropped < total);
        let head = transcript.since(0, 10);
        assert_eq!((head.missed, head.next, head.bytes), (0, 10, (0..10).collect::<Vec<u8>>()));
        let after = transcript.since(MAX_HEAD_IN_MEMORY, 10);
        assert_eq!(after.missed, dropped);
        let last = transcript.since(total - 4, 10);
        assert_eq!((last.bytes, last.next), (vec![252, 253, 254, 255], total));
    }

    proptest! {
        /// A reader that reads piece by piece gets everything that was printed, in order.
        #[test]
        fn pieces_add_up_to_the_whole_output(
            pushes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20),
            limit in 1usize..40,
            min_tail in 1usize..60,
            in_file: bool,
        ) {
            let mut transcript = Transcript::default();
            if in_file {
                transcript = Transcript::with_scratch(tempfile::tempfile);
            }
            transcript.min_tail = min_tail;
            let (mut read, mut at) = (Vec::new(), 0);
            for push in &pushes {
                transcript.push(push);
                let piece = transcript.since(at, limit);
                at = piece.next;
                read.extend(piece.bytes);
            }
            while at < transcript.total() {
                let piece = transcript.since(at, limit);
                prop_assert!(piece.next > at && piece.missed == 0);
                at = piece.next;
                read.extend(piece.bytes);
            }
            prop_assert_eq!(read, pushes.concat());
        }
    }
}
