//! Cuts texts so that no part of a secret is left of them.
//!
//! Secrets are taken out of what a tool answers, as a whole. Of one that lies across a cut only a part would be left, which nobody
//! recognises any more; so they are taken out before, from as much of the text as one could reach over the cut.

use std::borrow::Cow;

use windlass_core::Context;

/// How far a secret is followed: longer ones than keys on one line are rare.
const AHEAD: usize = 16 << 10;

/// Cuts texts for the answer of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cutter<'c>(Option<&'c Context>);

impl<'c> Cutter<'c> {
    pub(crate) fn of(cx: &'c Context) -> Self {
        Self(Some(cx))
    }

    /// One that knows of no secrets.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self(None);

    /// The first so many characters of a text; `None` if it has no more.
    pub(crate) fn beginning(self, text: &str, characters: usize) -> Option<String> {
        let (end, _) = text.char_indices().nth(characters)?;
        let ahead = text.get(..text.floor_char_boundary(end + AHEAD)).unwrap_or(text);
        // More may follow, also where the text is itself the beginning of a longer one.
        let clean = self.0.map(|cx| cx.redact_open(ahead));
        let clean = clean.as_deref().unwrap_or(ahead);
        Some(match clean.char_indices().nth(characters) {
            Some((end, _)) => clean.get(..end).unwrap_or_default().to_owned(),
            None => clean.to_owned(),
        })
    }

    /// A text out of which the part around a place is to be cut, and where the place is in it.
    pub(crate) fn around(self, text: Cow<'_, str>, at: usize) -> (Cow<'_, str>, usize) {
        let at = text.floor_char_boundary(at);
        match self.0.map(|cx| cx.redact(&text)) {
            None | Some(Cow::Borrowed(_)) => (text, at),
            Some(Cow::Owned(clean)) => {
                let at = moved(&text, &clean, at);
                (Cow::Owned(clean), at)
            }
        }
    }

    /// How many bytes before and behind what is shown [`Cutter::around`] should see.
    pub(crate) const AROUND: usize = AHEAD;
}

/// Where a place of one text is in another, which is the same but for something in the middle.
fn moved(old: &str, new: &str, at: usize) -> usize {
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

    /// A token that is known by its format alone.
    const TOKEN: &str = "ghp_a1B2c3D4e5F6g7H8i9a1B2c3D4e5F6g7H8i9";

    /// All that a model is told of a line that no tool shows all of.
    fn told(line: &str, before: &str) -> Vec<String> {
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
        fn no_part_of_a_secret_is_left(
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
            for text in told(&line, &before) {
                for piece in secret.as_bytes().windows(8) {
                    let piece = std::str::from_utf8(piece).unwrap();
                    prop_assert!(!text.contains(piece), "{piece} in {text}");
                }
            }
        }
    }

    #[test]
    fn places_move_with_their_text() {
        for (old, new, at, place) in [
            ("abc", "abc", 2, 2),
            ("a12345b", "aXb", 0, 0),
            ("a12345b", "aXb", 6, 2),
            ("a12345b", "aXb", 3, 1),
            ("a12345b", "aXb", 7, 3),
            ("é12é", "éé", 4, 2),
        ] {
            assert_eq!(moved(old, new, at), place, "{old} {new} {at}");
        }
    }

    #[test]
    fn beginnings() {
        assert_eq!(Cutter::PLAIN.beginning("abc", 3), None);
        assert_eq!(Cutter::PLAIN.beginning("äbcd", 2).as_deref(), Some("äb"));
    }
}
