//! Reads the body of a response: finds its end by one of the ways of HTTP/1.1, decompresses it, and applies the limits.

use windlass_core::{BoxFuture, HttpBody, HttpLimits, ToolError};

use super::connection::Connection;
use super::decode::BodyDecoder;
use super::head::{self, Head};

/// Maximum bytes of the line before a chunk, with its extensions.
const MAX_CHUNK_LINE_BYTES: usize = 4 << 10;

/// Rule by which the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is no body.
    Empty,
    /// A known number of bytes: those that are left, and all.
    Length { left: u64, all: u64 },
    /// Chunks: the bytes left in the current chunk, and whether a chunk has begun.
    Chunks { left: u64, is_open: bool },
    /// All bytes up to the end of the connection.
    ToEnd,
}

impl Framing {
    /// Returns the framing that a head announces. Fails if two readers could disagree about it.
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

/// A body that is read piece by piece.
pub(super) struct Body {
    connection: Connection,
    framing: Framing,
    decoder: BodyDecoder,
    limits: HttpLimits,
    received_bytes: u64,
    decompressed_bytes: u64,
    is_over: bool,
}

impl Body {
    pub(super) fn new(
        connection: Connection,
        framing: Framing,
        decoder: BodyDecoder,
        limits: HttpLimits,
    ) -> Self {
        Self {
            connection,
            framing,
            decoder,
            limits,
            received_bytes: 0,
            decompressed_bytes: 0,
            is_over: false,
        }
    }

    /// Returns the next decompressed bytes; `None` at the end of the body.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, ToolError> {
        while !self.is_over {
            let Some(count) = self.wait_for_bytes().await? else {
                self.is_over = true;
                self.decoder.finish().map_err(|why| self.connection.failed(&why.to_string()))?;
                break;
            };
            let decompressed = self.decompress(count)?;
            if !decompressed.is_empty() {
                return Ok(Some(decompressed));
            }
        }
        Ok(None)
    }

    /// Decompresses some of the `count` bytes in the buffer: as many as give a piece of moderate size.
    fn decompress(&mut self, count: usize) -> Result<Vec<u8>, ToolError> {
        let room = self.limits.body_bytes.saturating_sub(self.decompressed_bytes);
        let wait_for_bytes = self.connection.unused().get(..count).unwrap_or_default();
        let wait_for_bytes =
            wait_for_bytes.get(..count.min(self.decoder.max_step())).unwrap_or(wait_for_bytes);
        let used = wait_for_bytes.len();
        let decompressed = self.decoder.decompress(wait_for_bytes, room);
        let decompressed = decompressed.map_err(|why| self.connection.failed(&why.to_string()))?;
        self.connection.use_bytes(used);
        self.count_used(used);
        self.decompressed_bytes += decompressed.len() as u64;
        Ok(decompressed)
    }

    /// Counts bytes of the body that were taken from the buffer.
    fn count_used(&mut self, used: usize) {
        let used = used as u64;
        self.received_bytes += used;
        match &mut self.framing {
            Framing::Length { left, .. } | Framing::Chunks { left, .. } => *left -= used.min(*left),
            Framing::Empty | Framing::ToEnd => {}
        }
    }

    /// Waits until bytes of the body are in the buffer and returns their number, at least 1; `None` at the end of the body.
    async fn wait_for_bytes(&mut self) -> Result<Option<usize>, ToolError> {
        if self.received_bytes >= self.limits.wire_bytes && self.framing != Framing::Empty {
            let limit = self.limits.wire_bytes;
            return Err(self.connection.failed(&format!("its body has more than {limit} bytes")));
        }
        let max_bytes = match self.framing {
            Framing::Empty | Framing::Length { left: 0, .. } => return Ok(None),
            Framing::Chunks { left: 0, is_open } => match self.next_chunk(is_open).await? {
                0 => return Ok(None),
                size => size,
            },
            Framing::Length { left, .. } | Framing::Chunks { left, .. } => left,
            Framing::ToEnd => u64::MAX,
        };
        if self.connection.unused().is_empty() && !self.connection.read_more().await? {
            return match self.framing {
                Framing::ToEnd => Ok(None),
                Framing::Length { left, all } => Err(self.connection.failed(&format!(
                    "the connection was cut after {} of {all} bytes",
                    all - left
                ))),
                _ => {
                    Err(self.connection.failed("the connection was cut in the middle of the body"))
                }
            };
        }
        let allowed = self.limits.wire_bytes.saturating_sub(self.received_bytes).max(1);
        let max_bytes = usize::try_from(max_bytes.min(allowed)).unwrap_or(usize::MAX);
        Ok(Some(self.connection.unused().len().min(max_bytes)))
    }

    /// Reads the size of the next chunk. After the last one, reads and drops the trailers.
    async fn next_chunk(&mut self, is_open: bool) -> Result<u64, ToolError> {
        if is_open && !self.chunk_line().await?.is_empty() {
            return Err(self.connection.failed("a chunk is longer than it says"));
        }
        let line = self.chunk_line().await?;
        let size =
            parse_size(&line).ok_or_else(|| self.connection.failed("a chunk has no size"))?;
        if size == 0 {
            head::read_headers(&mut self.connection).await?;
        }
        self.framing = Framing::Chunks { left: size, is_open: true };
        Ok(size)
    }

    /// Reads a line between chunks, which counts as a part of the body.
    async fn chunk_line(&mut self) -> Result<Vec<u8>, ToolError> {
        let (line, used) = head::read_line(&mut self.connection, MAX_CHUNK_LINE_BYTES).await?;
        self.received_bytes += used as u64;
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

/// Parses the size of a chunk; an extension may follow.
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
    fn framings_of_heads() {
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
