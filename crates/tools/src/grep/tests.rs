//! Tests of `grep` through the whole engine, on real files.

use serde_json::{Value, json};
use windlass_core::{Outcome, Overrides};

use crate::testing::{InterceptingHost, Workspace};

const CODE: &[(&str, &str)] = &[
    ("README.md", "# Alpha\n\nalpha beta\nfn in prose\n"),
    ("src/lib.rs", "fn alpha() {}\n// one\n// two\nfn beta() {}\n// three\n"),
    ("src/deep/mod.rs", "pub fn alpha_two() {\n    beta(\"a.b\");\n}\n"),
    ("web/app.ts", "function alpha() {}\r\nlet beta = 1;\r\n"),
    (".hidden", "alpha in a dotfile\n"),
];

fn check(files: &[(&str, &str)], input: Value, expected: &str) {
    let shown = input.to_string();
    assert_eq!(Workspace::new(files).text("grep", input), expected.trim_matches('\n'), "{shown}");
}

#[test]
fn every_parameter() {
    for (input, expected) in [
        (
            json!({"pattern": "alpha"}),
            ".hidden:1:alpha in a dotfile\nREADME.md:3:alpha beta\nsrc/deep/mod.rs:1:pub fn alpha_two() {\n\
             src/lib.rs:1:fn alpha() {}\nweb/app.ts:1:function alpha() {}",
        ),
        (json!({"pattern": "beta", "path": "src/deep"}), "src/deep/mod.rs:2:    beta(\"a.b\");"),
        (json!({"pattern": "beta", "path": "src/lib.rs"}), "src/lib.rs:4:fn beta() {}"),
        (json!({"pattern": "beta", "path": "./src/../web"}), "web/app.ts:2:let beta = 1;"),
        (
            json!({"pattern": "fn \\w+\\(", "glob": "*.rs", "mode": "files"}),
            "src/deep/mod.rs\nsrc/lib.rs",
        ),
        (
            json!({"pattern": "alpha", "glob": "src/**/*.rs", "mode": "files"}),
            "src/deep/mod.rs\nsrc/lib.rs",
        ),
        (
            json!({"pattern": "alpha", "glob": "src/*.rs", "path": "src", "mode": "files"}),
            "src/lib.rs",
        ),
        (
            json!({"pattern": "alpha", "glob": "deep/*.rs", "path": "src", "mode": "files"}),
            "src/deep/mod.rs",
        ),
        (
            json!({"pattern": "alpha", "glob": "*.{md,ts}", "mode": "files"}),
            "README.md\nweb/app.ts",
        ),
        (
            json!({"pattern": "alpha", "glob": "!*.rs", "mode": "files"}),
            ".hidden\nREADME.md\nweb/app.ts",
        ),
        (
            json!({"pattern": "alpha", "type": "rust", "mode": "files"}),
            "src/deep/mod.rs\nsrc/lib.rs",
        ),
        (
            json!({"pattern": "alpha", "type": "rust", "path": "README.md"}),
            "README.md:3:alpha beta",
        ),
        (json!({"pattern": "a", "type": "ts", "mode": "count"}), "web/app.ts:2"),
        (
            json!({"pattern": "ALPHA", "ignore_case": true, "path": "README.md"}),
            "README.md:1:# Alpha\nREADME.md:3:alpha beta",
        ),
        (json!({"pattern": "a.b", "literal": true}), "src/deep/mod.rs:2:    beta(\"a.b\");"),
        (json!({"pattern": "fn alpha", "word": true, "mode": "files"}), "src/lib.rs"),
        (
            json!({"pattern": "one\\n.*two", "multiline": true}),
            "src/lib.rs:2:// one\nsrc/lib.rs:3:// two",
        ),
        (
            json!({"pattern": "beta", "path": "src/lib.rs", "before": 1}),
            "src/lib.rs-3-// two\nsrc/lib.rs:4:fn beta() {}",
        ),
        (
            json!({"pattern": "beta", "path": "src/lib.rs", "after": 1}),
            "src/lib.rs:4:fn beta() {}\nsrc/lib.rs-5-// three",
        ),
        (
            json!({"pattern": "^fn", "path": "src/lib.rs", "after": 1}),
            "src/lib.rs:1:fn alpha() {}\nsrc/lib.rs-2-// one\n--\nsrc/lib.rs:4:fn beta() {}\nsrc/lib.rs-5-// three",
        ),
        (
            json!({"pattern": "^fn", "path": "src/lib.rs", "context": 1}),
            "src/lib.rs:1:fn alpha() {}\nsrc/lib.rs-2-// one\nsrc/lib.rs-3-// two\nsrc/lib.rs:4:fn beta() {}\nsrc/lib.rs-5-// three",
        ),
        (
            json!({"pattern": "^function", "context": "1"}),
            "web/app.ts:1:function alpha() {}\nweb/app.ts-2-let beta = 1;",
        ),
        (json!({"pattern": "\\{\\}$", "mode": "files"}), "src/lib.rs\nweb/app.ts"),
        (json!({"pattern": "\\r$", "mode": "count"}), "web/app.ts:2"),
    ] {
        check(CODE, input, expected);
    }
}

