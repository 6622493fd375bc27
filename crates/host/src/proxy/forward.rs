//! Sends a request to a host and passes its response back.
//!
//! Both happen at the same time: a host may answer before it has read everything, and a client may wait for its consent to send the body
//! (`100 Continue`). Only the head of the response is read, leniently, to add that the connection ends with it; everything else is between
//! program and host.

use std::io;

use tokio::io::AsyncBufRead;
use tokio::net::tcp::OwnedWriteHalf;

use super::body::Body;
use super::http::own_response;
use super::lines::read_line;
use super::record::{Direction, TrafficMonitor};
use super::side::{ConnectionSide, CopyEnd, copy_bytes, write_counted};

/// Maximum bytes of all heads of a response.
const MAX_HEAD_BYTES: usize = 256 << 10;

/// Headers of a response that concern only the connection of the host.
const CONNECTION_HEADERS: [&[u8]; 4] =
    [b"connection", b"keep-alive", b"proxy-connection", b"upgrade"];

/// Sends a request with its body and passes the response on to its end.
pub(super) async fn run(
    mut client: ConnectionSide,
    mut origin: ConnectionSide,
    head: &[u8],
    body: Body,
    monitor: &TrafficMonitor<'_>,
) {
    match exchange(&mut client, &mut origin, head, body, monitor).await {
        Ok(()) => client.close_with(b"").await,
        Err(ResponseError::NoResponse) => {
            let text = "the host closed the connection without an answer that is HTTP";
            client.close_with(&own_response(502, text)).await;
        }
        Err(ResponseError::CutOff) => {
            client.reset();
            origin.reset();
        }
    }
}

/// Sends the request and passes the response on, at the same time.
async fn exchange(
    client: &mut ConnectionSide,
    origin: &mut ConnectionSide,
    head: &[u8],
    body: Body,
    monitor: &TrafficMonitor<'_>,
) -> Result<(), ResponseError> {
    let ask = async {
        match write_counted(head, &mut origin.writer, monitor, Direction::Out).await {
            CopyEnd::Complete => body.pass(&mut client.reader, &mut origin.writer, monitor).await,
            CopyEnd::ReceiverGone => Ok(CopyEnd::ReceiverGone),
        }
    };
    tokio::select! {
        heard = pass_response(&mut origin.reader, &mut client.writer, monitor) => heard,
        // The end of the request does not end the exchange, nor does a host that stops reading it.
        Err(error) = ask => Err(error.into()),
        () = monitor.idle_or_over_budget() => Err(ResponseError::CutOff),
    }
}

/// Reason for an incomplete response.
#[derive(Debug, PartialEq, Eq)]
enum ResponseError {
    /// The host sent no response; the client got nothing.
    NoResponse,
    /// The response or the request broke off in the middle.
    CutOff,
}

impl From<io::Error> for ResponseError {
    fn from(_: io::Error) -> Self {
        Self::CutOff
    }
}

/// Passes the response on: interim heads, the final head, and the rest of the connection.
async fn pass_response(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut OwnedWriteHalf,
    monitor: &TrafficMonitor<'_>,
) -> Result<(), ResponseError> {
    let mut allowed = MAX_HEAD_BYTES;
    let mut error = ResponseError::NoResponse;
    loop {
        let Some(head) = read_head(from, &mut allowed).await else { return Err(error) };
        error = ResponseError::CutOff;
        if write_counted(&head.bytes, to, monitor, Direction::In).await == CopyEnd::ReceiverGone {
            return Err(error);
        }
        if head.is_final {
            copy_bytes(from, to, monitor, Direction::In).await?;
            return Ok(());
        }
    }
}

/// The head of a response as the client gets it.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    bytes: Vec<u8>,
    /// True for the final head, which the body follows; false for an interim one.
    is_final: bool,
}

/// Reads a head, without the headers of the host's connection. `None` if it is malformed or too long.
async fn read_head(from: &mut (impl AsyncBufRead + Unpin), allowed: &mut usize) -> Option<Head> {
    let first = read_line(from, allowed).await.ok()?;
    let is_final = is_final_status(&first)?;
    let mut bytes = Vec::new();
    push_line(&mut bytes, &first);
    let mut passes = true;
    loop {
        let line = read_line(from, allowed).await.ok()?;
        if line.trim_ascii().is_empty() {
            break;
        }
        // A line that begins with a blank continues the one before it.
        if !line.starts_with(b" ") && !line.starts_with(b"\t") {
            passes = !is_final || !is_connection_header(&line);
        }
        if passes {
            push_line(&mut bytes, &line);
        }
    }
    if is_final {
        push_line(&mut bytes, b"Connection: close");
    }
    push_line(&mut bytes, b"");
    Some(Head { bytes, is_final })
}

/// Adds a line with CR and LF.
fn push_line(head: &mut Vec<u8>, line: &[u8]) {
    head.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
    head.extend_from_slice(b"\r\n");
}

/// Returns whether a status line is the final one; `None` if it is not one of HTTP/1.
fn is_final_status(line: &[u8]) -> Option<bool> {
    let mut words = line.strip_prefix(b"HTTP/1.")?.split(u8::is_ascii_whitespace);
    let status = words.nth(1).filter(|word| word.len() == 3)?;
    let digits = status.iter().all(u8::is_ascii_digit);
    digits.then_some(!status.starts_with(b"1") || status == b"101")
}

/// Returns whether a header concerns only the connection of the host.
fn is_connection_header(line: &[u8]) -> bool {
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default().trim_ascii();
    CONNECTION_HEADERS.iter().any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(head: &str, expected: Option<(&str, bool)>) {
        let mut bytes = head.as_bytes();
        let read = read_head(&mut bytes, &mut { MAX_HEAD_BYTES }).await;
        let expected = expected.map(|(text, is_final)| Head { bytes: text.into(), is_final });
        assert_eq!(read, expected, "{head:?}");
    }

    #[tokio::test]
    async fn heads_of_answers() {
        for (head, expected) in [
            (
                "HTTP/1.1 200 OK\r\nA: b\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\nbody",
                Some(("HTTP/1.1 200 OK\r\nA: b\r\nConnection: close\r\n\r\n", true)),
            ),
            // Hosts with loose syntax.
            (
                "HTTP/1.0 404\nConnection : a,\n b\nC: d\n e\n\nbody",
                Some(("HTTP/1.0 404\r\nC: d\r\n e\r\nConnection: close\r\n\r\n", true)),
            ),
            ("HTTP/1.1 100 Continue\r\n\r\n", Some(("HTTP/1.1 100 Continue\r\n\r\n", false))),
            (
                "HTTP/1.1 103 Early\r\nLink: a\r\n\r\n",
                Some(("HTTP/1.1 103 Early\r\nLink: a\r\n\r\n", false)),
            ),
            ("HTTP/2 200\r\n\r\n", None),
            ("HTTP/1.1 2000 OK\r\n\r\n", None),
            ("HTTP/1.1 abc OK\r\n\r\n", None),
            ("HTTP/1.1\r\n\r\n", None),
            ("SSH-2.0-OpenSSH\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\nA: b\r\n", None),
            ("", None),
        ] {
            check(head, expected).await;
        }
        check(&format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "b".repeat(MAX_HEAD_BYTES)), None).await;
    }
}
