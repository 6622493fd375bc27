//! The body of an answer: framed in one of the ways of HTTP/1.1, unpacked, within its limits.

use windlass_core::{BoxFuture, HttpBody, HttpLimits, ToolError};

use super::decode::Decoder;
use super::head::{self, Head};
use super::wire::Wire;

/// The longest line before a chunk, with its extensions.
const MAX_CHUNK_LINE: usize = 4 << 10;

/// The end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is none.
    Empty,
    /// So many more bytes of so many in all.
    Length { left: u64, all: u64 },
    /// Chunks, of which one is open and has so many bytes left.
    Chunks { left: u64, is_open: bool },
    /// All up to the end of the connection.
    ToEnd,
}

impl Framing {
    /// The framing that a head announces. The error is that two readers could disagree about it.
    pub(super) fn of(method: &str, head: &Head) -> Result<Self, &'static str> {
        let mut codings = head.values("transfer-encoding");
        let coding = codings.next();
        let has_more = codings.next().is_some();
        let mut lengths = head.values("content-length");
        let length = lengths.next();
        if lengths.any(|other| Some(other) != length) {
            return Err("it gives two lengths");
        }
        if method == "HEAD" || matches!(head.status, 204 | 304) {
            return Ok(Self::Empty);
        }
        match (coding, length) {
            (Some(_), Some(_)) => Err("it gives a length and a transfer coding"),
            (Some(coding), None) if coding.eq_ignore_ascii_case("chunked") && !has_more => {
                Ok(Self::Chunks { left: 0, is_open: false })
            }
            (Some(_), None) => Err("its transfer coding is not known"),
            (None, Some(length)) => {
                let is_number =
                    !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
                let all = if is_number { length.parse().ok() } else { None };
                let all = all.ok_or("its length is not a number")?;
                Ok(Self::Length { left: all, all })
            }
            (None, None) => Ok(Self::ToEnd),
        }
    }
}

/// A body as it comes.
pub(super) struct Body {
    wire: Wire,
    framing: Framing,
    decoder: Decoder,
    limits: HttpLimits,
    wire_bytes: u64,
    unpacked_bytes: u64,
    is_over: bool,
}

