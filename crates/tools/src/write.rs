//! `write`: creates a file, replaces its whole content, or appends to it.
//!
//! A session may replace a file only if it has seen all of the present content, so that it does not destroy unknown text. An existing file
//! keeps its encoding, byte order mark and line endings, which its readers rely on and the model is not shown.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    ContentHash, Context, Effect, EffectKinds, Effects, FileKind, Output, PathPattern, Stat, Tool,
    ToolDetails, ToolError, Unseen,
};

use crate::cut::Cutter;
use crate::diff;
use crate::document::{self, Document, LineEnding};
use crate::format::{self, Root};
use crate::{redaction_guard, syntax};

/// Limit of the bytes that one call writes.
const MAX_BYTES: usize = 10 << 20;

/// The `write` tool.
pub(crate) struct Write;

/// Create a file, replace it, or append to it. Read a file before you replace it; use `edit` to change parts.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// File to write; missing directories are created.
    path: PathBuf,
    /// The whole text.
    content: String,
    /// `create` fails if the file exists.
    #[serde(default)]
    mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Create,
    #[default]
    Overwrite,
    Append,
}

impl Tool for Write {
    const NAME: &'static str = "write";
    const KINDS: EffectKinds = EffectKinds::READ.with(EffectKinds::WRITE);
    type Args = Args;

    fn about(&self) -> ToolDetails {
        ToolDetails::titled("Write a file")
    }

    fn effects(&self, args: &Args) -> Effects {
        Effects::read(&args.path).and(Effect::Write(PathPattern::file(&args.path)))
    }

    async fn call(&self, cx: &Context, args: Args) -> Result<Output, ToolError> {
        document::check_path_given(&args.path)?;
        if args.content.len() > MAX_BYTES {
            return Err(too_large(args.content.len()));
        }
        cx.blocking(move |cx| write(cx, &args)).await?
    }

    fn copy_for_trial(&self, args: &Args) -> Option<Args> {
        Some(args.clone())
    }
}

/// Refuses a text that is too large for one call.
fn too_large(bytes: usize) -> ToolError {
    ToolError::invalid_args(format!(
        "content has {} ({bytes} bytes); it must have at most {}",
        format::size(bytes as u64),
        format::size(MAX_BYTES as u64)
    ))
    .hint("write it in parts with mode `append`")
}

/// Writes the file according to its present kind and the mode of the call.
fn write(cx: &Context, args: &Args) -> Result<Output, ToolError> {
    let name = Root::of(cx, &args.path)?.show(Path::new(""));
    match cx.files().stat(&args.path)? {
        None => {
            document::check_file_path(&args.path)?;
            create(cx, args, &name)
        }
        Some(stat) if stat.kind == FileKind::Directory => {
            Err(ToolError::failed(format!("cannot write {name}: it is a directory"))
                .hint("give the name of a file in it"))
        }
        Some(stat) if stat.kind != FileKind::File => {
            Err(ToolError::failed(format!("cannot write {name}: it is {}", stat.kind)))
        }
        Some(_) => match args.mode {
            Mode::Create => {
                Err(ToolError::failed(format!("cannot create {name}: it exists already"))
                    .hint("read it and write it with mode `overwrite`, or choose another name"))
            }
            Mode::Overwrite => overwrite(cx, args, &name),
            Mode::Append => document::retry_if_stale(|| append(cx, args, &name)),
        },
    }
}

/// Creates a file with exactly the given content.
fn create(cx: &Context, args: &Args, name: &str) -> Result<Output, ToolError> {
    let content = args.content.as_bytes();
    cx.files().create(&args.path, content)?;
    let changes = diff::unified_diff("", &args.content, Cutter::of(cx));
    let lines = format::count(changes.added, "line", "lines");
    let error = syntax::new_error(&args.path, "", &args.content);
    let (size, note) = (format::size(content.len() as u64), syntax::note(error.as_ref()));
    let output = Output::text(format!("created {name}: {lines}, {size}{note}"))
        .with("path", name)
        .with("bytes", content.len())
        .with("created", true)
        .with("diff", changes.text);
    Ok(syntax::attach(output, error))
}

