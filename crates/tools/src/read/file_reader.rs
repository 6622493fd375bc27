//! Reads an open file: detects its kind, and returns text, an image or a description.

use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use windlass_core::{Content, ContentHash, Context, Output, ToolError};

use super::index_cache::CachedIndex;
use super::lines::{BLOCK_BYTES, BlockReader, LineIndex, LineReader, LinesError};
use super::media::{self, Image, Media};
use super::page::{self, PageRequest, TextPage};
use super::{notebook, pdf};
use crate::cut::Cutter;
use crate::encoding::{DETECTION_BYTES, TextEncoding};
use crate::format;

/// Limit of the size of a returned image, because no provider takes larger ones.
const MAX_IMAGE: u64 = 5 << 20;

/// Limit of the size of a notebook or PDF file that is converted to text.
const MAX_DOCUMENT: u64 = 32 << 20;

/// An open file with the request of the call.
pub(crate) struct FileReader {
    file: File,
    request: PageRequest,
    cached: Option<Arc<CachedIndex>>,
    kind: NamedKind,
}

/// The result of a read.
pub(crate) struct ReadResult {
    pub(crate) output: Output,
    /// Lines that were shown; `None` if the file was only described.
    pub(crate) seen: Option<SeenLines>,
    /// Encoding and line index to cache.
    pub(crate) index_to_cache: Option<Arc<CachedIndex>>,
}

/// The lines that were shown.
pub(crate) struct SeenLines {
    /// Range of shown lines, counted from 0.
    pub(crate) lines: Range<u64>,
    /// Numbers of the shown lines that were cut.
    pub(crate) cut: Vec<u64>,
    /// Number of lines of the file, if it is known.
    pub(crate) total: Option<u64>,
    /// Hash of the whole file, if it was small enough to be read at once.
    pub(crate) hash: Option<ContentHash>,
}

/// The kind of a file by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamedKind {
    Any,
    Notebook,
    Pdf,
}

impl NamedKind {
    /// Returns the kind by the extension of a file name.
    fn by_name(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some(extension) if extension.eq_ignore_ascii_case("ipynb") => Self::Notebook,
            Some(extension) if extension.eq_ignore_ascii_case("pdf") => Self::Pdf,
            _ => Self::Any,
        }
    }
}

impl FileReader {
    /// Makes a reader; `cached` is the entry of the file in the index cache.
    pub(crate) fn new(
        file: File,
        request: PageRequest,
        cached: Option<Arc<CachedIndex>>,
        path: &Path,
    ) -> Self {
        Self { file, request, cached, kind: NamedKind::by_name(path) }
    }

    /// Returns whether the read may take long even if the file is small.
    pub(crate) fn is_slow(&self) -> bool {
        self.kind != NamedKind::Any
    }

    /// Reads the file. Blocks the thread.
    pub(crate) fn run(self, cx: &Context) -> Result<ReadResult, ToolError> {
        let Self { file, request, cached, kind } = self;
        let mut blocks = BlockReader::new(file, request.file_bytes);
        if let Some(cached) = cached {
            return show_file(cx, blocks, cached, &request);
        }
        blocks.load(0).map_err(cannot_read)?;
        let bytes = blocks.bytes();
        let head = bytes.get(..DETECTION_BYTES).unwrap_or(bytes);
        match media::detect(head) {
            Some(Media::Image(image)) => show_image(blocks.into_source(), image, &request),
            Some(Media::Pdf) => show_pdf(cx, blocks.into_source(), &request),
            Some(Media::Other(name)) => Ok(described_only(name, &request)),
            None if kind == NamedKind::Notebook => show_notebook(cx, blocks, &request),
            None => show_plain(cx, blocks, &request),
        }
    }
}

/// Returns lines of a file whose first block is loaded, or a description if it is binary.
fn show_plain(
    cx: &Context,
    blocks: BlockReader<File>,
    request: &PageRequest,
) -> Result<ReadResult, ToolError> {
    let bytes = blocks.bytes();
    let is_whole = bytes.len() < BLOCK_BYTES;
    let encoding =
        if is_whole { TextEncoding::detect(bytes) } else { TextEncoding::detect_beginning(bytes) };
    let Some(encoding) = encoding else { return Ok(described_only("binary data", request)) };
    let hash = is_whole.then(|| ContentHash::of(bytes));
    let cached = Arc::new(CachedIndex { encoding, index: LineIndex::default() });
    let mut result = show_file(cx, blocks, cached, request)?;
    if let Some(seen) = &mut result.seen {
        seen.hash = hash;
    }
    Ok(result)
}

/// Returns lines of a file whose encoding is known.
fn show_file(
    cx: &Context,
    blocks: BlockReader<File>,
    mut cached: Arc<CachedIndex>,
    request: &PageRequest,
) -> Result<ReadResult, ToolError> {
    let encoding = cached.encoding;
    let page = show_lines(cx, blocks, &mut Arc::make_mut(&mut cached).index, encoding, request)?;
    Ok(ReadResult { index_to_cache: Some(cached), ..page_result(page) })
}

/// Returns lines of a text in memory.
pub(crate) fn show_text(
    cx: &Context,
    text: &[u8],
    request: &PageRequest,
) -> Result<ReadResult, ToolError> {
    let request = PageRequest { file_bytes: text.len() as u64, ..*request };
    let blocks = BlockReader::new(Cursor::new(text), request.file_bytes);
    let page = show_lines(cx, blocks, &mut LineIndex::default(), TextEncoding::UTF_8, &request)?;
    Ok(page_result(page))
}

