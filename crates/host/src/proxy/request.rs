//! Reads the head of an HTTP request to the proxy, checks it, and writes a new one for the host.
//!
//! No byte of it is passed on unchecked. A request that two readers could understand differently is refused, not repaired: two lengths of
//! one body, folded lines, wrong line ends, blanks before a colon. The host is taken from the address alone, and the `Host` header is
//! written by the proxy.

use tokio::io::AsyncBufRead;

use super::body::Body;
use super::lines::{LineError, read_line};
use super::target::Target;

/// Maximum bytes of a head.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Maximum headers in a head.
const MAX_HEADERS: usize = 100;

/// Maximum bytes of a malformed text in a message.
const MAX_QUOTED_BYTES: usize = 80;

/// Headers that are for the proxy, or that it writes itself.
const REMOVED_HEADERS: &[&str] = &[
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Request of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) target: Target,
    pub(super) kind: RequestKind,
}

/// Kind of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// `CONNECT`.
    Tunnel,
    /// Any other method: the head for the host, and the rule for the end of its body.
    Forward(Vec<u8>, Body),
}

/// A request that the proxy answers itself, with this status and text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RejectedRequest {
    pub(super) status: u16,
    pub(super) text: String,
}

impl RejectedRequest {
    pub(super) fn new(status: u16, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }
}

/// Reads a request up to its body.
pub(super) async fn read(
    reader: &mut (impl AsyncBufRead + Unpin),
) -> Result<Request, RejectedRequest> {
    let mut allowed = MAX_HEAD_BYTES;
    let first = read_line(reader, &mut allowed).await.map_err(rejected_head)?;
    // Checked at once: a client with other line ends would wait for an answer to a head that never ends.
    let first = strip_carriage_return(&first)?;
    let mut headers = Vec::new();
    loop {
        let read = read_line(reader, &mut allowed).await.map_err(rejected_head)?;
        let text = strip_carriage_return(&read)?;
        if text.is_empty() {
            return parse(first, &headers);
        }
        if headers.len() == MAX_HEADERS {
            return Err(RejectedRequest::new(
                431,
                format!("a request has at most {MAX_HEADERS} headers"),
            ));
        }
        headers.push(header(text)?);
    }
}

/// Returns the rejection for a head that could not be read.
fn rejected_head(error: LineError) -> RejectedRequest {
    match error {
        LineError::TooLong => RejectedRequest::new(
            431,
            format!("the head of a request has at most {MAX_HEAD_BYTES} bytes"),
        ),
        LineError::Ended => RejectedRequest::new(400, "the request ended in its head"),
    }
}

/// Removes the carriage return, which must be the last byte. Refuses other control characters except tabs.
fn strip_carriage_return(line: &[u8]) -> Result<&[u8], RejectedRequest> {
    let line = line.strip_suffix(b"\r");
    let line =
        line.ok_or_else(|| RejectedRequest::new(400, "lines of a request end in CR and LF"))?;
    match line.iter().find(|byte| byte.is_ascii_control() && **byte != b'\t') {
        Some(_) => Err(RejectedRequest::new(400, format!("control character in {}", quoted(line)))),
        None => Ok(line),
    }
}

/// One header of a request.
#[derive(Debug)]
struct Header {
    /// Name in lower case.
    name: String,
    line: Vec<u8>,
    value: Vec<u8>,
}

/// Parses a header.
fn header(line: &[u8]) -> Result<Header, RejectedRequest> {
    let wrong = || RejectedRequest::new(400, format!("not a header: {}", quoted(line)));
    let colon = line.iter().position(|byte| *byte == b':').ok_or_else(wrong)?;
    let (name, value) = line.split_at_checked(colon).ok_or_else(wrong)?;
    // A folded line begins with a blank, which no name contains.
    let name = token(name).ok_or_else(wrong)?.to_ascii_lowercase();
    let value = value.strip_prefix(b":").unwrap_or_default().trim_ascii().to_owned();
    Ok(Header { name, line: line.to_owned(), value })
}

/// Returns the bytes as text if they are a token of HTTP.
fn token(bytes: &[u8]) -> Option<&str> {
    let known = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let text = std::str::from_utf8(bytes).ok()?;
    (!bytes.is_empty() && bytes.iter().all(known)).then_some(text)
}

