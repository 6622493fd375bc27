//! Which encoding the bytes of a text file are in, and the way there and back.
//!
//! UTF-8 is assumed wherever the bytes allow it; then UTF-16, by its byte order mark or by where its zero bytes are; then
//! whatever `chardetng` thinks most likely. Text with a few broken bytes among valid UTF-8 stays UTF-8: to guess an old
//! encoding there would garble all the rest.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{CoderResult, Decoder, EncoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// How many bytes of a file decide whether it is text at all.
pub(crate) const HEAD: usize = 8 << 10;

/// How many bytes decide which old encoding a text is in; more would not change the guess, only its cost.
const SAMPLE: usize = 256 << 10;

/// How text is written down as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextEncoding {
    encoding: &'static Encoding,
    bom: bool,
}

/// What ends a line, as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineFeed {
    /// One byte: no encoding but UTF-16 uses it as a part of another character.
    Byte,
    /// Two bytes, the low one first.
    Utf16Le,
    /// Two bytes, the high one first.
    Utf16Be,
}

/// A character that an encoding does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unencodable {
    /// The character.
    pub(crate) character: char,
    /// The line it is in, counted from 1.
    pub(crate) line: usize,
}

impl TextEncoding {
    /// UTF-8 without a byte order mark.
    pub(crate) const UTF_8: Self = Self { encoding: UTF_8, bom: false };

    /// The encoding of a file of which this is the beginning; `None` if it is not text.
    pub(crate) fn detect_beginning(bytes: &[u8]) -> Option<Self> {
        Self::detect(without_half_character(bytes))
    }

    /// The encoding of a whole file; `None` if it is not text.
    pub(crate) fn detect(bytes: &[u8]) -> Option<Self> {
        if let Some((encoding, _)) = Encoding::for_bom(bytes) {
            return Some(Self { encoding, bom: true });
        }
        let head = bytes.get(..HEAD).unwrap_or(bytes);
        if memchr::memchr(0, head).is_some() {
            return guess_utf16(head).map(|encoding| Self { encoding, bom: false });
        }
        if std::str::from_utf8(bytes).is_ok() {
            return Some(Self::UTF_8);
        }
        (!is_noise(head)).then(|| Self { encoding: guess_8bit(bytes), bom: false })
    }

    /// The encoding of some lines of a text that has no zero bytes and no byte order mark.
    pub(crate) fn of_lines(bytes: &[u8]) -> Self {
        if std::str::from_utf8(bytes).is_ok() {
            return Self::UTF_8;
        }
        Self { encoding: guess_8bit(bytes), bom: false }
    }

    /// The name by which the web knows it.
    pub(crate) fn name(self) -> &'static str {
        self.encoding.name()
    }

    /// Whether the file begins with a byte order mark.
    pub(crate) fn has_bom(self) -> bool {
        self.bom
    }

    /// Whether text and bytes are the same thing.
    pub(crate) fn is_utf8(self) -> bool {
        self.encoding == UTF_8
    }

    /// The byte order mark that the file begins with, or nothing.
    pub(crate) fn mark(self) -> &'static [u8] {
        match (self.bom, self.encoding) {
            (false, _) => b"",
            (true, encoding) if encoding == UTF_16LE => b"\xff\xfe",
            (true, encoding) if encoding == UTF_16BE => b"\xfe\xff",
            (true, _) => b"\xef\xbb\xbf",
        }
    }

    /// What ends a line.
    pub(crate) fn line_feed(self) -> LineFeed {
        match self.encoding {
            encoding if encoding == UTF_16LE => LineFeed::Utf16Le,
            encoding if encoding == UTF_16BE => LineFeed::Utf16Be,
            _ => LineFeed::Byte,
        }
    }

    /// Bytes (after the mark) as text; what cannot be read becomes U+FFFD.
    pub(crate) fn decode(self, bytes: &[u8]) -> Cow<'_, str> {
        self.encoding.decode_without_bom_handling(bytes).0
    }

    /// Decodes piece by piece.
    pub(crate) fn decoder(self) -> Decoder {
        self.encoding.new_decoder_without_bom_handling()
    }

    /// Text as bytes, without the mark.
    pub(crate) fn encode(self, text: &str) -> Result<Cow<'_, [u8]>, Unencodable> {
        match self.line_feed() {
            LineFeed::Utf16Le => Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            LineFeed::Utf16Be => Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
            LineFeed::Byte if self.is_utf8() => Ok(Cow::Borrowed(text.as_bytes())),
            LineFeed::Byte => self.encode_8bit(text).map(Cow::Owned),
        }
    }

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
    /// How many lines end in these bytes.
    pub(crate) fn count(self, bytes: &[u8]) -> u64 {
        match self {
            Self::Byte => memchr::memchr_iter(b'\n', bytes).count() as u64,
            _ => self.ends(bytes).count() as u64,
        }
    }

    /// Where the line ends whose beginning these bytes are: just after its line feed.
    pub(crate) fn first(self, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::Byte => memchr::memchr(b'\n', bytes).map(|at| at + 1),
            _ => self.ends(bytes).next(),
        }
    }

    /// Just after the line feed number `nth`, counted from 0.
    pub(crate) fn nth(self, bytes: &[u8], nth: usize) -> Option<usize> {
        self.ends(bytes).nth(nth)
    }

    /// Whether the last line is ended.
    pub(crate) fn closes(self, bytes: &[u8]) -> bool {
        match self {
            Self::Byte => bytes.ends_with(b"\n"),
            Self::Utf16Le => bytes.ends_with(b"\n\0"),
            Self::Utf16Be => bytes.ends_with(b"\0\n"),
        }
    }

    /// How many bytes it has.
    pub(crate) fn width(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::Utf16Le | Self::Utf16Be => 2,
        }
    }

    fn ends(self, bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
        memchr::memchr_iter(b'\n', bytes).filter_map(move |at| match self {
            Self::Byte => Some(at + 1),
            Self::Utf16Le => (at % 2 == 0 && bytes.get(at + 1) == Some(&0)).then_some(at + 2),
            Self::Utf16Be => (at % 2 == 1 && bytes.get(at - 1) == Some(&0)).then_some(at + 1),
        })
    }
}

