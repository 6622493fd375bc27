//! Passes the body of a request on, exactly to its end.
//!
//! Chunks are read and written again, without extensions and trailers, which are rarely used. So a host sees the end of a body exactly
//! where the proxy saw it.

use std::io;

use tokio::io::{AsyncBufRead, AsyncReadExt};
use tokio::net::tcp::OwnedWriteHalf;

use super::lines::read_line;
use super::record::{Direction, TrafficMonitor};
use super::side::{CopyEnd, copy_bytes, write_counted};

/// Maximum bytes of the line with the size of a chunk.
const MAX_SIZE_LINE_BYTES: usize = 1 << 10;

/// Maximum bytes of all trailers.
const MAX_TRAILER_BYTES: usize = 16 << 10;

/// Rule by which the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    Empty,
    Length(u64),
    Chunked,
}

impl Body {
    /// Returns the header for this rule, with its line end.
    pub(super) fn header(self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Length(length) => format!("Content-Length: {length}\r\n"),
            Self::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
        }
    }

    /// Passes a body on. An error is the client's: the body ended too early, or its chunks are malformed.
    pub(super) async fn pass(
        self,
        from: &mut (impl AsyncBufRead + Unpin),
        to: &mut OwnedWriteHalf,
        monitor: &TrafficMonitor<'_>,
    ) -> io::Result<CopyEnd> {
        match self {
            Self::Empty => Ok(CopyEnd::Complete),
            Self::Length(length) => pass_bytes(length, from, to, monitor).await,
            Self::Chunked => pass_chunks(from, to, monitor).await,
        }
    }
}

/// Passes a number of bytes on.
async fn pass_bytes(
    length: u64,
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut OwnedWriteHalf,
    monitor: &TrafficMonitor<'_>,
) -> io::Result<CopyEnd> {
    let mut part = from.take(length);
    let end = copy_bytes(&mut part, to, monitor, Direction::Out).await?;
    if end == CopyEnd::Complete && part.limit() > 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(end)
}

/// Passes chunks on, up to the last one.
async fn pass_chunks(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut OwnedWriteHalf,
    monitor: &TrafficMonitor<'_>,
) -> io::Result<CopyEnd> {
    loop {
        let chunk_size = chunk_size(&strict_line(from, &mut { MAX_SIZE_LINE_BYTES }).await?)?;
        if chunk_size == 0 {
            skip_trailers(from).await?;
            return Ok(write_counted(b"0\r\n\r\n", to, monitor, Direction::Out).await);
        }
        if write_counted(format!("{chunk_size:x}\r\n").as_bytes(), to, monitor, Direction::Out)
            .await
            == CopyEnd::ReceiverGone
            || pass_bytes(chunk_size, from, to, monitor).await? == CopyEnd::ReceiverGone
        {
            return Ok(CopyEnd::ReceiverGone);
        }
        if !strict_line(from, &mut { MAX_SIZE_LINE_BYTES }).await?.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if write_counted(b"\r\n", to, monitor, Direction::Out).await == CopyEnd::ReceiverGone {
            return Ok(CopyEnd::ReceiverGone);
        }
    }
}

/// Reads and drops the trailers.
async fn skip_trailers(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<()> {
    let mut allowed = MAX_TRAILER_BYTES;
    while !strict_line(from, &mut allowed).await?.is_empty() {}
    Ok(())
}

/// Reads a line that must end in CR and LF.
async fn strict_line(
    from: &mut (impl AsyncBufRead + Unpin),
    allowed: &mut usize,
) -> io::Result<Vec<u8>> {
    let mut line = read_line(from, allowed).await.map_err(|_| io::ErrorKind::InvalidData)?;
    match line.pop() {
        Some(b'\r') => Ok(line),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Parses the size of a chunk; an extension may follow.
fn chunk_size(line: &[u8]) -> io::Result<u64> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    let hexadecimal = digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| hexadecimal);
    let chunk_size = text.and_then(|text| u64::from_str_radix(text, 16).ok());
    chunk_size.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::{TcpListener, TcpStream};

    use super::super::record::Record;
    use super::*;

    /// Passes a body on. Returns the bytes that the host gets and the number of unread bytes; `None` if the body is refused.
    async fn pass(body: Body, sent: &str) -> Option<(String, usize)> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut host, _) = listener.accept().await.unwrap();
        let (_reader, mut writer) = ours.into_split();
        let record = Record::default();
        let monitor = TrafficMonitor::new(&record, Duration::from_secs(30));
        let mut rest = sent.as_bytes();
        let end = body.pass(&mut rest, &mut writer, &monitor).await;
        drop(writer);
        let mut got = String::new();
        host.read_to_string(&mut got).await.unwrap();
        end.ok().map(|_| (got, rest.len()))
    }

    #[tokio::test]
    async fn bodies_end_where_they_say() {
        use Body::{Chunked, Empty, Length};
        for (body, sent, expected) in [
            (Empty, "next", Some(("", 4))),
            (Length(0), "next", Some(("", 4))),
            (Length(3), "abcnext", Some(("abc", 4))),
            (Length(9), "abc", None),
            (Chunked, "0\r\n\r\nnext", Some(("0\r\n\r\n", 4))),
            (Chunked, "003;a=b\r\nabc\r\n0\r\nT: x\r\n\r\n", Some(("3\r\nabc\r\n0\r\n\r\n", 0))),
            (Chunked, "A\r\n0123456789\r\n0\r\n\r\n", Some(("a\r\n0123456789\r\n0\r\n\r\n", 0))),
            (Chunked, "3\nabc\n0\n\n", None),
            (Chunked, "3\r\nabcd\r\n0\r\n\r\n", None),
            (Chunked, "3\r\nab", None),
            (Chunked, "-3\r\nabc\r\n0\r\n\r\n", None),
            (Chunked, "+3\r\nabc\r\n0\r\n\r\n", None),
            (Chunked, "0x3\r\nabc\r\n0\r\n\r\n", None),
            (Chunked, "3 \r\nabc\r\n0\r\n\r\n", None),
            (Chunked, "\r\n\r\n", None),
            (Chunked, "10000000000000000\r\n", None),
            (Chunked, "0\r\n", None),
            (Chunked, "", None),
        ] {
            let expected = expected.map(|(text, left): (&str, _)| (text.to_owned(), left));
            assert_eq!(pass(body, sent).await, expected, "{body:?} {sent:?}");
        }
    }
}
