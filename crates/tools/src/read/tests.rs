//! Tests of `read` through the whole engine.

use serde_json::{Value, json};
use windlass_core::{Content, Outcome, Overrides};

use crate::testing::Workspace;

/// Checks the output of one call on a file called `f`.
fn check(content: impl AsRef<[u8]>, input: Value, expected: &str) {
    let workspace = Workspace::new(&[]);
    workspace.write("f", content);
    assert_eq!(workspace.text("read", with_path(input, "f")), expected);
}

fn with_path(mut input: Value, path: &str) -> Value {
    input["path"] = path.into();
    input
}

/// Returns `count` lines `l1`, `l2` …
fn numbered(count: usize) -> String {
    (1..=count).map(|line| format!("l{line}\n")).collect::<Vec<_>>().concat()
}

#[test]
fn ranges() {
    for (input, expected) in [
        (json!({}), "1\tl1\n2\tl2\n3\tl3\n4\tl4\n[4 lines, all shown]"),
        (json!({"offset": 0}), "1\tl1\n2\tl2\n3\tl3\n4\tl4\n[4 lines, all shown]"),
        (json!({"limit": 2}), "1\tl1\n2\tl2\n[lines 1-2 of 4; 2 remain; go on with offset 3]"),
        (json!({"offset": 3}), "3\tl3\n4\tl4\n[lines 3-4 of 4, the end]"),
        (
            json!({"offset": 2, "limit": 1}),
            "2\tl2\n[lines 2-2 of 4; 2 remain; go on with offset 3]",
        ),
        (json!({"offset": -1}), "4\tl4\n[lines 4-4 of 4, the end]"),
        (
            json!({"offset": -3, "limit": 1}),
            "2\tl2\n[lines 2-2 of 4; 2 remain; go on with offset 3]",
        ),
        (
            json!({"offset": -99, "limit": 1}),
            "1\tl1\n[lines 1-1 of 4; 3 remain; go on with offset 2]",
        ),
        (
            json!({"offset": i64::MIN, "limit": 1}),
            "1\tl1\n[lines 1-1 of 4; 3 remain; go on with offset 2]",
        ),
        (json!({"offset": 5}), "[line 5 is past the end: the file has 4 lines]"),
        (
            json!({"offset": i64::MAX}),
            "[line 9223372036854775807 is past the end: the file has 4 lines]",
        ),
        (
            json!({"numbers": false, "limit": 1}),
            "l1\n[lines 1-1 of 4; 3 remain; go on with offset 2]",
        ),
        (
            json!({"offset": "2", "limit": "1"}),
            "2\tl2\n[lines 2-2 of 4; 2 remain; go on with offset 3]",
        ),
    ] {
        check(numbered(4), input, expected);
    }
}

#[test]
fn limits_are_enforced() {
    let workspace = Workspace::new(&[("f", "x")]);
    for limit in [0, 100_001] {
        let result = workspace.call("read", json!({"path": "f", "limit": limit}));
        assert_eq!(
            (result.outcome, result.code),
            (Outcome::Fault, Some("invalid_args")),
            "{limit}"
        );
    }
}

#[test]
fn unusual_files_are_described() {
    let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let shift_jis = encoding_rs::SHIFT_JIS.encode("これは日本語です\r\n二行目\r\n").0.into_owned();
    for (content, expected) in [
        (b"".to_vec(), "[empty file]"),
        (b"\xef\xbb\xbf".to_vec(), "[empty file; encoding UTF-8 with BOM]"),
        (b"\n".to_vec(), "1\t\n[1 line, all shown]"),
        (b"a".to_vec(), "1\ta\n[1 line, all shown; no newline at the end]"),
        (b"a\r\nb\r\n".to_vec(), "1\ta\n2\tb\n[2 lines, all shown; CRLF line endings]"),
        (b"a\r\nb\n".to_vec(), "1\ta\n2\tb\n[2 lines, all shown; mixed line endings]"),
        (b"a\rb\n".to_vec(), "1\ta\rb\n[1 line, all shown]"),
        (b"\xef\xbb\xbfa\n".to_vec(), "1\ta\n[1 line, all shown; encoding UTF-8 with BOM]"),
        (b"d\xe9j\xe0 vu\n".to_vec(), "1\tdéjà vu\n[1 line, all shown; encoding windows-1252]"),
        (
            [b"\xff\xfe".to_vec(), wide("é\r\n\u{a0a}\r\n")].concat(),
            "1\té\n2\t\u{a0a}\n[2 lines, all shown; encoding UTF-16LE with BOM; CRLF line endings]",
        ),
        (
            wide("plain\nwords"),
            "1\tplain\n2\twords\n[2 lines, all shown; encoding UTF-16LE; no newline at the end]",
        ),
        (
            shift_jis,
            "1\tこれは日本語です\n2\t二行目\n[2 lines, all shown; encoding Shift_JIS; CRLF line endings]",
        ),
    ] {
        check(&content, json!({}), expected);
    }
}

