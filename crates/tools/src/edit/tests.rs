//! Properties and tables of the edit engine, and calls of `edit` through the whole engine.

mod spans;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_core::Outcome;

use super::plan::{EditMiss, MatchStrategy, TextEdit, plan};
use crate::document::{Document, Replacement};
use crate::testing::{InterceptingHost, Workspace};

fn text_edit(old: &str, new: &str, all: bool) -> TextEdit {
    TextEdit { old: old.into(), new: new.into(), all }
}

/// Returns the text after an edit, and the strategy by which it was found.
fn apply_edit(text: &[u8], edit: &TextEdit) -> Result<(MatchStrategy, Vec<u8>), EditMiss> {
    let plan = plan(text, edit)?;
    Ok((plan.strategy, replace_all(text, &plan.replacements)))
}

/// Returns the text with the replacements made.
fn replace_all(text: &[u8], replacements: &[Replacement]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut from = 0;
    for Replacement { range, with } in replacements {
        bytes.extend_from_slice(&text[from..range.start]);
        bytes.extend_from_slice(with.as_bytes());
        from = range.end;
    }
    bytes.extend_from_slice(&text[from..]);
    bytes
}

#[test]
fn strategies_match_in_order() {
    use MatchStrategy::{Exact, Indentation, Whitespace};
    for (text, old, new, strategy, expected) in [
        ("a b c", "b", "x", Exact, "a x c"),
        ("a\r\nb\r\n", "a", "x\ny", Exact, "x\r\ny\r\nb\r\n"),
        ("a\r\nb", "b", "x\ny", Exact, "a\r\nx\r\ny"),
        ("a\nb\r\n", "a\nb", "x\ny\nz", Exact, "x\ny\nz\r\n"),
        ("a\r\nb\r\n", "a\r\nb", "x\ny", Exact, "x\ny\r\n"),
        ("a\n", "a\n", "x\r\n", Exact, "x\r\n"),
        // Line endings are ignored.
        ("a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", Whitespace, "x\r\ny\r\nz\r\nc\r\n"),
        ("a\r\nb\nc\r\n", "a\nb\nc", "x\ny\nz", Whitespace, "x\r\ny\nz\r\n"),
        ("a\r\nfoo\r\n", "\nfoo", "\nbar", Whitespace, "a\r\nbar\r\n"),
        ("a\r\nfoo\r\n", "\nfoo", "", Whitespace, "a\r\n"),
        ("a\nb\n", "a\r\nb", "x", Whitespace, "x\n"),
        // Blanks at the end and between words.
        ("if (a  ==\tb) {  \n  c\n}\n", "if (a == b) {\n  c\n", "d\n", Whitespace, "d\n}\n"),
        ("x = f(a,  b);\n", "f(a, b)", "g()", Whitespace, "x = g();\n"),
        ("a  b  \r\nc\n", "a b\nc", "z", Whitespace, "z\n"),
        // Indentation.
        (
            "{\n\ta();\n\tb();\n}\n",
            "    a();\n    b();",
            "    c();\n        d();",
            Indentation,
            "{\n\tc();\n\t\td();\n}\n",
        ),
        (
            "{\r\n  a\r\n  b\r\n}\r\n",
            "a\nb\n",
            "c\nd\ne\n",
            Indentation,
            "{\r\n  c\r\n  d\r\n  e\r\n}\r\n",
        ),
        // Each line has another indentation: the new lines stay as given.
        (
            "if x:\n    a()\n  b()\nend\n",
            "a()\n    b()\n",
            "  c()\n",
            Whitespace,
            "if x:\n  c()\nend\n",
        ),
        ("  a\nb\n", "a\n  b", "x\n  y", Whitespace, "x\n  y\n"),
        ("\ta  =  1\r\n b\r\n", "a = 1\n    b\n", "c\n", Whitespace, "c\r\n"),
        // Of two matches, the one whose lines all have the same indentation rule.
        ("  a\nb\n--\n a\n b\n", "\ta\n\tb", "\tx", Indentation, "  a\nb\n--\n x\n"),
    ] {
        let expected = Ok((strategy, expected.as_bytes().to_vec()));
        assert_eq!(
            apply_edit(text.as_bytes(), &text_edit(old, new, false)),
            expected,
            "{text:?} {old:?}"
        );
    }
}

