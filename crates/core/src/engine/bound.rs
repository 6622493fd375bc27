//! Stage 12: cuts an output that is too long for the model. Head and tail stay, the middle is left out and counted, and the whole is
//! kept under `output:CALL`.

use std::sync::Arc;

use super::{Call, Shared};
use crate::{Content, Output};

/// Maximum distance in bytes that a cut is moved so that it falls between two lines.
const MAX_CUT_SHIFT_BYTES: usize = 400;

/// Cuts the text of an output to the limit of the call, and keeps the whole text. Does nothing if the text is short enough.
pub(super) async fn bound_output(engine: &Shared, call: &Call, output: &mut Output) {
    let limit = call.overrides.output_bytes.unwrap_or(engine.output_bytes);
    if text_bytes(output) <= limit {
        return;
    }
    let whole = Arc::new(whole_text(output));
    let kept = keep_whole(engine, call, whole.clone()).await;
    let Some(middle) = OmittedMiddle::of(&whole, limit) else { return };
    let mut text = String::with_capacity(limit + 200);
    text.push_str(&whole[..middle.head]);
    text.push_str(&middle.notice(&whole, kept.then_some(call.id.as_str())));
    text.push_str(&whole[middle.tail..]);
    output.content.retain(|content| content.readable().is_none());
    output.content.insert(0, Content::text(text));
    output.metadata.insert("truncated".into(), true.into());
    output.metadata.insert("omitted_bytes".into(), (middle.tail - middle.head).into());
    if kept {
        output.metadata.insert("output".into(), format!("output:{}", call.id).into());
    }
}

/// Keeps the whole text, on a thread that may block. Returns whether that worked.
async fn keep_whole(engine: &Shared, call: &Call, whole: Arc<String>) -> bool {
    let (outputs, session, id) =
        (engine.outputs.clone(), call.session.id().clone(), call.id.clone());
    let storing = tokio::task::spawn_blocking(move || outputs.keep(&session, &id, &whole).is_ok());
    storing.await.unwrap_or(false)
}

/// Returns the length of all text and data of an output.
fn text_bytes(output: &Output) -> usize {
    output.content.iter().filter_map(Content::readable).map(|text| text.len()).sum()
}

/// Returns the text and data of an output, without media and links, which stay as they are.
fn whole_text(output: &Output) -> String {
    output.content.iter().filter_map(Content::readable).collect()
}

/// Part of a text that is left out: from the end of the head to the start of the tail, in bytes.
struct OmittedMiddle {
    head: usize,
    tail: usize,
}

impl OmittedMiddle {
    /// Chooses the middle to leave out so that at most about `limit` bytes stay; `None` if the text is short enough.
    fn of(text: &str, limit: usize) -> Option<Self> {
        if text.len() <= limit {
            return None;
        }
        let head = before_escape(text, back_to_line_end(text, text.floor_char_boundary(limit / 2)));
        let tail = after_escape(
            text,
            forward_to_line_start(text, text.ceil_char_boundary(text.len() - limit / 2)),
        );
        (head < tail).then_some(Self { head, tail })
    }

    /// Returns the line that replaces the middle: the size of the omitted part, and the handle of the whole.
    fn notice(&self, whole: &str, kept_as: Option<&str>) -> String {
        let left_out = &whole[self.head..self.tail];
        let lines = left_out.bytes().filter(|byte| *byte == b'\n').count();
        let start = if whole[..self.head].ends_with('\n') { "" } else { "\n" };
        let rest = match kept_as {
            Some(call) => format!("the whole is kept: read or grep path \"output:{call}\""),
            None => "the rest could not be kept".to_owned(),
        };
        format!("{start}[… {} bytes, {lines} lines left out here; {rest} …]\n", left_out.len())
    }
}

/// Returns the end of the last line before `at`, or `at` if that is too far.
fn back_to_line_end(text: &str, at: usize) -> usize {
    let from = text.floor_char_boundary(at.saturating_sub(MAX_CUT_SHIFT_BYTES.min(at / 2)));
    text[from..at].rfind('\n').map_or(at, |found| from + found + 1)
}

/// Returns the start of the next line after `at`, or `at` if that is too far.
fn forward_to_line_start(text: &str, at: usize) -> usize {
    let to = text
        .ceil_char_boundary((at + MAX_CUT_SHIFT_BYTES.min((text.len() - at) / 2)).min(text.len()));
    text[at..to].find('\n').map_or(at, |found| at + found + 1)
}

/// Returns `at`, or the start of the escape sequence around it.
fn before_escape(text: &str, at: usize) -> usize {
    escape_around(text, at).map_or(at, |escape| escape.start)
}

/// Returns `at`, or the end of the escape sequence around it.
fn after_escape(text: &str, at: usize) -> usize {
    escape_around(text, at).map_or(at, |escape| escape.end)
}

/// Finds the terminal escape sequence (`ESC [ … letter`) that contains `at` in its middle.
fn escape_around(text: &str, at: usize) -> Option<std::ops::Range<usize>> {
    let bytes = text.as_bytes();
    let start = bytes[at.saturating_sub(32)..at].iter().rposition(|byte| *byte == 0x1b)?
        + at.saturating_sub(32);
    let body = start + 1 + usize::from(bytes.get(start + 1) == Some(&b'['));
    let end =
        bytes[body.min(bytes.len())..].iter().position(|byte| (0x40..=0x7e).contains(byte))?
            + body
            + 1;
    (end > at).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn head_middle_and_tail_are_the_whole(text in "(\\PC|\n|\u{1b}\\[[0-9;]{0,4}m){0,300}", limit in 8usize..200) {
            if let Some(middle) = OmittedMiddle::of(&text, limit) {
                prop_assert!(text.is_char_boundary(middle.head) && text.is_char_boundary(middle.tail));
                prop_assert!(middle.head <= limit / 2);
                prop_assert_eq!(escape_around(&text, middle.head), None);
                prop_assert_eq!(escape_around(&text, middle.tail), None);
                let (dropped, lines) = (middle.tail - middle.head, text[middle.head..middle.tail].matches('\n').count());
                let notice = format!("{dropped} bytes, {lines} lines left out");
                prop_assert!(middle.notice(&text, None).contains(&notice));
            }
        }
    }

    #[test]
    fn cuts_fall_between_lines_and_outside_escapes() {
        let text = "one\ntwo\n\u{1b}[31mred\u{1b}[0m\nfour\nfive\nsix\n";
        let middle = OmittedMiddle::of(text, 20).expect("too long");
        assert_eq!((&text[..middle.head], &text[middle.tail..]), ("one\ntwo\n", "five\nsix\n"));
        assert_eq!(before_escape(text, 11), 8);
        assert_eq!(after_escape(text, 11), 13);
    }
}