/// Leaves out what may be the first bytes of a character that goes on behind the end.
fn without_half_character(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => {
            bytes.get(..error.valid_up_to()).unwrap_or(bytes)
        }
        _ => bytes,
    }
}

/// The encoding of bytes that are not valid UTF-8.
fn guess_8bit(bytes: &[u8]) -> &'static Encoding {
    let bytes = sample(bytes);
    if mostly_utf8(bytes) {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    detector.guess(None, Utf8Detection::Deny)
}

/// The part of a text that a guess is based on: from the first byte that is not ASCII, since the rest says nothing.
fn sample(bytes: &[u8]) -> &[u8] {
    let ascii = Encoding::ascii_valid_up_to(bytes);
    let start =
        memchr::memrchr(b'\n', bytes.get(..ascii).unwrap_or_default()).map_or(0, |at| at + 1);
    let rest = bytes.get(start..).unwrap_or_default();
    rest.get(..SAMPLE).unwrap_or(rest)
}

/// Whether characters of several bytes are whole more often than broken.
fn mostly_utf8(bytes: &[u8]) -> bool {
    let (mut whole, mut broken) = (0usize, 0usize);
    for chunk in bytes.utf8_chunks() {
        whole += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        broken += usize::from(!chunk.invalid().is_empty());
    }
    whole > broken
}

/// UTF-16 without a mark: most units are ASCII, all are characters, none is a control.
fn guess_utf16(head: &[u8]) -> Option<&'static Encoding> {
    let readings =
        [(UTF_16LE, u16::from_le_bytes as fn([u8; 2]) -> u16), (UTF_16BE, u16::from_be_bytes)];
    readings
        .into_iter()
        .find(|(_, read)| looks_like_utf16(head, *read))
        .map(|(encoding, _)| encoding)
}

fn looks_like_utf16(head: &[u8], read: fn([u8; 2]) -> u16) -> bool {
    let (pairs, _) = head.as_chunks::<2>();
    let mut ascii = 0usize;
    for unit in char::decode_utf16(pairs.iter().map(|pair| read(*pair))) {
        match unit {
            Ok(c) if is_noise_character(c) => return false,
            Ok(c) => ascii += usize::from(c.is_ascii()),
            // A pair of surrogates that the end of the sample cuts in two would be one in thousands.
            Err(_) => return false,
        }
    }
    head.len().is_multiple_of(2) && ascii * 2 > pairs.len()
}

/// Bytes without zeros that are not text either: one in ten is a control character.
fn is_noise(head: &[u8]) -> bool {
    let noise = head.iter().filter(|byte| is_noise_character(char::from(**byte)) && **byte < 0x80);
    noise.count() * 10 > head.len()
}

/// Control characters that text does not have.
fn is_noise_character(c: char) -> bool {
    c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r' | '\x0c' | '\x1b' | '\x08')
}

/// Where in `bytes`, which decode to a text, the character begins that is at `wanted` bytes of that text; `None` if no
/// character begins there.
///
/// Bytes are given to the decoder one by one: it is the only one to know where its characters end.
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

    fn detected(bytes: &[u8]) -> Option<(&'static str, bool)> {
        TextEncoding::detect(bytes).map(|found| (found.name(), found.has_bom()))
    }

    fn utf16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(unit).collect()
    }

    #[test]
    fn encodings_are_told_apart() {
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
            assert_eq!(detected(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_character_cut_in_two_does_not_matter() {
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
    fn what_an_encoding_lacks_is_named() {
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
