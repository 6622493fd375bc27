//! What there is to say of hunks: why one does not apply, with what the next try needs to know; and where one was found elsewhere.

use std::borrow::Cow;

use super::hunk::{Hunk, text};
use super::place::{Miss, Place};
use crate::cut::Cutter;
use crate::edit::miss::{TextNames, line_numbers, push_most_similar_place};
use crate::edit::plan::{MatchStrategy, TextEdit};

/// How many hunks that were found elsewhere are named.
const MAX_MOVED: usize = 10;

/// The file in which a hunk was looked for.
pub(super) struct Whole<'w> {
    pub(super) name: &'w str,
    pub(super) text: &'w [u8],
    pub(super) cutter: Cutter<'w>,
}

/// Why a hunk does not apply; without the closest place if `is_short`.
pub(super) fn failure(
    whole: &Whole<'_>,
    hunk: &Hunk,
    miss: &Miss,
    (number, all): (usize, usize),
    is_short: bool,
) -> String {
    let header = if hunk.header.is_empty() { String::new() } else { format!(": {}", hunk.header) };
    let mut words = format!(
        "{}, hunk {number} of {all} (line {} of the patch{header}) ",
        whole.name, hunk.line
    );
    words.push_str(&reason(miss));
    if *miss == Miss::NotFound && !is_short {
        let names = TextNames {
            old: "the hunk",
            new_is: "what the hunk makes of it is",
            cutter: whole.cutter,
        };
        push_most_similar_place(&mut words, whole.text, &as_edit(hunk), names);
    }
    words
}

fn reason(miss: &Miss) -> Cow<'static, str> {
    match miss {
        Miss::NotFound => "does not apply: its lines are not in the file".into(),
        Miss::Elsewhere(line, why) => {
            format!("does not apply: its lines are at line {line}, {why}").into()
        }
        Miss::NoAnchor(anchor) => format!(
            "does not apply: the file has no line `{anchor}`, which its header names\nafter `@@`, give a whole line of the file that comes before the hunk, or nothing"
        )
        .into(),
        Miss::Ambiguous(lines, strategy) => ambiguous(lines, *strategy).into(),
        Miss::NoContext => {
            "only adds lines, and no line around them tells where\ngive at least one line of the file before or after them, beginning with a blank".into()
        }
        Miss::Unreadable(line) => format!(
            "would lose bytes: line {line} has some that are no characters (shown as U+FFFD), and a new line of the hunk has U+FFFD\nleave that line as it is"
        )
        .into(),
    }
}

fn ambiguous(lines: &[usize], strategy: MatchStrategy) -> String {
    format!(
        "could be at {} places{}: at lines {}\ngive more of the lines around it, or the line above it after `@@`",
        lines.len(),
        strategy.apart_from(),
        line_numbers(lines)
    )
}

/// The hunk as an edit of the lines it is about.
fn as_edit(hunk: &Hunk) -> TextEdit {
    let plain = |text: String| text.replace('\r', "");
    TextEdit { old: plain(text(hunk.old_lines())), new: plain(text(hunk.new_lines())), all: false }
}

/// Which hunks were not where their headers say.
pub(super) fn moved(hunks: &[Hunk], places: &[Result<Place, Miss>]) -> Option<String> {
    let mut moved = (1..).zip(hunks.iter().zip(places)).filter_map(|(number, (hunk, place))| {
        let (wanted, found) = (hunk.at?, place.as_ref().ok()?.start);
        (wanted != found)
            .then(|| format!("hunk {number} found at line {}, not {}", found + 1, wanted + 1))
    });
    let named: Vec<String> = moved.by_ref().take(MAX_MOVED).collect();
    let more = moved.count();
    match (named.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(named.join(", ")),
        (false, more) => Some(format!("{} and {more} more", named.join(", "))),
    }
}
