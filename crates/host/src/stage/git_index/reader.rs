//! Reads entries and extensions of an index, one after the other.

use super::IndexError;
use super::layout::{EXTENDED, Hash, padded};

/// Bytes of an entry before its object name: times, device, inode, mode, owner and size.
pub(super) const STAT_BYTES: usize = 40;

/// Extended flags that git knows: skip-worktree and intent-to-add.
const KNOWN_EXTENDED: u16 = 0b11 << 13;

/// One entry of an index, as it is encoded.
pub(super) struct Entry<'a> {
    pub(super) start: usize,
    /// Stat data and object name.
    pub(super) fixed: &'a [u8],
    pub(super) flags: u16,
    pub(super) extended: u16,
    /// Bytes to remove from the end of the previous name; `None` if names are not compressed.
    pub(super) strip: Option<Strip<'a>>,
    /// The name, or the part after the common beginning with the previous one.
    pub(super) name: &'a [u8],
}

/// A number of bytes, and its encoding.
pub(super) struct Strip<'a> {
    pub(super) length: usize,
    pub(super) encoded: &'a [u8],
}

/// An extension of an index.
pub(super) struct Extension<'a> {
    pub(super) signature: &'a [u8; 4],
    pub(super) data: &'a [u8],
}

/// Error for an index that ends before its announced content.
pub(super) const TRUNCATED: IndexError = IndexError::Malformed("it ends too early");

/// A position in the bytes of an index.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Returns the offset of the next byte.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Returns whether all bytes are read.
    pub(super) fn is_at_end(&self) -> bool {
        self.position >= self.bytes.len()
    }

    /// Reads the next entry.
    pub(super) fn entry(&mut self, version: u32, hash: Hash) -> Result<Entry<'a>, IndexError> {
        let start = self.position;
        let fixed = self.take(STAT_BYTES + hash.length())?;
        let flags = u16::from_be_bytes(*self.array()?);
        let has_more = flags & EXTENDED != 0;
        let extended = if has_more { u16::from_be_bytes(*self.array()?) } else { 0 };
        if extended & !KNOWN_EXTENDED != 0 {
            return Err(IndexError::Malformed("an entry has unknown flags"));
        }
        let strip = if version == 4 { Some(self.strip()?) } else { None };
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        let length = rest.iter().position(|byte| *byte == 0).ok_or(TRUNCATED)?;
        let name = self.take(length)?;
        let end = match &strip {
            Some(_) => self.position + 1,
            None => start + padded(self.position - start),
        };
        if self.take(end - self.position)?.iter().any(|byte| *byte != 0) {
            return Err(IndexError::Malformed("a name is not followed by zeros"));
        }
        Ok(Entry { start, fixed, flags, extended, strip, name })
    }

    /// Reads a number as pack files encode offsets: seven bits a byte, the highest first.
    fn strip(&mut self) -> Result<Strip<'a>, IndexError> {
        const WRONG: IndexError = IndexError::Malformed("the length of a compressed name is wrong");
        let start = self.position;
        let [mut byte] = *self.array()?;
        let mut length = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            [byte] = *self.array()?;
            let next = length.checked_add(1).and_then(|length| length.checked_mul(0x80));
            length = next.ok_or(WRONG)? | usize::from(byte & 0x7f);
        }
        let encoded = self.bytes.get(start..self.position).ok_or(WRONG)?;
        Ok(Strip { length, encoded })
    }

    /// Reads the next extension.
    pub(super) fn extension(&mut self) -> Result<Extension<'a>, IndexError> {
        let signature: &[u8; 4] = self.array()?;
        let size = usize::try_from(self.number()?).map_err(|_| TRUNCATED)?;
        let data = self.take(size)?;
        // Git refuses an unknown extension unless its first letter is a capital one.
        let is_optional = signature.first().is_some_and(u8::is_ascii_uppercase);
        match signature {
            b"link" => Err(IndexError::Unsupported("it is a split index".into())),
            b"sdir" => Ok(Extension { signature, data }),
            _ if is_optional => Ok(Extension { signature, data }),
            _ => {
                let name = signature.escape_ascii();
                Err(IndexError::Unsupported(format!("it has the unknown extension `{name}`")))
            }
        }
    }

    /// Reads a number of four bytes.
    pub(super) fn number(&mut self) -> Result<u32, IndexError> {
        Ok(u32::from_be_bytes(*self.array()?))
    }

    /// Reads `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], IndexError> {
        self.take(N)?.try_into().map_err(|_| TRUNCATED)
    }

    /// Reads a number of bytes.
    fn take(&mut self, length: usize) -> Result<&'a [u8], IndexError> {
        let end = self.position.checked_add(length).ok_or(TRUNCATED)?;
        let taken = self.bytes.get(self.position..end).ok_or(TRUNCATED)?;
        self.position = end;
        Ok(taken)
    }
}
