//! One look at an open file: finds out what it is, and makes of it what a model can take in.

use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use windlass_core::{Content, ContentHash, Context, Output, ToolError};

use super::index_cache::Known;
use super::lines::{BLOCK, Blocks, LineIndex, LineReader, LinesError};
use super::media::{self, Image, Media};
use super::page::{self, Ask, Page};
use super::{notebook, pdf};
use crate::cut::Cutter;
use crate::encoding::{HEAD, TextEncoding};
use crate::format;

/// Larger pictures are described only: no provider takes them.
const MAX_IMAGE: u64 = 5 << 20;

/// Larger notebooks and PDF files are not turned into text.
const MAX_DOCUMENT: u64 = 32 << 20;

/// An open file, and what is wanted of it.
pub(crate) struct Look {
    file: File,
    ask: Ask,
    known: Option<Arc<Known>>,
    kind: Kind,
}

/// What came of it.
pub(crate) struct Looked {
    pub(crate) output: Output,
    /// Which lines were shown; `None` if the file was only described.
    pub(crate) seen: Option<Seen>,
    /// What to remember about the file.
    pub(crate) learnt: Option<Arc<Known>>,
}

/// Which lines were shown.
pub(crate) struct Seen {
    /// Counted from 0.
    pub(crate) lines: Range<u64>,
    /// Those of them that were cut.
    pub(crate) cut: Vec<u64>,
    /// How many lines there are, if that is known.
    pub(crate) total: Option<u64>,
    /// Of the whole file, if it was small enough to be all at hand.
    pub(crate) hash: Option<ContentHash>,
}

/// What the name of a file says about it, which is little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Any,
    Notebook,
    Pdf,
}

impl Kind {
    fn by_name(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some(extension) if extension.eq_ignore_ascii_case("ipynb") => Self::Notebook,
            Some(extension) if extension.eq_ignore_ascii_case("pdf") => Self::Pdf,
            _ => Self::Any,
        }
    }
}

impl Look {
    pub(crate) fn new(file: File, ask: Ask, known: Option<Arc<Known>>, path: &Path) -> Self {
        Self { file, ask, known, kind: Kind::by_name(path) }
    }

    /// Whether it may take long even if the file is small.
    pub(crate) fn is_slow(&self) -> bool {
        self.kind != Kind::Any
    }

    /// Looks. Blocking.
    pub(crate) fn run(self, cx: &Context) -> Result<Looked, ToolError> {
        let Self { file, ask, known, kind } = self;
        let mut blocks = Blocks::new(file, ask.file_bytes);
        if let Some(known) = known {
            return show_file(cx, blocks, known, &ask);
        }
        blocks.load(0).map_err(cannot_read)?;
        let bytes = blocks.bytes();
        let head = bytes.get(..HEAD).unwrap_or(bytes);
        match media::sniff(head) {
            Some(Media::Image(image)) => show_image(blocks.into_source(), image, &ask),
            Some(Media::Pdf) => show_pdf(cx, blocks.into_source(), &ask),
            Some(Media::Other(name)) => Ok(describe(name, &ask)),
            None if kind == Kind::Notebook => show_notebook(cx, blocks, &ask),
            None => show_plain(cx, blocks, &ask),
        }
    }
}

/// Shows lines of a file whose first block is loaded.
fn show_plain(cx: &Context, blocks: Blocks<File>, ask: &Ask) -> Result<Looked, ToolError> {
    let bytes = blocks.bytes();
    let is_whole = bytes.len() < BLOCK;
    let encoding =
        if is_whole { TextEncoding::detect(bytes) } else { TextEncoding::detect_beginning(bytes) };
    let Some(encoding) = encoding else { return Ok(describe("binary data", ask)) };
    let hash = is_whole.then(|| ContentHash::of(bytes));
    let known = Arc::new(Known { encoding, index: LineIndex::default() });
    let mut looked = show_file(cx, blocks, known, ask)?;
    if let Some(seen) = &mut looked.seen {
        seen.hash = hash;
    }
    Ok(looked)
}

fn show_file(
    cx: &Context,
    blocks: Blocks<File>,
    mut known: Arc<Known>,
    ask: &Ask,
) -> Result<Looked, ToolError> {
    let encoding = known.encoding;
    let page = show_lines(cx, blocks, &mut Arc::make_mut(&mut known).index, encoding, ask)?;
    Ok(Looked { learnt: Some(known), ..shown_page(page) })
}

