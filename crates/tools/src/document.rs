//! A text file in memory: its original bytes, and its decoded text.
//!
//! Positions in the text are mapped back to positions in the bytes, so that an edit changes only the bytes of the replaced text: not
//! the byte order mark, a line ending elsewhere, or an invalid byte.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use windlass_core::{Context, FailureReason, OpenFile, Output, Stat, ToolError, quote};

use crate::encoding::{TextEncoding, Unencodable, byte_offset};
use crate::format;

/// Refuses an empty path, which would otherwise mean the workspace directory.
pub(crate) fn check_path_given(path: &Path) -> Result<(), ToolError> {
    if path.as_os_str().is_empty() {
        return Err(ToolError::invalid_args("`path` is empty").hint("give the name of a file"));
    }
    Ok(())
}

/// Limit of the size of a file that is changed in memory.
pub(crate) const MAX_BYTES: u64 = 64 << 20;

/// A text file in memory.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    bytes: Vec<u8>,
    encoding: TextEncoding,
    /// Decoded text; `None` if the bytes are UTF-8.
    decoded: Option<Decoded>,
    /// False if the file is binary: then the bytes are edited as they are.
    is_text: bool,
}

/// The decoded text of a file that is not UTF-8.
#[derive(Debug, Clone)]
struct Decoded {
    text: String,
    /// Start of each line: (position in the text, position in the bytes).
    lines: Vec<(usize, usize)>,
}

/// A range of a text and the new text for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Replacement {
    /// Range in bytes of the text.
    pub(crate) range: Range<usize>,
    /// New text.
    pub(crate) with: String,
}

/// Reason for which a change cannot be made in the encoding of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SpliceError {
    /// The encoding lacks a character.
    Unencodable(Unencodable),
    /// The new text would change the meaning of bytes beside it.
    NotLocal,
}

/// The end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEnding {
    /// A line feed.
    Lf,
    /// A carriage return and a line feed.
    Crlf,
}

impl LineEnding {
    /// Returns the characters of the ending.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::Crlf => "\r\n",
        }
    }

    /// Returns the ending of the line whose line feed is at `at`.
    pub(crate) fn at(text: &[u8], at: usize) -> Self {
        match at.checked_sub(1).and_then(|before| text.get(before)) {
            Some(b'\r') => Self::Crlf,
            _ => Self::Lf,
        }
    }

    /// Returns the line ending of a text if all its lines have the same one; `None` if they differ or there is no line feed.
    pub(crate) fn uniform(text: &[u8]) -> Option<Self> {
        let mut endings = memchr::memchr_iter(b'\n', text).map(|at| Self::at(text, at));
        let first = endings.next()?;
        endings.all(|ending| ending == first).then_some(first)
    }

    /// Returns the text with this ending on all lines.
    pub(crate) fn unify(self, text: &str) -> Cow<'_, str> {
        match (Self::uniform(text.as_bytes()), self) {
            (None, _) if !text.contains('\n') => Cow::Borrowed(text),
            (Some(present), wanted) if present == wanted => Cow::Borrowed(text),
            (_, Self::Lf) => Cow::Owned(text.replace("\r\n", "\n")),
            (_, Self::Crlf) => Cow::Owned(text.replace("\r\n", "\n").replace('\n', "\r\n")),
        }
    }
}

impl Document {
    /// Decodes the bytes of a file; gives the bytes back if they are not text.
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self, Vec<u8>> {
        let Some(encoding) = TextEncoding::detect(&bytes) else { return Err(bytes) };
        let body = bytes.get(encoding.mark().len()..).unwrap_or_default();
        let decoded = (!encoding.is_utf8()).then(|| Decoded::of(encoding, body));
        Ok(Self { bytes, encoding, decoded, is_text: true })
    }

    /// Decodes the bytes of a file. Binary content is kept as it is, so that UTF-8 text in it can be found.
    pub(crate) fn parse_any(bytes: Vec<u8>) -> Self {
        let raw =
            |bytes| Self { bytes, encoding: TextEncoding::UTF_8, decoded: None, is_text: false };
        Self::parse(bytes).unwrap_or_else(raw)
    }

