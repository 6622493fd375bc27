//! Stage 12: no more than a model can take. Head and tail stay, the middle is counted, the whole is kept under `output:CALL`.

use std::sync::Arc;

use super::{Call, Shared};
use crate::{Content, Output};

/// How far a cut may move to fall between two lines.
const SLACK: usize = 400;

pub(super) async fn bound(engine: &Shared, call: &Call, output: &mut Output) {
    let limit = call.overrides.output_bytes.unwrap_or(engine.output_bytes);
    if text_bytes(output) <= limit {
        return;
    }
    let whole = Arc::new(whole_text(output));
    let kept = keep(engine, call, whole.clone()).await;
    let Some(cut) = Cut::of(&whole, limit) else { return };
    let mut text = String::with_capacity(limit + 200);
    text.push_str(&whole[..cut.head]);
    text.push_str(&cut.notice(&whole, kept.then_some(call.id.as_str())));
    text.push_str(&whole[cut.tail..]);
    output.content.retain(|content| content.readable().is_none());
    output.content.insert(0, Content::text(text));
    output.metadata.insert("truncated".into(), true.into());
    output.metadata.insert("omitted_bytes".into(), (cut.tail - cut.head).into());
    if kept {
        output.metadata.insert("output".into(), format!("output:{}", call.id).into());
    }
}

/// Keeps the whole where waiting for a disk or a lock holds up no other call. Returns whether it is kept.
async fn keep(engine: &Shared, call: &Call, whole: Arc<String>) -> bool {
    let (outputs, session, id) =
        (engine.outputs.clone(), call.session.id().clone(), call.id.clone());
    let keeping = tokio::task::spawn_blocking(move || outputs.keep(&session, &id, &whole).is_ok());
    keeping.await.unwrap_or(false)
}

fn text_bytes(output: &Output) -> usize {
    output.content.iter().filter_map(Content::readable).map(|text| text.len()).sum()
}

/// The text and data of an output, without media and links, which are left as they are.
fn whole_text(output: &Output) -> String {
    output.content.iter().filter_map(Content::readable).collect()
}

/// Where the middle begins and ends.
struct Cut {
    head: usize,
    tail: usize,
}

impl Cut {
    fn of(text: &str, limit: usize) -> Option<Self> {
        if text.len() <= limit {
            return None;
        }
        let head = before_escape(text, back_to_line(text, text.floor_char_boundary(limit / 2)));
        let tail =
            after_escape(text, on_to_line(text, text.ceil_char_boundary(text.len() - limit / 2)));
        (head < tail).then_some(Self { head, tail })
    }

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

/// The end of the last line before `at`, if it is near.
fn back_to_line(text: &str, at: usize) -> usize {
    let from = text.floor_char_boundary(at.saturating_sub(SLACK.min(at / 2)));
    text[from..at].rfind('\n').map_or(at, |found| from + found + 1)
}

/// The beginning of the next line after `at`, if it is near.
fn on_to_line(text: &str, at: usize) -> usize {
    let to = text.ceil_char_boundary((at + SLACK.min((text.len() - at) / 2)).min(text.len()));
    text[at..to].find('\n').map_or(at, |found| at + found + 1)
}

/// `at`, or the beginning of the escape sequence that it falls into.
fn before_escape(text: &str, at: usize) -> usize {
    escape_around(text, at).map_or(at, |escape| escape.start)
}

/// `at`, or the end of the escape sequence that it falls into.
fn after_escape(text: &str, at: usize) -> usize {
    escape_around(text, at).map_or(at, |escape| escape.end)
}

/// The terminal escape sequence (`ESC [ … letter`) that `at` is in the middle of.
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
            if let Some(cut) = Cut::of(&text, limit) {
                prop_assert!(text.is_char_boundary(cut.head) && text.is_char_boundary(cut.tail));
                prop_assert!(cut.head <= limit / 2);
                prop_assert_eq!(escape_around(&text, cut.head), None);
                prop_assert_eq!(escape_around(&text, cut.tail), None);
                let (dropped, lines) = (cut.tail - cut.head, text[cut.head..cut.tail].matches('\n').count());
                let notice = format!("{dropped} bytes, {lines} lines left out");
                prop_assert!(cut.notice(&text, None).contains(&notice));
            }
        }
    }

    #[test]
    fn cuts_fall_between_lines_and_outside_escapes() {
        let text = "one\ntwo\n\u{1b}[31mred\u{1b}[0m\nfour\nfive\nsix\n";
        let cut = Cut::of(text, 20).expect("too long");
        assert_eq!((&text[..cut.head], &text[cut.tail..]), ("one\ntwo\n", "five\nsix\n"));
        assert_eq!(before_escape(text, 11), 8);
        assert_eq!(after_escape(text, 11), 13);
    }
}
