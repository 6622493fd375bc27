//! `read`: returns a file, or a part of it, in a form that a model can use.
//!
//! Text is returned line by line; the cost depends on the returned part, not on the size of the file. Images are returned as images;
//! notebooks and PDF files are converted to text first, and lines of that text are returned.

mod file_reader;
mod index_cache;
mod lines;
mod media;
mod notebook;
mod page;
mod pdf;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    CallId, Context, EffectKinds, Effects, FileKind, Fingerprint, OpenFile, Output, PlanContext,
    Planned, PlannedTool, ToolDetails, ToolError, quote,
};

use self::file_reader::{FileReader, SeenLines};
use self::index_cache::IndexCache;
use self::lines::BLOCK_BYTES;
pub(crate) use self::page::MAX_CHARACTERS;
use self::page::PageRequest;
use crate::document;
use crate::format::Root;

/// Largest size of a file that is read in the calling task; another thread would cost more than the read.
const MAX_INLINE_BYTES: u64 = BLOCK_BYTES as u64;

/// Default limit of the bytes of text in a result.
const DEFAULT_BYTES: usize = 50_000;

/// The `read` tool. Between calls it keeps only line indexes of large files, and no output depends on them.
pub(crate) struct Read {
    indexes: IndexCache,
}

/// The instance in the table of tools.
pub(crate) static READ: Read = Read { indexes: IndexCache::new() };

/// Read a file. Text comes as `NUMBER⇥line`; images, PDF and notebooks are read too.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// File to read, or `output:CALL` for a kept output.
    path: PathBuf,
    /// First line to read; negative counts from the end.
    #[serde(default = "first")]
    offset: i64,
    /// Maximum number of lines.
    #[serde(default = "page_of_lines")]
    #[schemars(range(min = 1, max = 100_000))]
    limit: u64,
    /// Show line numbers.
    #[serde(default = "yes")]
    numbers: bool,
}

/// Returns the default of `offset`.
fn first() -> i64 {
    1
}

/// Returns the default of `limit`.
fn page_of_lines() -> u64 {
    2_000
}

/// Returns the default of `numbers`.
fn yes() -> bool {
    true
}

impl PlannedTool for Read {
    const NAME: &'static str = "read";
    const KINDS: EffectKinds = EffectKinds::READ.with(EffectKinds::STATE);
    type Args = Args;

    fn about(&self) -> ToolDetails {
        ToolDetails::titled("Read a file")
    }

    type Plan = ReadText;

    fn plan(&self, args: Args, _: &PlanContext<'_>) -> Result<Planned<ReadText>, ToolError> {
        document::check_path_given(&args.path)?;
        let (effects, plan) = match kept_call(&args.path) {
            Some(call) => (Effects::state("output"), ReadText::Kept(call, args)),
            None => (Effects::read(&args.path), ReadText::File(args)),
        };
        Ok(Planned { effects, plan })
    }

    async fn call(&self, cx: &Context, text: ReadText) -> Result<Output, ToolError> {
        match text {
            ReadText::Kept(call, args) => read_kept(cx, &call, &args).await,
            ReadText::File(args) => self.read_file(cx, args).await,
        }
    }
}

/// The text that a call reads.
pub(crate) enum ReadText {
    /// The kept output of a call.
    Kept(CallId, Args),
    /// A file.
    File(Args),
}

impl Read {
    /// Reads a file, and remembers its line index and the lines that the session has seen.
    async fn read_file(&self, cx: &Context, args: Args) -> Result<Output, ToolError> {
        let OpenFile { file, stat } =
            cx.files().open(&args.path).map_err(|error| hint_at_list(cx, &args.path, error))?;
        let cached = self.indexes.get(&stat.fingerprint);
        let reader = FileReader::new(file, request(cx, &args, stat.len), cached, &args.path);
        let result = if stat.len <= MAX_INLINE_BYTES && !reader.is_slow() {
            reader.run(cx)?
        } else {
            cx.blocking(move |cx| reader.run(cx)).await??
        };
        if let Some(cached) = result.index_to_cache.filter(|_| stat.len > MAX_INLINE_BYTES) {
            self.indexes.keep(stat.fingerprint, cached, cx.now());
        }
        if let Some(seen) = &result.seen {
            record_seen_lines(cx, &args.path, stat.fingerprint, seen)?;
        }
        Ok(result.output.with("path", Root::of(cx, &args.path)?.show(Path::new(""))))
    }
}

/// Records in the session which lines it has seen, so that it may replace the file after it has seen all.
fn record_seen_lines(
    cx: &Context,
    path: &Path,
    fingerprint: Fingerprint,
    seen: &SeenLines,
) -> Result<(), ToolError> {
    let path = cx.files().resolve(path)?.path;
    let mut from = seen.lines.start;
    // A cut line does not count as seen: its unseen rest must not be lost when the file is replaced.
    for cut in &seen.cut {
        cx.session().saw(&path, fingerprint, from..*cut, seen.total, seen.hash);
        from = cut + 1;
    }
    cx.session().saw(&path, fingerprint, from..seen.lines.end, seen.total, seen.hash);
    Ok(())
}

/// Returns the call of a path such as `output:CALL`.
fn kept_call(path: &Path) -> Option<CallId> {
    path.to_str()?.strip_prefix("output:").map(CallId::new)
}

/// Reads a kept output.
async fn read_kept(cx: &Context, call: &CallId, args: &Args) -> Result<Output, ToolError> {
    let Some(text) = cx.kept_output(call)? else {
        return Err(ToolError::failed(format!(
            "cannot read output:{call}: no such output is kept"
        ))
        .hint("only outputs that were too long are kept, and not for ever: run the call again"));
    };
    let request = request(cx, args, text.len() as u64);
    let result = if text.len() as u64 <= MAX_INLINE_BYTES {
        file_reader::show_text(cx, text.as_bytes(), &request)?
    } else {
        cx.blocking(move |cx| file_reader::show_text(cx, text.as_bytes(), &request)).await??
    };
    Ok(result.output.with("path", format!("output:{call}")))
}

/// Returns the request for a page of a file of this size.
fn request(cx: &Context, args: &Args, file_bytes: u64) -> PageRequest {
    PageRequest {
        offset: args.offset,
        limit: args.limit,
        numbers: args.numbers,
        max_bytes: cx.overrides().output_bytes.unwrap_or(DEFAULT_BYTES),
        file_bytes,
    }
}

/// Replaces the error for a directory by one that points to `list`.
fn hint_at_list(cx: &Context, path: &Path, error: ToolError) -> ToolError {
    match cx.files().stat(path) {
        Ok(Some(stat)) if stat.kind == FileKind::Directory => {
            ToolError::failed(format!("cannot read {}: it is a directory", quote::path(path)))
                .hint("use `list` to see what is in it")
        }
        _ => error,
    }
}
