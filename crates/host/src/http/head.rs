//! The head of an answer, and lines in general: bounded, and read in one way only.

use windlass_core::ToolError;

use super::wire::Wire;

/// The head of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    /// Names in lower case, and values.
    pub(super) headers: Vec<(String, String)>,
}

impl Head {
    pub(super) async fn read(wire: &mut Wire) -> Result<Self, ToolError> {
        let line = read_head_line(wire).await?;
        let status = parse_status(&line);
        let status = status.ok_or_else(|| wire.failed("it does not answer in HTTP/1.1"))?;
        Ok(Self { status, headers: read_headers(wire).await? })
    }

    /// The values of a header, also those that stand in one line.
    pub(super) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let same = self.headers.iter().filter(move |(known, _)| known == name);
        same.flat_map(|(_, value)| value.split(',')).map(str::trim)
    }
}

/// Reads headers up to the empty line: those of a head, or the trailers after a body.
pub(super) async fn read_headers(wire: &mut Wire) -> Result<Vec<(String, String)>, ToolError> {
    let mut headers = Vec::new();
    loop {
        let line = read_head_line(wire).await?;
        if line.is_empty() {
            return Ok(headers);
        }
        headers.push(parse_header(&line).ok_or_else(|| wire.failed("a header is malformed"))?);
    }
}

/// Reads one line of a head or of trailers. All of them together have a limit.
async fn read_head_line(wire: &mut Wire) -> Result<Vec<u8>, ToolError> {
    let (line, used) = read_line(wire, wire.limits.header_bytes - wire.header_bytes).await?;
    wire.header_bytes += used;
    Ok(line)
}

/// Reads one line, without its end, and the number of its bytes with it.
pub(super) async fn read_line(wire: &mut Wire, most: usize) -> Result<(Vec<u8>, usize), ToolError> {
    let mut seen = 0;
    loop {
        let ready = wire.ready();
        let end = memchr::memchr(b'\n', ready.get(seen..).unwrap_or_default());
        seen = end.map_or(ready.len(), |end| seen + end + 1);
        if seen > most {
            return Err(wire.failed("its head has more bytes than it may have"));
        }
        if end.is_some() {
            let line = ready.get(..seen).unwrap_or_default();
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
            wire.take(seen);
            return Ok((line, seen));
        }
        if !wire.fill().await? {
            return Err(wire.failed("the connection was cut in the middle of a line"));
        }
    }
}

fn parse_status(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.1 ").or_else(|| line.strip_prefix(b"HTTP/1.0 "))?;
    let (digits, rest) = rest.split_at_checked(3)?;
    let is_status =
        digits.iter().all(u8::is_ascii_digit) && matches!(rest.first(), None | Some(b' '));
    let status = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (is_status && status >= 100).then_some(status)
}

fn parse_header(line: &[u8]) -> Option<(String, String)> {
    let colon = memchr::memchr(b':', line)?;
    let (name, value) = line.split_at_checked(colon)?;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let is_value = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    let value = value.strip_prefix(b":")?.trim_ascii();
    if name.is_empty() || !name.iter().all(is_name) || !value.iter().all(is_value) {
        return None;
    }
    // Values are bytes; each is a letter of Latin-1 if they are not UTF-8.
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
