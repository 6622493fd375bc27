//! Tests of both patch formats: tables, properties, and patches of which a part cannot be applied.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_core::{CallResult, FileErrorKind, Outcome};

use super::apply::apply;
use super::hunk::{Action, FilePatch, Hunk};
use super::parse::parse;
use super::place::HunkMiss;
use crate::cut::Cutter;
use crate::diff;
use crate::document::Document;
use crate::edit::plan::MatchStrategy as Found;
use crate::testing::{InterceptingHost, Workspace};

fn call(workspace: &Workspace, patch: &str) -> CallResult {
    workspace.call("patch", json!({"patch": patch}))
}

/// Applies a patch and checks the files; `None` stands for no file.
fn check(files: &[(&str, &str)], patch: &str, expected: &[(&str, Option<&str>)]) -> String {
    let workspace = Workspace::new(files);
    let result = call(&workspace, patch);
    let text = result.output.to_text();
    assert_eq!(result.outcome, Outcome::Ok, "{patch}\n{text}");
    for (name, content) in expected {
        let there = content.is_some();
        assert_eq!(is_there(&workspace, name), there, "{name}\n{text}");
        if let Some(content) = content {
            assert_eq!(String::from_utf8_lossy(&workspace.read(name)), *content, "{patch}\n{text}");
        }
    }
    text
}

#[expect(clippy::disallowed_methods, reason = "a look at what a tool left behind")]
fn is_there(workspace: &Workspace, name: &str) -> bool {
    workspace.path(name).exists()
}

/// Checks that nothing is changed, and that the message contains these words.
fn check_refused(files: &[(&str, &str)], patch: &str, words: &[&str]) -> String {
    let workspace = Workspace::new(files);
    let result = call(&workspace, patch);
    let text = result.output.to_text();
    assert_ne!(result.outcome, Outcome::Ok, "{patch}\n{text}");
    for (name, content) in files.iter().filter(|(name, _)| !name.ends_with('/')) {
        assert_eq!(String::from_utf8_lossy(&workspace.read(name)), *content, "{patch}");
    }
    for word in words {
        assert!(text.contains(word), "{word}\nis not in\n{text}");
    }
    text
}

const NUMBERS: &str = "one\ntwo\nthree\nfour\nfive\nsix\n";

#[test]
fn hunk_is_accepted_in_many_spellings() {
    let body = " two\n-three\n+3\n four\n";
    for header in [
        "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n",
        "--- f\n+++ f\n@@ -2,3 +2,3 @@ heading\n",
        "--- f\t2026-01-01 00:00:00\n+++ f\t2026-01-02 00:00:00\n@@ -2,3 +2,3 @@\n",
        "diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n",
        "diff --git a/f b/f\n@@ -2,3 +2,3 @@\n",
        "Index: f\n=====\n--- f\n+++ f\n@@ -2,3 +2,3 @@\n",
        "Here is what I would do:\n\n```diff\n--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n",
        // Line numbers that are missing or wrong.
        "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n",
        "--- a/f\n+++ b/f\n@@ -500,3 +500,3 @@\n",
        "--- a/f\n+++ b/f\n@@ -2,9 +2,1 @@\n",
        "--- a/f\n+++ b/f\n@@ -2 +2 @@\n",
        "--- a/f\n+++ b/f\n@@\n",
        "--- a/f\n+++ b/f\n@@ ... @@\n",
        "--- a/f\n+++ b/f\n@@ one\n",
        "--- \"a/f\"\n+++ \"b/f\"\n@@ -2,3 +2,3 @@\n",
        // The other format, also without its first and last line.
        "*** Update File: f\n@@\n",
        "*** Update File: f\n",
        "*** Update File: f\n@@ one\n",
        "*** Update File: f\n@@ one\n@@ two\n",
        "*** Update File: f\n--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n",
        "*** Update File:   f  \n@@ -2,3 +2,3 @@\n",
    ] {
        let expected = &[("f", Some("one\ntwo\n3\nfour\nfive\nsix\n"))];
        check(&[("f", NUMBERS)], &format!("{header}{body}"), expected);
        check(&[("f", NUMBERS)], format!("{header}{body}").trim_end(), expected);
        check(&[("f", NUMBERS)], &format!("{header}{body}").replace('\n', "\r\n"), expected);
        check(&[("f", NUMBERS)], &format!("{header}{body}\n```\n"), expected);
        if header.starts_with("***") {
            let framed = format!("*** Begin Patch\n{header}{body}*** End Patch\n");
            check(&[("f", NUMBERS)], &framed, expected);
            check(&[("f", NUMBERS)], &format!("apply_patch <<'EOF'\n{framed}EOF\n"), expected);
        }
    }
}

#[test]
fn several_hunks() {
    let expected = &[("f", Some("zero\none\n2\nthree\nfour\nfive\n6\n7\n"))];
    for patch in [
        "--- a/f\n+++ b/f\n@@ -1,3 +1,4 @@\n+zero\n one\n-two\n+2\n three\n@@ -5,2 +6,3 @@\n five\n-six\n+6\n+7\n",
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n+zero\n one\n-two\n+2\n@@ -5,2 +6,3 @@\n five\n-six\n+6\n+7\n",
        "*** Begin Patch\n*** Update File: f\n@@\n+zero\n one\n@@\n-two\n+2\n@@ five\n-six\n+6\n+7\n*** End of File\n*** End Patch",
        // Two entries for one file: the second sees the result of the first.
        "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n+zero\n one\n-two\n+2\n--- a/f\n+++ b/f\n@@ -5,3 +5,4 @@\n four\n five\n-six\n+6\n+7\n",
    ] {
        check(&[("f", NUMBERS)], patch, expected);
    }
}