/// Replaces a file that the session has seen completely; otherwise returns a `stale_error` error.
fn overwrite(cx: &Context, args: &Args, name: &str) -> Result<Output, ToolError> {
    let (bytes, stat) = document::load(cx, &args.path)?;
    let place = cx.files().resolve(&args.path)?.path;
    let before = ExistingContent::of(bytes);
    let hash = ContentHash::of(before.bytes());
    if let Err(unseen) = cx.session().has_seen(&place, stat.fingerprint, Some(hash)) {
        let error = stale_error(&unseen, name, &before);
        return Ok(Output::error(error.to_string())
            .with("path", name)
            .with("stale", true)
            .with("hash", hash.to_string()));
    }
    let content = before.encode(&args.content, name)?;
    replace_and_report(cx, args, name, "replaced", &before, content, &stat)
}

/// Appends to a file.
fn append(cx: &Context, args: &Args, name: &str) -> Result<Output, ToolError> {
    let (bytes, stat) = document::load(cx, &args.path)?;
    let before = ExistingContent::of(bytes);
    let content = [before.bytes(), &*before.encode_more(&args.content, name)?].concat();
    replace_and_report(cx, args, name, "appended to", &before, content, &stat)
}

/// Writes the new bytes and reports the difference; writes nothing if the bytes are equal.
fn replace_and_report(
    cx: &Context,
    args: &Args,
    name: &str,
    done: &str,
    before: &ExistingContent,
    content: Vec<u8>,
    stat: &Stat,
) -> Result<Output, ToolError> {
    if content == before.bytes() {
        return Ok(Output::text(format!("unchanged {name}: it holds exactly this already"))
            .with("path", name)
            .with("bytes", content.len())
            .with("created", false)
            .with("diff", ""));
    }
    if !args.content.is_empty() {
        let after = before.with_bytes(content.clone());
        redaction_guard::check(cx, name, &before.to_text(), &after.to_text())?;
    }
    let altered = cx.files().replace(&args.path, &content, stat, before.bytes())?;
    let how = format::how_written(stat.links, altered.in_place);
    let bytes = content.len();
    let after = before.with_bytes(content);
    let changes = diff::unified_diff(&before.to_text(), &after.to_text(), Cutter::of(cx));
    let error = syntax::new_error(&args.path, &before.to_text(), &after.to_text());
    let lines = after.to_text().split_inclusive('\n').count();
    let text = format!(
        "{done} {name}: {} (+{} -{}), {}{}{}\n{}{how}",
        format::count(lines, "line", "lines"),
        changes.added,
        changes.removed,
        format::size(bytes as u64),
        before.kept_properties(),
        syntax::note(error.as_ref()),
        changes.text
    );
    let output = Output::text(text)
        .with("path", name)
        .with("bytes", bytes)
        .with("created", false)
        .with("diff", changes.text);
    Ok(syntax::attach(output, error))
}

/// The content of the file before the call.
enum ExistingContent {
    Text(Document),
    Binary(Vec<u8>),
}

impl ExistingContent {
    /// Decodes the bytes; they are binary if they are not text.
    fn of(bytes: Vec<u8>) -> Self {
        Document::parse(bytes).map_or_else(Self::Binary, Self::Text)
    }

