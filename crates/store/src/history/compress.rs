//! Compression of contents with zstd.

use std::fs::File;
use std::io;

/// Shorter contents are not compressed.
const MIN_BYTES: usize = 256;
/// The compression level of zstd.
const LEVEL: i32 = 3;

/// A compressor for several contents, which reuses its buffers.
pub(super) struct Compressor(Option<zstd::bulk::Compressor<'static>>);

impl Compressor {
    pub(super) fn new() -> Self {
        // If it cannot be created, contents are kept uncompressed.
        Self(zstd::bulk::Compressor::new(LEVEL).ok())
    }

    /// The compressed content; `None` if that does not save an eighth.
    pub(super) fn compress_if_smaller(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        if bytes.len() < MIN_BYTES {
            return None;
        }
        let smaller = self.0.as_mut()?.compress(bytes).ok()?;
        (smaller.len() < bytes.len() - bytes.len() / 8).then_some(smaller)
    }
}

/// The compressed content; `None` if that does not save an eighth.
pub(super) fn compress_if_smaller(bytes: &[u8]) -> Option<Vec<u8>> {
    Compressor::new().compress_if_smaller(bytes)
}

/// Decompresses a content, which must have this length.
pub(super) fn decompress(bytes: &[u8], length: usize) -> io::Result<Vec<u8>> {
    let expanded = zstd::bulk::decompress(bytes, length)?;
    if expanded.len() == length { Ok(expanded) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Decompresses a file of any length into another.
pub(super) fn decompress_file(from: File, to: &mut File) -> io::Result<()> {
    zstd::stream::copy_decode(from, to)
}

/// Compresses a file of any length into another.
pub(super) fn compress_file(from: &mut File, to: &mut File) -> io::Result<()> {
    zstd::stream::copy_encode(from, to, LEVEL)
}
