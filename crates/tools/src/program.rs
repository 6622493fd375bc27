//! Output of programs: the printed text, the way a program ended and the files that it changed.
//!
//! Used by the tools that run programs or read their output. A model gets the text and must be able to act on it; the same facts are in the
//! metadata.

pub(crate) mod answer;
pub(crate) mod changed;
pub(crate) mod closing;
mod excerpt;
mod filter;
pub(crate) mod missing;
mod screen;

use std::ops::Range;
use std::path::Path;

use windlass_core::{Context, Job, JobEnd, Output, ProcessEnd, Resolved, ToolError, quote};

use self::changed::Base;
use self::excerpt::Excerpt;
pub(crate) use self::filter::LineFilter;

/// Returns the planned working directory of a program. The decision was made for that path, so the call fails if a symbolic link now leads
/// elsewhere.
pub(crate) fn directory(cx: &Context, planned: &Path) -> Result<Resolved, ToolError> {
    let found = cx.files().resolve(planned)?;
    if found.path == planned {
        return Ok(found);
    }
    Err(ToolError::failed(format!(
        "cannot run a command in {}: it is not the directory any more that the command was decided on for",
        quote::path(planned)
    ))
    .hint("call again"))
}

/// Bytes reserved for the line that says how much was left out.
const CUT_NOTICE_BYTES: usize = 300;

/// The printed text of a program, shortened to the output limit.
pub(crate) struct PrintedExcerpt {
    pub(crate) text: String,
    /// True if text was left out.
    pub(crate) is_cut: bool,
}

/// Returns the text that a program printed in a range of its output; for a program in a terminal, the lines on its screen. `taken` bytes of
/// the output limit are reserved for other text. Blocking.
pub(crate) fn printed_excerpt(
    cx: &Context,
    job: &Job,
    range: Range<u64>,
    filter: &mut LineFilter,
    taken: usize,
) -> PrintedExcerpt {
    let limit = cx.overrides().output_bytes.unwrap_or(50_000);
    let limit = limit.saturating_sub(taken + CUT_NOTICE_BYTES).max(limit / 4);
    let mut excerpt = Excerpt::new(limit);
    if job.terminal().is_some() {
        push_screen(cx, job, range.clone(), filter, &mut excerpt);
    } else {
        push_printed(cx, job, range.clone(), filter, &mut excerpt);
    }
    let is_cut = excerpt.is_cut();
    let rest =
        if is_cut { keep_output(cx, job, range, filter.passes_all()) } else { String::new() };
    PrintedExcerpt { text: excerpt.finish(&rest), is_cut }
}

/// Passes printed text, with secrets redacted, through the filter to the excerpt.
fn push_printed(
    cx: &Context,
    job: &Job,
    range: Range<u64>,
    filter: &mut LineFilter,
    excerpt: &mut Excerpt,
) {
    let is_all = range == (0..job.printed());
    for piece in cx.printed(job, range) {
        if piece.missed > 0 {
            filter.finish(excerpt);
            excerpt.skip(piece.missed);
        }
        filter.push(&piece.text, excerpt);
    }
    filter.finish(excerpt);
    if is_all && filter.passes_all() && job.dropped() > 0 {
        excerpt.set_line_count(job.lines());
    }
}

/// Passes the lines of a terminal's screen, with secrets redacted, through the filter to the excerpt.
fn push_screen(
    cx: &Context,
    job: &Job,
    range: Range<u64>,
    filter: &mut LineFilter,
    excerpt: &mut Excerpt,
) {
    let Some(size) = job.terminal() else { return };
    let from = range.end.saturating_sub(screen::MAX_DRAWN_BYTES);
    let drawn_bytes = usize::try_from(range.end - from).unwrap_or(0);
    let printed = job.since(from, drawn_bytes);
    let begin = range.end - printed.bytes.len() as u64;
    let old = usize::try_from(range.start.saturating_sub(begin)).unwrap_or(usize::MAX);
    let (before, new) = printed.bytes.split_at(old.min(printed.bytes.len()));
    let lines = screen::lines(before, new, size).join("\n");
    // While the program runs, the end of the screen may be the beginning of a secret.
    let clean = if job.end().is_some() { cx.redact(&lines) } else { cx.redact_open(&lines).into() };
    filter.push(&clean, excerpt);
    filter.finish(excerpt);
}

/// Keeps the whole output under a handle and returns the text that tells how to read it.
fn keep_output(cx: &Context, job: &Job, range: Range<u64>, passes_all: bool) -> String {
    if !passes_all {
        return "a narrower `filter` or a smaller `tail` leaves out less".to_owned();
    }
    if !cx.keep_printed(job, range) {
        return "the rest could not be kept".to_owned();
    }
    let whole = match job.dropped() {
        0 => "the whole is kept".to_owned(),
        dropped => format!("the whole but {dropped} bytes in its middle is kept"),
    };
    format!("{whole}: read or grep path \"output:{}\"", cx.call_id())
}

/// Adds exit code, signal, duration and changed files to the metadata. Without an end, they are empty.
pub(crate) fn facts(output: Output, cx: &Context, end: Option<&JobEnd>) -> Output {
    let how = end.map(|end| end.how);
    let exit_code = how.and_then(|how| match how {
        ProcessEnd::Exited(code) => Some(code),
        _ => None,
    });
    let signal = how.and_then(|how| match how {
        ProcessEnd::Signalled(number) => Some(number),
        _ => None,
    });
    let duration = end.map(|end| u64::try_from(end.duration.as_millis()).unwrap_or(u64::MAX));
    let output = output
        .with("exit_code", exit_code)
        .with("signal", signal)
        .with("duration_ms", duration)
        .with("timed_out", end.is_some_and(|end| end.timed_out));
    let Some(Ok(changed)) = end.map(|end| &end.changed) else { return output };
    let listed = changed::as_json(changed, &Base::of(cx));
    if changed.is_dropped {
        return output.with("would_change", listed).with("changed_count", 0);
    }
    output.with("changed", listed).with("changed_count", changed.paths.len())
}