#[test]
fn adding_moving_deleting() {
    for (patch, expected) in [
        ("--- /dev/null\n+++ b/d/new\n@@ -0,0 +1,2 @@\n+a\n+b\n", &[("d/new", Some("a\nb\n"))][..]),
        (
            "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n",
            &[("new", Some("a"))],
        ),
        ("*** Add File: d/new\n+a\n+\n+b\n\n", &[("d/new", Some("a\n\nb\n"))]),
        ("*** Add File: empty\n", &[("empty", Some(""))]),
        (
            "diff --git a/empty b/empty\nnew file mode 100644\nindex 0000000..e69de29\n",
            &[("empty", Some(""))],
        ),
        ("*** Delete File: f\n", &[("f", None)]),
        (
            "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1,6 +0,0 @@\n-one\n-two\n-three\n-four\n-five\n-six\n",
            &[("f", None)],
        ),
        (
            "diff --git a/f b/g h\nsimilarity index 100%\nrename from f\nrename to g h\n",
            &[("f", None), ("g h", Some(NUMBERS))],
        ),
        (
            "--- a/f\n+++ b/d/g\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n",
            &[("f", None), ("d/g", Some("1\ntwo\nthree\nfour\nfive\nsix\n"))],
        ),
        (
            "*** Update File: f\n*** Move to: d/g\n@@\n-one\n+1\n two\n",
            &[("f", None), ("d/g", Some("1\ntwo\nthree\nfour\nfive\nsix\n"))],
        ),
        ("*** Update File: f\n*** Move to: g\n", &[("f", None), ("g", Some(NUMBERS))]),
        // Each entry sees the result of the entries before it.
        ("*** Delete File: f\n*** Add File: f\n+new\n", &[("f", Some("new\n"))]),
        (
            "*** Update File: f\n*** Move to: g\n*** Add File: f\n+new\n",
            &[("f", Some("new\n")), ("g", Some(NUMBERS))],
        ),
        (
            "*** Update File: f\n*** Move to: g\n*** Update File: g\n*** Move to: h\n-one\n+1\n two\n",
            &[("f", None), ("g", None), ("h", Some("1\ntwo\nthree\nfour\nfive\nsix\n"))],
        ),
        (
            "*** Delete File: k\n*** Update File: f\n*** Move to: k\n",
            &[("f", None), ("k", Some(NUMBERS))],
        ),
    ] {
        check(&[("f", NUMBERS), ("k", "other\n")], patch, expected);
    }
}

#[test]
fn moved_file_keeps_its_attributes() {
    use std::os::unix::fs::PermissionsExt;
    let workspace = Workspace::new(&[("run", "a\nb\n")]);
    let mode = |name: &str| {
        #[expect(clippy::disallowed_methods, reason = "a look at what a tool left behind")]
        let metadata = std::fs::metadata(workspace.path(name)).unwrap();
        metadata.permissions().mode() & 0o777
    };
    #[expect(clippy::disallowed_methods, reason = "lays out what a tool then works on")]
    std::fs::set_permissions(workspace.path("run"), PermissionsExt::from_mode(0o750)).unwrap();
    let result = call(&workspace, "*** Update File: run\n*** Move to: bin/run\n-a\n+A\n b\n");
    assert_eq!(result.outcome, Outcome::Ok, "{}", result.output.to_text());
    assert_eq!((mode("bin/run"), workspace.read("bin/run")), (0o750, b"A\nb\n".to_vec()));
}

#[test]
fn counts_tell_content_from_headers() {
    // A removed line `-- x` and an added one `++ y` look like the header of a file.
    check(
        &[("f", "a\n-- x\nb\n")],
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n--- x\n+++ y\n@@ -3 +3 @@\n-b\n+c\n",
        &[("f", Some("a\n++ y\nc\n"))],
    );
}

#[test]
fn a_series_of_mails() {
    let patch = "From 0123 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n\n---\n f | 2 +-\n\ndiff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n-- \n2.39.0\n\nFrom 0124 Mon Sep 17\nSubject: y\n---\ndiff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n 1\n-two\n+2\n-- \n2.39.0\n";
    check(&[("f", NUMBERS)], patch, &[("f", Some("1\n2\nthree\nfour\nfive\nsix\n"))]);
}

#[test]
fn line_endings_and_the_last_line() {
    for (before, hunk, after) in [
        ("a\r\nb\r\nc\r\n", " a\n-b\n+B\n+BB\n c\n", "a\r\nB\r\nBB\r\nc\r\n"),
        ("a\r\nb\n", " a\n+x\n b\n", "a\r\nx\r\nb\n"),
        ("a\nb", " a\n-b\n+c\n", "a\nc"),
        ("a\nb", " a\n b\n+c\n", "a\nb\nc"),
        ("a\r\nb", " b\n+c\n", "a\r\nb\r\nc"),
        ("a\nb", " a\n-b\n\\ No newline at end of file\n+b\n", "a\nb\n"),
        ("a\nb\n", " a\n-b\n+b\n\\ No newline at end of file\n", "a\nb"),
        ("a\nb", " a\n-b\n", "a\n"),
        ("a\nb", "+x\n a\n b\n\\ No newline at end of file\n", "x\na\nb"),
        // The patch itself shows how lines end.
        ("a\r\nb\r\n", "-a\r\n+a\n b\r\n", "a\nb\r\n"),
        ("a\nb\n", "-a\n+a\r\n b\n", "a\r\nb\n"),
        ("a\nb\n", "-a\r\n+c\r\n b\r\n", "c\nb\n"),
    ] {
        let patch = format!("--- a/f\n+++ b/f\n@@ -1 +1 @@\n{hunk}");
        check(&[("f", before)], &patch, &[("f", Some(after))]);
    }
}

