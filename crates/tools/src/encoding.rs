//! Detects the encoding of a text file, decodes its bytes, and encodes new text.
//!
//! UTF-8 is assumed if the bytes allow it; then UTF-16, by its byte order mark or by the positions of its zero bytes; then the guess of
//! `chardetng`. Text with a few broken bytes among valid UTF-8 stays UTF-8: decoding it in an old 8-bit encoding would garble the rest.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{CoderResult, Decoder, EncoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Number of bytes at the start of a file that decide whether it is text.
pub(crate) const DETECTION_BYTES: usize = 8 << 10;

/// Number of bytes that the guess of an 8-bit encoding reads; more would cost time and not change the guess.
const SAMPLE_BYTES: usize = 256 << 10;

/// The encoding of a text file, with or without a byte order mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextEncoding {
    encoding: &'static Encoding,
    bom: bool,
}

/// The line feed of an encoding, as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineFeed {
    /// One byte. Only in UTF-16 is this byte also a part of other characters.
    Byte,
    /// Two bytes, the low byte first.
    Utf16Le,
    /// Two bytes, the high byte first.
    Utf16Be,
}

/// A character that an encoding does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unencodable {
    /// The character.
    pub(crate) character: char,
    /// The line that contains it, counted from 1.
    pub(crate) line: usize,
}

impl TextEncoding {
    /// UTF-8 without a byte order mark.
    pub(crate) const UTF_8: Self = Self { encoding: UTF_8, bom: false };

    /// Detects the encoding of a file from its first bytes; `None` if it is not text.
    pub(crate) fn detect_beginning(bytes: &[u8]) -> Option<Self> {
        Self::detect(without_incomplete_character(bytes))
    }

    /// Detects the encoding of a whole file; `None` if it is not text.
    pub(crate) fn detect(bytes: &[u8]) -> Option<Self> {
        if let Some((encoding, _)) = Encoding::for_bom(bytes) {
            return Some(Self { encoding, bom: true });
        }
        let head = bytes.get(..DETECTION_BYTES).unwrap_or(bytes);
        if memchr::memchr(0, head).is_some() {
            return guess_utf16(head).map(|encoding| Self { encoding, bom: false });
        }
        if std::str::from_utf8(bytes).is_ok() {
            return Some(Self::UTF_8);
        }
        (!has_binary_noise(head)).then(|| Self { encoding: guess_8bit(bytes), bom: false })
    }

    /// Detects the encoding of some lines of a text that has no zero bytes and no byte order mark.
    pub(crate) fn of_lines(bytes: &[u8]) -> Self {
        if std::str::from_utf8(bytes).is_ok() {
            return Self::UTF_8;
        }
        Self { encoding: guess_8bit(bytes), bom: false }
    }

