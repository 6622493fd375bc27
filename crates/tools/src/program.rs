//! What is said of a program: what it printed, how it ended, what it changed.
//!
//! Shared by the tools that run programs or look at them. The text is what a model gets and must be able to act on; the same
//! facts are in the metadata.

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
pub(crate) use self::filter::Filter;

/// Returns the directory that a program was planned to run in. The command was decided on for that place: where a link stands in it by
/// now, the call is refused.
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

/// What the line about what was left out may take.
const NOTICE: usize = 300;

/// What a program printed, as far as it is shown.
pub(crate) struct Shown {
    pub(crate) text: String,
    pub(crate) is_cut: bool,
}

/// What a program printed between two places; of one with a terminal, what a person would see. `taken` bytes of the limit are
/// needed for something else. Blocking.
pub(crate) fn shown(
    cx: &Context,
    job: &Job,
    range: Range<u64>,
    filter: &mut Filter,
    taken: usize,
) -> Shown {
    let limit = cx.overrides().output_bytes.unwrap_or(50_000);
    let limit = limit.saturating_sub(taken + NOTICE).max(limit / 4);
    let mut excerpt = Excerpt::new(limit);
    if job.terminal().is_some() {
        draw(cx, job, range.clone(), filter, &mut excerpt);
    } else {
        read(cx, job, range.clone(), filter, &mut excerpt);
    }
    let is_cut = excerpt.is_cut();
    let rest = if is_cut { keep(cx, job, range, filter.is_wide()) } else { String::new() };
    Shown { text: excerpt.finish(&rest), is_cut }
}

fn read(cx: &Context, job: &Job, range: Range<u64>, filter: &mut Filter, excerpt: &mut Excerpt) {
    let is_all = range == (0..job.printed());
    for piece in cx.printed(job, range) {
        if piece.missed > 0 {
            filter.end(excerpt);
            excerpt.skip(piece.missed);
        }
        filter.push(&piece.text, excerpt);
    }
    filter.end(excerpt);
    if is_all && filter.is_wide() && job.dropped() > 0 {
        excerpt.had_lines(job.lines());
    }
}

fn draw(cx: &Context, job: &Job, range: Range<u64>, filter: &mut Filter, excerpt: &mut Excerpt) {
    let Some(size) = job.terminal() else { return };
    let from = range.end.saturating_sub(screen::LOOKED_AT);
    let looked_at = usize::try_from(range.end - from).unwrap_or(0);
    let printed = job.since(from, looked_at);
    let begin = range.end - printed.bytes.len() as u64;
    let old = usize::try_from(range.start.saturating_sub(begin)).unwrap_or(usize::MAX);
    let (before, new) = printed.bytes.split_at(old.min(printed.bytes.len()));
    let lines = screen::lines(before, new, size).join("\n");
    // While it runs, the last of what is on the screen may be the beginning of more.
    let clean = if job.end().is_some() { cx.redact(&lines) } else { cx.redact_open(&lines).into() };
    filter.push(&clean, excerpt);
    filter.end(excerpt);
}

/// Keeps all of it, and says where.
fn keep(cx: &Context, job: &Job, range: Range<u64>, is_wide: bool) -> String {
    if !is_wide {
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

/// Adds the facts about a program to an answer: those of its end, if it has ended.
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
    let listed = changed::listed(changed, &Base::of(cx));
    if changed.is_dropped {
        return output.with("would_change", listed).with("changed_count", 0);
    }
    output.with("changed", listed).with("changed_count", changed.paths.len())
}