#[test]
fn loose_match_must_be_unique() {
    use MatchStrategy::{Exact, Indentation, Whitespace};
    for (text, old, all, expected) in [
        ("a\na\n", "a", false, Err(EditMiss::Ambiguous(vec![1, 2], Exact))),
        ("}\n}\n}\n", "}\n}\n", false, Err(EditMiss::Ambiguous(vec![1, 2], Exact))),
        ("a\na\n", "a", true, Ok((Exact, "x\nx\n"))),
        ("aaa", "aa", true, Ok((Exact, "xa"))),
        ("a\r\nb\r\na\r\nb\r\n", "a\nb", true, Ok((Whitespace, "x\r\nx\r\n"))),
        ("a  b a   b", "a b", true, Err(EditMiss::Ambiguous(vec![1, 1], Whitespace))),
        ("a  b a   b", "a b", false, Err(EditMiss::Ambiguous(vec![1, 1], Whitespace))),
        (" a\n b\n  a\n  b\n", "a\nb", true, Err(EditMiss::Ambiguous(vec![1, 3], Indentation))),
        ("  a\nb\n  a\nb\n", "a\n  b", false, Err(EditMiss::Ambiguous(vec![1, 3], Whitespace))),
        ("a", "b", true, Err(EditMiss::NotFound)),
        ("a", "", false, Err(EditMiss::Empty)),
        ("x", "x", false, Err(EditMiss::Same)),
        ("   \n", "  \t\n", false, Err(EditMiss::NotFound)),
    ] {
        let expected = expected.map(|(strategy, text)| (strategy, text.as_bytes().to_vec()));
        assert_eq!(
            apply_edit(text.as_bytes(), &text_edit(old, "x", all)),
            expected,
            "{text:?} {old:?}"
        );
    }
}

/// An encoding, with or without a byte order mark.
#[derive(Debug, Clone, Copy)]
enum TestEncoding {
    Utf8,
    Utf8Bom,
    Utf16LeBom,
    Utf16BeBom,
    ShiftJis,
    Latin,
    /// UTF-8 with invalid bytes.
    Broken,
}

impl TestEncoding {
    fn encode(self, text: &str) -> Vec<u8> {
        match self {
            Self::Utf8 => text.into(),
            Self::Utf8Bom => format!("\u{feff}{text}").into(),
            Self::Utf16LeBom => {
                format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect()
            }
            Self::Utf16BeBom => {
                format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_be_bytes).collect()
            }
            Self::ShiftJis => encoding_rs::SHIFT_JIS.encode(text).0.into_owned(),
            Self::Latin => encoding_rs::WINDOWS_1252.encode(text).0.into_owned(),
            Self::Broken => text
                .replace('Q', "\u{fffd}")
                .into_bytes()
                .split(|byte| *byte == 0xef)
                .collect::<Vec<_>>()
                .join(&[0xff][..]),
        }
    }

    /// Returns words of characters that the encoding has, enough of them for detection.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Latin => ("abcdé \t", "ça a été déjà là, à l'été, naïve façade, où ça: élève\n"),
            Self::ShiftJis => {
                ("abcdソ表日 \t", "これは日本語のテキストです。表示はソースにあります。\n")
            }
            Self::Broken => {
                ("abcdQ日 \t", "日本語の中に壊れたバイトがある：これだけ長ければ分かる\n")
            }
            _ => ("abcdé日🦀 \t", ""),
        }
    }
}

fn encodings() -> impl proptest::strategy::Strategy<Value = TestEncoding> {
    prop_oneof![
        Just(TestEncoding::Utf8),
        Just(TestEncoding::Utf8Bom),
        Just(TestEncoding::Utf16LeBom),
        Just(TestEncoding::Utf16BeBom),
        Just(TestEncoding::ShiftJis),
        Just(TestEncoding::Latin),
        Just(TestEncoding::Broken),
    ]
}

