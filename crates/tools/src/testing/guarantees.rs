//! Guarantees that hold for every tool that changes files, one test for each, with a table of tools.
#![expect(clippy::disallowed_methods, reason = "tests make hard links")]

use serde_json::{Value, json};
use windlass_core::Outcome;

use super::Workspace;

/// Returns all calls that replace `old` by `new` in the file `name`.
fn changes(name: &str) -> [(&'static str, Value); 6] {
    let patch = format!("*** Begin Patch\n*** Update File: {name}\n@@\n-old\n+new\n*** End Patch");
    let diff = format!("--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-old\n+new\n");
    [
        ("write", json!({"path": name, "content": "new\n"})),
        ("write", json!({"path": name, "content": "new\n", "mode": "append"})),
        ("edit", json!({"path": name, "old_string": "old", "new_string": "new"})),
        ("edit", json!({"path": name, "edits": [{"old_string": "old", "new_string": "new"}]})),
        ("patch", json!({"patch": patch})),
        ("patch", json!({"patch": diff})),
    ]
}

#[test]
fn path_that_ends_in_a_slash_is_not_a_file() {
    for name in ["f/", "d/", "none/", "d/none/", "f/x/"] {
        let create = ("write", json!({"path": name, "content": "", "mode": "create"}));
        let read = ("read", json!({"path": name}));
        for (tool, input) in changes(name).into_iter().chain([create, read]) {
            let workspace = Workspace::new(&[("f", "old\n"), ("d/", "")]);
            workspace.call("read", json!({"path": "f"}));
            let result = workspace.call(tool, input.clone());
            assert_eq!(result.outcome, Outcome::Error, "{tool} {input}");
            let text = result.output.to_text();
            // For an existing file the message must name the slash as the reason.
            assert!(name != "f/" || text.contains("leave out the `/`"), "{tool} {input}: {text}");
            assert_eq!(workspace.read("f"), b"old\n", "{tool} {input}");
            assert!(!workspace.path("none").exists() && !workspace.path("d/none").exists());
        }
    }
}

#[test]
fn file_with_hard_links_is_replaced_under_one_name_only() {
    for (tool, input) in changes("f") {
        let workspace = Workspace::new(&[("f", "old\n")]);
        for other in ["g", "h"] {
            std::fs::hard_link(workspace.path("f"), workspace.path(other)).unwrap();
        }
        workspace.call("read", json!({"path": "f"}));
        let result = workspace.call(tool, input.clone());
        let text = result.output.to_text();
        assert_eq!(result.outcome, Outcome::Ok, "{tool} {input}: {text}");
        let note = "note: the file had 2 other names (hard links), which keep the old content";
        assert!(text.ends_with(note), "{tool} {input}: {text}");
        assert!(workspace.read("f").ends_with(b"new\n"), "{tool} {input}");
        assert_eq!([workspace.read("g"), workspace.read("h")], [b"old\n", b"old\n"]);
        let undone = workspace.call("undo", json!({}));
        assert_eq!(undone.outcome, Outcome::Ok, "{}", undone.output.to_text());
        assert_eq!(workspace.read("f"), b"old\n", "{tool} {input}");
    }
}

#[test]
fn an_existing_file_keeps_encoding_mark_and_line_endings() {
    let latin = &b"old\r\ncaf\xe9\r\n"[..];
    let marked = &b"\xef\xbb\xbfold\r\nrest\r\n"[..];
    let wide: Vec<u8> =
        "\u{feff}old\r\nrest\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for before in [latin, marked, &wide] {
        for (tool, input) in changes("f").into_iter().skip(1) {
            let workspace = Workspace::new(&[]);
            workspace.write("f", before);
            let diff = "--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-old\n+new\n";
            let input = if input["patch"].as_str().is_some_and(|patch| patch.starts_with("---")) {
                json!({"patch": diff})
            } else {
                input
            };
            let result = workspace.call(tool, input.clone());
            assert_eq!(result.outcome, Outcome::Ok, "{tool} {input}: {}", result.output.to_text());
            let new: Vec<u8> = if before == wide {
                "new\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect()
            } else {
                b"new\r\n".to_vec()
            };
            let after = workspace.read("f");
            let old_len = if before == wide { 10 } else { 5 };
            let mark = match before {
                _ if before == wide => 2,
                _ if before == marked => 3,
                _ => 0,
            };
            let expected = if input["mode"] == json!("append") {
                [before, &new].concat()
            } else {
                [&before[..mark], &new, &before[mark + old_len..]].concat()
            };
            assert_eq!(after, expected, "{tool} {input}");
        }
    }
}