#[test]
fn metadata_matches_the_text() {
    let workspace = Workspace::new(CODE);
    for (input, matches, files, truncated) in [
        (json!({"pattern": "alpha"}), 5, 5, false),
        (json!({"pattern": "alpha|beta", "path": "src"}), 4, 2, false),
        (json!({"pattern": "alpha|beta", "path": "src", "limit": 4}), 4, 2, false),
        (json!({"pattern": "alpha|beta", "path": "src", "limit": 3}), 3, 2, true),
        (json!({"pattern": "alpha|beta", "path": "src", "limit": 2}), 2, 1, true),
        (json!({"pattern": "alpha|beta", "path": "src", "mode": "count"}), 4, 2, false),
        (json!({"pattern": "alpha|beta", "path": "src", "mode": "files"}), 2, 2, false),
        (json!({"pattern": "alpha|beta", "path": "src", "mode": "files", "limit": 1}), 1, 1, true),
        (json!({"pattern": "nowhere"}), 0, 0, false),
    ] {
        let metadata = workspace.call("grep", input.clone()).output.metadata;
        let facts = [&metadata["matches"], &metadata["files"], &metadata["truncated"]];
        assert_eq!(facts, [&json!(matches), &json!(files), &json!(truncated)], "{input}");
    }
}

#[test]
fn no_match_names_the_searched_files() {
    let hint = "; ignored files are searched with `all:true`";
    for (input, expected) in [
        (json!({"pattern": "nowhere"}), format!("no match for `nowhere` in . (5 files){hint}")),
        (
            json!({"pattern": "nowhere", "all": true}),
            "no match for `nowhere` in . (5 files)".into(),
        ),
        (
            json!({"pattern": "x", "glob": "*.zig"}),
            format!("no file in . fits `glob` and `type`{hint}"),
        ),
    ] {
        let result = Workspace::new(CODE).call("grep", input);
        assert_eq!(result.outcome, Outcome::Error);
        assert_eq!(result.output.to_text(), expected);
    }
    let result = Workspace::new(&[]).call("grep", json!({"pattern": "x", "all": true}));
    assert_eq!(result.output.to_text(), "there is no file to search in .");
}

