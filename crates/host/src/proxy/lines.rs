//! Reads lines of a head one by one, with one limit for all of them.

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Error of reading a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineError {
    /// The allowed bytes are used up.
    TooLong,
    /// The connection ended.
    Ended,
}

/// Reads a line and subtracts its length from `allowed`. Removes the newline, but not a carriage return.
pub(super) async fn read_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    allowed: &mut usize,
) -> Result<Vec<u8>, LineError> {
    let mut line = Vec::new();
    loop {
        let bytes = reader.fill_buf().await.map_err(|_| LineError::Ended)?;
        if bytes.is_empty() {
            return Err(LineError::Ended);
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let part = end.and_then(|end| bytes.get(..end)).unwrap_or(bytes);
        let used = part.len() + usize::from(end.is_some());
        *allowed = allowed.checked_sub(used).ok_or(LineError::TooLong)?;
        line.extend_from_slice(part);
        reader.consume(used);
        if end.is_some() {
            return Ok(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &[u8], mut allowed: usize) -> Vec<Result<String, LineError>> {
        // A buffer of three bytes: lines come in parts.
        let mut reader = tokio::io::BufReader::with_capacity(3, text);
        let mut lines = Vec::new();
        loop {
            let read = read_line(&mut reader, &mut allowed).await;
            lines.push(read.map(|line| String::from_utf8(line).unwrap()));
            if lines.last().is_some_and(Result::is_err) {
                return lines;
            }
        }
    }

    #[tokio::test]
    async fn lines_and_limits() {
        let ok = |text: &str| Ok(text.to_owned());
        for (text, allowed, expected) in [
            ("", 9, vec![Err(LineError::Ended)]),
            ("abcdef", 9, vec![Err(LineError::Ended)]),
            ("abcd\r\n\r\nab", 99, vec![ok("abcd\r"), ok("\r"), Err(LineError::Ended)]),
            ("abcd\n\n", 6, vec![ok("abcd"), ok(""), Err(LineError::Ended)]),
            ("abcd\n\n", 5, vec![ok("abcd"), Err(LineError::TooLong)]),
            ("abcd\n", 4, vec![Err(LineError::TooLong)]),
            ("abcdefghijkl", 9, vec![Err(LineError::TooLong)]),
        ] {
            assert_eq!(read(text.as_bytes(), allowed).await, expected, "{text:?} in {allowed}");
        }
    }
}
