//! A client that speaks HTTP: its one request, and our own words where no host answers.

use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout_at};

use super::gate::{Failure, FailureKind};
use super::request::{Fault, Wish, read};
use super::side::Side;
use super::{Shared, forward, tunnel};

/// Serves a request.
pub(super) async fn serve(shared: &Shared, mut client: Side, deadline: Instant) {
    let late = |_| Err(Fault::new(408, "the head of the request did not come in time"));
    let request = match timeout_at(deadline, read(&mut client.reader)).await.unwrap_or_else(late) {
        Ok(request) => request,
        Err(fault) => return client.end_with(&answer(fault.status, &fault.text)).await,
    };
    match (shared.open(&request.target).await, request.wish) {
        (Ok(origin), Wish::Tunnel) => {
            if client.writer.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_ok()
            {
                tunnel::run(client, origin, &shared.pulse()).await;
            }
        }
        (Ok(origin), Wish::Forward(head, body)) => {
            forward::run(client, origin, &head, body, &shared.pulse()).await;
        }
        (Err(failure), _) => {
            client.end_with(&answer(status(&failure), &failure.text)).await;
        }
    }
}

fn status(failure: &Failure) -> u16 {
    match failure.kind {
        FailureKind::Refused(_) => 403,
        FailureKind::NoSuchHost | FailureKind::NoAnswer(_) => 502,
        FailureKind::TooLate => 504,
    }
}

/// The answer to a client that speaks none of our languages.
pub(super) fn not_understood() -> Vec<u8> {
    answer(400, "this is a proxy for HTTP, CONNECT and SOCKS5")
}

/// An answer of our own. Its text is also the reason behind the status, because many programs show nothing else of a refused
/// `CONNECT`.
pub(super) fn answer(status: u16, text: &str) -> Vec<u8> {
    let text = format!("windlass: {text}");
    let plain = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
    let reason: String = text.chars().map(plain).collect();
    let length = text.len() + 1;
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{text}\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_whatever_its_text() {
        let bytes = answer(403, "a\r\nB: ü");
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 403 windlass: a??B: ?\r\nContent-Type: "), "{head}");
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
        assert_eq!(body, "windlass: a\r\nB: ü\n");
    }
}