/// Shows lines of a text that is in memory.
pub(crate) fn show_text(cx: &Context, text: &[u8], ask: &Ask) -> Result<Looked, ToolError> {
    let ask = Ask { file_bytes: text.len() as u64, ..*ask };
    let blocks = Blocks::new(Cursor::new(text), ask.file_bytes);
    let page = show_lines(cx, blocks, &mut LineIndex::default(), TextEncoding::UTF_8, &ask)?;
    Ok(shown_page(page))
}

fn show_lines<R: Read + Seek>(
    cx: &Context,
    blocks: Blocks<R>,
    index: &mut LineIndex,
    encoding: TextEncoding,
    ask: &Ask,
) -> Result<Page, ToolError> {
    let cancelled = || cx.is_cancelled();
    let (line_feed, mark) = (encoding.line_feed(), encoding.mark().len());
    let mut reader = LineReader::new(blocks, index, line_feed, mark, &cancelled);
    page::show(&mut reader, encoding, ask, Cutter::of(cx)).map_err(|error| match error {
        LinesError::Io(error) => cannot_read(error),
        LinesError::Cancelled => ToolError::cancelled("stopped while reading"),
    })
}

fn show_notebook(cx: &Context, blocks: Blocks<File>, ask: &Ask) -> Result<Looked, ToolError> {
    if ask.file_bytes > MAX_DOCUMENT {
        return show_plain(cx, blocks, ask);
    }
    let mut file = blocks.into_source();
    let bytes = whole(&mut file, MAX_DOCUMENT)?;
    if let Some(text) = std::str::from_utf8(&bytes).ok().and_then(notebook::to_text) {
        return show_text(cx, text.as_bytes(), ask);
    }
    let mut blocks = Blocks::new(file, ask.file_bytes);
    blocks.rewind().map_err(cannot_read)?;
    show_plain(cx, blocks, ask)
}

fn show_pdf(cx: &Context, mut file: File, ask: &Ask) -> Result<Looked, ToolError> {
    if ask.file_bytes > MAX_DOCUMENT {
        return Ok(describe("PDF document, too large to be turned into text", ask));
    }
    let bytes = whole(&mut file, MAX_DOCUMENT)?;
    match pdf::to_text(&bytes, &|| cx.is_cancelled()) {
        Ok(text) => show_text(cx, text.as_bytes(), ask),
        Err(why) => Ok(describe(&format!("PDF document: {why}"), ask)),
    }
}

fn show_image(mut file: File, image: Image, ask: &Ask) -> Result<Looked, ToolError> {
    let media_type = image.media_type();
    if ask.file_bytes > MAX_IMAGE {
        let limit = format::size(MAX_IMAGE);
        return Ok(describe(
            &format!("{media_type}, too large to be shown (at most {limit})"),
            ask,
        ));
    }
    let bytes = whole(&mut file, MAX_IMAGE)?;
    let pixels = image
        .dimensions(&bytes)
        .map(|(width, height)| format!(", {width}x{height} pixels"))
        .unwrap_or_default();
    let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
    let picture = Content::Image { media_type: media_type.to_owned(), data };
    let words = Content::text(format!("[{media_type}{pixels}, {}]", format::size(ask.file_bytes)));
    let output = Output { content: vec![picture, words], ..Output::default() };
    let output = without_lines(output).with("media_type", media_type);
    // To look at a picture is to see all of it.
    let seen = Seen { lines: 0..1, cut: Vec::new(), total: Some(1), hash: None };
    Ok(Looked { output, seen: Some(seen), learnt: None })
}

/// A file that is not shown, in one line.
fn describe(what: &str, ask: &Ask) -> Looked {
    let text = format!("[{what}; {}; not shown as text]", format::size(ask.file_bytes));
    Looked { output: without_lines(Output::text(text)), seen: None, learnt: None }
}

fn without_lines(output: Output) -> Output {
    output
        .with("lines", 0)
        .with("total_lines", None::<u64>)
        .with("offset", None::<u64>)
        .with("next_offset", None::<u64>)
        .with("encoding", None::<&str>)
        .with("truncated", false)
}

fn shown_page(page: Page) -> Looked {
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
    let seen = Seen { lines: page.lines, cut: page.cut, total: page.total, hash: None };
    Looked { output, seen: Some(seen), learnt: None }
}

/// All bytes of a file, but not more than so many.
fn whole(file: &mut File, limit: u64) -> Result<Vec<u8>, ToolError> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.take(limit).read_to_end(&mut bytes)).map_err(cannot_read)?;
    Ok(bytes)
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn cannot_read(error: std::io::Error) -> ToolError {
    ToolError::host_failed(format!("the file cannot be read: {error}"))
}