#[test]
fn long_lines_are_cut_at_a_character() {
    for (line, shown) in [
        ("é".repeat(2_000), "é".repeat(2_000)),
        ("é".repeat(2_001), format!("{}… [cut: the line has 4002 bytes]", "é".repeat(2_000))),
        ("x".repeat(1 << 20), format!("{}… [cut: the line has 1048576 bytes]", "x".repeat(2_000))),
    ] {
        let end = if line == shown { ", all shown" } else { "; 1 line cut at 2000 characters" };
        let expected = format!("1\ta\n2\t{shown}\n3\tb\n[3 lines{end}]");
        check(format!("a\n{line}\nb\n"), json!({}), &expected);
    }
}

#[test]
fn metadata_matches_the_text() {
    let workspace = Workspace::new(&[("sub/f", &numbered(10))]);
    let result = workspace.call("read", json!({"path": "sub/f", "offset": 3, "limit": 4}));
    for (key, expected) in [
        ("path", json!("sub/f")),
        ("lines", json!(4)),
        ("total_lines", json!(10)),
        ("offset", json!(3)),
        ("next_offset", json!(7)),
        ("encoding", json!("UTF-8")),
        ("truncated", json!(true)),
    ] {
        assert_eq!(result.output.metadata[key], expected, "{key}");
    }
    let result = workspace.call("read", json!({"path": "sub/f", "offset": 7}));
    assert_eq!(result.output.metadata["next_offset"], Value::Null);
    assert_eq!(result.output.metadata["truncated"], false);
}

#[test]
fn pages_make_up_the_whole_file() {
    let text: String = (0..9_000)
        .map(|line| format!("line {line} {}\n", "é".repeat(line % 90)))
        .collect::<Vec<_>>()
        .concat();
    let workspace = Workspace::new(&[("f", &text)]);
    let mut all = String::new();
    let mut next = json!(1);
    let mut pages = 0;
    while !next.is_null() {
        let input = json!({"path": "f", "offset": next, "limit": 100_000, "numbers": false});
        let result = workspace.call("read", input);
        let shown = result.output.to_text();
        assert!(shown.len() <= 50_000, "{}", shown.len());
        assert!(!result.output.metadata.contains_key("omitted_bytes"), "the engine had to cut");
        all.push_str(&shown[..shown.rfind('[').unwrap()]);
        next = result.output.metadata["next_offset"].clone();
        pages += 1;
    }
    assert!(pages > 5);
    assert_eq!(all, text);
}

#[test]
fn small_limit_still_shows_one_line() {
    let workspace = Workspace::new(&[("f", &numbered(100))]);
    let overrides = Overrides { output_bytes: Some(520), ..Overrides::default() };
    let result = workspace.call_with("read", json!({"path": "f"}), overrides);
    assert_eq!(
        result.output.to_text(),
        "1\tl1\n2\tl2\n3\tl3\n4\tl4\n[lines 1-4 of 100; 96 remain; go on with offset 5; the size of a result is limited]"
    );
}

#[test]
fn the_middle_of_a_large_file_is_exact_the_first_and_the_second_time() {
    use std::fmt::Write as _;
    let mut text = String::new();
    for line in 1..=600_000 {
        writeln!(text, "{line:07} the quick brown fox jumps over the lazy dog").unwrap();
    }
    let workspace = Workspace::new(&[("big", &text)]);
    for (offset, limit) in [(300_000, 2), (300_001, 2), (599_999, 2), (1, 2), (-2, 2), (450_000, 2)]
    {
        let first = if offset < 0 { 600_001 + offset } else { offset };
        let input = json!({"path": "big", "offset": offset, "limit": limit});
        let shown = workspace.text("read", input);
        let expected: String = (first..first + limit)
            .map(|line| format!("{line}\t{line:07} the quick brown fox jumps over the lazy dog\n"))
            .collect::<Vec<_>>()
            .concat();
        assert!(shown.starts_with(&expected), "{shown}");
    }
    let cached = workspace.call("read", json!({"path": "big", "offset": 10, "limit": 1}));
    assert_eq!(cached.output.metadata["lines"], 1);
    // Behind the first lines are more bytes than a call counts.
    let fresh = Workspace::new(&[("big", &text)]);
    let unknown = fresh.call("read", json!({"path": "big", "limit": 1}));
    assert_eq!(unknown.output.metadata["total_lines"], Value::Null);
    assert!(
        unknown.output.to_text().contains("[lines 1-1 of about 600000; more remain"),
        "{}",
        unknown.output.to_text()
    );
}

