//! The body of a request, passed on exactly as far as it goes.
//!
//! Chunks are read and written anew, without the extensions and trailers that nobody uses, so that a host sees the end of a body
//! where we saw it.

use std::io;

use tokio::io::{AsyncBufRead, AsyncReadExt};
use tokio::net::tcp::OwnedWriteHalf;

use super::lines::line;
use super::record::{Pulse, Way};
use super::side::{End, pump, say};

/// Bytes of a line with the size of a chunk.
const MAX_SIZE_LINE: usize = 1 << 10;

/// Bytes of all trailers.
const MAX_TRAILERS: usize = 16 << 10;

/// How a body is told from what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    Empty,
    Length(u64),
    Chunked,
}

impl Body {
    /// The header that says so, with its line end.
    pub(super) fn header(self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Length(length) => format!("Content-Length: {length}\r\n"),
            Self::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
        }
    }

    /// Passes a body on. An error is the client's: it ended too early, or its chunks are none.
    pub(super) async fn pass(
        self,
        from: &mut (impl AsyncBufRead + Unpin),
        to: &mut OwnedWriteHalf,
        pulse: &Pulse<'_>,
    ) -> io::Result<End> {
        match self {
            Self::Empty => Ok(End::Said),
            Self::Length(length) => pass_bytes(length, from, to, pulse).await,
            Self::Chunked => pass_chunks(from, to, pulse).await,
        }
    }
}

async fn pass_bytes(
    length: u64,
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut OwnedWriteHalf,
    pulse: &Pulse<'_>,
) -> io::Result<End> {
    let mut part = from.take(length);
    let end = pump(&mut part, to, pulse, Way::Out).await?;
    if end == End::Said && part.limit() > 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(end)
}

async fn pass_chunks(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut OwnedWriteHalf,
    pulse: &Pulse<'_>,
) -> io::Result<End> {
    loop {
        let size = size(&strict_line(from, &mut { MAX_SIZE_LINE }).await?)?;
        if size == 0 {
            skip_trailers(from).await?;
            return Ok(say(b"0\r\n\r\n", to, pulse, Way::Out).await);
        }
        if say(format!("{size:x}\r\n").as_bytes(), to, pulse, Way::Out).await == End::Unheard
            || pass_bytes(size, from, to, pulse).await? == End::Unheard
        {
            return Ok(End::Unheard);
        }
        if !strict_line(from, &mut { MAX_SIZE_LINE }).await?.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if say(b"\r\n", to, pulse, Way::Out).await == End::Unheard {
            return Ok(End::Unheard);
        }
    }
}

async fn skip_trailers(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<()> {
    let mut allowed = MAX_TRAILERS;
    while !strict_line(from, &mut allowed).await?.is_empty() {}
    Ok(())
}

/// A line that ends in CR and LF.
async fn strict_line(
    from: &mut (impl AsyncBufRead + Unpin),
    allowed: &mut usize,
) -> io::Result<Vec<u8>> {
    let mut line = line(from, allowed).await.map_err(|_| io::ErrorKind::InvalidData)?;
    match line.pop() {
        Some(b'\r') => Ok(line),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The size of a chunk; what may follow it is an extension.
fn size(line: &[u8]) -> io::Result<u64> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    let hexadecimal = digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| hexadecimal);
    let size = text.and_then(|text| u64::from_str_radix(text, 16).ok());
    size.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::{TcpListener, TcpStream};

    use super::super::record::Record;
    use super::*;

    /// What a host gets of a body, and how much of what was sent is left; `None` if the body is refused.
    async fn pass(body: Body, sent: &str) -> Option<(String, usize)> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut host, _) = listener.accept().await.unwrap();
        let (_reader, mut writer) = ours.into_split();
        let record = Record::default();
        let pulse = Pulse::new(&record, Duration::from_secs(30));
        let mut rest = sent.as_bytes();
        let end = body.pass(&mut rest, &mut writer, &pulse).await;
        drop(writer);
        let mut got = String::new();
        host.read_to_string(&mut got).await.unwrap();
        end.ok().map(|_| (got, rest.len()))
    }

    #[tokio::test]
    async fn bodies_go_as_far_as_they_say() {
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
