//! Decompresses bodies piece by piece, never to more bytes than there is room for.

use std::fmt;
use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter;
use flate2::write::MultiGzDecoder;
use zstd::stream::raw::{DParameter, Decoder as Zstd, InBuffer, Operation as _, OutBuffer};

use super::head::Head;

/// Compressed bytes that are decompressed at a time, because the result is held in memory.
const MAX_BYTES_PER_STEP: usize = 1 << 10;

/// Maximum window of a zstd stream, as a power of two; the same as browsers accept.
const ZSTD_WINDOW: u32 = 23;

/// Error about a compressed body.
#[derive(Debug)]
pub(super) enum DecodeError {
    /// The head names more than one coding.
    SeveralCodings,
    /// The head names a coding that is not supported.
    UnknownCoding,
    /// The decoder cannot be created.
    Setup(io::Error),
    /// The decompressed body is larger than its limit.
    TooLong,
    /// The bytes are not valid for the coding.
    Broken(io::Error),
    /// The compressed body ends too early.
    TooShort,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SeveralCodings => f.write_str("its body is packed more than once"),
            Self::UnknownCoding => f.write_str("its body is packed in a way that is not known"),
            Self::Setup(error) => write!(f, "{error}"),
            Self::TooLong => f.write_str("its body is longer than it may be"),
            Self::Broken(error) => write!(f, "its body cannot be unpacked: {error}"),
            Self::TooShort => f.write_str("its packed body ends too early"),
        }
    }
}

/// Decompresses a body.
pub(super) enum BodyDecoder {
    Identity,
    Gzip(Box<MultiGzDecoder<LimitedBuffer>>),
    Brotli(Box<DecompressorWriter<LimitedBuffer>>),
    Zstd { decoder: Box<Zstd<'static>>, is_whole: bool },
}

impl BodyDecoder {
    /// Creates the decoder that a head asks for. Fails for an unknown or a repeated coding.
    pub(super) fn for_head(head: &Head) -> Result<Self, DecodeError> {
        let is_compressed =
            |coding: &&str| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity");
        let mut codings = head.values("content-encoding").filter(is_compressed);
        let Some(coding) = codings.next() else { return Ok(Self::Identity) };
        if codings.next().is_some() {
            return Err(DecodeError::SeveralCodings);
        }
        match coding.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => {
                Ok(Self::Gzip(Box::new(MultiGzDecoder::new(LimitedBuffer::default()))))
            }
            "br" => Ok(Self::Brotli(Box::new(DecompressorWriter::new(
                LimitedBuffer::default(),
                4 << 10,
            )))),
            "zstd" => {
                let mut decoder = Zstd::new().map_err(DecodeError::Setup)?;
                let window = DParameter::WindowLogMax(ZSTD_WINDOW);
                decoder.set_parameter(window).map_err(DecodeError::Setup)?;
                Ok(Self::Zstd { decoder: Box::new(decoder), is_whole: true })
            }
            _ => Err(DecodeError::UnknownCoding),
        }
    }

    /// Returns the maximum number of bytes to decompress at a time.
    pub(super) fn max_step(&self) -> usize {
        match self {
            Self::Identity => usize::MAX,
            _ => MAX_BYTES_PER_STEP,
        }
    }

    /// Decompresses a piece. Fails if it is broken, or becomes larger than `room`.
    pub(super) fn decompress(
        &mut self,
        compressed: &[u8],
        room: u64,
    ) -> Result<Vec<u8>, DecodeError> {
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let broken = |error: io::Error| match error.kind() {
            io::ErrorKind::StorageFull => DecodeError::TooLong,
            _ => DecodeError::Broken(error),
        };
        match self {
            Self::Identity if compressed.len() > room => {
                Err(broken(io::ErrorKind::StorageFull.into()))
            }
            Self::Identity => Ok(compressed.to_vec()),
            Self::Gzip(decoder) => {
                decoder.get_mut().room = room;
                decoder.write_all(compressed).map_err(broken)?;
                // Decompressed bytes that are not written yet must not wait for the next piece.
                decoder.flush().map_err(broken)?;
                Ok(std::mem::take(&mut decoder.get_mut().bytes))
            }
            Self::Brotli(decoder) => {
                decoder.get_mut().room = room;
                decoder.write_all(compressed).map_err(broken)?;
                Ok(std::mem::take(&mut decoder.get_mut().bytes))
            }
            Self::Zstd { decoder, is_whole } => {
                decompress_zstd(decoder, is_whole, compressed, room).map_err(broken)
            }
        }
    }

    /// Fails if the compressed body is not complete.
    pub(super) fn finish(&mut self) -> Result<(), DecodeError> {
        let is_whole = match self {
            Self::Identity => true,
            Self::Gzip(decoder) => decoder.try_finish().is_ok(),
            Self::Brotli(decoder) => decoder.close().is_ok(),
            Self::Zstd { is_whole, .. } => *is_whole,
        };
        if is_whole { Ok(()) } else { Err(DecodeError::TooShort) }
    }
}

/// Decompresses a piece of a zstd stream, and sets whether the stream may end here.
fn decompress_zstd(
    decoder: &mut Zstd<'_>,
    is_whole: &mut bool,
    compressed: &[u8],
    room: usize,
) -> io::Result<Vec<u8>> {
    let mut all = LimitedBuffer { room, bytes: Vec::new() };
    let mut input = InBuffer::around(compressed);
    let mut space = vec![0; 64 << 10];
    loop {
        let mut output = OutBuffer::around(space.as_mut_slice());
        let hint = decoder.run(&mut input, &mut output)?;
        *is_whole = hint == 0;
        let is_full = output.pos() == output.capacity();
        all.write_all(output.as_slice())?;
        if input.pos() == compressed.len() && !is_full {
            return Ok(all.bytes);
        }
    }
}

/// Buffer that refuses bytes beyond its room.
#[derive(Debug, Default)]
pub(super) struct LimitedBuffer {
    room: usize,
    bytes: Vec<u8>,
}

impl Write for LimitedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.room.saturating_sub(self.bytes.len()) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
