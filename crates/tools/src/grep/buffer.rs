//! Room for one small file, so that it is read in one piece and no memory is asked for again and again.

use std::io::{self, Read};

/// Room for one small file, used for one after another.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

/// What a [`Buffer`] holds.
pub(super) enum Filled<'a> {
    /// All of a file.
    Whole(&'a [u8]),
    /// Only the beginning: there is more than fits.
    Part(&'a [u8]),
}

impl Buffer {
    /// What counts as small: as much as the searcher reads at once, so that binary files are told by the same bytes either way.
    pub(super) const SIZE: usize = 64 << 10;
    /// The kernel copies faster to the beginning of a page.
    const PAGE: usize = 4096;

    pub(super) fn new() -> Self {
        // One byte more than is needed: a read that leaves it free has reached the end.
        let bytes = vec![0; Self::SIZE + 1 + Self::PAGE];
        let start = bytes.as_ptr().align_offset(Self::PAGE).min(Self::PAGE);
        Self { bytes, start }
    }

    /// Reads a file. One read is enough if it brings as much as `expected`.
    pub(super) fn read(&mut self, file: &mut impl Read, expected: u64) -> io::Result<Filled<'_>> {
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
