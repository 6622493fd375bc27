//! The layout of an index file, versions 2 to 4, as git's `gitformat-index` manual describes it.
//!
//! An index does not name the hash of its repository. The length of the hash is found by trying: with the wrong one, entries and
//! extensions do not end where the checksum begins.

use std::borrow::Cow;

use sha1::{Digest as _, Sha1};
use sha2::Sha256;

use super::IndexError;
use super::reader::{Entry, Extension, Reader, STAT_BYTES, TRUNCATED};

/// Bytes of the signature, the version and the number of entries.
const HEADER_BYTES: usize = 12;

/// Bit of an entry's flags that extended flags follow.
pub(super) const EXTENDED: u16 = 1 << 14;
/// Bits with the stage of a merge; 0 for a merged entry.
const STAGE_BITS: u16 = 0b11 << 12;
/// Bits with the length of the name, or its maximum for a longer name.
const NAME_LENGTH_BITS: u16 = 0xfff;

/// Position of the mode in an entry's stat data.
const MODE_RANGE: std::ops::Range<usize> = 24..28;

/// An entry without git's facts about the file on disk.
#[derive(PartialEq, Eq)]
pub(super) struct StagedEntry<'a> {
    path: Vec<u8>,
    mode: &'a [u8],
    object: &'a [u8],
    flags: (u16, u16),
}

impl StagedEntry<'_> {
    /// Appends all fields; those of variable length come with their length.
    pub(super) fn append_to(&self, text: &mut Vec<u8>) {
        for field in [&*self.path, self.mode, self.object] {
            text.extend((field.len() as u64).to_be_bytes());
            text.extend(field);
        }
        text.extend(self.flags.0.to_be_bytes());
        text.extend(self.flags.1.to_be_bytes());
    }
}

/// Signatures of the extensions that hold offsets of entries.
const END_OF_ENTRIES: &[u8; 4] = b"EOIE";
const ENTRY_OFFSETS: &[u8; 4] = b"IEOT";

/// Hash algorithm of a repository.
#[derive(Debug, Clone, Copy)]
pub(super) enum Hash {
    Sha1,
    Sha256,
}

/// A parsed index.
pub(super) struct Index<'a> {
    bytes: &'a [u8],
    version: u32,
    hash: Hash,
    entries: Vec<Entry<'a>>,
    /// Offset after the last entry.
    entries_end: usize,
    extensions: Vec<Extension<'a>>,
}

impl<'a> Index<'a> {
    /// Parses an index with either hash.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, IndexError> {
        Self::parse_as(bytes, Hash::Sha1).or_else(|first| {
            Self::parse_as(bytes, Hash::Sha256).map_err(|second| match second {
                IndexError::Unsupported(_) => second,
                IndexError::Malformed(_) => first,
            })
        })
    }

    /// Parses an index with one hash.
    fn parse_as(bytes: &'a [u8], hash: Hash) -> Result<Self, IndexError> {
        let content = bytes.len().checked_sub(hash.length()).and_then(|end| bytes.get(..end));
        let mut reader = Reader::new(content.ok_or(TRUNCATED)?);
        if reader.array()? != b"DIRC" {
            return Err(IndexError::Malformed("it does not begin with `DIRC`"));
        }
        let version = reader.number()?;
        if !(2..=4).contains(&version) {
            return Err(IndexError::Unsupported(format!("its version is {version}")));
        }
        let count = reader.number()?;
        let mut entries = Vec::new();
        for _ in 0..count {
            entries.push(reader.entry(version, hash)?);
        }
        let entries_end = reader.position();
        let mut extensions = Vec::new();
        while !reader.is_at_end() {
            extensions.push(reader.extension()?);
        }
        Ok(Self { bytes, version, hash, entries, entries_end, extensions })
    }

    /// Returns the index with the extended flags that `change` gives for each merged entry; `None` if they are the same.
    pub(super) fn with_flags(
        mut self,
        change: &mut dyn FnMut(&[u8], u16) -> u16,
    ) -> Result<Option<Vec<u8>>, IndexError> {
        let mut is_changed = false;
        let mut path = Vec::new();
        for entry in &mut self.entries {
            entry.advance(&mut path)?;
            if entry.flags & STAGE_BITS != 0 {
                continue;
            }
            let changed = change(&path, entry.extended);
            is_changed |= changed != entry.extended;
            entry.extended = changed;
        }
        if !is_changed {
            return Ok(None);
        }
        let has_checksum = self.verify_checksum()?;
        Ok(Some(self.write(has_checksum)))
    }

    /// Returns path, mode, flags and object name of each entry. Leaves out times, inodes and sizes, which git refreshes, and extensions,
    /// which are caches.
    pub(super) fn staged(&self) -> Result<Vec<StagedEntry<'_>>, IndexError> {
        let mut path = Vec::new();
        let entry = |entry: &Entry<'a>| {
            entry.advance(&mut path)?;
            let mode = entry.fixed.get(MODE_RANGE).ok_or(TRUNCATED)?;
            let object = entry.fixed.get(STAT_BYTES..).ok_or(TRUNCATED)?;
            let flags = (entry.flags & !(NAME_LENGTH_BITS | EXTENDED), entry.extended);
            Ok(StagedEntry { path: path.clone(), mode, object, flags })
        };
        self.entries.iter().map(entry).collect()
    }

    /// Returns whether the path of an entry passes a test.
    pub(super) fn has_entry(&self, test: &dyn Fn(&[u8]) -> bool) -> Result<bool, IndexError> {
        let mut path = Vec::new();
        for entry in &self.entries {
            entry.advance(&mut path)?;
            if test(&path) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Fails if the checksum is wrong. Returns false for a checksum of zeros, which git writes with `index.skipHash`.
    fn verify_checksum(&self) -> Result<bool, IndexError> {
        let end = self.bytes.len().saturating_sub(self.hash.length());
        let (content, checksum) = self.bytes.split_at_checked(end).ok_or(TRUNCATED)?;
        if checksum.iter().all(|byte| *byte == 0) {
            return Ok(false);
        }
        if self.hash.digest(content) != checksum {
            return Err(IndexError::Malformed("its checksum does not match its content"));
        }
        Ok(true)
    }

    /// Returns the bytes of the index with the present flags.
    fn write(&self, has_checksum: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes.len() + self.bytes.len() / 16);
        out.extend(b"DIRC");
        out.extend(self.needed_version().to_be_bytes());
        out.extend(self.bytes.get(8..HEADER_BYTES).unwrap_or_default());
        let mut starts = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            starts.push(out.len());
            entry.write(&mut out);
        }
        self.write_extensions(&mut out, &starts);
        if has_checksum {
            let digest = self.hash.digest(&out);
            out.extend(digest);
        } else {
            out.resize(out.len() + self.hash.length(), 0);
        }
        out
    }

    /// Returns the version that git would choose: version 3 is version 2 with extended flags.
    fn needed_version(&self) -> u32 {
        match self.version {
            4 => 4,
            _ if self.entries.iter().any(|entry| entry.extended != 0) => 3,
            _ => 2,
        }
    }

    /// Writes the extensions. If one of those with offsets is wrong, both are left out, because they only make reading faster.
    fn write_extensions(&self, out: &mut Vec<u8>, starts: &[usize]) {
        let end = out.len();
        let moved = |extension| Some((extension, self.with_moved_offsets(extension, starts, end)?));
        if let Some(all) = self.extensions.iter().map(moved).collect::<Option<Vec<_>>>() {
            for (extension, data) in all {
                extension.write(out, &data);
            }
        } else {
            for extension in self.extensions.iter().filter(|extension| !extension.has_offsets()) {
                extension.write(out, extension.data);
            }
        }
    }

    /// Returns the content of an extension with adjusted offsets; `None` if they are wrong.
    fn with_moved_offsets(
        &self,
        extension: &Extension<'a>,
        starts: &[usize],
        end: usize,
    ) -> Option<Cow<'a, [u8]>> {
        if !extension.has_offsets() {
            return Some(Cow::Borrowed(extension.data));
        }
        let mut data = extension.data.to_vec();
        if extension.signature == END_OF_ENTRIES {
            move_offset(&mut data, |old| (old == self.entries_end).then_some(end))?;
        } else {
            for block in data.get_mut(4..)?.chunks_mut(8) {
                move_offset(block, |old| {
                    let place = self.entries.binary_search_by_key(&old, |entry| entry.start);
                    starts.get(place.ok()?).copied()
                })?;
            }
        }
        Some(Cow::Owned(data))
    }
}