    /// Returns the name of the encoding in the WHATWG Encoding Standard.
    pub(crate) fn name(self) -> &'static str {
        self.encoding.name()
    }

    /// Returns whether the file begins with a byte order mark.
    pub(crate) fn has_bom(self) -> bool {
        self.bom
    }

    /// Returns whether the encoding is UTF-8, so that the bytes are the text.
    pub(crate) fn is_utf8(self) -> bool {
        self.encoding == UTF_8
    }

    /// Returns the byte order mark at the start of the file; empty if it has none.
    pub(crate) fn mark(self) -> &'static [u8] {
        match (self.bom, self.encoding) {
            (false, _) => b"",
            (true, encoding) if encoding == UTF_16LE => b"\xff\xfe",
            (true, encoding) if encoding == UTF_16BE => b"\xfe\xff",
            (true, _) => b"\xef\xbb\xbf",
        }
    }

    /// Returns the line feed of the encoding.
    pub(crate) fn line_feed(self) -> LineFeed {
        match self.encoding {
            encoding if encoding == UTF_16LE => LineFeed::Utf16Le,
            encoding if encoding == UTF_16BE => LineFeed::Utf16Be,
            _ => LineFeed::Byte,
        }
    }

    /// Decodes bytes behind the mark; invalid bytes become U+FFFD.
    pub(crate) fn decode(self, bytes: &[u8]) -> Cow<'_, str> {
        self.encoding.decode_without_bom_handling(bytes).0
    }

    /// Returns a decoder for input in pieces.
    pub(crate) fn decoder(self) -> Decoder {
        self.encoding.new_decoder_without_bom_handling()
    }

    /// Encodes text, without the mark.
    pub(crate) fn encode(self, text: &str) -> Result<Cow<'_, [u8]>, Unencodable> {
        match self.line_feed() {
            LineFeed::Utf16Le => Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            LineFeed::Utf16Be => Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
            LineFeed::Byte if self.is_utf8() => Ok(Cow::Borrowed(text.as_bytes())),
            LineFeed::Byte => self.encode_8bit(text).map(Cow::Owned),
        }
    }

    /// Encodes text in an encoding of `encoding_rs` other than UTF-16; names the first character that the encoding lacks.
    fn encode_8bit(self, text: &str) -> Result<Vec<u8>, Unencodable> {
        let mut encoder = self.encoding.new_encoder();
        let mut bytes = Vec::with_capacity(text.len() + 16);
        let mut rest = text;
        loop {
            let (result, read) =
                encoder.encode_from_utf8_to_vec_without_replacement(rest, &mut bytes, true);
            match result {
                EncoderResult::InputEmpty => return Ok(bytes),
                EncoderResult::OutputFull => bytes.reserve(rest.len() + 16),
                EncoderResult::Unmappable(character) => {
                    let done = text.len() - rest.len() + read;
                    let before = text.as_bytes().get(..done).unwrap_or_default();
                    let line = memchr::memchr_iter(b'\n', before).count() + 1;
                    return Err(Unencodable { character, line });
                }
            }
            rest = rest.get(read..).unwrap_or_default();
        }
    }
}

impl LineFeed {
    /// Returns the number of line feeds in some bytes.
    pub(crate) fn count(self, bytes: &[u8]) -> u64 {
        match self {
            Self::Byte => memchr::memchr_iter(b'\n', bytes).count() as u64,
            _ => self.ends(bytes).count() as u64,
        }
    }

    /// Returns the position just behind the first line feed.
    pub(crate) fn first(self, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::Byte => memchr::memchr(b'\n', bytes).map(|at| at + 1),
            _ => self.ends(bytes).next(),
        }
    }

    /// Returns the position just behind line feed number `nth`, counted from 0.
    pub(crate) fn nth(self, bytes: &[u8], nth: usize) -> Option<usize> {
        self.ends(bytes).nth(nth)
    }

    /// Returns whether the bytes end with a line feed.
    pub(crate) fn ends_with_line_feed(self, bytes: &[u8]) -> bool {
        match self {
            Self::Byte => bytes.ends_with(b"\n"),
            Self::Utf16Le => bytes.ends_with(b"\n\0"),
            Self::Utf16Be => bytes.ends_with(b"\0\n"),
        }
    }

    /// Returns the number of bytes of the line feed.
    pub(crate) fn width(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::Utf16Le | Self::Utf16Be => 2,
        }
    }

    /// Returns the positions just behind each line feed.
    fn ends(self, bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
        memchr::memchr_iter(b'\n', bytes).filter_map(move |at| match self {
            Self::Byte => Some(at + 1),
            Self::Utf16Le => (at % 2 == 0 && bytes.get(at + 1) == Some(&0)).then_some(at + 2),
            Self::Utf16Be => (at % 2 == 1 && bytes.get(at - 1) == Some(&0)).then_some(at + 1),
        })
    }
}

/// Leaves out bytes at the end that may be the start of an incomplete character.
fn without_incomplete_character(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => {
            bytes.get(..error.valid_up_to()).unwrap_or(bytes)
        }
        _ => bytes,
    }
}

/// Guesses the encoding of bytes that are not valid UTF-8.
fn guess_8bit(bytes: &[u8]) -> &'static Encoding {
    let bytes = sample(bytes);
    if is_mostly_utf8(bytes) {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    detector.guess(None, Utf8Detection::Deny)
}