prop_compose! {
    /// An encoding, and lines of text with various endings; the last line may have none.
    fn files()(
        coding in encodings(),
        lines in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..8), any::<bool>()), 1..8),
        closed in any::<bool>(),
    ) -> (TestEncoding, String) {
        let (letters, beginning) = coding.words();
        let letters: Vec<char> = letters.chars().collect();
        let mut text = beginning.to_owned();
        for (line, crlf) in &lines {
            text.extend(line.iter().map(|at| letters[usize::from(*at) % letters.len()]));
            text.push_str(if *crlf { "\r\n" } else { "\n" });
        }
        if !closed {
            text.truncate(text.trim_end_matches(['\r', '\n']).len());
        }
        (coding, text)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_500))]

    /// The bytes before and after the replaced ranges stay the same, for any edit of any file.
    #[test]
    fn bytes_outside_of_the_edit_stay_the_same(
        (coding, text) in files(),
        from in any::<prop::sample::Index>(),
        len in 1usize..12,
        new in "[a-d\n]{0,6}",
        all in any::<bool>(),
        loosen in any::<bool>(),
    ) {
        let bytes = coding.encode(&text);
        let Ok(document) = Document::parse(bytes.clone()) else { return Ok(()) };
        let shown = document.to_text().into_owned();
        let characters: Vec<char> = shown.chars().collect();
        let start = from.index(characters.len().max(1));
        let old: String = characters.iter().skip(start).take(len).collect();
        // The text as a model would give it: without carriage returns, perhaps with other blanks.
        let old = old.replace("\r\n", "\n");
        let old = if loosen { old.replace('\t', "  ").replace(" \n", "\n") } else { old };
        let Ok(plan) = plan(document.text(), &text_edit(&old, &new, all)) else { return Ok(()) };
        let after = document.splice(&plan.replacements);
        prop_assert!(after.is_ok(), "{after:?}");
        let after = after.unwrap();

        let expected = replace_all(document.text(), &plan.replacements);
        let again = document.with_bytes(after.clone());
        prop_assert_eq!(again.text(), &expected[..], "the text is the one that was wanted");

        // The pieces between the matches, located in the old file by their encoded lengths.
        let raw_len = |part: &[u8]| match std::str::from_utf8(part) {
            Ok(part) if !document.encoding().is_utf8() => document.encoding().encode(part).unwrap().len(),
            _ => part.len(),
        };
        let mut at = document.encoding().mark().len();
        let mut expected = bytes[..at].to_vec();
        let mut from = 0;
        for Replacement { range, with } in &plan.replacements {
            let kept = at..at + raw_len(&document.text()[from..range.start]);
            at = kept.end + raw_len(&document.text()[range.clone()]);
            expected.extend_from_slice(&bytes[kept]);
            expected.extend_from_slice(&document.encoding().encode(with).unwrap());
            from = range.end;
        }
        expected.extend_from_slice(&bytes[at..]);
        prop_assert_eq!(after, expected);
    }

    /// An exact edit, and the opposite edit, restore the same file.
    #[test]
    fn opposite_edit_restores_the_file(
        (coding, text) in files(),
        from in any::<prop::sample::Index>(),
        len in 1usize..12,
    ) {
        let bytes = coding.encode(&text);
        let Ok(document) = Document::parse(bytes.clone()) else { return Ok(()) };
        let shown = document.to_text().into_owned();
        let characters: Vec<char> = shown.chars().collect();
        let old: String = characters.iter().skip(from.index(characters.len().max(1))).take(len).collect();
        let Ok(there) = plan(document.text(), &text_edit(&old, "ZZ", false)) else { return Ok(()) };
        if there.strategy != MatchStrategy::Exact {
            return Ok(());
        }
        let changed = document.with_bytes(document.splice(&there.replacements).unwrap());
        let range = there.replacements[0].range.start..there.replacements[0].range.start + 2;
        let back = Replacement { range, with: old };
        prop_assert_eq!(changed.splice(&[back]).unwrap(), bytes);
    }
}

