//! Detects files that are not plain text by their first bytes. Names are not trusted: an image called `notes.txt` is an image.

/// The kind of a file by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    /// An image of a format that models accept.
    Image(Image),
    /// A PDF document.
    Pdf,
    /// Another binary format, by its usual name.
    Other(&'static str),
}

/// A format of images that models accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Image {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF.
    Gif,
    /// WebP.
    Webp,
}

impl Image {
    /// Returns the media type of the format.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    /// Returns width and height, if the format has them at a known position.
    pub(crate) fn dimensions(self, bytes: &[u8]) -> Option<(u32, u32)> {
        match self {
            Self::Png => Some((read_u32_be(bytes, 16)?, read_u32_be(bytes, 20)?)),
            Self::Gif => Some((read_u16_le(bytes, 6)?, read_u16_le(bytes, 8)?)),
            Self::Jpeg => jpeg_dimensions(bytes),
            Self::Webp => None,
        }
    }
}

/// Detects the kind by the first bytes; `None` if they could be text.
pub(crate) fn detect(head: &[u8]) -> Option<Media> {
    if head.get(8..12) == Some(b"WEBP") && head.starts_with(b"RIFF") {
        return Some(Media::Image(Image::Webp));
    }
    if head.get(4..8) == Some(b"ftyp") {
        return Some(Media::Other("MP4 or HEIF media"));
    }
    if head.get(257..262) == Some(b"ustar") {
        return Some(Media::Other("tar archive"));
    }
    SIGNATURES.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, media)| *media)
}

/// First bytes of known formats.
const SIGNATURES: &[(&[u8], Media)] = &[
    (b"\x89PNG\r\n\x1a\n", Media::Image(Image::Png)),
    (b"\xff\xd8\xff", Media::Image(Image::Jpeg)),
    (b"GIF87a", Media::Image(Image::Gif)),
    (b"GIF89a", Media::Image(Image::Gif)),
    (b"%PDF-", Media::Pdf),
    (b"\x7fELF", Media::Other("ELF program or library")),
    (b"\xcf\xfa\xed\xfe", Media::Other("Mach-O program or library")),
    (b"\xca\xfe\xba\xbe", Media::Other("Java class or Mach-O program")),
    (b"MZ\x90\0", Media::Other("Windows program or library")),
    (b"\0asm", Media::Other("WebAssembly module")),
    (b"PK\x03\x04", Media::Other("ZIP archive")),
    (b"PK\x05\x06", Media::Other("empty ZIP archive")),
    (b"\x1f\x8b", Media::Other("gzip archive")),
    (b"BZh91AY", Media::Other("bzip2 archive")),
    (b"\xfd7zXZ\0", Media::Other("xz archive")),
    (b"\x28\xb5\x2f\xfd", Media::Other("zstd archive")),
    (b"7z\xbc\xaf\x27\x1c", Media::Other("7z archive")),
    (b"!<arch>\n", Media::Other("ar archive")),
    (b"SQLite format 3\0", Media::Other("SQLite database")),
    (b"\x80\x02}", Media::Other("Python pickle")),
    (b"wOFF", Media::Other("WOFF font")),
    (b"wOF2", Media::Other("WOFF2 font")),
    (b"\0\x01\0\0\0", Media::Other("TrueType font")),
    (b"OTTO\0", Media::Other("OpenType font")),
    (b"OggS\0", Media::Other("Ogg media")),
    (b"ID3\x03", Media::Other("MP3 audio")),
    (b"ID3\x04", Media::Other("MP3 audio")),
    (b"fLaC\0", Media::Other("FLAC audio")),
    (b"\x1aE\xdf\xa3", Media::Other("Matroska or WebM media")),
    (b"II*\0", Media::Other("TIFF image")),
    (b"MM\0*", Media::Other("TIFF image")),
    (b"\0\0\x01\0", Media::Other("icon")),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Media::Other("Microsoft Office document")),
];

/// Reads a big-endian number of 32 bits.
fn read_u32_be(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Reads a little-endian number of 16 bits.
fn read_u16_le(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)))
}

/// Reads width and height from the first frame segment of a JPEG file.
fn jpeg_dimensions(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        let [0xff, marker, high, low] = *bytes.get(at..at + 4)? else { return None };
        let is_frame = matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc);
        if is_frame {
            let [h1, h0, w1, w0] = *bytes.get(at + 5..at + 9)? else { return None };
            let side = |high, low| u32::from(u16::from_be_bytes([high, low]));
            return Some((side(w1, w0), side(h1, h0)));
        }
        at += 2 + usize::from(u16::from_be_bytes([high, low]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_decide_the_kind() {
        let mut tar = vec![b'a'; 300];
        tar[257..262].copy_from_slice(b"ustar");
        for (head, expected) in [
            (&b"\x89PNG\r\n\x1a\n...."[..], Some(Media::Image(Image::Png))),
            (b"RIFF\x10\0\0\0WEBPVP8 ", Some(Media::Image(Image::Webp))),
            (b"%PDF-1.7\n", Some(Media::Pdf)),
            (b"PK\x03\x04....", Some(Media::Other("ZIP archive"))),
            (&tar, Some(Media::Other("tar archive"))),
            (b"plain text", None),
            (b"", None),
        ] {
            assert_eq!(detect(head), expected, "{head:?}");
        }
    }

    #[test]
    fn dimensions_of_images_are_read() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0";
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x11\x08\x01\xe0\x02\x80...";
        let gif = b"GIF89a\x80\x02\xe0\x01";
        assert_eq!(Image::Png.dimensions(png), Some((640, 480)));
        assert_eq!(Image::Jpeg.dimensions(jpeg), Some((640, 480)));
        assert_eq!(Image::Gif.dimensions(gif), Some((640, 480)));
        assert_eq!(Image::Jpeg.dimensions(&jpeg[..9]), None);
        assert_eq!(Image::Png.dimensions(b"\x89PNG"), None);
    }
}
