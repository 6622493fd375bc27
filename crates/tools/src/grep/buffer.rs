//! A reusable buffer for one small file, so that it is read at once and without new allocations.

use std::io::{self, Read};

/// A buffer that holds one small file after another.
pub(super) struct FileBuffer {
    bytes: Vec<u8>,
    start: usize,
}

/// The content of a [`FileBuffer`] after a read.
pub(super) enum BufferContent<'a> {
    /// The whole file.
    Whole(&'a [u8]),
    /// The beginning of a file that does not fit.
    Part(&'a [u8]),
}

impl FileBuffer {
    /// Largest size of a small file. The searcher reads as much at once, so both ways detect binary files by the same bytes.
    pub(super) const MAX_SMALL_FILE_BYTES: usize = 64 << 10;
    /// Alignment of the read address: the kernel copies faster to the beginning of a page.
    const PAGE_BYTES: usize = 4096;

    pub(super) fn new() -> Self {
        // One byte more than is needed: a read that leaves it unused has reached the end of the file.
        let bytes = vec![0; Self::MAX_SMALL_FILE_BYTES + 1 + Self::PAGE_BYTES];
        let start = bytes.as_ptr().align_offset(Self::PAGE_BYTES).min(Self::PAGE_BYTES);
        Self { bytes, start }
    }

    /// Reads a file from its start. A single read suffices if it returns `expected` bytes.
    pub(super) fn read(
        &mut self,
        file: &mut impl Read,
        expected: u64,
    ) -> io::Result<BufferContent<'_>> {
        let free_space = self
            .bytes
            .get_mut(self.start..=self.start + Self::MAX_SMALL_FILE_BYTES)
            .unwrap_or_default();
        let mut len = 0;
        while let Some(free) = free_space.get_mut(len..).filter(|free| !free.is_empty()) {
            let more = match file.read(free) {
                Ok(more) => more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            len += more;
            if more == 0 || (len as u64 == expected && len < free_space.len()) {
                return Ok(BufferContent::Whole(free_space.get(..len).unwrap_or_default()));
            }
        }
        Ok(BufferContent::Part(free_space))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns a text in pieces of so many bytes.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let size = self.1.min(buffer.len());
            self.0.read(&mut buffer[..size])
        }
    }

    #[test]
    fn small_files_are_read_whole_whatever_their_size_was_said_to_be() {
        let mut buffer = FileBuffer::new();
        for len in [
            0,
            1,
            5000,
            FileBuffer::MAX_SMALL_FILE_BYTES - 1,
            FileBuffer::MAX_SMALL_FILE_BYTES,
            FileBuffer::MAX_SMALL_FILE_BYTES + 1,
            FileBuffer::MAX_SMALL_FILE_BYTES * 2,
        ] {
            let text = vec![b'x'; len];
            for (expected, piece) in
                [(len, usize::MAX), (0, usize::MAX), (len, 999), (len + 7, 999)]
            {
                let mut file = Pieces(&text, piece);
                match buffer.read(&mut file, expected as u64).unwrap() {
                    BufferContent::Whole(read) => {
                        assert_eq!(read, text, "{len} {expected} {piece}");
                    }
                    BufferContent::Part(start) => {
                        assert!(len > FileBuffer::MAX_SMALL_FILE_BYTES, "{len} {expected} {piece}");
                        assert_eq!(start.len() + file.0.len(), len);
                    }
                }
            }
        }
    }
}