impl Entry<'_> {
    /// Turns the name of the previous entry into the name of this one.
    fn advance(&self, path: &mut Vec<u8>) -> Result<(), IndexError> {
        let kept = match &self.strip {
            Some(strip) => path.len().checked_sub(strip.length),
            None => Some(0),
        };
        path.truncate(kept.ok_or(IndexError::Malformed("a compressed name is wrong"))?);
        path.extend(self.name);
        let length = usize::from(self.flags & NAME_LENGTH_BITS);
        if length != path.len().min(usize::from(NAME_LENGTH_BITS)) {
            return Err(IndexError::Malformed("the length of a name is wrong"));
        }
        Ok(())
    }

    /// Writes an entry.
    fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend(self.fixed);
        if self.extended == 0 {
            out.extend((self.flags & !EXTENDED).to_be_bytes());
        } else {
            out.extend((self.flags | EXTENDED).to_be_bytes());
            out.extend(self.extended.to_be_bytes());
        }
        if let Some(strip) = &self.strip {
            out.extend(strip.encoded);
            out.extend(self.name);
            out.push(0);
        } else {
            out.extend(self.name);
            let length = out.len() - start;
            out.resize(start + padded(length), 0);
        }
    }
}

impl Extension<'_> {
    /// Returns whether the extension holds offsets of entries.
    fn has_offsets(&self) -> bool {
        [END_OF_ENTRIES, ENTRY_OFFSETS].contains(&self.signature)
    }

    /// Writes an extension.
    fn write(&self, out: &mut Vec<u8>, data: &[u8]) {
        out.extend(self.signature);
        // The size came from a field of the same width.
        out.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
        out.extend(data);
    }
}

impl Hash {
    /// Returns the bytes of a hash.
    pub(super) fn length(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// Hashes bytes.
    fn digest(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => Sha1::digest(bytes).to_vec(),
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
        }
    }
}

/// Returns the length of an entry with the one to eight zeros at its end.
pub(super) fn padded(length: usize) -> usize {
    (length + 8) & !7
}

/// Replaces the offset at the beginning of `data`. `None` if there is no offset or no new one.
fn move_offset(data: &mut [u8], new: impl FnOnce(usize) -> Option<usize>) -> Option<()> {
    let bytes: &mut [u8; 4] = data.first_chunk_mut()?;
    let old = usize::try_from(u32::from_be_bytes(*bytes)).ok()?;
    *bytes = u32::try_from(new(old)?).ok()?.to_be_bytes();
    Some(())
}
