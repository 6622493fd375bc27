//! Making contents smaller, where that is worth it.

use std::fs::File;
use std::io;

/// What is shorter is not worth the time.
const SHORTEST: usize = 256;
const LEVEL: i32 = 3;

/// Makes contents smaller one after another; what it needs for that is made once.
pub(super) struct Press(Option<zstd::bulk::Compressor<'static>>);

impl Press {
    pub(super) fn new() -> Self {
        // Without it contents are kept as they are.
        Self(zstd::bulk::Compressor::new(LEVEL).ok())
    }

    /// A content in fewer bytes, if it is so by an eighth at least.
    pub(super) fn shrink(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        if bytes.len() < SHORTEST {
            return None;
        }
        let smaller = self.0.as_mut()?.compress(bytes).ok()?;
        (smaller.len() < bytes.len() - bytes.len() / 8).then_some(smaller)
    }
}

/// One content in fewer bytes, if it is so by an eighth at least.
pub(super) fn shrink(bytes: &[u8]) -> Option<Vec<u8>> {
    Press::new().shrink(bytes)
}

/// A content of this length again.
pub(super) fn expand(bytes: &[u8], length: usize) -> io::Result<Vec<u8>> {
    let expanded = zstd::bulk::decompress(bytes, length)?;
    if expanded.len() == length { Ok(expanded) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Expands a file to another, however long.
pub(super) fn expand_to(from: File, to: &mut File) -> io::Result<()> {
    zstd::stream::copy_decode(from, to)
}

/// From one file to another, however long.
pub(super) fn copy(from: &mut File, to: &mut File) -> io::Result<()> {
    zstd::stream::copy_encode(from, to, LEVEL)
}
