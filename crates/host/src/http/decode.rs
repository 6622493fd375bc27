//! Unpacks bodies piece by piece: never more at a time, or in all, than there is room for.

use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter;
use flate2::write::MultiGzDecoder;
use zstd::stream::raw::{DParameter, Decoder as Zstd, InBuffer, Operation as _, OutBuffer};

use super::head::Head;

/// The packed bytes that are unpacked at a time: what they become is held in memory.
const STEP: usize = 1 << 10;

/// The largest window of a zstd stream, as a power of two: what browsers take.
const ZSTD_WINDOW: u32 = 23;

/// Unpacks a body.
pub(super) enum Decoder {
    Identity,
    Gzip(Box<MultiGzDecoder<Sink>>),
    Brotli(Box<DecompressorWriter<Sink>>),
    Zstd { decoder: Box<Zstd<'static>>, is_whole: bool },
}

impl Decoder {
    /// The decoder that a head asks for. The error is that there is none.
    pub(super) fn of(head: &Head) -> Result<Self, String> {
        let is_packed =
            |coding: &&str| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity");
        let mut codings = head.values("content-encoding").filter(is_packed);
        let Some(coding) = codings.next() else { return Ok(Self::Identity) };
        if codings.next().is_some() {
            return Err("its body is packed more than once".to_owned());
        }
        match coding.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Ok(Self::Gzip(Box::new(MultiGzDecoder::new(Sink::default())))),
            "br" => Ok(Self::Brotli(Box::new(DecompressorWriter::new(Sink::default(), 4 << 10)))),
            "zstd" => {
                let mut decoder = Zstd::new().map_err(|error| error.to_string())?;
                let window = DParameter::WindowLogMax(ZSTD_WINDOW);
                decoder.set_parameter(window).map_err(|error| error.to_string())?;
                Ok(Self::Zstd { decoder: Box::new(decoder), is_whole: true })
            }
            _ => Err("its body is packed in a way that is not known".to_owned()),
        }
    }

    /// The bytes that are unpacked at a time.
    pub(super) fn step(&self) -> usize {
        match self {
            Self::Identity => usize::MAX,
            _ => STEP,
        }
    }

    /// Unpacks a piece; the error is that it is broken, or becomes more than there is room for.
    pub(super) fn unpack(&mut self, packed: &[u8], room: u64) -> Result<Vec<u8>, String> {
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let broken = |error: io::Error| match error.kind() {
            io::ErrorKind::StorageFull => "its body is longer than it may be".to_owned(),
            _ => format!("its body cannot be unpacked: {error}"),
        };
        match self {
            Self::Identity if packed.len() > room => Err(broken(io::ErrorKind::StorageFull.into())),
            Self::Identity => Ok(packed.to_vec()),
            Self::Gzip(decoder) => {
                decoder.get_mut().room = room;
                decoder.write_all(packed).map_err(broken)?;
                // What is unpacked and not yet written must not wait for the next piece.
                decoder.flush().map_err(broken)?;
                Ok(std::mem::take(&mut decoder.get_mut().bytes))
            }
            Self::Brotli(decoder) => {
                decoder.get_mut().room = room;
                decoder.write_all(packed).map_err(broken)?;
                Ok(std::mem::take(&mut decoder.get_mut().bytes))
            }
            Self::Zstd { decoder, is_whole } => {
                unpack_zstd(decoder, is_whole, packed, room).map_err(broken)
            }
        }
    }

    /// Checks that nothing is missing at the end.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        let is_whole = match self {
            Self::Identity => true,
            Self::Gzip(decoder) => decoder.try_finish().is_ok(),
            Self::Brotli(decoder) => decoder.close().is_ok(),
            Self::Zstd { is_whole, .. } => *is_whole,
        };
        if is_whole { Ok(()) } else { Err("its packed body ends too early".to_owned()) }
    }
}

fn unpack_zstd(
    decoder: &mut Zstd<'_>,
    is_whole: &mut bool,
    packed: &[u8],
    room: usize,
) -> io::Result<Vec<u8>> {
    let mut all = Sink { room, bytes: Vec::new() };
    let mut input = InBuffer::around(packed);
    let mut space = vec![0; 64 << 10];
    loop {
        let mut output = OutBuffer::around(space.as_mut_slice());
        let hint = decoder.run(&mut input, &mut output)?;
        *is_whole = hint == 0;
        let is_full = output.pos() == output.capacity();
        all.write_all(output.as_slice())?;
        if input.pos() == packed.len() && !is_full {
            return Ok(all.bytes);
        }
    }
}

/// Takes bytes as long as there is room.
#[derive(Debug, Default)]
pub(super) struct Sink {
    room: usize,
    bytes: Vec<u8>,
}

impl Write for Sink {
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