/// Returns the bytes that a guess reads: from the line of the first non-ASCII byte on, because ASCII does not help the guess.
fn sample(bytes: &[u8]) -> &[u8] {
    let ascii = Encoding::ascii_valid_up_to(bytes);
    let start =
        memchr::memrchr(b'\n', bytes.get(..ascii).unwrap_or_default()).map_or(0, |at| at + 1);
    let rest = bytes.get(start..).unwrap_or_default();
    rest.get(..SAMPLE_BYTES).unwrap_or(rest)
}

/// Returns whether there are more valid multi-byte characters than invalid sequences.
fn is_mostly_utf8(bytes: &[u8]) -> bool {
    let (mut whole, mut broken) = (0usize, 0usize);
    for chunk in bytes.utf8_chunks() {
        whole += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        broken += usize::from(!chunk.invalid().is_empty());
    }
    whole > broken
}

/// Detects UTF-16 without a mark: most units are ASCII, all are valid, and none is a control character.
fn guess_utf16(head: &[u8]) -> Option<&'static Encoding> {
    let readings =
        [(UTF_16LE, u16::from_le_bytes as fn([u8; 2]) -> u16), (UTF_16BE, u16::from_be_bytes)];
    readings
        .into_iter()
        .find(|(_, read)| looks_like_utf16(head, *read))
        .map(|(encoding, _)| encoding)
}

/// Returns whether bytes, read as 16-bit units, are valid UTF-16, mostly ASCII, and without control characters.
fn looks_like_utf16(head: &[u8], read: fn([u8; 2]) -> u16) -> bool {
    let (pairs, _) = head.as_chunks::<2>();
    let mut ascii = 0usize;
    for unit in char::decode_utf16(pairs.iter().map(|pair| read(*pair))) {
        match unit {
            Ok(c) if is_binary_control(c) => return false,
            Ok(c) => ascii += usize::from(c.is_ascii()),
            // A surrogate pair that the end of the sample splits is very rare.
            Err(_) => return false,
        }
    }
    head.len().is_multiple_of(2) && ascii * 2 > pairs.len()
}

/// Returns whether bytes without zeros are binary: more than one in ten is a control character.
fn has_binary_noise(head: &[u8]) -> bool {
    let noise = head.iter().filter(|byte| is_binary_control(char::from(**byte)) && **byte < 0x80);
    noise.count() * 10 > head.len()
}

/// Returns whether a control character does not occur in text.
fn is_binary_control(c: char) -> bool {
    c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r' | '\x0c' | '\x1b' | '\x08')
}