/// Returns the line and the strategy by which each hunk of one file matches a text.
fn found(text: &str, hunks: &str) -> Vec<Result<(usize, Found), HunkMiss>> {
    let parsed = parse(&format!("*** Update File: f\n{hunks}")).unwrap();
    let [FilePatch { action: Action::Change { hunks, .. }, .. }] = &parsed[..] else { panic!() };
    let places = apply(text.as_bytes(), hunks, usize::MAX).places;
    places.into_iter().map(|place| place.map(|place| (place.start, place.strategy))).collect()
}

#[test]
fn hunks_are_found_at_their_places() {
    use Found::{Exact, Indentation, Whitespace};
    let ambiguous = |lines: &[usize], strategy| Err(HunkMiss::Ambiguous(lines.to_vec(), strategy));
    for (text, hunks, expected) in [
        // The line that the header names, or else the nearest.
        ("x\na\nx\na\nx\na\n", "@@ -4 +4 @@\n-a\n+b\n", vec![Ok((3, Exact))]),
        ("x\na\nx\nx\nx\na\n", "@@ -5 +5 @@\n-a\n+b\n", vec![Ok((5, Exact))]),
        ("x\na\nx\na\n", "@@ -3 +3 @@\n-a\n+b\n", vec![ambiguous(&[2, 4], Exact)]),
        ("x\na\nx\na\n", "@@\n-a\n+b\n", vec![ambiguous(&[2, 4], Exact)]),
        // Hunks follow each other, and are shifted by the same number of lines.
        (
            "a\na\n",
            "@@ -1 +1 @@\n-a\n+b\n@@ -2 +2 @@\n-a\n+b\n",
            vec![Ok((0, Exact)), Ok((1, Exact))],
        ),
        (
            "0\n0\nq\n1\na\n3\na\n",
            "@@ -1 +1 @@\n-q\n+b\n@@ -3 +3 @@\n-a\n+b\n",
            vec![Ok((2, Exact)), Ok((4, Exact))],
        ),
        (
            "a\nb\n",
            "@@\n-b\n+c\n@@\n-a\n+c\n",
            vec![Ok((1, Exact)), Err(HunkMiss::Elsewhere(1, "before those of the hunk before it"))],
        ),
        // Anchors.
        ("f()\n a\ng()\n a\n", "@@ g()\n- a\n+ b\n", vec![Ok((3, Exact))]),
        ("f() {\n a\ng() {\n a\n", "@@ g()\n- a\n+ b\n", vec![Ok((3, Exact))]),
        ("A\n f\n  a\nB\n f\n  a\n", "@@ B\n@@ f\n-  a\n+  b\n", vec![Ok((5, Exact))]),
        ("A\n f\n  a\nB\n f\n  a\n", "@@ f\n-  a\n+  b\n", vec![ambiguous(&[3, 6], Exact)]),
        ("A\n a\n b\n", "@@ A\n- a\n+ x\n@@ A\n- b\n+ y\n", vec![Ok((1, Exact)), Ok((2, Exact))]),
        (
            "a\nf()\n",
            "@@ f()\n-a\n+b\n",
            vec![Err(HunkMiss::Elsewhere(1, "before the line that its header names"))],
        ),
        ("f()\n a\n", "@@ h()\n- a\n+ b\n", vec![Err(HunkMiss::NoAnchor("h()".into()))]),
        // Lines that are only added need context that can be checked.
        ("a\nb\n", "@@\n+x\n", vec![Err(HunkMiss::NoContext)]),
        ("a\nb\n", "@@ -1,0 +2 @@\n+x\n", vec![Err(HunkMiss::NoContext)]),
        ("a\nb\n", "@@ a\n+x\n", vec![Ok((1, Exact))]),
        ("a\nb\n", "@@\n+x\n*** End of File\n", vec![Ok((2, Exact))]),
        ("", "@@\n+x\n", vec![Ok((0, Exact))]),
        // The end of the file.
        ("a\nb\na\n", "@@\n-a\n+c\n*** End of File\n", vec![Ok((2, Exact))]),
        (
            "a\nb\n",
            "@@\n-a\n+c\n*** End of File\n",
            vec![Err(HunkMiss::Elsewhere(1, "not at the end of the file"))],
        ),
        // White space may differ if there is only one match.
        ("if (a  ==  b) { \n", "@@\n-if (a == b) {\n+c\n", vec![Ok((0, Whitespace))]),
        ("a  b\na   b\n", "@@ -1 +1 @@\n-a b\n+c\n", vec![ambiguous(&[1, 2], Whitespace)]),
        ("{\n\ta\n\tb\n}\n", "@@\n     a\n-    b\n+    c\n", vec![Ok((1, Indentation))]),
        ("a\nb\n", "@@\n a\n-c\n+d\n", vec![Err(HunkMiss::NotFound)]),
    ] {
        assert_eq!(found(text, hunks), expected, "{text:?} {hunks:?}");
    }
}