    /// Returns all bytes of the file.
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(document) => document.bytes(),
            Self::Binary(bytes) => bytes,
        }
    }

    /// Returns the same file with other bytes.
    fn with_bytes(&self, bytes: Vec<u8>) -> Self {
        match self {
            Self::Text(document) => Self::Text(document.with_bytes(bytes)),
            Self::Binary(_) => Self::of(bytes),
        }
    }

    /// Returns the text; empty for a binary file.
    fn to_text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(document) => document.to_text(),
            Self::Binary(_) => Cow::Borrowed(""),
        }
    }

    /// Returns the line ending, if all lines have the same one.
    fn line_ending(&self) -> Option<LineEnding> {
        match self {
            Self::Text(document) => LineEnding::uniform(document.text()),
            Self::Binary(_) => None,
        }
    }

    /// Encodes a text as the whole file, with the line endings and the encoding of the old content.
    fn encode(&self, content: &str, name: &str) -> Result<Vec<u8>, ToolError> {
        let Self::Text(document) = self else { return Ok(content.as_bytes().to_vec()) };
        let content = self.line_ending().map_or(content.into(), |ending| ending.unify(content));
        document.encode(&content).map_err(|lacking| lacking.explain(name, document.encoding()))
    }

    /// Encodes a text that is appended to the old content, without a byte order mark.
    fn encode_more(&self, content: &str, name: &str) -> Result<Vec<u8>, ToolError> {
        let Self::Text(document) = self else { return Ok(content.as_bytes().to_vec()) };
        let content = self.line_ending().map_or(content.into(), |ending| ending.unify(content));
        let encoding = document.encoding();
        let bytes = encoding.encode(&content).map_err(|lacking| lacking.explain(name, encoding))?;
        Ok(bytes.into_owned())
    }

    /// Returns a remark about the encoding, byte order mark and CRLF that were kept; empty if there is nothing unusual.
    fn kept_properties(&self) -> String {
        let Self::Text(document) = self else { return String::new() };
        let encoding = document.encoding();
        let mut kept = Vec::new();
        if !encoding.is_utf8() {
            kept.push(encoding.name());
        }
        if encoding.has_bom() {
            kept.push("BOM");
        }
        if self.line_ending() == Some(LineEnding::Crlf) {
            kept.push("CRLF line endings");
        }
        if kept.is_empty() { String::new() } else { format!("; kept {}", kept.join(", ")) }
    }

    /// Returns the length in characters of the longest line in these ranges, counted from 0.
    fn longest_line(&self, ranges: &[Range<u64>]) -> usize {
        let is_in = |line: u64| {
            let at = ranges.partition_point(|range| range.end <= line);
            ranges.get(at).is_some_and(|range| range.contains(&line))
        };
        let text = self.to_text();
        let lines = (0..).zip(text.lines()).filter(|(number, _)| is_in(*number));
        lines.map(|(_, line)| line.chars().count()).max().unwrap_or(0)
    }
}

/// Returns the error for a file that the session has not seen completely, with the next step.
fn stale_error(unseen: &Unseen, name: &str, before: &ExistingContent) -> ToolError {
    let error = |why: &str| ToolError::failed(format!("stale: {name} {why}"));
    match unseen {
        Unseen::Never if matches!(before, ExistingContent::Binary(_)) => {
            error("is binary and was not shown in this session, so it is not replaced")
                .hint("choose another name, or remove the file first")
        }
        Unseen::Never => error("exists and was not read in this session, so it is not replaced")
            .hint("read it first, or change parts of it with `edit`"),
        Unseen::Changed => error("changed since this session read it, so it is not replaced")
            .hint("read it again; nothing was written"),
        Unseen::Lines(ranges) => {
            let words = format!(
                "was read in part, so it is not replaced: {} not shown",
                lines_were(ranges)
            );
            let is_cut = before.longest_line(ranges) > crate::read::MAX_CHARACTERS;
            error(&words).hint(if is_cut {
                "some of them are too long to be shown whole: change the file with `edit`"
                    .to_owned()
            } else {
                let first = ranges.first().map_or(0, |lines| lines.start);
                format!(
                    "read it from offset {} on, or change parts of it with `edit`",
                    first.saturating_add(1)
                )
            })
        }
    }
}

/// Limit of the ranges of lines that an error names.
const MAX_NAMED_RANGES: usize = 5;

/// Formats ranges of lines, which are counted from 0, as the subject of a sentence: `lines 3-9, 12 and 20-30 were`.
fn lines_were(ranges: &[Range<u64>]) -> String {
    let mut names: Vec<String> = ranges.iter().take(MAX_NAMED_RANGES).map(format_range).collect();
    let more = ranges.len().saturating_sub(MAX_NAMED_RANGES);
    if more > 0 {
        names.push(format!("{more} more ranges"));
    }
    match (names.pop(), names.is_empty(), ranges) {
        (Some(last), true, [lines]) if lines.end - lines.start == 1 => format!("line {last} was"),
        (Some(last), true, _) => format!("lines {last} were"),
        (Some(last), false, _) => format!("lines {} and {last} were", names.join(", ")),
        (None, ..) => "some lines were".to_owned(),
    }
}

/// Formats a range of lines, counted from 1: `3-9`, `12` or `from 30 on`.
fn format_range(lines: &Range<u64>) -> String {
    let first = lines.start.saturating_add(1);
    match lines.end {
        u64::MAX => format!("from {first} on"),
        end if end == first => first.to_string(),
        end => format!("{first}-{end}"),
    }
}