/// Parses a request from its first line and headers.
fn parse(first: &[u8], headers: &[Header]) -> Result<Request, RejectedRequest> {
    let (method, address, version) = request_line(first)?;
    if named(headers, "host").count() > 1 {
        return Err(RejectedRequest::new(400, "more than one Host header"));
    }
    if method == "CONNECT" {
        let target = text(address).and_then(|text| Target::parse(text, None));
        let target = target.ok_or_else(|| {
            RejectedRequest::new(400, format!("CONNECT needs HOST:PORT, not {}", quoted(address)))
        })?;
        return Ok(Request { target, kind: RequestKind::Tunnel });
    }
    let body = body(headers, version)?;
    let (target, path) = split_address(method, address)?;
    let head = head_for_host(method, path, version, &target, headers, body);
    Ok(Request { target, kind: RequestKind::Forward(head, body) })
}

/// Splits the first line into method, address and version.
fn request_line(line: &[u8]) -> Result<(&str, &[u8], &str), RejectedRequest> {
    let wrong = || RejectedRequest::new(400, format!("not a request of HTTP: {}", quoted(line)));
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(method), Some(address), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(wrong());
    };
    let method = token(method).ok_or_else(wrong)?;
    if address.is_empty() || address.contains(&b'\t') {
        return Err(wrong());
    }
    match text(version) {
        Some(version @ ("HTTP/1.1" | "HTTP/1.0")) => Ok((method, address, version)),
        Some(other) if other.starts_with("HTTP/") => {
            Err(RejectedRequest::new(505, "this proxy speaks HTTP/1.1 and HTTP/1.0"))
        }
        _ => Err(wrong()),
    }
}

/// Splits an absolute address into the host and the path.
fn split_address<'a>(
    method: &str,
    address: &'a [u8],
) -> Result<(Target, Path<'a>), RejectedRequest> {
    let wrong = || RejectedRequest::new(400, format!("not an address: {}", quoted(address)));
    if address.starts_with(b"/") || address == b"*" {
        let text = "this is a proxy: it needs the whole address (http://HOST/PATH) or CONNECT";
        return Err(RejectedRequest::new(400, text));
    }
    let rest = after_scheme(address)?;
    if rest.contains(&b'#') {
        return Err(wrong());
    }
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).ok_or_else(wrong)?;
    let target = text(authority).and_then(|text| Target::parse(text, Some(80)));
    let path = match path.first() {
        None if method == "OPTIONS" => Path { root: "*", rest: path },
        Some(b'/') => Path { root: "", rest: path },
        None | Some(_) => Path { root: "/", rest: path },
    };
    Ok((target.ok_or_else(wrong)?, path))
}

/// Removes `http://` from an address.
fn after_scheme(address: &[u8]) -> Result<&[u8], RejectedRequest> {
    let separator = address.windows(3).position(|three| three == b"://");
    let parts = separator.and_then(|at| Some((address.get(..at)?, address.get(at + 3..)?)));
    match parts {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(b"http") => Ok(rest),
        Some((scheme, _)) if scheme.eq_ignore_ascii_case(b"https") => {
            Err(RejectedRequest::new(400, "https goes through this proxy by CONNECT only"))
        }
        _ => Err(RejectedRequest::new(400, format!("only http and https: {}", quoted(address)))),
    }
}

/// Path for the host: `root` is a slash or star to add if `rest` has none.
#[derive(Debug, Clone, Copy)]
struct Path<'a> {
    root: &'a str,
    rest: &'a [u8],
}

/// Returns the rule for the end of the body. Refuses contradictory or unknown headers.
fn body(headers: &[Header], version: &str) -> Result<Body, RejectedRequest> {
    let mut lengths = named(headers, "content-length");
    let mut encodings = named(headers, "transfer-encoding");
    match (lengths.next(), encodings.next()) {
        (None, None) => Ok(Body::Empty),
        (Some(_), Some(_)) => Err(RejectedRequest::new(
            400,
            "both Content-Length and Transfer-Encoding: which is it?",
        )),
        (Some(length), None) => {
            let number = text(&length.value).filter(|_| lengths.next().is_none()).and_then(number);
            number
                .map(Body::Length)
                .ok_or_else(|| RejectedRequest::new(400, "Content-Length is no number"))
        }
        (None, Some(encoding)) => {
            let chunked = encoding.value.eq_ignore_ascii_case(b"chunked");
            if chunked && encodings.next().is_none() && version == "HTTP/1.1" {
                Ok(Body::Chunked)
            } else {
                Err(RejectedRequest::new(501, "the only Transfer-Encoding is chunked, in HTTP/1.1"))
            }
        }
    }
}

