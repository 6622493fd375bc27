//! Serves a client that speaks HTTP: its one request, and the proxy's own responses where no host answers.

use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout_at};

use super::gate::{Failure, FailureKind};
use super::request::{RejectedRequest, RequestKind, read};
use super::side::ConnectionSide;
use super::{Shared, forward, tunnel};

/// Serves one request.
pub(super) async fn serve(shared: &Shared, mut client: ConnectionSide, deadline: Instant) {
    let late = |_| Err(RejectedRequest::new(408, "the head of the request did not come in time"));
    let request = match timeout_at(deadline, read(&mut client.reader)).await.unwrap_or_else(late) {
        Ok(request) => request,
        Err(rejected) => {
            return client.close_with(&own_response(rejected.status, &rejected.text)).await;
        }
    };
    match (shared.open(&request.target).await, request.kind) {
        (Ok(origin), RequestKind::Tunnel) => {
            if client.writer.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_ok()
            {
                tunnel::run(client, origin, &shared.monitor()).await;
            }
        }
        (Ok(origin), RequestKind::Forward(head, body)) => {
            forward::run(client, origin, &head, body, &shared.monitor()).await;
        }
        (Err(failure), _) => {
            client.close_with(&own_response(status(&failure), &failure.text)).await;
        }
    }
}

/// Returns the status for a failure.
fn status(failure: &Failure) -> u16 {
    match failure.kind {
        FailureKind::Refused(_) => 403,
        FailureKind::NoSuchHost | FailureKind::NoAnswer(_) => 502,
        FailureKind::TooLate => 504,
    }
}

/// Returns the response to a client that speaks none of the protocols.
pub(super) fn unknown_protocol_response() -> Vec<u8> {
    own_response(400, "this is a proxy for HTTP, CONNECT and SOCKS5")
}

/// Returns a response of the proxy itself. Its text is also the reason phrase of the status, because many programs show nothing else of a
/// refused `CONNECT`.
pub(super) fn own_response(status: u16, text: &str) -> Vec<u8> {
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
    fn text_cannot_break_the_response() {
        let bytes = own_response(403, "a\r\nB: ü");
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 403 windlass: a??B: ?\r\nContent-Type: "), "{head}");
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
        assert_eq!(body, "windlass: a\r\nB: ü\n");
    }
}
