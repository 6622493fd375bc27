//! The hash that identifies a content, and its computation from pieces.
//!
//! It is the BLAKE3 hash of the bytes, except for contents with blocks of zeros: aligned blocks of 1 MiB that are all zeros. These
//! blocks are left out, and their positions are hashed instead: a sparse file of 200 GiB is hashed as fast as its data. The hash
//! depends on the bytes alone, so a copy without holes has the same hash.

use std::{fmt, io};

use serde::{Deserialize, Serialize};

use crate::{ContentSource, Extent};

/// Bytes of a block that is left out if all of it is zeros.
const BLOCK_BYTES: u64 = 1 << 20;

/// Key derivation context for contents with blocks of zeros. It separates their hashes from those of all other contents.
const ZERO_BLOCKS_CONTEXT: &str = "windlass 2026-11-18 content with blocks of zeros";

static ZEROS: [u8; 4096] = [0; 4096];

/// Hash of the bytes of a file.
///
/// ```
/// use windlass_core::ContentHash;
/// let hash = ContentHash::of(b"hello\n");
/// assert_eq!(hash, ContentHash::of(b"hello\n"));
/// assert_eq!(hash.to_string().len(), 64);
/// assert_eq!(hash.to_string().parse(), Ok(hash));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// Hashes these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        if (bytes.len() as u64) < BLOCK_BYTES {
            return Self(*blake3::hash(bytes).as_bytes());
        }
        let mut hasher = ContentHasher::default();
        hasher.update(Extent::Data(bytes));
        hasher.finish()
    }

    /// Hashes the bytes of any source. Reads them in pieces.
    pub fn of_source(source: ContentSource<'_>) -> io::Result<Self> {
        Self::measure(source).map(|(hash, _)| hash)
    }

    /// Hashes the bytes of any source, and counts them.
    pub(crate) fn measure(source: ContentSource<'_>) -> io::Result<(Self, u64)> {
        match source {
            ContentSource::Bytes(bytes) => return Ok((Self::of(bytes), bytes.len() as u64)),
            ContentSource::Kept(kept) => return Ok((kept.hash(), kept.length())),
            ContentSource::File(_) | ContentSource::At(_) => {}
        }
        let mut hasher = ContentHasher::default();
        let length = source.visit(&mut |piece| {
            hasher.update(piece);
            Ok(())
        })?;
        Ok((hasher.finish(), length))
    }

    /// Returns the bytes of the hash.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Makes a hash of bytes that were stored.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// Computes the hash of a content from its pieces.
///
/// ```
/// use windlass_core::{ContentHash, ContentHasher, Extent};
/// let mut hasher = ContentHasher::default();
/// hasher.update(Extent::Data(b"a"));
/// hasher.update(Extent::Hole(2));
/// assert_eq!(hasher.finish(), ContentHash::of(b"a\0\0"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct ContentHasher {
    /// Hash of everything except the blocks of zeros.
    data: blake3::Hasher,
    length: u64,
    /// Number of zeros at the beginning of the present block, if it has had nothing else; they are not in `data` yet.
    zeros: u64,
    /// Runs of blocks that are all zeros: the numbers of the first and of the last block of each.
    runs: Vec<(u64, u64)>,
}

impl ContentHasher {
    /// Adds a piece.
    pub fn update(&mut self, piece: Extent<'_>) {
        match piece {
            Extent::Hole(length) => self.add_zeros(length),
            Extent::Data(mut bytes) => {
                while !bytes.is_empty() {
                    let rest = usize::try_from(self.rest_of_block()).unwrap_or(usize::MAX);
                    let (now, later) = bytes.split_at(rest.min(bytes.len()));
                    self.add_to_block(now);
                    bytes = later;
                }
            }
        }
    }

    /// Returns the hash of all pieces.
    pub fn finish(mut self) -> ContentHash {
        self.hash_zeros();
        let data = *self.data.finalize().as_bytes();
        if self.runs.is_empty() {
            return ContentHash(data);
        }
        let mut all = blake3::Hasher::new_derive_key(ZERO_BLOCKS_CONTEXT);
        all.update(&data);
        all.update(&self.length.to_le_bytes());
        for (first, last) in self.runs {
            all.update(&first.to_le_bytes());
            all.update(&last.to_le_bytes());
        }
        ContentHash(*all.finalize().as_bytes())
    }

    /// Returns the number of bytes of the present block.
    fn in_block(&self) -> u64 {
        self.length % BLOCK_BYTES
    }

    /// Returns the number of bytes that are missing to the end of the present block.
    fn rest_of_block(&self) -> u64 {
        BLOCK_BYTES - self.in_block()
    }

    /// Adds bytes that do not reach beyond the present block.
    fn add_to_block(&mut self, bytes: &[u8]) {
        let is_zeros = self.zeros == self.in_block() && are_zeros(bytes);
        if is_zeros {
            return self.add_zeros(bytes.len() as u64);
        }
        self.hash_zeros();
        self.data.update(bytes);
        self.length += bytes.len() as u64;
    }

    /// Adds zeros. Complete blocks become runs without hashing them.
    fn add_zeros(&mut self, mut count: u64) {
        let first = count.min(self.rest_of_block());
        if self.in_block() > 0 || count < BLOCK_BYTES {
            self.add_zeros_to_block(first);
            count -= first;
        }
        let blocks = count / BLOCK_BYTES;
        if blocks > 0 {
            self.add_run(blocks);
            count %= BLOCK_BYTES;
        }
        if count > 0 {
            self.add_zeros_to_block(count);
        }
    }

