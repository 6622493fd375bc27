//! Cuts texts so that no part of a secret remains.
//!
//! Redaction replaces secrets as a whole. A cut through a secret would leave a part that redaction does not recognise, so secrets are
//! redacted before the cut, in as much text as a secret could reach beyond it.

use std::borrow::Cow;

use windlass_core::Context;

/// Number of bytes behind a cut that are searched for the end of a secret. It is longer than usual keys on one line.
const MAX_SECRET_BYTES: usize = 16 << 10;

/// Redacts secrets in texts and cuts the texts, for the output of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cutter<'c>(Option<&'c Context>);

/// Makes a cutter that redacts the secrets of this context.
impl<'c> Cutter<'c> {
    pub(crate) fn of(cx: &'c Context) -> Self {
        Self(Some(cx))
    }

    /// A cutter without secrets.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self(None);

    /// Returns the first `characters` characters of a text, redacted; `None` if the text is not longer.
    pub(crate) fn beginning(self, text: &str, characters: usize) -> Option<String> {
        let (end, _) = text.char_indices().nth(characters)?;
        let ahead = text.get(..text.floor_char_boundary(end + MAX_SECRET_BYTES)).unwrap_or(text);
        // `redact_open`, because more may follow: `ahead` may be cut, and the text may itself be the beginning of a longer one.
        let clean = self.0.map(|cx| cx.redact_open(ahead));
        let clean = clean.as_deref().unwrap_or(ahead);
        Some(match clean.char_indices().nth(characters) {
            Some((end, _)) => clean.get(..end).unwrap_or_default().to_owned(),
            None => clean.to_owned(),
        })
    }

    /// Redacts a text of which the part around `at` will be shown. Returns the text, and the position that corresponds to `at`.
    pub(crate) fn around(self, text: Cow<'_, str>, at: usize) -> (Cow<'_, str>, usize) {
        let at = text.floor_char_boundary(at);
        match self.0.map(|cx| cx.redact(&text)) {
            None | Some(Cow::Borrowed(_)) => (text, at),
            Some(Cow::Owned(clean)) => {
                let at = map_position(&text, &clean, at);
                (Cow::Owned(clean), at)
            }
        }
    }

    /// Number of bytes before and behind the shown part that [`Cutter::around`] should get.
    pub(crate) const CONTEXT_BYTES: usize = MAX_SECRET_BYTES;
}

/// Maps a position to another version of the text that differs only in one part.
fn map_position(old: &str, new: &str, at: usize) -> usize {
    let same = |(a, b): &(u8, u8)| a == b;
    let head = old.bytes().zip(new.bytes()).take_while(same).count();
    let tail = old.bytes().rev().zip(new.bytes().rev()).take_while(same).count();
    let behind = old.len() - at;
    let place = if at <= head {
        at
    } else if behind <= tail {
        new.len().saturating_sub(behind)
    } else {
        head
    };
    new.floor_char_boundary(place)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::{SECRET, Workspace};

    /// A token that redaction recognises by its format.
    const TOKEN: &str = "ghp_a1B2c3D4e5F6g7H8i9a1B2c3D4e5F6g7H8i9";

    /// Returns the outputs of tools that show a part of a line.
    fn outputs_with_cut_lines(line: &str, before: &str) -> Vec<String> {
        let workspace = Workspace::new(&[("f", line), ("g", "other\n")]);
        let miss = |old: &str| json!({"path": "f", "old_string": old, "new_string": "x"});
        let middle: String =
            before.chars().skip(before.chars().count().saturating_sub(50)).collect();
        let hunk = format!("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-{middle}!\n+x\n");
        vec![
            workspace.text("read", json!({"path": "f"})),
            workspace.text("read", json!({"path": "g"})),
            workspace.text("grep", json!({"pattern": "MATCH"})),
            workspace.text("grep", json!({"pattern": "other|begin", "context": 1})),
            workspace.text("edit", miss(&format!("{middle}!"))),
            workspace.text("edit", miss("begin of a lime")),
            workspace.text("patch", json!({"patch": hunk})),
            workspace.text("write", json!({"path": "g", "content": line})),
            workspace.text(
                "edit",
                json!({"path": "f", "old_string": "begin of a line", "new_string": "y"}),
            ),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_part_of_a_secret_is_shown(
            cut in prop_oneof![Just(100_usize), Just(200), Just(300), Just(400), Just(2_000)],
            back in 0..60_usize,
            fill in prop_oneof![Just("-"), Just("é "), Just("𝄞")],
            matched in prop_oneof![Just(0_usize), Just(1), Just(500)],
            is_token: bool,
            behind in prop_oneof![Just(0_usize), Just(3_000), Just(9_000)],
        ) {
            let secret = if is_token { TOKEN } else { SECRET };
            let filled = |characters: usize| -> String {
                fill.chars().cycle().take(characters).collect()
            };
            let before = filled((cut + 20).saturating_sub(back + 15));
            let line = format!(
                "begin of a line{before} {secret} {}MATCH{}\n",
                filled(matched),
                filled(behind + 2_000)
            );
            for text in outputs_with_cut_lines(&line, &before) {
                for piece in secret.as_bytes().windows(8) {
                    let piece = std::str::from_utf8(piece).unwrap();
                    prop_assert!(!text.contains(piece), "{piece} in {text}");
                }
            }
        }
    }

    #[test]
    fn positions_are_mapped_after_redaction() {
        for (old, new, at, place) in [
            ("abc", "abc", 2, 2),
            ("a12345b", "aXb", 0, 0),
            ("a12345b", "aXb", 6, 2),
            ("a12345b", "aXb", 3, 1),
            ("a12345b", "aXb", 7, 3),
            ("é12é", "éé", 4, 2),
        ] {
            assert_eq!(map_position(old, new, at), place, "{old} {new} {at}");
        }
    }

    #[test]
    fn beginning_is_cut_at_a_character() {
        assert_eq!(Cutter::PLAIN.beginning("abc", 3), None);
        assert_eq!(Cutter::PLAIN.beginning("äbcd", 2).as_deref(), Some("äb"));
    }
}