impl Body {
    pub(super) fn new(wire: Wire, framing: Framing, decoder: Decoder, limits: HttpLimits) -> Self {
        Self { wire, framing, decoder, limits, wire_bytes: 0, unpacked_bytes: 0, is_over: false }
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, ToolError> {
        while !self.is_over {
            let Some(count) = self.packed().await? else {
                self.is_over = true;
                self.decoder.finish().map_err(|why| self.wire.failed(&why))?;
                break;
            };
            let unpacked = self.unpack(count)?;
            if !unpacked.is_empty() {
                return Ok(Some(unpacked));
            }
        }
        Ok(None)
    }

    /// Unpacks bytes that are there, as many as yield a piece of sensible size.
    fn unpack(&mut self, count: usize) -> Result<Vec<u8>, ToolError> {
        let room = self.limits.body_bytes.saturating_sub(self.unpacked_bytes);
        let packed = self.wire.ready().get(..count).unwrap_or_default();
        let packed = packed.get(..count.min(self.decoder.step())).unwrap_or(packed);
        let used = packed.len();
        let unpacked = self.decoder.unpack(packed, room);
        let unpacked = unpacked.map_err(|why| self.wire.failed(&why))?;
        self.wire.take(used);
        self.use_up(used);
        self.unpacked_bytes += unpacked.len() as u64;
        Ok(unpacked)
    }

    /// Counts bytes of the body that were used.
    fn use_up(&mut self, used: usize) {
        let used = used as u64;
        self.wire_bytes += used;
        match &mut self.framing {
            Framing::Length { left, .. } | Framing::Chunks { left, .. } => *left -= used.min(*left),
            Framing::Empty | Framing::ToEnd => {}
        }
    }

    /// The number of packed bytes that are there, at least one; `None` at the end of the body.
    async fn packed(&mut self) -> Result<Option<usize>, ToolError> {
        if self.wire_bytes >= self.limits.wire_bytes && self.framing != Framing::Empty {
            let limit = self.limits.wire_bytes;
            return Err(self.wire.failed(&format!("its body has more than {limit} bytes")));
        }
        let most = match self.framing {
            Framing::Empty | Framing::Length { left: 0, .. } => return Ok(None),
            Framing::Chunks { left: 0, is_open } => match self.next_chunk(is_open).await? {
                0 => return Ok(None),
                size => size,
            },
            Framing::Length { left, .. } | Framing::Chunks { left, .. } => left,
            Framing::ToEnd => u64::MAX,
        };
        if self.wire.ready().is_empty() && !self.wire.fill().await? {
            return match self.framing {
                Framing::ToEnd => Ok(None),
                Framing::Length { left, all } => Err(self.wire.failed(&format!(
                    "the connection was cut after {} of {all} bytes",
                    all - left
                ))),
                _ => Err(self.wire.failed("the connection was cut in the middle of the body")),
            };
        }
        let allowed = self.limits.wire_bytes.saturating_sub(self.wire_bytes).max(1);
        let most = usize::try_from(most.min(allowed)).unwrap_or(usize::MAX);
        Ok(Some(self.wire.ready().len().min(most)))
    }

    /// Reads the size of the next chunk; after the last one, the trailers, which are dropped.
    async fn next_chunk(&mut self, is_open: bool) -> Result<u64, ToolError> {
        if is_open && !self.chunk_line().await?.is_empty() {
            return Err(self.wire.failed("a chunk is longer than it says"));
        }
        let line = self.chunk_line().await?;
        let size = parse_size(&line).ok_or_else(|| self.wire.failed("a chunk has no size"))?;
        if size == 0 {
            head::read_headers(&mut self.wire).await?;
        }
        self.framing = Framing::Chunks { left: size, is_open: true };
        Ok(size)
    }

    /// Reads a line between chunks. It counts as a part of the body.
    async fn chunk_line(&mut self) -> Result<Vec<u8>, ToolError> {
        let (line, used) = head::read_line(&mut self.wire, MAX_CHUNK_LINE).await?;
        self.wire_bytes += used as u64;
        Ok(line)
    }
}

impl HttpBody for Body {
    fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, ToolError>> {
        Box::pin(async {
            let next = self.next().await;
            self.is_over |= next.is_err();
            next
        })
    }
}

fn parse_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii_end();
    let is_size = (1..=16).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok()?;
    if is_size { u64::from_str_radix(text, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, headers: &[(&str, &str)]) -> Head {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Head { status, headers: headers.iter().map(own).collect() }
    }

    #[test]
    fn one_end_of_a_body_or_none() {
        let length = |all| Ok(Framing::Length { left: all, all });
        let chunks = Ok(Framing::Chunks { left: 0, is_open: false });
        for (method, status, headers, expected) in [
            ("GET", 200, &[][..], Ok(Framing::ToEnd)),
            ("GET", 200, &[("content-length", "5")], length(5)),
            ("GET", 200, &[("content-length", "5"), ("content-length", "5")], length(5)),
            ("GET", 200, &[("content-length", "5, 5")], length(5)),
            (
                "GET",
                200,
                &[("content-length", "5"), ("content-length", "6")],
                Err("it gives two lengths"),
            ),
            ("GET", 200, &[("content-length", "-1")], Err("its length is not a number")),
            ("GET", 200, &[("content-length", "+1")], Err("its length is not a number")),
            (
                "GET",
                200,
                &[("content-length", "99999999999999999999")],
                Err("its length is not a number"),
            ),
            ("GET", 200, &[("transfer-encoding", "Chunked")], chunks),
            (
                "GET",
                200,
                &[("transfer-encoding", "gzip, chunked")],
                Err("its transfer coding is not known"),
            ),
            (
                "GET",
                200,
                &[("transfer-encoding", "chunked, chunked")],
                Err("its transfer coding is not known"),
            ),
            (
                "GET",
                200,
                &[("transfer-encoding", "chunked"), ("content-length", "5")],
                Err("it gives a length and a transfer coding"),
            ),
            ("HEAD", 200, &[("content-length", "5")], Ok(Framing::Empty)),
            ("GET", 304, &[("content-length", "5")], Ok(Framing::Empty)),
            ("GET", 204, &[], Ok(Framing::Empty)),
        ] {
            assert_eq!(
                Framing::of(method, &head(status, headers)),
                expected,
                "{method} {headers:?}"
            );
        }
    }

    #[test]
    fn sizes_of_chunks() {
        for (line, size) in [
            ("0", Some(0)),
            ("1F;name=value", Some(31)),
            ("ffffffffffffffff", Some(u64::MAX)),
            ("10000000000000000", None),
            ("-1", None),
            ("0x1", None),
            ("", None),
            (" 1", None),
        ] {
            assert_eq!(parse_size(line.as_bytes()), size, "{line}");
        }
    }
}