    /// Adds zeros that do not reach beyond the present block.
    fn add_zeros_to_block(&mut self, count: u64) {
        if self.zeros < self.in_block() {
            self.hash_these_zeros(count);
            self.length += count;
            return;
        }
        self.zeros += count;
        if self.zeros == BLOCK_BYTES {
            self.length -= BLOCK_BYTES - count;
            self.zeros = 0;
            return self.add_run(1);
        }
        self.length += count;
    }

    /// Adds blocks of zeros, beginning with the present block.
    fn add_run(&mut self, blocks: u64) {
        let first = self.length / BLOCK_BYTES;
        let last = first + blocks - 1;
        match self.runs.last_mut() {
            Some((_, before)) if *before + 1 == first => *before = last,
            _ => self.runs.push((first, last)),
        }
        self.length += blocks * BLOCK_BYTES;
    }

    /// Hashes the zeros at the beginning of the present block: it is not all zeros, so they count like other bytes.
    fn hash_zeros(&mut self) {
        let zeros = std::mem::take(&mut self.zeros);
        self.hash_these_zeros(zeros);
    }

    /// Hashes this number of zeros as bytes.
    fn hash_these_zeros(&mut self, mut count: u64) {
        while count > 0 {
            let now = usize::try_from(count).unwrap_or(usize::MAX).min(ZEROS.len());
            self.data.update(ZEROS.get(..now).unwrap_or(&ZEROS));
            count -= now as u64;
        }
    }
}

fn are_zeros(bytes: &[u8]) -> bool {
    bytes.chunks(ZEROS.len()).all(|chunk| ZEROS.get(..chunk.len()) == Some(chunk))
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for ContentHash {
    type Err = String;

    fn from_str(hex: &str) -> Result<Self, String> {
        blake3::Hash::from_hex(hex)
            .map(|hash| Self(*hash.as_bytes()))
            .map_err(|error| error.to_string())
    }
}

impl Serialize for ContentHash {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Part of a content: zeros as bytes, zeros as a hole, or other bytes.
    #[derive(Debug, Clone, Copy)]
    enum Part {
        Zeros(u64),
        Hole(u64),
        Others(u64),
    }

    fn part() -> impl Strategy<Value = Part> {
        let length = prop_oneof![
            0..5_u64,
            BLOCK_BYTES - 2..BLOCK_BYTES + 3,
            3 * BLOCK_BYTES - 2..3 * BLOCK_BYTES + 3
        ];
        (length, 0..3).prop_map(|(length, kind)| match kind {
            0 => Part::Zeros(length),
            1 => Part::Hole(length),
            _ => Part::Others(length.min(BLOCK_BYTES + 2)),
        })
    }

    fn bytes(length: u64, byte: u8) -> Vec<u8> {
        vec![byte; usize::try_from(length).unwrap()]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn the_hash_depends_on_the_bytes_alone(parts in proptest::collection::vec(part(), 0..6)) {
            let (mut hasher, mut whole) = (ContentHasher::default(), Vec::new());
            for part in parts {
                match part {
                    Part::Zeros(length) => hasher.update(Extent::Data(&bytes(length, 0))),
                    Part::Hole(length) => hasher.update(Extent::Hole(length)),
                    Part::Others(length) => hasher.update(Extent::Data(&bytes(length, 7))),
                }
                match part {
                    Part::Zeros(length) | Part::Hole(length) => whole.extend(bytes(length, 0)),
                    Part::Others(length) => whole.extend(bytes(length, 7)),
                }
            }
            prop_assert_eq!(hasher.finish(), ContentHash::of(&whole));
            let pieces = whole.chunks(100_003).fold(ContentHasher::default(), |mut hasher, piece| {
                hasher.update(Extent::Data(piece));
                hasher
            });
            prop_assert_eq!(pieces.finish(), ContentHash::of(&whole));
        }
    }

    #[test]
    fn other_contents_have_other_hashes() {
        let block = |byte: u8| bytes(BLOCK_BYTES, byte);
        let contents = [
            Vec::new(),
            bytes(BLOCK_BYTES - 1, 0),
            block(0),
            bytes(BLOCK_BYTES + 1, 0),
            bytes(2 * BLOCK_BYTES, 0),
            block(7),
            [block(7), block(0)].concat(),
            [block(0), block(7)].concat(),
            [block(0), block(7), block(0)].concat(),
            [block(7), bytes(1, 0)].concat(),
        ];
        let hashes: std::collections::HashSet<ContentHash> =
            contents.iter().map(|content| ContentHash::of(content)).collect();
        assert_eq!(hashes.len(), contents.len());
    }

    #[test]
    fn contents_without_blocks_of_zeros_have_the_hash_of_their_bytes() {
        let mut late = bytes(BLOCK_BYTES, 0);
        late.push(1);
        late.rotate_right(1);
        for content in [
            b"hello".to_vec(),
            bytes(3 * BLOCK_BYTES + 1, 5),
            bytes(BLOCK_BYTES - 1, 0),
            late[..1 << 20].to_vec(),
        ] {
            assert_eq!(ContentHash::of(&content).as_bytes(), blake3::hash(&content).as_bytes());
        }
    }

    #[test]
    fn hashing_a_hole_takes_no_time() {
        let mut hasher = ContentHasher::default();
        hasher.update(Extent::Hole(u64::MAX >> 1));
        let first = hasher.clone().finish();
        hasher.update(Extent::Hole(1));
        assert_ne!(first, hasher.finish());
    }
}
