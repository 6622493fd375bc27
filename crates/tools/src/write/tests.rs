//! `write` through the whole engine.

use serde_json::{Value, json};
use windlass_core::Outcome;

use crate::testing::Workspace;

/// Reads a file, writes it, and checks its bytes and the output.
fn check(
    before: impl AsRef<[u8]>,
    content: &str,
    mode: &str,
    after: impl AsRef<[u8]>,
    answer: &str,
) {
    let workspace = Workspace::new(&[]);
    workspace.write("f", before);
    workspace.call("read", json!({"path": "f"}));
    let text = workspace.text("write", json!({"path": "f", "content": content, "mode": mode}));
    assert_eq!(workspace.read("f"), after.as_ref(), "{text}");
    assert_eq!(text, answer);
}

/// Makes a call that must fail and leave the file unchanged, and returns its text.
fn refused(workspace: &Workspace, input: Value) -> String {
    let before = workspace.read("f");
    let result = workspace.call("write", input);
    assert_eq!(result.outcome, Outcome::Error, "{:?}", result.output);
    assert_eq!(workspace.read("f"), before, "nothing was written");
    result.output.to_text()
}

#[test]
fn new_file_holds_exactly_the_given_content() {
    let workspace = Workspace::new(&[]);
    for (path, content, mode, answer) in [
        ("a/b/c.txt", "x\r\ny\n", "overwrite", "created a/b/c.txt: 2 lines, 5 B"),
        ("d", "", "create", "created d: 0 lines, 0 B"),
        ("e", "é", "append", "created e: 1 line, 2 B"),
    ] {
        let result =
            workspace.call("write", json!({"path": path, "content": content, "mode": mode}));
        assert_eq!(result.output.to_text(), answer);
        assert_eq!(workspace.read(path), content.as_bytes());
        let metadata = &result.output.metadata;
        assert_eq!((&metadata["path"], &metadata["created"]), (&json!(path), &json!(true)));
        assert_eq!(metadata["bytes"], content.len());
    }
}

#[test]
fn file_keeps_encoding_mark_and_line_endings() {
    check(
        "a\nb\n",
        "a\nc",
        "overwrite",
        "a\nc",
        "replaced f: 2 lines (+1 -1), 3 B\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n",
    );
    check(
        "a\r\nb\r\n",
        "a\nc\n",
        "overwrite",
        "a\r\nc\r\n",
        "replaced f: 2 lines (+1 -1), 6 B; kept CRLF line endings\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n",
    );
    check(
        "a\nb\n",
        "a\r\nb\r\n",
        "overwrite",
        "a\nb\n",
        "unchanged f: it holds exactly this already",
    );
    check(
        b"\xef\xbb\xbfa",
        "b",
        "overwrite",
        b"\xef\xbb\xbfb",
        "replaced f: 1 line (+1 -1), 4 B; kept BOM\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n",
    );
    check(
        b"\xff\xfea\0\r\0\n\0",
        "é\n",
        "overwrite",
        b"\xff\xfe\xe9\0\r\0\n\0",
        "replaced f: 1 line (+1 -1), 8 B; kept UTF-16LE, BOM, CRLF line endings\n@@ -1 +1 @@\n-a\n+é\n",
    );
    // With mixed endings, the line endings of the new text are used.
    check(
        "a\r\nb\n",
        "a\nb\n",
        "overwrite",
        "a\nb\n",
        "replaced f: 2 lines (+1 -1), 4 B\n@@ -1,2 +1,2 @@\n-a␍\n+a\n b\n",
    );
}

#[test]
fn appending_keeps_the_old_content() {
    check(
        b"d\xe9j\xe0 vu, \xe0 l'\xe9t\xe9\r\n",
        "été\n",
        "append",
        b"d\xe9j\xe0 vu, \xe0 l'\xe9t\xe9\r\n\xe9t\xe9\r\n",
        "appended to f: 2 lines (+1 -0), 23 B; kept windows-1252, CRLF line endings\n@@ -1 +1,2 @@\n déjà vu, à l'été\n+été\n",
    );
}

#[test]
fn cc_1_a_refusal_says_what_is_there_now() {
    let workspace = Workspace::new(&[("f", "old\n")]);
    workspace.call("read", json!({"path": "f"}));
    workspace.write("f", "by another program\n");
    let result = workspace.call("write", json!({"path": "f", "content": "new\n"}));
    let metadata = &result.output.metadata;
    assert_eq!((result.outcome, &metadata["stale"]), (Outcome::Error, &json!(true)));
    assert_eq!(
        metadata["hash"],
        json!(windlass_core::ContentHash::of(b"by another program\n").to_string())
    );
}

