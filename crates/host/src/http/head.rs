//! Reads the head of a response, and lines in general: bounded, and in one way only.

use windlass_core::ToolError;

use super::connection::Connection;

/// Status and headers of a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    /// Headers: names in lower case, with values.
    pub(super) headers: Vec<(String, String)>,
}

impl Head {
    /// Reads a head up to its empty line.
    pub(super) async fn read(connection: &mut Connection) -> Result<Self, ToolError> {
        let line = read_head_line(connection).await?;
        let status = parse_status(&line);
        let status = status.ok_or_else(|| connection.failed("it does not answer in HTTP/1.1"))?;
        Ok(Self { status, headers: read_headers(connection).await? })
    }

    /// Iterates over the values of a header, also over several values in one line.
    pub(super) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let same = self.headers.iter().filter(move |(known, _)| known == name);
        same.flat_map(|(_, value)| value.split(',')).map(str::trim)
    }
}

/// Reads headers up to the empty line: of a head, or the trailers after a body.
pub(super) async fn read_headers(
    connection: &mut Connection,
) -> Result<Vec<(String, String)>, ToolError> {
    let mut headers = Vec::new();
    loop {
        let line = read_head_line(connection).await?;
        if line.is_empty() {
            return Ok(headers);
        }
        headers
            .push(parse_header(&line).ok_or_else(|| connection.failed("a header is malformed"))?);
    }
}

/// Reads one line of a head or of trailers, which share one limit of bytes.
async fn read_head_line(connection: &mut Connection) -> Result<Vec<u8>, ToolError> {
    let (line, used) =
        read_line(connection, connection.limits.header_bytes - connection.header_bytes).await?;
    connection.header_bytes += used;
    Ok(line)
}

/// Reads one line of at most `max_bytes`. Returns it without its line end, and the number of bytes with it.
pub(super) async fn read_line(
    connection: &mut Connection,
    max_bytes: usize,
) -> Result<(Vec<u8>, usize), ToolError> {
    let mut seen = 0;
    loop {
        let unused = connection.unused();
        let end = memchr::memchr(b'\n', unused.get(seen..).unwrap_or_default());
        seen = end.map_or(unused.len(), |end| seen + end + 1);
        if seen > max_bytes {
            return Err(connection.failed("its head has more bytes than it may have"));
        }
        if end.is_some() {
            let line = unused.get(..seen).unwrap_or_default();
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
            connection.use_bytes(seen);
            return Ok((line, seen));
        }
        if !connection.read_more().await? {
            return Err(connection.failed("the connection was cut in the middle of a line"));
        }
    }
}

/// Parses a status line; `None` if it is not one of HTTP/1.0 or HTTP/1.1.
fn parse_status(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.1 ").or_else(|| line.strip_prefix(b"HTTP/1.0 "))?;
    let (digits, rest) = rest.split_at_checked(3)?;
    let is_status =
        digits.iter().all(u8::is_ascii_digit) && matches!(rest.first(), None | Some(b' '));
    let status = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (is_status && status >= 100).then_some(status)
}

/// Parses a header into its name in lower case and its value.
fn parse_header(line: &[u8]) -> Option<(String, String)> {
    let colon = memchr::memchr(b':', line)?;
    let (name, value) = line.split_at_checked(colon)?;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let is_value = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    let value = value.strip_prefix(b":")?.trim_ascii();
    if name.is_empty() || !name.iter().all(is_name) || !value.iter().all(is_value) {
        return None;
    }
    // A value that is not UTF-8 is read as Latin-1.
    let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    };
    Some((text(name).to_ascii_lowercase(), text(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lines() {
        for (line, status) in [
            ("HTTP/1.1 200 OK", Some(200)),
            ("HTTP/1.0 404", Some(404)),
            ("HTTP/1.1 200", Some(200)),
            ("HTTP/1.1 2000 OK", None),
            ("HTTP/1.1 20 OK", None),
            ("HTTP/1.1 +20 OK", None),
            ("HTTP/1.1 099 OK", None),
            ("HTTP/2 200 OK", None),
            ("<html>", None),
            ("", None),
        ] {
            assert_eq!(parse_status(line.as_bytes()), status, "{line}");
        }
    }

    #[test]
    fn header_lines() {
        for (line, header) in [
            (&b"Content-Type:text/html "[..], Some(("content-type", "text/html"))),
            (b"X: \xfc", Some(("x", "\u{fc}"))),
            (b"X:", Some(("x", ""))),
            (b"X : y", None),
            (b" folded", None),
            (b": y", None),
            (b"X", None),
            (b"X: a\0b", None),
            (b"X: a\rb", None),
        ] {
            let header = header.map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(parse_header(line), header, "{line:?}");
        }
    }
}