#[test]
fn late_8bit_encoding_is_detected() {
    let mut bytes = numbered(100_000).into_bytes();
    bytes.extend_from_slice(b"un caf\xe9 cr\xe8me\n");
    check(
        &bytes,
        json!({"offset": -1}),
        "100001\tun café crème\n[lines 100001-100001 of 100001, the end; encoding windows-1252]",
    );
}

#[test]
fn images_are_returned_as_images() {
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x03rest";
    let workspace = Workspace::new(&[]);
    workspace.write("a.txt", png);
    workspace.write("huge.png", [&png[..], &vec![0; 5 << 20]].concat());
    let result = workspace.call("read", json!({"path": "a.txt"}));
    let [Content::Image { media_type, data }, Content::Text { text }] = &result.output.content[..]
    else {
        panic!("{:?}", result.output)
    };
    assert_eq!(
        (media_type.as_str(), text.as_str()),
        ("image/png", "[image/png, 2x3 pixels, 28 B]")
    );
    assert!(data.starts_with("iVBORw0KGgo"));
    let text = workspace.text("read", json!({"path": "huge.png"}));
    assert_eq!(
        text,
        "[image/png, too large to be shown (at most 5.0 MiB); 5.0 MiB; not shown as text]"
    );
}

#[test]
fn binaries_are_described() {
    check(
        b"\x7fELF\x02\x01\x01\0\0\0",
        json!({}),
        "[ELF program or library; 10 B; not shown as text]",
    );
    check(b"a\0b\x01", json!({}), "[binary data; 4 B; not shown as text]");
}

#[test]
fn notebooks_become_text() {
    let workspace = Workspace::new(&[
        ("n.ipynb", r#"{"cells": [{"cell_type": "code", "source": ["x = 1"]}]}"#),
        ("broken.ipynb", "{\"cells\": \n"),
    ]);
    let shown = workspace.text("read", json!({"path": "n.ipynb"}));
    assert_eq!(
        shown,
        "1\t# notebook, 1 cells\n2\t\n3\t## cell 1: code\n4\tx = 1\n[4 lines, all shown]"
    );
    let shown = workspace.text("read", json!({"path": "broken.ipynb"}));
    assert_eq!(shown, "1\t{\"cells\": \n[1 line, all shown]");
}

#[test]
fn unreadable_files_are_explained() {
    let workspace = Workspace::new(&[("src/lib.rs", ""), ("dir/", "")]);
    for (path, expected) in [
        ("dir", "cannot read dir: it is a directory\nuse `list` to see what is in it"),
        (
            "src/lob.rs",
            "cannot read src/lob.rs: no such file or directory\ndid you mean `src/lib.rs`?",
        ),
        (
            "output:nope",
            "cannot read output:nope: no such output is kept\nonly outputs that were too long are kept, and not for ever: run the call again",
        ),
    ] {
        let result = workspace.call("read", json!({"path": path}));
        assert_eq!(result.outcome, Outcome::Error, "{path}");
        assert_eq!(result.output.to_text(), expected);
    }
}

#[test]
fn kept_outputs_are_read_by_range() {
    let workspace = Workspace::new(&[("f", &numbered(200))]);
    let overrides = Overrides { output_bytes: Some(60), ..Overrides::default() };
    let cut = workspace.call_with("list", json!({"path": "."}), overrides.clone());
    assert_eq!(cut.outcome, Outcome::Ok);
    let cut = workspace.call_with("grep", json!({"pattern": "l", "path": "f"}), overrides);
    let kept = cut.output.metadata["output"].as_str().unwrap();
    let shown = workspace.text("read", json!({"path": kept, "offset": 3, "limit": 1}));
    assert!(shown.starts_with("3\t") && shown.contains("go on with offset 4"), "{shown}");
}

#[test]
fn non_utf8_names_are_accepted() {
    let workspace = Workspace::new(&[(r"$'caf\xe9.txt'", "x\n")]);
    let result = workspace.call("read", json!({"path": r"$'caf\xe9.txt'"}));
    assert_eq!(result.output.to_text(), "1\tx\n[1 line, all shown]");
    assert_eq!(result.output.metadata["path"], r"$'caf\xe9.txt'");
}