/// Returns a page of lines from any source.
fn show_lines<R: Read + Seek>(
    cx: &Context,
    blocks: BlockReader<R>,
    index: &mut LineIndex,
    encoding: TextEncoding,
    request: &PageRequest,
) -> Result<TextPage, ToolError> {
    let cancelled = || cx.is_cancelled();
    let (line_feed, mark) = (encoding.line_feed(), encoding.mark().len());
    let mut reader = LineReader::new(blocks, index, line_feed, mark, &cancelled);
    page::show(&mut reader, encoding, request, Cutter::of(cx)).map_err(|error| match error {
        LinesError::Io(error) => cannot_read(error),
        LinesError::Cancelled => ToolError::cancelled("stopped while reading"),
    })
}

/// Returns lines of a notebook converted to text; a file that is not a valid notebook is shown as it is.
fn show_notebook(
    cx: &Context,
    blocks: BlockReader<File>,
    request: &PageRequest,
) -> Result<ReadResult, ToolError> {
    if request.file_bytes > MAX_DOCUMENT {
        return show_plain(cx, blocks, request);
    }
    let mut file = blocks.into_source();
    let bytes = read_all(&mut file, MAX_DOCUMENT)?;
    if let Some(text) = std::str::from_utf8(&bytes).ok().and_then(notebook::to_text) {
        return show_text(cx, text.as_bytes(), request);
    }
    let mut blocks = BlockReader::new(file, request.file_bytes);
    blocks.rewind().map_err(cannot_read)?;
    show_plain(cx, blocks, request)
}

/// Returns lines of the text of a PDF file, or a description with the reason why there is none.
fn show_pdf(cx: &Context, mut file: File, request: &PageRequest) -> Result<ReadResult, ToolError> {
    if request.file_bytes > MAX_DOCUMENT {
        return Ok(described_only("PDF document, too large to be turned into text", request));
    }
    let bytes = read_all(&mut file, MAX_DOCUMENT)?;
    match pdf::to_text(&bytes, &|| cx.is_cancelled()) {
        Ok(text) => show_text(cx, text.as_bytes(), request),
        Err(why) => Ok(described_only(&format!("PDF document: {why}"), request)),
    }
}

/// Returns an image with its size, or a description if it is too large.
fn show_image(
    mut file: File,
    image: Image,
    request: &PageRequest,
) -> Result<ReadResult, ToolError> {
    let media_type = image.media_type();
    if request.file_bytes > MAX_IMAGE {
        let limit = format::size(MAX_IMAGE);
        return Ok(described_only(
            &format!("{media_type}, too large to be shown (at most {limit})"),
            request,
        ));
    }
    let bytes = read_all(&mut file, MAX_IMAGE)?;
    let pixels = image
        .dimensions(&bytes)
        .map(|(width, height)| format!(", {width}x{height} pixels"))
        .unwrap_or_default();
    let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
    let picture = Content::Image { media_type: media_type.to_owned(), data };
    let words =
        Content::text(format!("[{media_type}{pixels}, {}]", format::size(request.file_bytes)));
    let output = Output { content: vec![picture, words], ..Output::default() };
    let output = without_lines(output).with("media_type", media_type);
    // The whole image counts as seen.
    let seen = SeenLines { lines: 0..1, cut: Vec::new(), total: Some(1), hash: None };
    Ok(ReadResult { output, seen: Some(seen), index_to_cache: None })
}

/// Returns a description of a file in one line, without its content.
fn described_only(what: &str, request: &PageRequest) -> ReadResult {
    let text = format!("[{what}; {}; not shown as text]", format::size(request.file_bytes));
    ReadResult { output: without_lines(Output::text(text)), seen: None, index_to_cache: None }
}

/// Adds the metadata of an output without lines.
fn without_lines(output: Output) -> Output {
    output
        .with("lines", 0)
        .with("total_lines", None::<u64>)
        .with("offset", None::<u64>)
        .with("next_offset", None::<u64>)
        .with("encoding", None::<&str>)
        .with("truncated", false)
}

/// Returns a page with its metadata.
fn page_result(page: TextPage) -> ReadResult {
    let next = page.next_offset();
    let mut output = Output::text(page.text)
        .with("lines", page.lines.end - page.lines.start)
        .with("total_lines", page.total)
        .with("offset", page.lines.start + 1)
        .with("next_offset", next)
        .with("encoding", page.encoding.name())
        .with("truncated", next.is_some() || !page.cut.is_empty());
    if let Some(endings) = page.endings.name() {
        output = output.with("line_endings", endings);
    }
    let seen = SeenLines { lines: page.lines, cut: page.cut, total: page.total, hash: None };
    ReadResult { output, seen: Some(seen), index_to_cache: None }
}

/// Reads all bytes of a file, up to a limit.
fn read_all(file: &mut File, limit: u64) -> Result<Vec<u8>, ToolError> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.take(limit).read_to_end(&mut bytes)).map_err(cannot_read)?;
    Ok(bytes)
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn cannot_read(error: std::io::Error) -> ToolError {
    ToolError::host_failed(format!("the file cannot be read: {error}"))
}