#[test]
fn invalid_arguments_are_refused() {
    let workspace = Workspace::new(CODE);
    for (input, expected) in [
        (json!({"pattern": ""}), "the pattern is empty"),
        (json!({"pattern": "x", "limit": 0}), "limit is 0; it must be between 1 and 10000"),
        (
            json!({"pattern": "x", "limit": 10_001}),
            "limit is 10001; it must be between 1 and 10000",
        ),
        (json!({"pattern": "x", "context": 1001}), "context is 1001"),
        (json!({"pattern": "x", "mode": "lines"}), "it must be one of: content, files, count"),
        (json!({"pattern": "x", "type": "rusty"}), "did you mean `rust`?"),
        (json!({"pattern": "x", "glob": "["}), "is not a pattern for file names"),
        (json!({"pattern": "x", "ignorecase": true}), "did you mean `ignore_case`?"),
        (json!({"query": "x"}), "`pattern` is missing\ndid you mean `pattern`?"),
        (json!({"pattern": "a\nb"}), "`multiline:true` searches across lines"),
        (json!({"pattern": "a\\nb", "word": true}), "`multiline:true` searches across lines"),
        (json!({"pattern": "a\0b"}), "NUL"),
        (json!({"pattern": "a\\x00b"}), "NUL"),
        (json!({"pattern": "a)|(b"}), "unopened group"),
        (json!({"pattern": "(?:\\w{1000}){1000}"}), "size limit"),
        (json!({}), "`pattern` is missing"),
    ] {
        let result = workspace.call("grep", input.clone());
        assert_eq!(result.code, Some("invalid_args"), "{input}");
        let text = result.output.to_text();
        assert!(text.contains(expected), "{input}: {text}");
    }
    let missing = workspace.call("grep", json!({"pattern": "x", "path": "src/libb.rs"}));
    assert_eq!(missing.outcome, Outcome::Error);
    assert!(missing.output.to_text().contains("no such file"), "{}", missing.output.to_text());
}

#[test]
fn pattern_as_a_path_is_explained() {
    let text = Workspace::new(CODE).text("grep", json!({"pattern": "x", "path": "src/**/*.rs"}));
    assert!(text.contains("no such file") && text.contains("belongs in `glob`"), "{text}");
}

#[test]
fn a_line_without_end_is_a_note() {
    let line = "x".repeat((64 << 20) + 1);
    let files = [("a", "alpha\n"), ("endless", line.as_str())];
    check(
        &files,
        json!({"pattern": "alpha"}),
        "a:1:alpha\n[left out: endless: it has a line, or with `multiline` is itself, longer than 64 MiB]",
    );
}

#[test]
fn a_broken_pattern_is_shown_with_its_place() {
    let text = Workspace::new(CODE).text("grep", json!({"pattern": "foo(bar"}));
    assert!(text.contains("foo(bar\n       ^"), "{text}");
    assert!(text.contains("unclosed group"), "{text}");
    assert!(text.contains("`literal:true`"), "{text}");
}

#[test]
fn h10_3a_17_a_pattern_is_never_an_option() {
    let files = [("a", "-e x --pre=x [ --files -- -\n")];
    for pattern in ["-e", "--pre=x", "--files", "--", "-", "-e x --pre=x"] {
        check(&files, json!({"pattern": pattern}), "a:1:-e x --pre=x [ --files -- -");
    }
    check(&files, json!({"pattern": "[", "literal": true}), "a:1:-e x --pre=x [ --files -- -");
}

#[test]
fn agentctl_3a_17_a_bad_pattern_is_no_match() {
    let result = Workspace::new(CODE).call("grep", json!({"pattern": "["}));
    assert_eq!(result.code, Some("invalid_args"));
    assert!(result.output.to_text().contains("unclosed character class"));
}

#[test]
fn h15_secrets_are_not_searched_and_outside_asks() {
    let files =
        [(".env", "TOKEN=alpha\n"), ("id_rsa", "alpha\n"), (".ssh/x", "alpha\n"), ("b", "alpha\n")];
    check(&files, json!({"pattern": "alpha", "all": true}), "b:1:alpha");
    let workspace = Workspace::new(&files);
    for path in [".env", "/etc", "../"] {
        let result = workspace.call("grep", json!({"pattern": "root", "path": path}));
        assert_eq!(result.outcome, Outcome::Denied, "{path}: {}", result.output.to_text());
    }
}