    /// Returns whether the file is text rather than binary.
    pub(crate) fn is_text(&self) -> bool {
        self.is_text
    }

    /// Returns a document with other bytes in the same encoding.
    pub(crate) fn with_bytes(&self, bytes: Vec<u8>) -> Self {
        let body = bytes.get(self.encoding.mark().len()..).unwrap_or_default();
        let decoded = self.decoded.as_ref().map(|_| Decoded::of(self.encoding, body));
        Self { bytes, encoding: self.encoding, decoded, is_text: self.is_text }
    }

    /// Returns the encoding of the file.
    pub(crate) fn encoding(&self) -> TextEncoding {
        self.encoding
    }

    /// Returns all bytes of the file, with the byte order mark.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the text without a byte order mark, as UTF-8 that may contain invalid bytes.
    pub(crate) fn text(&self) -> &[u8] {
        match &self.decoded {
            Some(decoded) => decoded.text.as_bytes(),
            None => self.body(),
        }
    }

    /// Returns the text with invalid bytes replaced by U+FFFD.
    pub(crate) fn to_text(&self) -> Cow<'_, str> {
        // Nearly all texts are valid UTF-8, and validation is much faster than the search for invalid bytes.
        match std::str::from_utf8(self.text()) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(self.text()),
        }
    }

    /// Encodes a whole new text for this file, with the same byte order mark.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u8>, Unencodable> {
        let mark = self.encoding.mark();
        // The model was not shown the mark, but may know of it.
        let text = text.strip_prefix('\u{feff}').filter(|_| !mark.is_empty()).unwrap_or(text);
        Ok([mark, &*self.encoding.encode(text)?].concat())
    }

    /// Returns the bytes of the file with parts of the text replaced. Replacements must be in order and must not overlap.
    pub(crate) fn splice(&self, replacements: &[Replacement]) -> Result<Vec<u8>, SpliceError> {
        let body = self.body();
        let more: usize = replacements.iter().map(|one| one.with.len()).sum();
        let mut bytes = Vec::with_capacity(self.bytes.len() + more);
        bytes.extend_from_slice(self.encoding.mark());
        let mut from = 0;
        for Replacement { range, with } in replacements {
            let (start, end) = (self.offset(range.start)?, self.offset(range.end)?);
            bytes.extend_from_slice(body.get(from..start).ok_or(SpliceError::NotLocal)?);
            bytes.extend_from_slice(&self.encoding.encode(with).map_err(SpliceError::Unencodable)?);
            from = end;
        }
        bytes.extend_from_slice(body.get(from..).ok_or(SpliceError::NotLocal)?);
        self.check(&bytes, replacements)?;
        Ok(bytes)
    }

    /// Returns the bytes behind the byte order mark.
    fn body(&self) -> &[u8] {
        self.bytes.get(self.encoding.mark().len()..).unwrap_or_default()
    }

    /// Maps a position in the text to a position in the body.
    fn offset(&self, at: usize) -> Result<usize, SpliceError> {
        let Some(decoded) = &self.decoded else { return Ok(at) };
        let line = decoded.lines.partition_point(|(text, _)| *text <= at).saturating_sub(1);
        let (text, start) = decoded.lines.get(line).copied().unwrap_or_default();
        let end = decoded.lines.get(line + 1).map_or(self.body().len(), |(_, bytes)| *bytes);
        let bytes = self.body().get(start..end).unwrap_or_default();
        byte_offset(self.encoding, bytes, at - text)
            .map(|offset| start + offset)
            .ok_or(SpliceError::NotLocal)
    }

    /// Checks that the new bytes decode to the expected text: in multi-byte encodings, neighbouring bytes can combine.
    fn check(&self, bytes: &[u8], replacements: &[Replacement]) -> Result<(), SpliceError> {
        let Some(decoded) = &self.decoded else { return Ok(()) };
        let mut expected = String::with_capacity(decoded.text.len());
        let mut from = 0;
        for Replacement { range, with } in replacements {
            expected.push_str(decoded.text.get(from..range.start).ok_or(SpliceError::NotLocal)?);
            expected.push_str(with);
            from = range.end;
        }
        expected.push_str(decoded.text.get(from..).ok_or(SpliceError::NotLocal)?);
        let body = bytes.get(self.encoding.mark().len()..).unwrap_or_default();
        let is_right = Decoded::of(self.encoding, body).text == expected;
        is_right.then_some(()).ok_or(SpliceError::NotLocal)
    }
}

