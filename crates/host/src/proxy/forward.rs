//! A request to a host, and its answer back.
//!
//! Both go at the same time: a host may answer before it has heard all, and may be asked whether it wants to (`100 Continue`).
//! Of the answer only the head is read, leniently, to say that the connection ends with it; how a program understands what a
//! host tells it is between the two.

use std::io;

use tokio::io::AsyncBufRead;
use tokio::net::tcp::OwnedWriteHalf;

use super::body::Body;
use super::http::answer;
use super::lines::line;
use super::record::{Pulse, Way};
use super::side::{End, Side, pump, say};

/// Bytes of all heads of an answer.
const MAX_HEAD: usize = 256 << 10;

/// Headers of an answer that concern the connection of the host.
const NOT_PASSED_ON: [&[u8]; 4] = [b"connection", b"keep-alive", b"proxy-connection", b"upgrade"];

/// Sends a request with its body and passes the answer on, to its end.
pub(super) async fn run(
    mut client: Side,
    mut origin: Side,
    head: &[u8],
    body: Body,
    pulse: &Pulse<'_>,
) {
    match exchange(&mut client, &mut origin, head, body, pulse).await {
        Ok(()) => client.end_with(b"").await,
        Err(Broken::AtFirst) => {
            let text = "the host closed the connection without an answer that is HTTP";
            client.end_with(&answer(502, text)).await;
        }
        Err(Broken::Midway) => {
            client.reset();
            origin.reset();
        }
    }
}

async fn exchange(
    client: &mut Side,
    origin: &mut Side,
    head: &[u8],
    body: Body,
    pulse: &Pulse<'_>,
) -> Result<(), Broken> {
    let ask = async {
        match say(head, &mut origin.writer, pulse, Way::Out).await {
            End::Said => body.pass(&mut client.reader, &mut origin.writer, pulse).await,
            End::Unheard => Ok(End::Unheard),
        }
    };
    tokio::select! {
        heard = pass_answer(&mut origin.reader, &mut client.writer, pulse) => heard,
        // A request that is said, or that the host does not want to hear to its end, ends nothing.
        Err(error) = ask => Err(error.into()),
        () = pulse.stopped() => Err(Broken::Midway),
    }
}

/// Why there is no whole answer.
#[derive(Debug, PartialEq, Eq)]
enum Broken {
    /// There is none; nothing was passed on.
    AtFirst,
    /// It came in part, or the request did.
    Midway,
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self::Midway
    }
}

async fn pass_answer(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut OwnedWriteHalf,
    pulse: &Pulse<'_>,
) -> Result<(), Broken> {
    let mut allowed = MAX_HEAD;
    let mut broken = Broken::AtFirst;
    loop {
        let Some(head) = read_head(from, &mut allowed).await else { return Err(broken) };
        broken = Broken::Midway;
        if say(&head.bytes, to, pulse, Way::In).await == End::Unheard {
            return Err(broken);
        }
        if head.last {
            pump(from, to, pulse, Way::In).await?;
            return Ok(());
        }
    }
}

/// The head of an answer as the client gets it.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    bytes: Vec<u8>,
    /// Whether the answer follows, and not another head.
    last: bool,
}

async fn read_head(from: &mut (impl AsyncBufRead + Unpin), allowed: &mut usize) -> Option<Head> {
    let first = line(from, allowed).await.ok()?;
    let last = is_last(&first)?;
    let mut bytes = Vec::new();
    push(&mut bytes, &first);
    let mut passes = true;
    loop {
        let line = line(from, allowed).await.ok()?;
        if line.trim_ascii().is_empty() {
            break;
        }
        // A line that begins with a blank goes on where the one before it ended.
        if !line.starts_with(b" ") && !line.starts_with(b"\t") {
            passes = !last || !is_about_the_connection(&line);
        }
        if passes {
            push(&mut bytes, &line);
        }
    }
    if last {
        push(&mut bytes, b"Connection: close");
    }
    push(&mut bytes, b"");
    Some(Head { bytes, last })
}

fn push(head: &mut Vec<u8>, line: &[u8]) {
    head.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
    head.extend_from_slice(b"\r\n");
}

/// Whether a status is the last one; `None` if it is not a status of HTTP/1.
fn is_last(line: &[u8]) -> Option<bool> {
    let mut words = line.strip_prefix(b"HTTP/1.")?.split(u8::is_ascii_whitespace);
    let status = words.nth(1).filter(|word| word.len() == 3)?;
    let digits = status.iter().all(u8::is_ascii_digit);
    digits.then_some(!status.starts_with(b"1") || status == b"101")
}

fn is_about_the_connection(line: &[u8]) -> bool {
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default().trim_ascii();
    NOT_PASSED_ON.iter().any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(head: &str, expected: Option<(&str, bool)>) {
        let mut bytes = head.as_bytes();
        let read = read_head(&mut bytes, &mut { MAX_HEAD }).await;
        let expected = expected.map(|(text, last)| Head { bytes: text.into(), last });
        assert_eq!(read, expected, "{head:?}");
    }

    #[tokio::test]
    async fn heads_of_answers() {
        for (head, expected) in [
            (
                "HTTP/1.1 200 OK\r\nA: b\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\nbody",
                Some(("HTTP/1.1 200 OK\r\nA: b\r\nConnection: close\r\n\r\n", true)),
            ),
            // Sloppy hosts.
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
        check(&format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "b".repeat(MAX_HEAD)), None).await;
    }
}