#[test]
fn new_lines_are_indented_as_the_file_is() {
    let text = check(
        &[("f", "{\n\ta\n\tb\n}\n")],
        "*** Update File: f\n@@\n     a\n-    b\n+    c\n+        d\n",
        &[("f", Some("{\n\ta\n\tc\n\t\td\n}\n"))],
    );
    assert!(text.contains("changed f: +2 -1, found apart from indentation"), "{text}");
}

#[test]
fn invalid_patches_are_refused() {
    let workspace = Workspace::new(&[("f", NUMBERS)]);
    for (patch, words) in [
        ("", "`patch` is empty"),
        (" \n\n", "`patch` is empty"),
        ("please change f", "there is no file in `patch`"),
        ("@@ -1 +1 @@\n-one\n+1\n", "line 1 of the patch: a hunk comes before the name of a file"),
        ("--- a/f\n+++ b/f\n", "line 1 of the patch: no hunk follows this header"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n", "line 3 of the patch: no lines follow this header"),
        ("--- a/f\n+++ b/f\n@@\n one\n two\n", "line 3 of the patch: this hunk changes nothing"),
        (
            "--- a/f\n+++ b/f\n@@\n-one\n+1\ntwo\n",
            "line 6 of the patch: `two` is not expected here",
        ),
        ("--- f.orig\n+++ f\n@@\n-one\n+1\n", "line 1 of the patch: the two names differ"),
        (
            "--- /dev/null\n+++ b/g\n@@\n one\n+1\n",
            "line 3 of the patch: a new file has only lines that begin with `+`",
        ),
        (
            "diff --git a/f b/f\nBinary files a/f and b/f differ\n",
            "line 2 of the patch: binary files are not patched",
        ),
        ("diff --git a/f b/g\ncopy from f\ncopy to g\n", "files are not copied"),
        (
            "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n",
            "only permissions are to change",
        ),
        (
            "*** Begin Patch\n*** Update File: f\n-one\n+1\n",
            "there is no `*** End Patch`: the patch may have been cut off",
        ),
        ("*** Begin Patch\n*** End Patch\n", "there is no file in `patch`"),
        ("*** Update File: \n-one\n+1\n", "line 1 of the patch: the name of a file is missing"),
        ("*** Update File: f\n", "line 1 of the patch: no hunk follows this header"),
        (
            "*** Update File: f\n-one\n+1\ntwo\n",
            "line 4 of the patch: `two`: a line of a hunk begins with",
        ),
        (
            "*** Add File: g\n+a\nb\n",
            "line 3 of the patch: every line of a new file begins with `+`",
        ),
        (
            "*** Begin Patch\n*** Rename File: f\n*** End Patch",
            "line 2 of the patch: expected `*** Add File:",
        ),
    ] {
        let result = call(&workspace, patch);
        assert_eq!(
            (result.outcome, result.code),
            (Outcome::Fault, Some("invalid_args")),
            "{patch}"
        );
        let text = result.output.to_text();
        assert!(text.contains(words), "{words}\nis not in\n{text}");
    }
    assert_eq!(workspace.read("f"), NUMBERS.as_bytes());
}

#[test]
fn impossible_changes_are_refused() {
    let files = [("f", NUMBERS), ("g", "g\n"), ("d/x", "x\n"), ("zero", "a\0b")];
    for (patch, words) in [
        ("*** Add File: g\n+new\n", "cannot add g: it exists already"),
        ("*** Update File: f\n*** Move to: g\n", "cannot move f to g: something is there already"),
        ("*** Update File: f\n*** Move to: f\n", "cannot move f to f: something is there already"),
        ("*** Delete File: d\n", "cannot patch d: it is a directory"),
        ("*** Delete File: nowhere\n", "no such file or directory"),
        ("*** Update File: ff\n-one\n+1\n", "no such file or directory"),
        ("*** Update File: zero\n-one\n+1\n", "cannot patch zero: it is binary"),
        ("*** Delete File: f\n*** Update File: f\n-one\n+1\n", "the patch itself took it away"),
        (
            "--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n",
            "cannot delete f: there is more in it than the patch removes",
        ),
    ] {
        check_refused(&files, patch, &["nothing was changed", words]);
    }
}

#[test]
fn every_hunk_that_does_not_apply_is_explained() {
    let text = check_refused(
        &[("f", NUMBERS), ("g", "fn main() {\n    let a = 1;\n}\n")],
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n@@ -4,2 +4,2 @@\n four\n-fife\n+5\n--- a/g\n+++ b/g\n@@ -1,2 +1,2 @@\n fn main() {\n-  let a = 2;\n+  let a = 3;\n--- a/h\n+++ b/h\n@@ -1 +1 @@\n-x\n+y\n",
        &[],
    );
    insta::assert_snapshot!(text, @"
    nothing was changed

    f, hunk 2 of 2 (line 7 of the patch: @@ -4,2 +4,2 @@) does not apply: its lines are not in the file
    the closest place is lines 4-5:
    4	four
    5	five
    line 5 differs from character 3 on
      in the file:   five
      in the hunk:   fife

    g, hunk 1 of 1 (line 13 of the patch: @@ -1,2 +1,2 @@) does not apply: its lines are not in the file
    the closest place is lines 1-2:
    1	fn main() {
    2	    let a = 1;
    line 2 differs from character 3 on
      in the file:       let a = 1;
      in the hunk:     let a = 2;

    cannot read h: no such file or directory
    ");
}

#[test]
fn output_names_files_and_diffs() {
    let workspace = Workspace::new(&[("f", NUMBERS), ("g", "g\n"), ("h", "h\n")]);
    let result = call(
        &workspace,
        "--- a/f\n+++ b/f\n@@ -3,2 +3,2 @@\n-one\n+1\n two\n--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n--- a/h\n+++ b/i\n@@ -1 +1 @@\n-h \n+i\n",
    );
    insta::assert_snapshot!(result.output.to_text(), @"
    patched 4 files, 4 hunks
    changed f: +1 -1; hunk 1 found at line 1, not 3
    @@ -1,4 +1,4 @@
    -one
    +1
     two
     three
     four
    deleted g: +0 -1
    added n: +1 -0
    moved h to i: +1 -1, found apart from white space
    @@ -1 +1 @@
    -h
    +i
    ");
    let metadata = &result.output.metadata;
    assert_eq!(
        metadata["files"],
        json!([
            {"path": "f", "action": "changed"},
            {"path": "g", "action": "deleted"},
            {"path": "n", "action": "added"},
            {"path": "i", "action": "moved", "from": "h"},
        ])
    );
    assert_eq!((&metadata["hunks"], &metadata["strategy"]), (&json!(4), &json!("whitespace")));
}

/// A patch of five files: one changed, one added in a new directory, one moved, two deleted.
const FIVE: &str = "*** Begin Patch\n*** Update File: a\n-one\n+1\n two\n*** Add File: d/e/new\n+new\n*** Update File: m\n*** Move to: k/moved\n-one\n+1\n two\n*** Delete File: y\n*** Delete File: z\n*** End Patch\n";

/// Returns names and contents of all files, and names of directories.
#[expect(clippy::disallowed_methods, reason = "a look at what a tool left behind")]
fn tree(workspace: &Workspace) -> Vec<(String, Option<Vec<u8>>)> {
    fn below(directory: &Path, root: &Path, found: &mut Vec<(String, Option<Vec<u8>>)>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                below(&path, root, found);
                found.push((name, None));
            } else {
                found.push((name, Some(std::fs::read(&path).unwrap())));
            }
        }
    }
    let mut found = Vec::new();
    below(&workspace.path(""), &workspace.path(""), &mut found);
    found.sort();
    found
}

/// Makes the workspace for `FIVE`, in which operations such as `write a` fail if they are in `refused`.
fn five(refused: &'static [&'static str]) -> Workspace {
    let files = [("a", NUMBERS), ("m", NUMBERS), ("y", "y\n"), ("z", "z\n")];
    Workspace::on(&files, |local| {
        InterceptingHost::before_changes(local, move |doing, path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_refused = refused.contains(&format!("{doing} {name}").as_str());
            if is_refused { Err(FileErrorKind::NoSpace) } else { Ok(()) }
        })
    })
}

#[test]
fn all_five_files_are_changed_or_none() {
    let workspace = five(&[]);
    assert_eq!(call(&workspace, FIVE).outcome, Outcome::Ok);
    let names: Vec<String> = tree(&workspace).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a", "d", "d/e", "d/e/new", "k", "k/moved"]);
    for refused in [
        &["write a"][..],
        &["write new"],
        &["move m"],
        &["write moved"],
        &["remove y"],
        &["remove z"],
    ] {
        let workspace = five(refused);
        let before = tree(&workspace);
        let result = call(&workspace, FIVE);
        let text = result.output.to_text();
        assert_eq!(result.outcome, Outcome::Error, "{text}");
        assert_eq!(tree(&workspace), before, "{text}");
        assert!(text.contains("nothing is changed"), "{text}");
        // No file counts as seen that the session has not seen.
        let written = workspace.call("write", json!({"path": "a", "content": "gone"}));
        assert!(written.output.to_text().starts_with("stale: a exists and was not read"));
        assert_eq!(text.contains("taken back: "), refused != ["write a"], "{text}");
    }
}

#[test]
fn undone_changes_are_reported() {
    let text = call(&five(&["remove z"]), FIVE).output.to_text();
    insta::assert_snapshot!(text, @"
    cannot remove z: no space is left on the device
    nothing is changed
    taken back: y, k/moved, d/e/new, a
    read the file that could not be changed, and send the whole patch again
    ");
}

#[test]
fn cancelled_patch_is_undone() {
    let files = [("a", NUMBERS), ("m", NUMBERS), ("y", "y\n"), ("z", "z\n")];
    let session = Arc::new(std::sync::OnceLock::<Arc<windlass_core::Session>>::new());
    let stop = session.clone();
    let mut workspace = Workspace::on(&files, |local| {
        InterceptingHost::before_changes(local, move |_, path| {
            if path.ends_with("new") {
                stop.get().unwrap().cancel();
            }
            Ok(())
        })
    });
    session.set(workspace.session().clone()).unwrap();
    let before = tree(&workspace);
    let result = call(&workspace, FIVE);
    assert_eq!(result.outcome, Outcome::Cancelled, "{}", result.output.to_text());
    workspace.finish();
    assert_eq!(tree(&workspace), before);
}

#[test]
fn effects_come_from_the_patch() {
    use windlass_core::testing::{EmptyHost, plan_effects};
    let effects =
        |patch: &str| plan_effects(&EmptyHost::default(), &super::Patch, json!({"patch": patch}));
    assert_eq!(
        effects(FIVE).unwrap().to_string(),
        "read a, write a, read d/e/new, write d/e/new, read m, delete m, read k/moved, write k/moved, read y, delete y, read z, delete z"
    );
    assert_eq!(effects("no patch").unwrap_err().code(), "invalid_args");
}

#[test]
fn patching_does_not_count_as_reading() {
    let workspace = Workspace::new(&[("f", NUMBERS), ("g", NUMBERS)]);
    workspace.call("read", json!({"path": "g"}));
    let patch = "*** Update File: f\n-one\n+1\n two\n*** Update File: g\n-one\n+1\n two\n";
    assert_eq!(call(&workspace, patch).outcome, Outcome::Ok);
    let write = |path: &str| workspace.text("write", json!({"path": path, "content": "x\n"}));
    assert!(write("f").starts_with("stale: f exists and was not read"), "{}", write("f"));
    assert!(write("g").starts_with("replaced g"), "{}", write("g"));
}

/// `AgentCTL`, row 3A-10: its patch took the first match without a word, and knew nothing of CRLF.
#[test]
fn agentctl_3a_10_only_one_place_may_be_meant_whatever_the_line_endings() {
    check_refused(
        &[("f", "x\ny\nx\ny\n")],
        "*** Update File: f\n-x\n+z\n y\n",
        &["could be at 2 places: at lines 1, 3"],
    );
    check(
        &[("f", "a\r\nb\r\nc\r\n")],
        "*** Update File: f\n a\n-b\n+B\n c\n",
        &[("f", Some("a\r\nB\r\nc\r\n"))],
    );
}

/// `AgentCTL`, row 3A-11: its batch of writes left directories and undo entries behind, and wrote empty files where reading had failed.
#[test]
fn agentctl_3a_11_a_batch_that_fails_leaves_nothing_behind() {
    for refused in [&["write moved"][..], &["remove z"]] {
        let workspace = five(refused);
        let before = tree(&workspace);
        assert_eq!(call(&workspace, FIVE).outcome, Outcome::Error);
        assert_eq!(tree(&workspace), before);
    }
}

/// Hector, row 3B-13: its patch checked the lines around a change only on request, and no caller requested it.
#[test]
fn hector_3b_13_context_is_always_validated() {
    for patch in [
        "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n two\n-three\n+3\n FOUR\n",
        "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n TWO\n-three\n+3\n four\n",
        "*** Update File: f\n two\n-three\n+3\n FOUR\n",
        "*** Update File: f\n@@ TWO\n-three\n+3\n",
    ] {
        check_refused(&[("f", NUMBERS)], patch, &["does not apply"]);
    }
}

#[test]
fn hunk_with_a_missing_newline_matches_only_at_the_end() {
    let workspace = Workspace::new(&[("f", "y\nx\n\n\n\n\n\n")]);
    let patch = "--- a/f\n+++ b/f\n@@ -4,3 +4,4 @@\n \n \n \n+a\n\\ No newline at end of file\n";
    let done = call(&workspace, patch);
    assert_eq!(done.outcome, Outcome::Ok, "{}", done.output.to_text());
    assert_eq!(workspace.read("f"), b"y\nx\n\n\n\n\n\na");
}

#[test]
fn invalid_byte_is_kept_or_the_patch_is_refused() {
    let workspace = Workspace::new(&[]);
    let content = b"caf\xc3\xa9 na\xc3\xafve\nbroken \xff here\nend\n";
    workspace.write("f", content);
    let kept = call(&workspace, "*** Update File: f\n broken \u{fffd} here\n-end\n+END\n");
    assert_eq!(kept.outcome, Outcome::Ok, "{}", kept.output.to_text());
    assert_eq!(workspace.read("f"), b"caf\xc3\xa9 na\xc3\xafve\nbroken \xff here\nEND\n");
    let lost =
        call(&workspace, "*** Update File: f\n-broken \u{fffd} here\n+still \u{fffd} here\n END\n");
    assert!(
        lost.output.to_text().contains("would lose bytes: line 2"),
        "{}",
        lost.output.to_text()
    );
}

/// Lines of a file and of its next version, each with its own ending.
fn versions() -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
    let line = prop_oneof![3 => "[abc]", 2 => "[ab]{1,2} {0,2}[cé日]?", 1 => Just(String::new())];
    let lines = proptest::collection::vec(line.clone(), 0..25);
    let edits = proptest::collection::vec((any::<prop::sample::Index>(), 0usize..3, line), 1..5);
    (lines, edits).prop_map(|(before, edits)| {
        let mut after = before.clone();
        for (at, kind, line) in edits {
            let at = at.index(after.len() + 1);
            match kind {
                0 => after.insert(at, line),
                1 if at < after.len() => drop(after.remove(at)),
                _ if at < after.len() => after[at] = line,
                _ => after.push(line),
            }
        }
        (before, after)
    })
}

/// Joins lines with an ending; the last line gets it only if `closed`.
fn joined(lines: &[String], ending: &str, closed: bool) -> String {
    let mut text = lines.join(ending);
    if closed && !lines.is_empty() {
        text.push_str(ending);
    }
    text
}

/// Returns the bytes of a text in an encoding with this number; some encodings cannot be detected, which does not matter here.
fn encoded(text: &str, encoding: usize) -> Vec<u8> {
    let marked = || format!("\u{feff}{text}");
    match encoding {
        0 => text.as_bytes().to_vec(),
        1 => marked().into_bytes(),
        2 => marked().encode_utf16().flat_map(u16::to_le_bytes).collect(),
        3 => marked().encode_utf16().flat_map(u16::to_be_bytes).collect(),
        _ => encoding_rs::SHIFT_JIS.encode(&text.replace('é', "ソ")).0.into_owned(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    /// A diff that our tools show applies as a patch, and gives the new file exactly.
    #[test]
    fn shown_diff_applies_as_a_patch(
        (before, after) in versions(),
        crlf in any::<bool>(),
        (closed, closed_after) in any::<(bool, bool)>(),
        encoding in 0usize..5,
        extra in 0usize..4,
    ) {
        let ending = if crlf { "\r\n" } else { "\n" };
        let beginning = "これは日本語のテキストです。表示はソースにあります。";
        let text = |lines: &[String], closed| {
            let lines: Vec<String> = [beginning.to_owned()].iter().chain(lines).cloned().collect();
            joined(&lines, ending, closed)
        };
        let (old, new) = (text(&before, closed), text(&after, closed_after));
        // The line ending of a file with a single line is ambiguous.
        prop_assume!(!crlf || old.contains('\n'));
        let (old, new) = (encoded(&old, encoding), encoded(&new, encoding));
        let (Ok(old), Ok(new)) = (Document::parse(old), Document::parse(new)) else {
            return Err(TestCaseError::fail("text"));
        };
        prop_assume!(old.encoding() == new.encoding());
        let changes = diff::unified_diff(&old.to_text(), &new.to_text(), Cutter::PLAIN);
        prop_assume!(!changes.text.is_empty() && !changes.text.contains('␍'));
        let patch = format!("--- a/f\n+++ b/f\n{}", changes.text);
        let parsed = parse(&patch);
        prop_assert!(parsed.is_ok(), "{parsed:?}\n{patch}");
        let parsed = parsed.unwrap();
        let [FilePatch { action: Action::Change { hunks, .. }, .. }] = &parsed[..] else {
            return Err(TestCaseError::fail("one file"));
        };
        let applied = apply(old.text(), hunks, usize::MAX);
        prop_assert!(applied.places.iter().all(Result::is_ok), "{:?}\n{patch}", applied.places);
        let spliced = old.splice(&applied.replacements).unwrap();
        prop_assert_eq!(&spliced, new.bytes(), "{}", patch);
        // Lines above that the patch does not know shift the place, and nothing else; if the lines of a hunk are at several places,
        // its header may name another one.
        let above = "y\n".repeat(extra).replace('\n', ending);
        let more = [above.as_bytes(), old.text()].concat();
        let again = apply(&more, hunks, usize::MAX);
        let more_text = String::from_utf8_lossy(&more).into_owned();
        let more_lines: Vec<&str> = more_text.lines().collect();
        let is_unique = |hunk: &Hunk| {
            let wanted: Vec<&str> = hunk.old_lines().map(|line| line.text.as_str()).collect();
            let fits = |lines: &&[&str]| **lines == wanted[..];
            !wanted.is_empty() && more_lines.windows(wanted.len()).filter(fits).count() == 1
        };
        let all_found = again.places.iter().all(Result::is_ok);
        if all_found && encoding < 2 && hunks.iter().all(is_unique) {
            let more = Document::parse(more).unwrap();
            let moved = more.splice(&again.replacements).unwrap();
            prop_assert_eq!(moved, [above.as_bytes(), new.text()].concat());
        }
    }

    /// Bytes outside of the changed lines stay the same, however a hunk matches.
    #[test]
    fn kept_lines_keep_their_bytes(
        lines in proptest::collection::vec(("[abc]{1,3}", "[ \t]{0,2}", any::<bool>()), 3..12),
        at in any::<prop::sample::Index>(),
    ) {
        let raw: Vec<String> = lines
            .iter()
            .map(|(word, blanks, crlf)| format!("{word}{blanks}{}", if *crlf { "\r\n" } else { "\n" }))
            .collect();
        let at = 1 + at.index(lines.len() - 2);
        // As a model would write it: without trailing blanks and carriage returns.
        let word = |at: usize| lines[at].0.as_str();
        let patch = format!(
            "--- a/f\n+++ b/f\n@@ -{at} +{at} @@\n {}\n-{}\n+new\n {}\n",
            word(at - 1), word(at), word(at + 1)
        );
        let text = raw.concat();
        let parsed = parse(&patch).unwrap();
        let Action::Change { hunks, .. } = &parsed[0].action else { panic!() };
        let applied = apply(text.as_bytes(), hunks, usize::MAX);
        let Some(Ok(place)) = applied.places.first() else { return Ok(()) };
        let changed = place.start + 1;
        let new = Document::parse(text.into_bytes()).unwrap().splice(&applied.replacements).unwrap();
        let ending = if lines[changed].2 { "\r\n" } else { "\n" };
        let mut expected = raw.clone();
        expected[changed] = format!("new{ending}");
        prop_assert_eq!(String::from_utf8(new).unwrap(), expected.concat());
    }

    /// Any text sent as a patch gets an output; the parser never panics.
    #[test]
    fn anything_can_be_parsed(lines in proptest::collection::vec(prop_oneof![
        "[ +-]?[ab@*\\\\-]{0,4}",
        Just("--- a/f".to_owned()), Just("+++ b/f".to_owned()), Just("@@ -1,2 +1 @@".to_owned()),
        Just("@@ x".to_owned()), Just("*** Update File: f".to_owned()), Just("*** Add File: g".to_owned()),
        Just("*** End of File".to_owned()), Just("*** Begin Patch".to_owned()), Just("*** End Patch".to_owned()),
        Just("*** Move to: h".to_owned()), Just("\\ No newline at end of file".to_owned()),
        Just("diff --git a/f b/f".to_owned()), Just("rename from f".to_owned()), Just("-- ".to_owned()),
    ], 0..14)) {
        if let Ok(files) = parse(&lines.join("\n")) {
            for FilePatch { action, .. } in &files {
                if let Action::Change { hunks, .. } | Action::Delete(hunks) = action {
                    let text = "a\nb\n@@\n\na b\n";
                    let applied = apply(text.as_bytes(), hunks, usize::MAX);
                    let document = Document::parse(text.into()).unwrap();
                    prop_assert!(document.splice(&applied.replacements).is_ok());
                }
            }
        }
    }
}

#[test]
fn metadata_is_there_for_programs() {
    let workspace = Workspace::new(&[("f", "a\n")]);
    let result = call(&workspace, "*** Update File: f\n-a\n+b\n");
    let keys: Vec<&Value> =
        ["files", "hunks", "strategy"].map(|key| &result.output.metadata[key]).into();
    assert_eq!(keys, [&json!([{"path": "f", "action": "changed"}]), &json!(1), &json!("exact")]);
}

fn repeated(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().concat()
}

/// Returns a patch of hunks that replace one line each.
fn many_hunks(count: usize, old: impl Fn(usize) -> String) -> String {
    let hunk = |at: usize| format!("@@ -{0} +{0} @@\n-{1}\n+new {at}\n", at + 1, old(at));
    format!("--- a/f\n+++ b/f\n{}", repeated(count, hunk))
}

#[test]
fn thousands_of_wrong_hunks_are_bounded() {
    let text = repeated(2_000, |at| format!("line {at} of the file\n"));
    let files = [("f", text.as_str())];
    let patch = many_hunks(10_000, |at| format!("line {at} of another file"));
    let output = check_refused(&files, &patch, &["f, hunk 1 of 10000", "f, hunk 100 of 10000"]);
    assert!(output.len() < 30_000, "{} bytes", output.len());
    assert!(output.ends_with("9900 more hunks were not tried; correct these first"), "{output}");
    assert_eq!(output.matches("the closest place is").count(), 10);
    let of_files = |count| {
        repeated(count, |at| format!("--- a/f{at}\n+++ b/f{at}\n@@ -1 +1 @@\n-one\n+two\n"))
    };
    let output = check_refused(&files, &of_files(150), &["f0", "50 more hunks were not tried"]);
    assert!(output.len() < 50_000, "{} bytes", output.len());
    check_refused(&files, &of_files(10_000), &["about 10000 files; it must be about at most 1000"]);
}

#[test]
fn thousands_of_hunks_are_found() {
    let text = repeated(20_000, |at| format!("line {at} of the file\n"));
    let patch = many_hunks(10_000, |at| format!("line  {at} of the file"));
    let output = check(&[("f", &text)], &patch, &[]);
    assert!(output.starts_with("patched 1 file, 10000 hunks"), "{}", &output[..100]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a look at what a tool left alone")]
fn patch_without_effect_changes_nothing() {
    let workspace = Workspace::new(&[("f", "a\nb\n"), ("g", "a\n")]);
    let written = || std::fs::metadata(workspace.path("f")).unwrap().modified().unwrap();
    let before = written();
    for patch in [
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+a\n b\n",
        "*** Begin Patch\n*** Update File: f\n@@\n-a\n+x\n*** Update File: f\n@@\n-x\n+a\n*** End Patch",
    ] {
        let result = call(&workspace, patch);
        let text = result.output.to_text();
        assert_eq!(
            (result.outcome, text.as_str()),
            (Outcome::Ok, "unchanged: all is as the patch wants it already")
        );
        assert_eq!(result.output.metadata["files"], json!([]));
    }
    assert_eq!(written(), before);
    assert!(workspace.text("undo", json!({})).contains("there is nothing to undo"));
    let patch = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+a\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+c\n";
    let text = call(&workspace, patch).output.to_text();
    assert!(text.starts_with("patched 1 file, 2 hunks\nchanged g"), "{text}");
    assert!(text.contains("unchanged f"), "{text}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "makes a link, as no tool can")]
fn hard_links_keep_the_old_content() {
    let workspace = Workspace::new(&[("f", "a\n")]);
    std::fs::hard_link(workspace.path("f"), workspace.path("other")).unwrap();
    let text = call(&workspace, "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n").output.to_text();
    assert!(
        text.contains("the file had another name (a hard link), which keeps the old content"),
        "{text}"
    );
    assert_eq!((workspace.read("f"), workspace.read("other")), (b"b\n".to_vec(), b"a\n".to_vec()));
}