impl Decoded {
    /// Decodes line by line, so that a position in the text can be found again without decoding everything before it.
    fn of(encoding: TextEncoding, body: &[u8]) -> Self {
        let line_feed = encoding.line_feed();
        let mut decoded = Self { text: String::with_capacity(body.len()), lines: Vec::new() };
        let mut at = 0;
        while at < body.len() {
            decoded.lines.push((decoded.text.len(), at));
            let rest = body.get(at..).unwrap_or_default();
            let end = line_feed.first(rest).unwrap_or(rest.len());
            decoded.text.push_str(&encoding.decode(rest.get(..end).unwrap_or_default()));
            at += end;
        }
        decoded
    }
}

/// Number of attempts at a change while other programs change the same file.
const MAX_ATTEMPTS: usize = 8;

/// Makes a change that needs little of the file's content, and repeats it if another program changed the file in the meantime. The
/// result is as if the other program had written first. If the repeated change is impossible, the error of the last stale attempt is
/// returned.
pub(crate) fn retry_if_stale(
    change: impl Fn() -> Result<Output, ToolError>,
) -> Result<Output, ToolError> {
    let mut made = change();
    for _ in 1..MAX_ATTEMPTS {
        if !made.as_ref().is_err_and(is_stale) {
            break;
        }
        match change() {
            Err(error) if !error.is_fault() && !is_stale(&error) => break,
            again => made = again,
        }
    }
    made
}

/// Returns whether an error says that the file changed since it was read.
fn is_stale(error: &ToolError) -> bool {
    error.reason() == Some(&FailureReason::Stale)
}

/// Refuses a path that ends in `/`, `/.` or `/..`, before a file is written to it.
pub(crate) fn check_file_path(path: &Path) -> Result<(), ToolError> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if ![&b"/"[..], b"/.", b"/.."].iter().any(|end| bytes.ends_with(end)) {
        return Ok(());
    }
    Err(ToolError::failed(format!(
        "cannot write {}: a path that ends in `/` is a directory",
        quote::path(path)
    ))
    .hint("give the name of a file in it, or leave out the `/`"))
}

/// Reads a file that is to be changed; refuses one above [`MAX_BYTES`].
pub(crate) fn load(cx: &Context, path: &Path) -> Result<(Vec<u8>, Stat), ToolError> {
    let OpenFile { file, stat } = cx.files().open(path)?;
    if stat.len > MAX_BYTES {
        return Err(ToolError::failed(format!(
            "cannot change {}: it has {}, and at most {} are changed at once",
            quote::path(path),
            format::size(stat.len),
            format::size(MAX_BYTES)
        ))
        .hint("use a program that works on a stream, such as `sed`, with `bash`"));
    }
    let bytes = read_all(file, stat.len).map_err(|error| {
        ToolError::host_failed(format!("{} cannot be read: {error}", quote::path(path)))
    })?;
    Ok((bytes, stat))
}

/// Reads a file to its end, up to [`MAX_BYTES`].
fn read_all(file: File, len: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or_default() + 1);
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl SpliceError {
    /// Returns the error for a model: the reason, and the next step.
    pub(crate) fn explain(&self, path: &str, encoding: TextEncoding) -> ToolError {
        match self {
            Self::Unencodable(lacking) => lacking.explain(path, encoding),
            Self::NotLocal => ToolError::failed(format!(
                "cannot change {path}: in {} the change would alter the characters beside it",
                encoding.name()
            ))
            .hint("make old_string begin and end at the beginning or end of a line"),
        }
    }
}

