//! Messages about hunks: the reason why one does not apply, with hints for the next attempt, and remarks about shifted hunks.

use std::borrow::Cow;

use super::hunk::{Hunk, join_lines};
use super::place::{HunkMiss, HunkPlace};
use crate::cut::Cutter;
use crate::edit::miss::{TextNames, line_numbers, push_most_similar_place};
use crate::edit::plan::{MatchStrategy, TextEdit};

/// Limit of the shifted hunks that are named.
const MAX_SHIFTED: usize = 10;

/// The file to which hunks are applied.
pub(super) struct PatchedFile<'w> {
    pub(super) name: &'w str,
    pub(super) text: &'w [u8],
    pub(super) cutter: Cutter<'w>,
}

/// Returns the message for a hunk that does not apply; without the most similar place if `is_short`.
pub(super) fn miss_message(
    file: &PatchedFile<'_>,
    hunk: &Hunk,
    miss: &HunkMiss,
    (number, all): (usize, usize),
    is_short: bool,
) -> String {
    let header = if hunk.header.is_empty() { String::new() } else { format!(": {}", hunk.header) };
    let mut words =
        format!("{}, hunk {number} of {all} (line {} of the patch{header}) ", file.name, hunk.line);
    words.push_str(&reason(miss));
    if *miss == HunkMiss::NotFound && !is_short {
        let names = TextNames {
            old: "the hunk",
            new_is: "what the hunk makes of it is",
            cutter: file.cutter,
        };
        push_most_similar_place(&mut words, file.text, &as_edit(hunk), names);
    }
    words
}

/// Returns the reason, as the end of a sentence about the hunk.
fn reason(miss: &HunkMiss) -> Cow<'static, str> {
    match miss {
        HunkMiss::NotFound => "does not apply: its lines are not in the file".into(),
        HunkMiss::Elsewhere(line, why) => {
            format!("does not apply: its lines are at line {line}, {why}").into()
        }
        HunkMiss::NoAnchor(anchor) => format!(
            "does not apply: the file has no line `{anchor}`, which its header names\nafter `@@`, give a whole line of the file that comes before the hunk, or nothing"
        )
        .into(),
        HunkMiss::Ambiguous(lines, strategy) => ambiguous(lines, *strategy).into(),
        HunkMiss::NoContext => {
            "only adds lines, and no line around them tells where\ngive at least one line of the file before or after them, beginning with a blank".into()
        }
        HunkMiss::Unreadable(line) => format!(
            "would lose bytes: line {line} has some that are no characters (shown as U+FFFD), and a new line of the hunk has U+FFFD\nleave that line as it is"
        )
        .into(),
    }
}

/// Says that a hunk matches at several places.
fn ambiguous(lines: &[usize], strategy: MatchStrategy) -> String {
    format!(
        "could be at {} places{}: at lines {}\ngive more of the lines around it, or the line above it after `@@`",
        lines.len(),
        strategy.apart_from(),
        line_numbers(lines)
    )
}

/// Converts a hunk to an edit of its old lines.
fn as_edit(hunk: &Hunk) -> TextEdit {
    let plain = |text: String| text.replace('\r', "");
    TextEdit {
        old: plain(join_lines(hunk.old_lines())),
        new: plain(join_lines(hunk.new_lines())),
        all: false,
    }
}

/// Names the hunks that matched at another line than their headers say; `None` if there are none.
pub(super) fn shifted_hunks(
    hunks: &[Hunk],
    places: &[Result<HunkPlace, HunkMiss>],
) -> Option<String> {
    let mut shifted = (1..).zip(hunks.iter().zip(places)).filter_map(|(number, (hunk, place))| {
        let (wanted, found) = (hunk.at?, place.as_ref().ok()?.start);
        (wanted != found)
            .then(|| format!("hunk {number} found at line {}, not {}", found + 1, wanted + 1))
    });
    let named: Vec<String> = shifted.by_ref().take(MAX_SHIFTED).collect();
    let more = shifted.count();
    match (named.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(named.join(", ")),
        (false, more) => Some(format!("{} and {more} more", named.join(", "))),
    }
}