/// Makes one call and checks the file and the output.
fn check(content: impl AsRef<[u8]>, mut input: Value, expected: impl AsRef<[u8]>, answer: &str) {
    let workspace = Workspace::new(&[]);
    workspace.write("f", content);
    input["path"] = "f".into();
    let text = workspace.text("edit", input);
    assert_eq!(workspace.read("f"), expected.as_ref(), "{text}");
    assert_eq!(text, answer);
}

#[test]
fn one_edit() {
    check(
        "one\ntwo\nthree\n",
        json!({"old_string": "two", "new_string": "2"}),
        "one\n2\nthree\n",
        "edited f: 1 replacement, found exactly\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
    );
    check(
        b"\xef\xbb\xbfone\r\n\ttwo  \r\nthree",
        json!({"old_string": "one\n\ttwo\n", "new_string": ""}),
        b"\xef\xbb\xbfthree",
        "edited f: 1 replacement, found apart from white space\n@@ -1,3 +1 @@\n-one\n-\ttwo  \n three\n\\ No newline at end of file\n",
    );
    check(
        b"d\xe9j\xe0 vu, \xe0 l'\xe9t\xe9\nno\n",
        json!({"old_string": "no", "new_string": "été"}),
        b"d\xe9j\xe0 vu, \xe0 l'\xe9t\xe9\n\xe9t\xe9\n",
        "edited f: 1 replacement, found exactly\n@@ -1,2 +1,2 @@\n déjà vu, à l'été\n-no\n+été\n",
    );
}

#[test]
fn edit_applies_to_the_result_of_the_one_before() {
    check(
        "a\nb\n",
        json!({"edits": [
            {"old_string": "a", "new_string": "b"},
            {"old_string": "b", "new_string": "c", "replace_all": true},
        ]}),
        "c\nc\n",
        "edited f: 3 replacements, all found exactly\n@@ -1,2 +1,2 @@\n-a\n-b\n+c\n+c\n",
    );
}

#[test]
fn several_edits_are_all_made_or_none() {
    check(
        "a\nb\n",
        json!({"edits": [{"old_string": "a", "new_string": "x"}, {"old_string": "q", "new_string": "y"}]}),
        "a\nb\n",
        "edit 2 of 2, nothing was changed: old_string was not found in f\nnothing in the file is like it; read the file again",
    );
}

#[test]
fn invalid_arguments_are_refused() {
    let workspace = Workspace::new(&[("f", "a")]);
    let one = json!([{"old_string": "a", "new_string": "b"}]);
    for (input, words) in [
        (json!({"path": "f"}), "`old_string` is missing"),
        (json!({"path": "f", "old_string": "a"}), "`new_string` is missing"),
        (json!({"path": "f", "edits": []}), "`edits` is empty"),
        (json!({"path": "f", "edits": one, "old_string": "a"}), "both `edits` and a single edit"),
        (json!({"path": "f", "edits": one, "replace_all": true}), "does not say which edit"),
        (json!({"path": "f", "old_string": "", "new_string": "b"}), "use `write`"),
    ] {
        let result = workspace.call("edit", input.clone());
        assert_eq!(
            (result.outcome, result.code),
            (Outcome::Fault, Some("invalid_args")),
            "{input}"
        );
        assert!(result.output.to_text().contains(words), "{}", result.output.to_text());
    }
    assert_eq!(workspace.read("f"), b"a");
}

