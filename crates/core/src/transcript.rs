//! What a program printed, however much: the beginning and the end are there, what lies between is counted.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// How much of the beginning is kept in a file.
const HEAD_IN_FILE: u64 = 60 << 20;
/// The same in memory, where there is no file.
const HEAD_IN_MEMORY: u64 = 1 << 20;
/// How much of the end is kept, in memory.
const TAIL: usize = 4 << 20;

/// What a program printed.
///
/// ```
/// use windlass_core::Transcript;
/// let mut transcript = Transcript::default();
/// transcript.push(b"one\ntwo\n");
/// assert_eq!(transcript.since(4, 100).bytes, b"two\n");
/// ```
#[derive(Debug)]
pub struct Transcript {
    /// What has gone from the end, from the first byte on.
    head: Head,
    head_len: u64,
    /// The last bytes, and up to as many before them.
    tail: Vec<u8>,
    /// How many of them are kept in any case.
    room: usize,
    total: u64,
    /// How many lines were ended.
    lines: u64,
}

/// Most print too little to need one.
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
    /// The file is made, or there is none.
    fn settle(&mut self) {
        *self = match std::mem::take(self) {
            Self::Wanted(make) => make().map_or_else(|_| Self::default(), Self::File),
            settled => settled,
        };
    }
}
/// How many line ends there are, counted in bytes as far as a byte can count: many at once, for the processor.
fn line_ends(bytes: &[u8]) -> u64 {
    let in_one = |part: &[u8]| part.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>();
    bytes.chunks(usize::from(u8::MAX)).map(|part| u64::from(in_one(part))).sum()
}

/// A part of a transcript.
///
/// ```
/// use windlass_core::{Piece, Transcript};
/// let mut transcript = Transcript::default();
/// transcript.push(b"hello");
/// assert_eq!(transcript.since(0, 4), Piece { missed: 0, bytes: b"hell".to_vec(), next: 4 });
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes that should come first and are not kept any more.
    pub missed: u64,
    /// What there is.
    pub bytes: Vec<u8>,
    /// Where it goes on.
    pub next: u64,
}

impl Default for Transcript {
    fn default() -> Self {
        let (head, tail) = (Head::default(), Vec::new());
        Self { head, head_len: 0, tail, room: TAIL, total: 0, lines: 0 }
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
    /// An empty one that asks for a file when it gets long.
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

    /// Takes what was printed next.
    pub fn push(&mut self, bytes: &[u8]) {
        let (over, new) = bytes.split_at(bytes.len().saturating_sub(2 * self.room));
        // Moved to the front only when as much again has come: each byte is moved once at most.
        if self.tail.len() + bytes.len() > 2 * self.room {
            let keep = self.room.saturating_sub(bytes.len()).min(self.tail.len());
            let mut tail = std::mem::take(&mut self.tail);
            let gone = tail.drain(..tail.len() - keep);
            self.extend_head(gone.as_slice(), self.total - (gone.len() + keep) as u64);
            drop(gone);
            self.tail = tail;
            self.extend_head(over, self.total);
        }
        self.total += bytes.len() as u64;
        self.lines += line_ends(bytes);
        self.tail.extend_from_slice(new);
    }

    /// Keeps what goes from the end, if all before it is kept.
    fn extend_head(&mut self, bytes: &[u8], at: u64) {
        if at != self.head_len || bytes.is_empty() {
            return;
        }
        self.head.settle();
        let limit = match self.head {
            Head::File(_) => HEAD_IN_FILE,
            Head::Memory(_) | Head::Wanted(_) => HEAD_IN_MEMORY,
        };
        let room = usize::try_from(limit.saturating_sub(self.head_len)).unwrap_or(0);
        let bytes = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        let is_kept = match &mut self.head {
            Head::File(file) => file.write_all_at(bytes, self.head_len).is_ok(),
            Head::Memory(head) => {
                head.extend_from_slice(bytes);
                true
            }
            Head::Wanted(_) => false,
        };
        // A disk that is full costs the middle of a long output, nothing else.
        if is_kept {
            self.head_len += bytes.len() as u64;
        }
    }

    /// How many bytes were printed.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many line ends were among them.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// How many of them, between the beginning and the end, are not kept.
    pub fn dropped(&self) -> u64 {
        self.tail_start().saturating_sub(self.head_len)
    }

    /// What was printed from a place on, at most so many bytes.
    pub fn since(&self, at: u64, limit: usize) -> Piece {
        let at = at.min(self.total);
        let bytes = self.read(at, limit);
        if bytes.is_empty() && at < self.total && limit > 0 {
            let start = self.tail_start();
            let bytes = self.read(start, limit);
            return Piece { missed: start - at, next: start + bytes.len() as u64, bytes };
        }
        Piece { missed: 0, next: at + bytes.len() as u64, bytes }
    }

    fn tail_start(&self) -> u64 {
        self.total - self.tail.len() as u64
    }

    /// What is kept from a place on; nothing if that place is not kept.
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
    fn what_is_too_long_loses_its_middle_and_counts_it() {
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
        let after = transcript.since(HEAD_IN_MEMORY, 10);
        assert_eq!(after.missed, dropped);
        let last = transcript.since(total - 4, 10);
        assert_eq!((last.bytes, last.next), (vec![252, 253, 254, 255], total));
    }

    proptest! {
        /// Whoever reads piece by piece gets everything that was printed, in order.
        #[test]
        fn pieces_make_up_the_whole(
            pushes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20),
            limit in 1usize..40,
            room in 1usize..60,
            in_file: bool,
        ) {
            let mut transcript = Transcript::default();
            if in_file {
                transcript = Transcript::with_scratch(tempfile::tempfile);
            }
            transcript.room = room;
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
