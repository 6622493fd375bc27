//! The parts that the formats of spools (`frame`, `spool`) and slots (`history/slot`) share: generations, checksums, fields of fixed
//! size, and reads at an offset.
//!
//! The frames themselves are not shared. A frame of a spool is chained to the one before by its hash; a frame of a slot stands alone, so
//! that its checkpoint can be abandoned, and its contents are covered by hashes of their own.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use rustix::rand::{GetRandomFlags, getrandom};

/// The random id of a spool or slot between two times that it is emptied.
pub(crate) type Generation = [u8; 16];

/// A random generation.
pub(crate) fn new_generation() -> io::Result<Generation> {
    let mut generation = [0; 16];
    // The kernel fills so few bytes in one call or fails.
    getrandom(&mut generation, GetRandomFlags::empty())?;
    Ok(generation)
}

/// The first `LENGTH` bytes of the extended BLAKE3 hash of these parts.
pub(crate) fn checksum<const LENGTH: usize>(parts: &[&[u8]]) -> [u8; LENGTH] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    let mut checksum = [0; LENGTH];
    hasher.finalize_xof().fill(&mut checksum);
    checksum
}

/// The parts and their checksum of `CHECKSUM` bytes, one after another; they must have `LENGTH` bytes together.
pub(crate) fn with_checksum<const LENGTH: usize, const CHECKSUM: usize>(
    parts: &[&[u8]],
) -> [u8; LENGTH] {
    let checksum = checksum::<CHECKSUM>(parts);
    let mut bytes = [0; LENGTH];
    let mut rest = bytes.as_mut_slice();
    for part in parts.iter().copied().chain([checksum.as_slice()]) {
        let (field, after) = rest.split_at_mut(part.len());
        field.copy_from_slice(part);
        rest = after;
    }
    bytes
}

/// Reads fields of fixed size from the beginning of bytes.
pub(crate) struct FieldReader<'a>(pub(crate) &'a [u8]);

impl FieldReader<'_> {
    /// The next field; `None` if too few bytes are left.
    pub(crate) fn take<const LENGTH: usize>(&mut self) -> Option<[u8; LENGTH]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// The next field as a little-endian number of eight bytes.
    pub(crate) fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

/// Reads the bytes of a file from one offset to another; fewer if the file is shorter.
pub(crate) fn read_from(file: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(to.saturating_sub(from)).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    let read = read_up_to(file, &mut bytes, from)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Fills the buffer from an offset of a file; returns the number of bytes read, fewer at the end of the file.
pub(crate) fn read_up_to(file: &File, mut buffer: &mut [u8], mut at: u64) -> io::Result<usize> {
    let mut total = 0;
    while !buffer.is_empty() {
        match file.read_at(buffer, at) {
            Ok(0) => break,
            Ok(read) => {
                buffer = buffer.get_mut(read..).unwrap_or_default();
                at += read as u64;
                total += read;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_the_beginning_of_the_hash_of_all_parts() {
        let parts: [&[u8]; 2] = [b"generation", b"offset"];
        let hash = blake3::hash(b"generationoffset");
        assert_eq!(checksum::<8>(&parts), hash.as_bytes()[..8]);
        assert_eq!(checksum::<16>(&parts), hash.as_bytes()[..16]);
        let bytes = with_checksum::<24, 8>(&parts);
        assert_eq!(bytes[..16], *b"generationoffset");
        assert_eq!(bytes[16..], hash.as_bytes()[..8]);
    }

    #[test]
    fn fields_are_read_until_too_few_bytes_are_left() {
        let mut fields = FieldReader(&[7, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!((fields.number(), fields.take()), (Some(7), Some([1])));
        assert_eq!(fields.take::<2>(), None);
    }
}