/// Maps a position in the decoded text to the position in `bytes` of the character that starts there; `None` if no character does.
///
/// Bytes are given to the decoder one at a time, because only the decoder knows character boundaries.
pub(crate) fn byte_offset(encoding: TextEncoding, bytes: &[u8], wanted: usize) -> Option<usize> {
    let mut decoder = encoding.decoder();
    let mut text = String::with_capacity(64);
    let mut written = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if written >= wanted {
            return (written == wanted).then_some(at);
        }
        text.clear();
        let (result, _, _) = decoder.decode_to_string(std::slice::from_ref(byte), &mut text, false);
        debug_assert_eq!(result, CoderResult::InputEmpty, "one byte never fills 64");
        written += text.len();
    }
    (written == wanted).then_some(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect_name(bytes: &[u8]) -> Option<(&'static str, bool)> {
        TextEncoding::detect(bytes).map(|found| (found.name(), found.has_bom()))
    }

    fn utf16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(unit).collect()
    }

    #[test]
    fn encodings_are_detected() {
        let shift_jis =
            encoding_rs::SHIFT_JIS.encode("これは日本語のテキストです。\n").0.into_owned();
        let gbk = encoding_rs::GBK.encode("这是一个中文文本文件，用于测试。\n").0.into_owned();
        let cyrillic =
            encoding_rs::WINDOWS_1251.encode("Это просто русский текст.\n").0.into_owned();
        for (bytes, expected) in [
            (&b""[..], Some(("UTF-8", false))),
            (b"plain", Some(("UTF-8", false))),
            ("caf\u{e9}".as_bytes(), Some(("UTF-8", false))),
            (b"\xef\xbb\xbfhi", Some(("UTF-8", true))),
            (b"\xff\xfeh\0i\0", Some(("UTF-16LE", true))),
            (b"\xfe\xff\0h\0i", Some(("UTF-16BE", true))),
            (&utf16("hello, world\n", u16::to_le_bytes), Some(("UTF-16LE", false))),
            (&utf16("hello, world\n", u16::to_be_bytes), Some(("UTF-16BE", false))),
            (b"un caf\xe9 cr\xe8me, s'il vous pla\xeet\n", Some(("windows-1252", false))),
            (&shift_jis, Some(("Shift_JIS", false))),
            (&gbk, Some(("GBK", false))),
            (&cyrillic, Some(("windows-1251", false))),
            ("naïve café, and one broken \u{e9}".as_bytes(), Some(("UTF-8", false))),
            (b"na\xc3\xafve caf\xc3\xa9, broken: \xff", Some(("UTF-8", false))),
            (b"\x7fELF\x02\x01\x01\0\0\0\0\0", None),
            (b"\0\x01\x02\x03", None),
            (b"\x01\x02\x03\x04\xff\x05\x06\x07", None),
        ] {
            assert_eq!(detect_name(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn incomplete_character_at_the_end_is_ignored() {
        let text = "all of it is fine: é".as_bytes();
        let beginning = &text[..text.len() - 1];
        assert_eq!(TextEncoding::detect_beginning(beginning), Some(TextEncoding::UTF_8));
        assert_ne!(TextEncoding::detect(beginning), Some(TextEncoding::UTF_8));
    }

    #[test]
    fn text_survives_a_round_trip() {
        for (label, text) in [
            ("utf-8", "é\n日本\n"),
            ("utf-16le", "é\n日本 🦀\n"),
            ("utf-16be", "é\n日本 🦀\n"),
            ("windows-1252", "caf\u{e9} \u{20ac}\r\n"),
            ("shift_jis", "日本語\r\nabc\n"),
            ("gb18030", "中文 🦀\n"),
            ("iso-2022-jp", "日本\n"),
        ] {
            let encoding = Encoding::for_label(label.as_bytes()).unwrap();
            let encoding = TextEncoding { encoding, bom: false };
            let bytes = encoding.encode(text).unwrap();
            assert_eq!(encoding.decode(&bytes), text, "{label}");
            assert_eq!(
                encoding.line_feed().count(&bytes),
                text.matches('\n').count() as u64,
                "{label}"
            );
        }
    }

    #[test]
    fn unencodable_character_is_named() {
        let latin = TextEncoding { encoding: encoding_rs::WINDOWS_1252, bom: false };
        let expected = Unencodable { character: '日', line: 3 };
        assert_eq!(latin.encode("a\né\nb 日"), Err(expected));
    }

    #[test]
    fn characters_are_found_in_bytes() {
        let shift_jis = TextEncoding { encoding: encoding_rs::SHIFT_JIS, bom: false };
        let bytes = shift_jis.encode("aソb").unwrap();
        for (wanted, expected) in
            [(0, Some(0)), (1, Some(1)), (2, None), (4, Some(3)), (5, Some(4)), (6, None)]
        {
            assert_eq!(byte_offset(shift_jis, &bytes, wanted), expected, "{wanted}");
        }
    }

    #[test]
    fn line_feeds_of_utf16_are_pairs() {
        // U+0A0A and U+0A00 hold the byte 0x0A without being a line feed.
        let text = "\u{a0a}\n\u{a00}x\n";
        let little = utf16(text, u16::to_le_bytes);
        let big = utf16(text, u16::to_be_bytes);
        assert_eq!(LineFeed::Utf16Le.ends(&little).collect::<Vec<_>>(), [4, 10]);
        assert_eq!(LineFeed::Utf16Be.ends(&big).collect::<Vec<_>>(), [4, 10]);
    }
}
