//! Guards secrets against loss: a redacted text must not be written back with the placeholder in place of the secret.
//!
//! A model that reads a file with a secret sees the placeholder `[secret NAME]`. If it writes the file as it has seen it, the secret is
//! lost. So a change that adds a placeholder where a secret disappears is refused.

use windlass_core::{Context, ToolError};

/// The beginning of every placeholder.
const PLACEHOLDER_START: &str = "[secret";
/// Limit of a placeholder's length.
const MAX_PLACEHOLDER_BYTES: usize = 100;

/// Refuses a change of a file that replaces a secret by its placeholder.
pub(crate) fn check(cx: &Context, name: &str, before: &str, after: &str) -> Result<(), ToolError> {
    if !after.contains(PLACEHOLDER_START) {
        return Ok(());
    }
    let mut words = cx.placeholders(after);
    words.sort_unstable();
    words.dedup();
    let count = |text: &str, word: &str| text.matches(word).count();
    words.retain(|word| count(after, word) > count(before, word));
    if words.is_empty() {
        return Ok(());
    }
    let (seen_before, seen_after) = (cx.redact(before), cx.redact(after));
    let secrets = |seen: &str, text: &str, word: &str| {
        count(seen, word) - count(text, word).min(count(seen, word))
    };
    let lost =
        |word: &&&str| secrets(&seen_after, after, word) < secrets(&seen_before, before, word);
    match words.iter().find(lost) {
        None => Ok(()),
        Some(word) => Err(ToolError::failed(format!(
            "{name} was not changed: the new text has the placeholder {word} where the file has the real text, which was taken out of what you were shown and would be lost"
        ))
        .hint("change the lines around it with `edit`, and leave that line as it is")),
    }
}

/// Returns the first text that may be a placeholder.
pub(crate) fn mentioned(text: &str) -> Option<&str> {
    text.match_indices(PLACEHOLDER_START).find_map(|(at, _)| {
        let rest = &text[at..];
        let end = rest.find([']', '\n']).filter(|end| *end < MAX_PLACEHOLDER_BYTES)?;
        let is_word =
            rest[PLACEHOLDER_START.len()..].starts_with([' ', ':']) && rest[end..].starts_with(']');
        is_word.then(|| &rest[..=end])
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_core::Outcome;

    use super::mentioned;
    use crate::testing::Workspace;

    /// Returns a workspace with a file that contains a secret, the text of the file and its redacted form.
    fn workspace() -> (Workspace, String, String) {
        let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9".repeat(2));
        let text = format!("# settings\ntoken = \"{token}\"\nport = 1\n");
        let workspace = Workspace::new(&[("settings.toml", &text)]);
        let shown = text.replace(&token, "[secret: GitHub token]");
        let read = workspace.text("read", json!({"path": "settings.toml", "numbers": false}));
        assert!(read.starts_with(&shown), "{read}");
        (workspace, text, shown)
    }

    fn check_refused(workspace: &Workspace, tool: &str, input: serde_json::Value, text: &str) {
        let result = workspace.call(tool, input);
        let said = result.output.to_text();
        assert_eq!(result.outcome, Outcome::Error, "{said}");
        assert!(said.contains("[secret: GitHub token]") && said.contains("taken out"), "{said}");
        assert_eq!(workspace.read("settings.toml"), text.as_bytes());
    }

    #[test]
    fn a_redacted_file_cannot_be_written_back() {
        let (workspace, text, shown) = workspace();
        let content = shown.replace("port = 1", "port = 2");
        check_refused(
            &workspace,
            "write",
            json!({"path": "settings.toml", "content": content}),
            &text,
        );
        let (old, new) = ("port = 1", "token = \"[secret: GitHub token]\"");
        let edit = json!({"path": "settings.toml", "old_string": old, "new_string": new});
        assert_eq!(workspace.call("edit", edit).outcome, Outcome::Ok, "the secret is still there");
    }

    #[test]
    fn an_edit_of_a_placeholder_is_explained() {
        let (workspace, text, _) = workspace();
        let old = "token = \"[secret: GitHub token]\"\nport = 1";
        let edit = json!({"path": "settings.toml", "old_string": old, "new_string": "port = 2"});
        check_refused(&workspace, "edit", edit, &text);
        let patch = "--- a/settings.toml\n+++ b/settings.toml\n@@ -1,3 +1,3 @@\n # settings\n token = \"[secret: GitHub token]\"\n-port = 1\n+port = 2\n";
        check_refused(&workspace, "patch", json!({"patch": patch}), &text);
    }

    #[test]
    fn an_edit_or_patch_that_loses_the_secret_is_refused() {
        let (workspace, text, shown) = workspace();
        let line = text.lines().nth(1).unwrap();
        let shown = shown.lines().nth(1).unwrap();
        let edit = json!({"path": "settings.toml", "old_string": line, "new_string": shown});
        check_refused(&workspace, "edit", edit, &text);
        let patch = format!(
            "--- a/settings.toml\n+++ b/settings.toml\n@@ -1,2 +1,2 @@\n # settings\n-{line}\n+{shown}\n"
        );
        check_refused(&workspace, "patch", json!({"patch": patch}), &text);
    }

    #[test]
    fn texts_with_placeholders_can_be_written() {
        let text = "what was taken out is shown as [secret: JWT]\n";
        let workspace = Workspace::new(&[("a.md", text)]);
        workspace.text("read", json!({"path": "a.md"}));
        let content = format!("{text}or as [secret: GitHub token] [secret: JWT]\n");
        let result = workspace.call("write", json!({"path": "a.md", "content": content}));
        assert_eq!(result.outcome, Outcome::Ok, "{}", result.output.to_text());
    }

    #[test]
    fn placeholders_are_recognized() {
        for (text, expected) in [
            ("a [secret KEY] b", Some("[secret KEY]")),
            ("[secret: JWT]", Some("[secret: JWT]")),
            ("[secrets] [secret\nx] [secret", None),
        ] {
            assert_eq!(mentioned(text), expected, "{text}");
        }
    }
}