#[test]
fn h37_g28_what_cannot_be_read_is_a_note() {
    let files = [("a", "alpha\n"), ("locked", "alpha\n"), ("shut/b", "alpha\n"), ("z", "alpha\n")];
    let workspace =
        Workspace::on(&files, |local| InterceptingHost::locked(local, &["locked", "shut"]));
    let result = workspace.call("grep", json!({"pattern": "alpha"}));
    assert_eq!(result.outcome, Outcome::Ok);
    assert_eq!(
        result.output.to_text(),
        "a:1:alpha\nz:1:alpha\n\
         [left out: locked: the file system's permissions do not allow it]\n\
         [left out: shut: the file system's permissions do not allow it]"
    );
    assert_eq!(result.output.metadata["matches"], 2);
}

#[test]
fn g28_the_limit_is_for_all_files_and_always_the_same() {
    let names: Vec<String> = (0..300).map(|at| format!("{:02}/{:02}.txt", at % 17, at)).collect();
    let files: Vec<(&str, &str)> =
        names.iter().map(|name| (name.as_str(), "alpha\nalpha\nalpha\n")).collect();
    let workspace = Workspace::new(&files);
    let whole = workspace.text("grep", json!({"pattern": "alpha", "limit": 10_000}));
    assert_eq!(whole.lines().count(), 900);
    for limit in [1, 2, 3, 4, 100, 899] {
        let text = workspace.text("grep", json!({"pattern": "alpha", "limit": limit}));
        let first: Vec<&str> = whole.lines().take(limit).collect();
        assert_eq!(text.lines().take(limit).collect::<Vec<_>>(), first, "limit {limit}");
        assert_eq!(text.lines().count(), limit + 1, "limit {limit}");
        let word = if limit == 1 { "match" } else { "matches" };
        let expected = format!(
            "[the first {limit} {word}; there are more: narrow the pattern, `path` or `glob`, or raise `limit` (now {limit})]"
        );
        assert_eq!(text.lines().last(), Some(expected.as_str()));
    }
}

#[test]
fn g28_long_lines_are_cut_around_the_match() {
    let line = format!("{}alpha{}\n", "ä".repeat(5000), "ö".repeat(5000));
    let text = Workspace::new(&[("min.js", &line)]).text("grep", json!({"pattern": "alpha"}));
    assert_eq!(text, format!("min.js:1:…{}alpha{}…", "ä".repeat(100), "ö".repeat(295)));
}

#[test]
fn g28_names_of_any_kind() {
    let files = [
        ("a:1:b", "alpha\n"),
        ("a-1-b", "alpha\n"),
        (r"$'caf\xe9.txt'", "alpha\n"),
        (r"$'a\nb'", "alpha\n"),
        ("-rf", "alpha\n"),
    ];
    check(
        &files,
        json!({"pattern": "alpha"}),
        "-rf:1:alpha\n$'a\\nb':1:alpha\na-1-b:1:alpha\na:1:b:1:alpha\n$'caf\\xe9.txt':1:alpha",
    );
    check(
        &files,
        json!({"pattern": "alpha", "path": r"$'caf\xe9.txt'"}),
        r"$'caf\xe9.txt':1:alpha",
    );
    check(
        &files,
        json!({"pattern": "alpha", "glob": "caf?.txt", "mode": "files"}),
        r"$'caf\xe9.txt'",
    );
}

#[test]
fn hector_3b_14_g28_binary_files_are_left_out() {
    let big = format!("alpha\n{}\0alpha\n", "x\n".repeat(100_000));
    let files = [("a.bin", "alpha\0alpha\n"), ("b.txt", "alpha\n"), ("big", big.as_str())];
    check(
        &files,
        json!({"pattern": "alpha"}),
        "b.txt:1:alpha\nbig:1:alpha\n[big: not searched beyond the NUL at byte 200006: it is binary from there]",
    );
    check(
        &files,
        json!({"pattern": "alpha", "path": "a.bin", "all": true}),
        "no match for `alpha` in a.bin (1 file)\n[left out: 1 binary file]",
    );
}