/// Parses a number of digits alone.
fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Writes the head for the host. Each connection carries one request, because the next one would have to be checked again.
fn head_for_host(
    method: &str,
    path: Path<'_>,
    version: &str,
    target: &Target,
    headers: &[Header],
    body: Body,
) -> Vec<u8> {
    let connection_headers = connection_headers(headers);
    let passes = |header: &&Header| {
        !REMOVED_HEADERS.contains(&header.name.as_str())
            && !connection_headers.contains(&header.name)
    };
    let mut head = [method.as_bytes(), b" ", path.root.as_bytes(), path.rest, b" "].concat();
    head.extend_from_slice(format!("{version}\r\nHost: {}\r\n", host(target)).as_bytes());
    for header in headers.iter().filter(passes) {
        head.extend_from_slice(&header.line);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(body.header().as_bytes());
    head.extend_from_slice(b"Connection: close\r\n\r\n");
    head
}

/// Returns the names of headers that the client declares to be for this connection only.
fn connection_headers(headers: &[Header]) -> Vec<String> {
    let lists = named(headers, "connection").filter_map(|header| text(&header.value));
    let names = lists.flat_map(|list| list.split(','));
    names.map(|name| name.trim().to_ascii_lowercase()).collect()
}

/// Returns the value of the `Host` header.
fn host(target: &Target) -> String {
    let text = target.to_string();
    match text.strip_suffix(":80") {
        Some(host) => host.to_owned(),
        None => text,
    }
}

/// Iterates over the headers of a name.
fn named<'a>(headers: &'a [Header], name: &'static str) -> impl Iterator<Item = &'a Header> {
    headers.iter().filter(move |header| header.name == name)
}

/// Returns bytes as text, if they are UTF-8.
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Quotes a malformed text for a message, shortened and escaped.
fn quoted(bytes: &[u8]) -> String {
    let shown = bytes.get(..MAX_QUOTED_BYTES).unwrap_or(bytes);
    let dots = if shown.len() < bytes.len() { "..." } else { "" };
    format!("`{}{dots}`", shown.escape_ascii())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_now(mut bytes: &[u8]) -> Result<Request, RejectedRequest> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(read(&mut bytes))
    }

    #[track_caller]
    fn check(request: &str, target: &str, expected: &str) {
        let request = read_now(request.as_bytes()).unwrap();
        assert_eq!(request.target.to_string(), target);
        match request.kind {
            RequestKind::Tunnel => assert_eq!("tunnel", expected),
            RequestKind::Forward(head, _) => assert_eq!(String::from_utf8(head).unwrap(), expected),
        }
    }

    #[track_caller]
    fn check_fault(request: &[u8], status: u16, part: &str) {
        let rejected = read_now(request).unwrap_err();
        let shown = request.escape_ascii();
        assert!(rejected.status == status && rejected.text.contains(part), "{shown}: {rejected:?}");
    }

    #[test]
    fn request_is_written_anew_for_its_host() {
        for (request, target, expected) in [
            (
                "GET http://docs.rs/a?b HTTP/1.1\r\nHost: docs.rs\r\nAccept: */*\r\n\r\n",
                "docs.rs:80",
                "GET /a?b HTTP/1.1\r\nHost: docs.rs\r\nAccept: */*\r\nConnection: close\r\n\r\n",
            ),
            // The address decides, not the header.
            (
                "GET HTTP://Docs.RS.:8080 HTTP/1.0\r\nHost: evil.example\r\n\r\n",
                "docs.rs:8080",
                "GET / HTTP/1.0\r\nHost: docs.rs:8080\r\nConnection: close\r\n\r\n",
            ),
            (
                "GET http://docs.rs?q=http://other/ HTTP/1.1\r\n\r\n",
                "docs.rs:80",
                "GET /?q=http://other/ HTTP/1.1\r\nHost: docs.rs\r\nConnection: close\r\n\r\n",
            ),
            (
                "OPTIONS http://[::1]:81 HTTP/1.1\r\n\r\n",
                "[::1]:81",
                "OPTIONS * HTTP/1.1\r\nHost: [::1]:81\r\nConnection: close\r\n\r\n",
            ),
            // Headers for the proxy alone are removed; repeated headers stay.
            (
                "GET http://docs.rs/ HTTP/1.1\r\nProxy-Connection: keep-alive\r\nX-Mine: 1\r\nTE: trailers\r\n\
                 Connection: X-Mine, keep-alive\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\nProxy-Authorization: Basic eA==\r\n\
                 A:b\r\nA: \tc \r\n\r\n",
                "docs.rs:80",
                "GET / HTTP/1.1\r\nHost: docs.rs\r\nA:b\r\nA: \tc \r\nConnection: close\r\n\r\n",
            ),
            // A length cannot be removed by naming it in `Connection`.
            (
                "POST http://docs.rs/ HTTP/1.1\r\nConnection: content-length, host\r\nContent-Length: 3\r\n\r\nabc",
                "docs.rs:80",
                "POST / HTTP/1.1\r\nHost: docs.rs\r\nContent-Length: 3\r\nConnection: close\r\n\r\n",
            ),
            (
                "PUT http://docs.rs/ HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n",
                "docs.rs:80",
                "PUT / HTTP/1.1\r\nHost: docs.rs\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
            ),
            ("CONNECT docs.rs:443 HTTP/1.1\r\nHost: x\r\n\r\n", "docs.rs:443", "tunnel"),
            ("CONNECT [::1]:443 HTTP/1.0\r\n\r\n", "[::1]:443", "tunnel"),
        ] {
            check(request, target, expected);
        }
    }

    #[test]
    fn ambiguous_requests_are_refused() {
        let get = |headers: &str| format!("GET http://docs.rs/ HTTP/1.1\r\n{headers}\r\n");
        for (headers, status, part) in [
            ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", 400, "which is it"),
            ("Content-Length: 3\r\nContent-Length: 3\r\n", 400, "Content-Length"),
            ("Content-Length: 3, 3\r\n", 400, "Content-Length"),
            ("Content-Length: +3\r\n", 400, "Content-Length"),
            ("Content-Length: 0x3\r\n", 400, "Content-Length"),
            ("Content-Length: \r\n", 400, "Content-Length"),
            ("Content-Length: 99999999999999999999\r\n", 400, "Content-Length"),
            ("Transfer-Encoding: gzip, chunked\r\n", 501, "chunked"),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 501, "chunked"),
            ("Transfer-Encoding: xchunked\r\n", 501, "chunked"),
            ("Transfer-Encoding: \u{b}chunked\r\n", 400, "control"),
            ("Host: a\r\nhost: b\r\n", 400, "Host"),
            ("A: b\r\n c\r\n", 400, "not a header"),
            ("A: b\r\n\tc: d\r\n", 400, "not a header"),
            ("A : b\r\n", 400, "not a header"),
            (" A: b\r\n", 400, "not a header"),
            (": b\r\n", 400, "not a header"),
            ("A\r\n", 400, "not a header"),
            ("A: b\nC: d\r\n", 400, "CR and LF"),
            ("A: b\rC: d\r\n", 400, "control"),
            ("A: b\r\r\n", 400, "control"),
            ("A: b\0\r\n", 400, "control"),
        ] {
            check_fault(get(headers).as_bytes(), status, part);
        }
    }

    #[test]
    fn malformed_requests_are_refused() {
        for (line, status, part) in [
            ("GET / HTTP/1.1", 400, "this is a proxy"),
            ("OPTIONS * HTTP/1.1", 400, "this is a proxy"),
            ("GET https://docs.rs/ HTTP/1.1", 400, "CONNECT"),
            ("GET ftp://docs.rs/ HTTP/1.1", 400, "only http"),
            ("GET file:///etc/passwd HTTP/1.1", 400, "only http"),
            ("GET docs.rs HTTP/1.1", 400, "only http"),
            ("GET http:///path HTTP/1.1", 400, "not an address"),
            ("GET http://user:word@docs.rs/ HTTP/1.1", 400, "not an address"),
            ("GET http://docs.rs\\@evil/ HTTP/1.1", 400, "not an address"),
            ("GET http://docs.rs/#part HTTP/1.1", 400, "not an address"),
            ("GET http://docs.rs:0/ HTTP/1.1", 400, "not an address"),
            ("GET http://127.1/ HTTP/1.1", 400, "not an address"),
            ("GET http://docs.rs/ HTTP/2.0", 505, "HTTP/1.1"),
            ("PRI * HTTP/2.0", 505, "HTTP/1.1"),
            ("GET http://docs.rs/", 400, "not a request"),
            ("GET  http://docs.rs/ HTTP/1.1", 400, "not a request"),
            ("GET http://docs.rs/ a HTTP/1.1", 400, "not a request"),
            ("GET http://docs.rs/\tHTTP/1.1 HTTP/1.1", 400, "not a request"),
            ("GET http://docs.rs/ http/1.1", 400, "not a request"),
            ("G(T http://docs.rs/ HTTP/1.1", 400, "not a request"),
            ("CONNECT docs.rs HTTP/1.1", 400, "HOST:PORT"),
            ("CONNECT http://docs.rs:443/ HTTP/1.1", 400, "HOST:PORT"),
            ("CONNECT 127.1:443 HTTP/1.1", 400, "HOST:PORT"),
            ("connect docs.rs:443 HTTP/1.1", 400, "only http"),
        ] {
            check_fault(format!("{line}\r\n\r\n").as_bytes(), status, part);
        }
        check_fault(b"GET http://docs.rs/ HTTP/1.1\n\n", 400, "CR and LF");
        check_fault(b"GET http://docs.rs/ HTTP/1.1\r\nA: b\r\n", 400, "ended");
        check_fault(b"GET http://\xff/ HTTP/1.1\r\n\r\n", 400, "not an address");
    }

    #[test]
    fn head_has_limits() {
        let first = "GET http://docs.rs/ HTTP/1.1\r\n";
        let long = format!("{first}A: {}\r\n\r\n", "b".repeat(MAX_HEAD_BYTES));
        check_fault(long.as_bytes(), 431, "65536 bytes");
        let many = |count| format!("{first}{}\r\n", "A: b\r\n".repeat(count));
        check_fault(many(MAX_HEADERS + 1).as_bytes(), 431, "100 headers");
        assert!(read_now(many(MAX_HEADERS).as_bytes()).is_ok());
    }

    #[test]
    fn malformed_text_is_quoted_shortened_and_escaped() {
        assert_eq!(quoted(b"a\r\n\x1b\xff"), "`a\\r\\n\\x1b\\xff`");
        assert_eq!(quoted(&[b'a'; 500]).len(), MAX_QUOTED_BYTES + 5);
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(bytes: Vec<u8>) {
            drop(read_now(&bytes));
        }

        #[test]
        fn forwarded_request_has_one_head_with_one_host(
            method in "GET|POST|PUT|OPTIONS",
            address in "(http://)?[a-z.:@/?#%\\\\ ]{0,20}",
            headers in prop::collection::vec("(Host|Content-Length|Transfer-Encoding|Connection|[A-C ]{1,2}):[ -~\r\n]{0,9}", 0..5),
        ) {
            let request = format!("{method} {address} HTTP/1.1\r\n{}\r\n\r\n", headers.join("\r\n"));
            if let Ok(Request { target, kind: RequestKind::Forward(head, _) }) = read_now(request.as_bytes()) {
                let head = String::from_utf8(head).unwrap();
                let inner = head.strip_suffix("\r\n\r\n").unwrap();
                prop_assert!(!inner.contains("\r\n\r\n") && !inner.replace("\r\n", "").contains(['\r', '\n']));
                let hosts = inner.split("\r\n").filter(|line| line.to_ascii_lowercase().starts_with("host:"));
                prop_assert_eq!(hosts.collect::<Vec<_>>(), vec![format!("Host: {}", host(&target))]);
            }
        }
    }
}