#[test]
fn uneditable_files_are_refused() {
    let workspace = Workspace::new(&[("dir/", "")]);
    workspace.write("latin", b"d\xe9j\xe0 vu, \xe0 l'\xe9t\xe9\n");
    for (path, new, words) in [
        ("dir", "b", "it is a directory"),
        ("nowhere", "b", "no such file or directory"),
        (
            "latin",
            "日",
            "the file is in windows-1252, which has no `日` (U+65E5, line 1 of the new text)",
        ),
    ] {
        let result =
            workspace.call("edit", json!({"path": path, "old_string": "a", "new_string": new}));
        let old =
            workspace.call("edit", json!({"path": path, "old_string": "vu", "new_string": new}));
        let text = result.output.to_text() + &old.output.to_text();
        assert_eq!(result.outcome, Outcome::Error, "{path}");
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn wr_5_what_is_no_text_is_edited_to_the_byte() {
    let workspace = Workspace::new(&[]);
    for (before, old, new, after) in [
        (&b"a\0\x01"[..], "a", "bc", &b"bc\0\x01"[..]),
        (b"one\0\0two\r\n\xff\xfe\0three\n", "three", "3", b"one\0\0two\r\n\xff\xfe\x003\n"),
        (b"\x7fELF\x02\0\0name\0\xc3", "name\0", "NAME\0", b"\x7fELF\x02\0\0NAME\0\xc3"),
    ] {
        workspace.write("f", before);
        workspace.text("edit", json!({"path": "f", "old_string": old, "new_string": new}));
        assert_eq!(workspace.read("f"), after, "{old:?}");
    }
    workspace.write("f", b"a  b\0");
    let loose =
        workspace.call("edit", json!({"path": "f", "old_string": "a b", "new_string": "c"}));
    assert_eq!(loose.outcome, Outcome::Error, "white space may be anything there");
    assert_eq!(workspace.read("f"), b"a  b\0");
}

#[test]
fn metadata_matches_the_text() {
    let workspace = Workspace::new(&[("f", "a a\n\tb\n\tc\n")]);
    let input = json!({"path": "f", "edits": [
        {"old_string": "a", "new_string": "x", "replace_all": true},
        {"old_string": "  b\n  c", "new_string": "  d"},
    ]});
    let result = workspace.call("edit", input);
    assert_eq!(workspace.read("f"), b"x x\n\td\n");
    let metadata = &result.output.metadata;
    assert_eq!((&metadata["path"], &metadata["replacements"]), (&json!("f"), &json!(3)));
    assert_eq!(metadata["strategy"], "indentation");
}

#[test]
fn editing_does_not_count_as_reading() {
    let workspace = Workspace::new(&[("f", "a\nsecret\n")]);
    workspace.call("edit", json!({"path": "f", "old_string": "a", "new_string": "b"}));
    let result = workspace.call("write", json!({"path": "f", "content": "gone"}));
    assert!(
        result.output.to_text().starts_with("stale: f exists and was not read"),
        "{:?}",
        result.output
    );
    workspace.call("read", json!({"path": "f"}));
    workspace.call("edit", json!({"path": "f", "old_string": "b", "new_string": "c"}));
    let result = workspace.call("write", json!({"path": "f", "content": "now it may\n"}));
    assert_eq!(result.outcome, Outcome::Ok);
}

/// An editor that saves the file just before the rename: its name, and its action.
type EditorSave = (&'static str, fn(&std::path::Path));

#[expect(clippy::disallowed_methods, reason = "it acts as another program's editor")]
const EDITOR_SAVES: [EditorSave; 3] = [
    ("by a rename", |path| {
        let new = path.with_extension("new");
        std::fs::write(&new, "theirs\n").unwrap();
        std::fs::rename(new, path).unwrap();
    }),
    ("in place", |path| std::fs::write(path, "theirs\n").unwrap()),
    ("in place, as long as it was", |path| {
        // Before Linux 6.13, the times of files have the resolution of the clock tick.
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(path, "their\nb\n").unwrap();
    }),
];

/// An editor that saves between our read and our rename is noticed, and its content stays.
#[test]
fn cc_4_what_an_editor_saves_in_between_is_not_lost() {
    let patch = "*** Begin Patch\n*** Update File: f\n@@\n-first\n+ours\n*** End Patch\n";
    for (tool, input) in [
        ("edit", json!({"path": "f", "old_string": "first", "new_string": "ours"})),
        ("write", json!({"path": "f", "content": "ours\n"})),
        ("write", json!({"path": "f", "content": "ours\n", "mode": "append"})),
        ("patch", json!({"patch": patch})),
    ] {
        for (how, save) in EDITOR_SAVES {
            let workspace = Workspace::on(&[("f", "first\nb\n")], |local| {
                InterceptingHost::before_changes(local, move |_, path| {
                    // The new file is removed again, which changes the time of the workspace directory.
                    if path.file_name().is_some_and(|name| name == "f") {
                        save(path);
                    }
                    Ok(())
                })
            });
            workspace.call("read", json!({"path": "f"}));
            let refused = workspace.call(tool, input.clone());
            assert_eq!(refused.outcome, Outcome::Error, "{tool}, saved {how}");
            let said = refused.output.to_text();
            assert!(said.contains("stale: the file changed since it was read"), "{tool}: {said}");
            assert!(workspace.read("f").starts_with(b"their"), "{tool}, saved {how}");
            assert_eq!(names(&workspace), ["f"], "{tool}, saved {how}");
        }
    }
}

/// A change that is possible nevertheless is applied to the content that was saved in between.
#[test]
#[expect(clippy::disallowed_methods, reason = "another program saves a file")]
fn cc_2_a_change_is_made_to_what_is_there_by_then() {
    for (tool, input, expected) in [
        (
            "edit",
            json!({"path": "f", "old_string": "first", "new_string": "ours"}),
            "theirs\nours\nb\n",
        ),
        (
            "write",
            json!({"path": "f", "content": "ours\n", "mode": "append"}),
            "theirs\nfirst\nb\nours\n",
        ),
    ] {
        let workspace = Workspace::on(&[("f", "first\nb\n")], |local| {
            let saved = std::sync::Once::new();
            InterceptingHost::before_changes(local, move |_, path| {
                saved.call_once(|| std::fs::write(path, "theirs\nfirst\nb\n").unwrap());
                Ok(())
            })
        });
        workspace.call("read", json!({"path": "f"}));
        let text = workspace.text(tool, input);
        assert_eq!(workspace.read("f"), expected.as_bytes(), "{text}");
        let is_said = text.contains("note: the file had changed since this session read it");
        assert_eq!(is_said, tool == "edit", "{text}");
    }
}

/// Returns the names of all files in the workspace, hidden or not.
#[expect(clippy::disallowed_methods, reason = "a look at what a tool left behind")]
fn names(workspace: &Workspace) -> Vec<String> {
    let entries = std::fs::read_dir(workspace.path("")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a look at what a tool left alone")]
fn edits_that_cancel_each_other_change_nothing() {
    let workspace = Workspace::new(&[("f", "a\nb\n")]);
    let written = || std::fs::metadata(workspace.path("f")).unwrap().modified().unwrap();
    let before = written();
    let there_and_back = json!([
        {"old_string": "a", "new_string": "x"}, {"old_string": "x", "new_string": "a"}
    ]);
    let result = workspace.call("edit", json!({"path": "f", "edits": there_and_back}));
    assert_eq!(result.output.to_text(), "unchanged f: the edits come to what is there already");
    assert_eq!(result.output.metadata["replacements"], 0);
    let result = workspace.call("edit", json!({"path": "f", "old_string": "a", "new_string": "a"}));
    assert!(result.output.to_text().contains("nothing would change in f"));
    assert_eq!(written(), before);
    assert!(workspace.text("undo", json!({})).contains("there is nothing to undo"));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a look at what a tool left behind")]
fn a_path_that_ends_in_a_slash_is_no_file() {
    let workspace = Workspace::new(&[("f", "a\n"), ("d/x", "")]);
    for (tool, input) in [
        ("edit", json!({"path": "f/", "old_string": "a", "new_string": "b"})),
        ("write", json!({"path": "f/", "content": "b"})),
        ("write", json!({"path": "new/", "content": "b"})),
        ("write", json!({"path": "d/", "content": "b"})),
        ("write", json!({"path": "d/new/.", "content": "b"})),
        ("read", json!({"path": "f/"})),
        ("patch", json!({"patch": "--- a/f/\n+++ b/f/\n@@ -1 +1 @@\n-a\n+b\n"})),
        ("patch", json!({"patch": "*** Begin Patch\n*** Add File: new/\n+b\n*** End Patch"})),
    ] {
        let result = workspace.call(tool, input.clone());
        assert_ne!(result.outcome, Outcome::Ok, "{tool} {input}: {}", result.output.to_text());
        assert!(!workspace.path("new").exists(), "{tool} {input}");
    }
    assert_eq!(workspace.read("f"), b"a\n");
}