impl Unencodable {
    /// Returns the error for a model: the character, its line, and the next step.
    pub(crate) fn explain(&self, path: &str, encoding: TextEncoding) -> ToolError {
        ToolError::failed(format!(
            "cannot write {path}: the file is in {}, which has no `{}` (U+{:04X}, line {} of the new text)",
            encoding.name(),
            quote::visible(&self.character.to_string()),
            u32::from(self.character),
            self.line
        ))
        .hint("write it with characters that the encoding has, or convert the file first")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(bytes: impl Into<Vec<u8>>) -> Document {
        Document::parse(bytes.into()).unwrap()
    }

    #[test]
    fn line_endings() {
        use LineEnding::{Crlf, Lf};
        for (text, uniform, lf, crlf) in [
            ("", None, "", ""),
            ("a", None, "a", "a"),
            ("a\nb", Some(Lf), "a\nb", "a\r\nb"),
            ("a\r\nb\r\n", Some(Crlf), "a\nb\n", "a\r\nb\r\n"),
            ("a\r\nb\n", None, "a\nb\n", "a\r\nb\r\n"),
            ("\n", Some(Lf), "\n", "\r\n"),
            ("a\rb", None, "a\rb", "a\rb"),
        ] {
            assert_eq!(LineEnding::uniform(text.as_bytes()), uniform, "{text:?}");
            assert_eq!(Lf.unify(text), lf, "{text:?}");
            assert_eq!(Crlf.unify(text), crlf, "{text:?}");
        }
    }

    #[test]
    fn only_the_replaced_bytes_change() {
        let shift_jis = |text: &str| encoding_rs::SHIFT_JIS.encode(text).0.into_owned();
        let japanese = "これは日本語のテキストです。\r\nソースabcソース\r\n";
        let at = japanese.find("abc").unwrap();
        for (bytes, range, with, expected) in [
            (b"\xef\xbb\xbfone\r\ntwo".to_vec(), 5..8, "2", b"\xef\xbb\xbfone\r\n2".to_vec()),
            (b"a\xffb\xc3\xa9\xc3\xa9c".to_vec(), 2..3, "B", b"a\xffB\xc3\xa9\xc3\xa9c".to_vec()),
            (b"\xff\xfea\0b\0\n\0".to_vec(), 1..2, "日", b"\xff\xfea\0\xe5\x65\n\0".to_vec()),
            (shift_jis(japanese), at..at + 3, "ソ", shift_jis(&japanese.replace("abc", "ソ"))),
        ] {
            let with = with.to_owned();
            let spliced = parsed(bytes).splice(&[Replacement { range, with }]).unwrap();
            assert_eq!(spliced, expected);
        }
    }

    #[test]
    fn what_cannot_be_encoded_is_refused() {
        let latin = parsed(b"d\xe9j\xe0 vu, s'il vous pla\xeet\n".to_vec());
        assert_eq!(latin.encoding().name(), "windows-1252");
        let splice = latin.splice(&[Replacement { range: 0..1, with: "日".into() }]);
        let lacking = Unencodable { character: '日', line: 1 };
        assert_eq!(splice, Err(SpliceError::Unencodable(lacking)));
        let half = latin.splice(&[Replacement { range: 0..2, with: "x".into() }]);
        assert_eq!(half, Err(SpliceError::NotLocal));
    }

    #[test]
    fn a_new_text_keeps_mark_and_encoding() {
        let marked = parsed(b"\xef\xbb\xbfa".to_vec());
        assert_eq!(marked.encode("b").unwrap(), b"\xef\xbb\xbfb");
        assert_eq!(marked.encode("\u{feff}b").unwrap(), b"\xef\xbb\xbfb");
        let wide = parsed(b"\xfe\xff\0a".to_vec());
        assert_eq!(wide.encode("é").unwrap(), b"\xfe\xff\0\xe9");
        assert!(Document::parse(b"\0\x01".to_vec()).is_err());
    }
}