#[test]
fn hector_3b_14_ignored_files_and_repositories_are_left_out() {
    let files = [
        (".gitignore", "target\n*.log\n"),
        (".git/config", "alpha\n"),
        ("target/x.rs", "alpha\n"),
        ("a.log", "alpha\n"),
        ("src/b.log", "alpha\n"),
        ("src/a.rs", "alpha\n"),
    ];
    check(&files, json!({"pattern": "alpha"}), "src/a.rs:1:alpha");
    check(
        &files,
        json!({"pattern": "alpha", "all": true, "mode": "files"}),
        "a.log\nsrc/a.rs\nsrc/b.log\ntarget/x.rs",
    );
}

#[test]
fn all_does_not_override_aiexclude() {
    let files = [(".aiexclude", "private\n"), ("private/a", "alpha\n"), ("b", "alpha\n")];
    check(&files, json!({"pattern": "alpha", "all": true}), "b:1:alpha");
}

#[test]
fn hector_3b_13_what_is_left_out_has_its_documented_default() {
    let workspace = Workspace::new(CODE);
    let explicit = json!({
        "pattern": "alpha", "path": ".", "mode": "content", "ignore_case": false, "literal": false, "multiline": false,
        "word": false, "before": 0, "after": 0, "context": 0, "all": false, "limit": 200,
    });
    let short = workspace.text("grep", json!({"pattern": "alpha"}));
    assert_eq!(workspace.text("grep", explicit), short);
    assert!(short.contains("src/deep/mod.rs"), "it goes into directories: {short}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "lays out what no tool can make")]
fn errata_3c_21_links_and_fifos_are_left_alone() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "alpha\n").unwrap();
    let workspace = Workspace::new(&[("a", "alpha\n")]);
    std::os::unix::fs::symlink(outside.path(), workspace.path("out")).unwrap();
    std::os::unix::fs::symlink("a", workspace.path("link")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(workspace.path("fifo")).status().unwrap();
    assert!(made.success());
    assert_eq!(workspace.text("grep", json!({"pattern": "alpha", "all": true})), "a:1:alpha");
    assert_eq!(workspace.text("grep", json!({"pattern": "alpha", "path": "link"})), "a:1:alpha");
    let fifo = workspace.call("grep", json!({"pattern": "alpha", "path": "fifo"}));
    assert!(fifo.outcome.is_error(), "{}", fifo.output.to_text());
}

#[test]
fn utf16_and_marks_are_understood() {
    let workspace = Workspace::new(&[]);
    let utf16 = |bom: &[u8], unit: fn(u16) -> [u8; 2]| {
        let text = "x\nälpha\n".encode_utf16().flat_map(unit);
        bom.iter().copied().chain(text).collect::<Vec<u8>>()
    };
    workspace.write("le", utf16(b"\xff\xfe", u16::to_le_bytes));
    workspace.write("be", utf16(b"\xfe\xff", u16::to_be_bytes));
    workspace.write("mark", "\u{feff}älpha\n");
    assert_eq!(
        workspace.text("grep", json!({"pattern": "^älpha$"})),
        "be:2:älpha\nle:2:älpha\nmark:1:älpha"
    );
}

#[test]
fn invalid_bytes_are_shown_as_replacement_characters() {
    let workspace = Workspace::new(&[]);
    workspace.write("latin", b"caf\xe9 alpha\r\n");
    assert_eq!(workspace.text("grep", json!({"pattern": "alpha"})), "latin:1:caf\u{fffd} alpha");
}

#[test]
fn large_files_are_searched_like_small_ones() {
    let mut text = String::new();
    for line in 1..=50_000 {
        text.push_str(if line % 10_000 == 7 { "alpha here\n" } else { "nothing to see\n" });
    }
    let workspace = Workspace::new(&[("big", &text)]);
    assert_eq!(
        workspace.text("grep", json!({"pattern": "alpha", "after": 1, "limit": 2})),
        "big:7:alpha here\nbig-8-nothing to see\n--\nbig:10007:alpha here\nbig-10008-nothing to see\n\
         [the first 2 matches; there are more: narrow the pattern, `path` or `glob`, or raise `limit` (now 2)]"
    );
    assert_eq!(workspace.text("grep", json!({"pattern": "alpha", "mode": "count"})), "big:5");
    assert_eq!(
        workspace.text("grep", json!({"pattern": "see\\nalpha", "multiline": true, "limit": 3})),
        "big:6:nothing to see\nbig:7:alpha here\nbig:10006:nothing to see\n\
         [the first 3 matches; there are more: narrow the pattern, `path` or `glob`, or raise `limit` (now 3)]"
    );
}

#[test]
fn text_anchors_match_at_line_ends() {
    let files = [("a", "one\ntwo\n")];
    check(&files, json!({"pattern": "\\Atwo\\z"}), "a:2:two");
    check(&files, json!({"pattern": "^"}), "a:1:one\na:2:two");
    check(&files, json!({"pattern": "x*"}), "a:1:one\na:2:two");
}

#[test]
fn a_kept_output_is_searched() {
    let line = "x".repeat(90);
    let lines: Vec<String> = (0..1000).map(|at| format!("{at} alpha {line}")).collect();
    let text = lines.join("\n");
    let workspace = Workspace::new(&[("a", &text)]);
    let cut = workspace.call("grep", json!({"pattern": "alpha", "limit": 10_000}));
    let output = cut.output.metadata["output"].as_str().unwrap().to_owned();
    assert_eq!(
        workspace.text("grep", json!({"pattern": ":777 alpha", "path": output})),
        format!("{output}:778:a:778:777 alpha {line}")
    );
    assert_eq!(
        workspace.text("grep", json!({"pattern": "alpha", "path": output, "mode": "count"})),
        format!("{output}:1000")
    );
    let result = workspace.call("grep", json!({"pattern": "nowhere", "path": output}));
    assert_eq!(result.output.to_text(), format!("no match for `nowhere` in {output}"));
    let result = workspace.call("grep", json!({"pattern": "x", "path": "output:nowhere"}));
    assert_eq!(result.outcome, Outcome::Error);
    assert!(result.output.to_text().contains("no kept output"), "{}", result.output.to_text());
}

#[test]
fn paths_are_relative_to_the_directory_of_the_call() {
    let workspace = Workspace::new(CODE);
    let inside = |input| {
        let overrides = Overrides { work_dir: Some("src".into()), ..Overrides::default() };
        workspace.call_with("grep", input, overrides).output.to_text()
    };
    assert_eq!(inside(json!({"pattern": "beta", "mode": "files"})), "deep/mod.rs\nlib.rs");
    let elsewhere = inside(json!({"pattern": "beta", "mode": "files", "path": "../web"}));
    assert!(elsewhere.starts_with('/') && elsewhere.ends_with("/web/app.ts"), "{elsewhere}");
}

#[test]
fn a_stopped_search_reads_no_further() {
    use std::io::Seek as _;
    use std::sync::{Arc, Mutex, OnceLock};

    type Watched = (OnceLock<Arc<windlass_core::Session>>, Mutex<Option<std::fs::File>>);
    let watched: Arc<Watched> = Arc::default();
    let watching = watched.clone();
    let big = "nothing to see\n".repeat(1 << 20);
    let workspace = Workspace::on(&[("big", &big)], move |local| {
        InterceptingHost::observing_opens(local, move |_, opened| {
            // The copy shares its position, so it tells afterwards how far the search read.
            *watching.1.lock().unwrap() = Some(opened.file.try_clone().unwrap());
            watching.0.get().unwrap().cancel();
        })
    });
    assert!(watched.0.set(workspace.session().clone()).is_ok());
    let result = workspace.call("grep", json!({"pattern": "alpha"}));
    assert_eq!(result.outcome, Outcome::Cancelled);
    // Waits for the thread of the search.
    drop(workspace);
    let mut file = watched.1.lock().unwrap().take().unwrap();
    assert!(file.stream_position().unwrap() < big.len() as u64 / 2);
}
