//! `read`: a file, or a part of it, as a model can take it in.
//!
//! Text is shown line by line; what it costs depends on what is shown, not on the size of the file. Pictures come back as
//! pictures; notebooks and PDF files are turned into text first, whose lines are then shown like those of any text.

mod index_cache;
mod lines;
mod look;
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
    About, CallId, Context, Effects, FileKind, Fingerprint, Kinds, OpenFile, Output, Planned,
    PlannedTool, Scene, ToolError, quote,
};

use self::index_cache::IndexCache;
use self::lines::BLOCK;
use self::look::{Look, Seen};
use self::page::Ask;
pub(crate) use self::page::MAX_CHARACTERS;
use crate::document;
use crate::format::Root;

/// Files up to this size are read where the call is; a thread for them would cost more than the reading.
const INLINE: u64 = BLOCK as u64;

/// How much text a result has where nobody says otherwise.
const DEFAULT_BYTES: usize = 50_000;

/// The tool. It remembers where the lines of large files are; that is all it keeps between calls, and no answer depends on it.
pub(crate) struct Read {
    indexes: IndexCache,
}

/// The one that is in the table.
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

fn first() -> i64 {
    1
}

fn page_of_lines() -> u64 {
    2_000
}

fn yes() -> bool {
    true
}

impl PlannedTool for Read {
    const NAME: &'static str = "read";
    const KINDS: Kinds = Kinds::READ.with(Kinds::STATE);
    type Args = Args;

    fn about(&self) -> About {
        About::titled("Read a file")
    }

    type Plan = Text;

    fn plan(&self, args: Args, _: &Scene<'_>) -> Result<Planned<Text>, ToolError> {
        document::check_path_given(&args.path)?;
        let (effects, plan) = match kept_call(&args.path) {
            Some(call) => (Effects::state("output"), Text::Kept(call, args)),
            None => (Effects::read(&args.path), Text::File(args)),
        };
        Ok(Planned { effects, plan })
    }

    async fn call(&self, cx: &Context, text: Text) -> Result<Output, ToolError> {
        match text {
            Text::Kept(call, args) => read_kept(cx, &call, &args).await,
            Text::File(args) => self.read_file(cx, args).await,
        }
    }
}

/// The text that a call reads.
pub(crate) enum Text {
    /// The output of a call that was kept.
    Kept(CallId, Args),
    /// A file.
    File(Args),
}

impl Read {
    async fn read_file(&self, cx: &Context, args: Args) -> Result<Output, ToolError> {
        let OpenFile { file, stat } =
            cx.files().open(&args.path).map_err(|error| point_to_list(cx, &args.path, error))?;
        let known = self.indexes.get(&stat.fingerprint);
        let look = Look::new(file, ask(cx, &args, stat.len), known, &args.path);
        let looked = if stat.len <= INLINE && !look.is_slow() {
            look.run(cx)?
        } else {
            cx.blocking(move |cx| look.run(cx)).await??
        };
        if let Some(known) = looked.learnt.filter(|_| stat.len > INLINE) {
            self.indexes.keep(stat.fingerprint, known, cx.now());
        }
        if let Some(seen) = &looked.seen {
            remember(cx, &args.path, stat.fingerprint, seen)?;
        }
        Ok(looked.output.with("path", Root::of(cx, &args.path)?.show(Path::new(""))))
    }
}

/// Tells the session what it has seen of a file, so that it may replace it.
fn remember(
    cx: &Context,
    path: &Path,
    fingerprint: Fingerprint,
    seen: &Seen,
) -> Result<(), ToolError> {
    let path = cx.files().resolve(path)?.path;
    let mut from = seen.lines.start;
    // A line that was cut was not seen: who replaces the file must not lose the rest of it.
    for cut in &seen.cut {
        cx.session().saw(&path, fingerprint, from..*cut, seen.total, seen.hash);
        from = cut + 1;
    }
    cx.session().saw(&path, fingerprint, from..seen.lines.end, seen.total, seen.hash);
    Ok(())
}

/// The call whose output is meant, if the path says `output:CALL`.
fn kept_call(path: &Path) -> Option<CallId> {
    path.to_str()?.strip_prefix("output:").map(CallId::new)
}

async fn read_kept(cx: &Context, call: &CallId, args: &Args) -> Result<Output, ToolError> {
    let Some(text) = cx.kept_output(call)? else {
        return Err(ToolError::failed(format!(
            "cannot read output:{call}: no such output is kept"
        ))
        .hint("only outputs that were too long are kept, and not for ever: run the call again"));
    };
    let ask = ask(cx, args, text.len() as u64);
    let looked = if text.len() as u64 <= INLINE {
        look::show_text(cx, text.as_bytes(), &ask)?
    } else {
        cx.blocking(move |cx| look::show_text(cx, text.as_bytes(), &ask)).await??
    };
    Ok(looked.output.with("path", format!("output:{call}")))
}

fn ask(cx: &Context, args: &Args, file_bytes: u64) -> Ask {
    Ask {
        offset: args.offset,
        limit: args.limit,
        numbers: args.numbers,
        max_bytes: cx.overrides().output_bytes.unwrap_or(DEFAULT_BYTES),
        file_bytes,
    }
}

/// A directory is not read but listed.
fn point_to_list(cx: &Context, path: &Path, error: ToolError) -> ToolError {
    match cx.files().stat(path) {
        Ok(Some(stat)) if stat.kind == FileKind::Directory => {
            ToolError::failed(format!("cannot read {}: it is a directory", quote::path(path)))
                .hint("use `list` to see what is in it")
        }
        _ => error,
    }
}