#[test]
fn appending_does_not_count_as_reading() {
    let workspace = Workspace::new(&[("f", "a\n")]);
    workspace.call("write", json!({"path": "f", "content": "b\n", "mode": "append"}));
    assert_eq!(workspace.read("f"), b"a\nb\n");
    let text = refused(&workspace, json!({"path": "f", "content": "c"}));
    assert!(text.starts_with("stale: f exists and was not read in this session"), "{text}");
}

#[test]
fn unread_file_is_not_replaced() {
    let input = json!({"path": "f", "content": "new"});
    let ten: String = (1..=10).map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
    let workspace = Workspace::new(&[("f", &ten)]);
    assert_eq!(
        refused(&workspace, input.clone()),
        "stale: f exists and was not read in this session, so it is not replaced\nread it first, or change parts of it with `edit`"
    );
    workspace.call("read", json!({"path": "f", "offset": 3, "limit": 2}));
    assert_eq!(
        refused(&workspace, input.clone()),
        "stale: f was read in part, so it is not replaced: lines 1-2 and 5-10 were not shown\nread it from offset 1 on, or change parts of it with `edit`"
    );
    workspace.call("read", json!({"path": "f", "limit": 9}));
    assert!(refused(&workspace, input.clone()).contains("line 10 was not shown"));
    workspace.call("read", json!({"path": "f"}));
    workspace.write("f", "changed by another program\n");
    assert_eq!(
        refused(&workspace, input.clone()),
        "stale: f changed since this session read it, so it is not replaced\nread it again; nothing was written"
    );
    workspace.call("read", json!({"path": "f"}));
    assert_eq!(workspace.call("write", input.clone()).outcome, Outcome::Ok);
    // A file that the session wrote counts as read.
    assert_eq!(
        workspace.call("write", json!({"path": "f", "content": "newer"})).outcome,
        Outcome::Ok
    );
}

#[test]
fn cut_line_does_not_count_as_read() {
    let workspace = Workspace::new(&[("f", &format!("a\n{}\nb\n", "x".repeat(3_000)))]);
    workspace.call("read", json!({"path": "f"}));
    assert_eq!(
        refused(&workspace, json!({"path": "f", "content": "new"})),
        "stale: f was read in part, so it is not replaced: line 2 was not shown\nsome of them are too long to be shown whole: change the file with `edit`"
    );
}

#[test]
fn unwritable_paths_and_texts_are_refused() {
    let workspace = Workspace::new(&[("f", "x"), ("dir/", "")]);
    workspace.call("read", json!({"path": "f"}));
    for (input, words) in [
        (
            json!({"path": "dir", "content": ""}),
            "cannot write dir: it is a directory\ngive the name of a file in it",
        ),
        (
            json!({"path": "f", "content": "", "mode": "create"}),
            "cannot create f: it exists already",
        ),
    ] {
        let text = refused(&workspace, input);
        assert!(text.starts_with(words), "{text}");
    }
    let large = "x".repeat((10 << 20) + 1);
    let result = workspace.call("write", json!({"path": "g", "content": large}));
    assert_eq!(result.code, Some("invalid_args"));
    assert!(result.output.to_text().contains("10485761 bytes"), "{:?}", result.output);
}

#[test]
fn only_regular_files_are_touched() {
    let workspace = Workspace::new(&[]);
    let _socket = std::os::unix::net::UnixListener::bind(workspace.path("s")).unwrap();
    for (tool, input) in [
        ("read", json!({"path": "s"})),
        ("write", json!({"path": "s", "content": "x"})),
        ("edit", json!({"path": "s", "old_string": "a", "new_string": "b"})),
    ] {
        let result = workspace.call(tool, input);
        assert_eq!(result.outcome, Outcome::Error, "{tool}");
        let text = result.output.to_text();
        assert!(text.contains("it is a socket"), "{text}");
    }
}

#[test]
fn binary_file_is_replaced_only_after_it_was_shown() {
    let workspace = Workspace::new(&[]);
    workspace.write("f", b"a\0\x01");
    workspace.call("read", json!({"path": "f"}));
    let text = refused(&workspace, json!({"path": "f", "content": "x"}));
    assert!(text.starts_with("stale: f is binary and was not shown"), "{text}");
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x03rest";
    workspace.write("f", png);
    workspace.call("read", json!({"path": "f"}));
    assert_eq!(workspace.call("write", json!({"path": "f", "content": "x"})).outcome, Outcome::Ok);
    assert_eq!(workspace.read("f"), b"x");
}
