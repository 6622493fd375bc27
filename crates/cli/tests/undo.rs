//! `windlass undo` and `windlass proposals`, from the outside.

use std::path::Path;

use serde_json::json;

use crate::support::Home;

#[test]
fn repeated_undo_walks_back_and_can_be_undone() {
    let home = Home::new();
    let read = || std::fs::read_to_string(home.workspace().join("a.txt")).ok();
    let write = json!({"path": "a.txt", "content": "one\n"}).to_string();
    let edit = json!({"path": "a.txt", "old_string": "one", "new_string": "two"}).to_string();
    assert_eq!(home.run(&["--mode", "auto", "call", "write", &write]).code, 0);
    assert_eq!(home.run(&["--mode", "auto", "call", "edit", &edit]).code, 0);
    assert_eq!(home.run(&["undo", "--list", "--json"]).lines().len(), 2);
    assert_eq!(home.run(&["undo", "--dry-run"]).code, 0);
    assert_eq!(read().as_deref(), Some("two\n"));
    let undone = home.run(&["undo", "--json"]).lines().remove(0);
    assert_eq!((read().as_deref(), &undone["outcome"]), (Some("one\n"), &json!("ok")));
    let call = undone["call"].as_str().expect("a call").to_owned();
    assert_eq!(home.run(&["undo", "--call", &call]).code, 0);
    assert_eq!(read().as_deref(), Some("two\n"));
    assert_eq!(home.run(&["undo"]).code, 0);
    assert_eq!(home.run(&["undo"]).code, 0);
    assert_eq!(read(), None);
    assert_eq!(home.run(&["undo"]).code, 1, "there is nothing left");
    assert_eq!(home.run(&["log", "verify"]).code, 0);
}

#[test]
fn undo_refuses_files_that_were_changed_since() {
    let home = Home::with_workspace(&[("a.txt", "one\n")]);
    let edit = json!({"path": "a.txt", "old_string": "one", "new_string": "two"}).to_string();
    let session = ["--mode", "auto", "--session", "s"];
    assert_eq!(home.run(&[&session[..], &["call", "edit", &edit]].concat()).code, 0);
    std::fs::write(home.workspace().join("a.txt"), "by hand\n").expect("a file");
    let refused = home.run(&["undo", "--session", "s"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.stdout.contains("conflict") && refused.stdout.contains("by hand"),
        "{refused:?}"
    );
}

#[test]
fn unknown_ids_are_errors() {
    let home = Home::new();
    let write = json!({"path": "a.txt", "content": "one\n"}).to_string();
    let read = r#"{"path":"a.txt"}"#;
    for call in [["write", write.as_str()], ["read", read]] {
        let session = ["--mode", "auto", "--session", call[0], "call"];
        assert_eq!(home.run(&[&session[..], &call].concat()).code, 0);
    }
    for (arguments, code, words) in [
        (&["undo", "--session", "missing"][..], 2, "there is no session missing"),
        (&["undo", "--list", "--session", "missing"], 2, "there is no session missing"),
        (&["undo", "--session", "read"], 1, "there is nothing to undo"),
        (&["undo", "--list", "--session", "read"], 0, "nothing was changed here"),
        (&["undo", "--turn", "missing"], 1, "no change of the turn missing is known"),
        (&["undo", "--call", "missing"], 1, "no change of the call missing is known"),
    ] {
        let ran = home.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {ran:?}");
        assert!(format!("{}{}", ran.stdout, ran.stderr).contains(words), "{arguments:?}: {ran:?}");
    }
    assert_eq!(home.run(&["undo", "--session", "write"]).code, 0);
    assert!(!home.workspace().join("a.txt").exists());
}

#[test]
fn dropped_history_is_reported() {
    let home = Home::with_workspace(&[("small.toml", "undo_megabytes = 1\n")]);
    let config = home.workspace().join("small.toml");
    let small = ["--config", config.to_str().expect("UTF-8"), "--session", "s", "--mode", "auto"];
    let run = |arguments: &[&str]| home.run(&[&small[..], arguments].concat());
    assert!(!run(&["undo", "--list"]).stderr.contains("not kept any more"), "nothing is dropped");
    for seed in 1_u64..=4 {
        // What cannot be made smaller.
        let mut number = seed;
        let noise = std::iter::repeat_with(|| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed);
            format!("{:016x}", number ^ (number >> 29))
        });
        let content: String = noise.take(40_000).collect();
        let write = json!({"path": format!("{seed}.txt"), "content": content}).to_string();
        let input = home.workspace().join("input.json");
        std::fs::write(&input, write).expect("a file");
        let written = run(&["call", "write", &format!("@{}", input.display())]);
        assert_eq!(written.code, 0, "{written:?}");
    }
    let words = "older changes are not kept any more and cannot be undone";
    for arguments in [&["undo", "--list"][..], &["undo"], &["undo"]] {
        let ran = run(arguments);
        assert!(ran.stderr.contains(words), "{arguments:?}: {ran:?}");
    }
    assert!(home.workspace().join("1.txt").exists(), "what is not kept stays as it is");
}

#[test]
fn continued_session_knows_the_files_that_it_has_read() {
    let home = Home::with_workspace(&[("a.txt", "one\n")]);
    let write = json!({"path": "a.txt", "content": "two\n"}).to_string();
    let call = |session: &str, tool: &str, input: &str| {
        home.run(&["--mode", "auto", "--session", session, "call", tool, input])
    };
    assert_eq!(call("s", "read", r#"{"path":"a.txt"}"#).code, 0);
    assert_eq!(call("other", "write", &write).code, 1);
    assert_eq!(call("s", "write", &write).code, 0);
}

#[test]
fn proposals_are_listed_shown_applied_and_dropped() {
    let home = Home::with_workspace(&[("a.txt", "one two\n"), ("b.txt", "b\n")]);
    for (path, old) in [("a.txt", "two"), ("b.txt", "b")] {
        let edit = json!({"path": path, "old_string": old, "new_string": "2"}).to_string();
        let held = ["--mode", "auto", "--proposals", "--session", "p", "call", "edit", &edit];
        assert_eq!(home.run(&held).code, 0);
    }
    assert_eq!(home.run(&["proposals", "list", "--json"]).lines().len(), 2);
    let shown = home.run(&["proposals", "show", "a.txt"]).stdout;
    assert!(shown.contains("one [-two-]{+2+}"), "{shown}");
    assert_eq!(home.run(&["proposals", "drop", "b.txt"]).code, 0);
    assert_eq!(home.run(&["proposals", "apply"]).code, 0);
    let read = |name: &str| std::fs::read_to_string(home.workspace().join(name)).expect("a file");
    assert_eq!((read("a.txt").as_str(), read("b.txt").as_str()), ("one 2\n", "b\n"));
    assert_eq!(home.run(&["undo"]).code, 0);
    assert_eq!(read("a.txt"), "one two\n");
}

/// Returns every path of a workspace, with the content of files.
fn workspace_content(home: &Home) -> Vec<(String, Option<String>)> {
    fn add_directory(root: &Path, directory: &Path, found: &mut Vec<(String, Option<String>)>) {
        for entry in std::fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(root).expect("it is below").display().to_string();
            found.push((name, std::fs::read_to_string(&path).ok()));
            if path.is_dir() {
                add_directory(root, &path, found);
            }
        }
    }
    let mut found = Vec::new();
    add_directory(&home.workspace(), &home.workspace(), &mut found);
    found.sort();
    found
}

/// A commit renames a moved directory whole; proposals are about single paths.
#[test]
fn moved_directories_are_proposed_applied_dropped_and_undone() {
    let files = [("a/f", "1\n"), ("a/in/g", "2\n"), ("a/in/h", "3\n"), ("c/k", "4\n")];
    let (moved, in_moved) = (json!("1\n"), json!("2\n"));
    for (command, expected) in [
        ("mv a b", &[("b/f", &moved), ("b/in/g", &in_moved)][..]),
        ("mv a b; echo 9 > b/new; rm b/in/h", &[("b/f", &moved), ("b/new", &json!("9\n"))]),
        ("mv a b; echo 1 >> b/f", &[("b/f", &json!("1\n1\n"))]),
        ("mv a/in c/in", &[("c/in/g", &in_moved)]),
        ("mkdir -p x/y; mv a x/y/a; mv c x/y/a/in/c", &[("x/y/a/f", &moved)]),
        ("mv a/in c/q; mv a b", &[("b/f", &moved), ("c/q/g", &in_moved)]),
    ] {
        let home = Home::new_outside_tmp().with_files(&files);
        std::fs::create_dir(home.workspace().join("a/empty")).expect("a directory");
        let before = workspace_content(&home);
        let input = json!({"command": command}).to_string();
        let propose = || {
            home.run(&["--mode", "auto", "--proposals", "--session", "p", "call", "bash", &input])
        };
        for ending in ["drop", "apply"] {
            let proposed = propose();
            assert_eq!(proposed.code, 0, "{command}: {proposed:?}");
            assert_eq!(workspace_content(&home), before, "{command}");
            let shown = home.run(&["proposals", "show"]);
            assert_eq!(shown.code, 0, "{command}: {shown:?}");
            for (path, _) in expected {
                assert!(shown.stdout.contains(path), "{command}: {shown:?}");
            }
            let ended = home.run(&["proposals", ending]);
            assert_eq!(ended.code, 0, "{command}: {ended:?}");
            assert!(home.run(&["proposals", "list", "--json"]).stdout.is_empty(), "{command}");
        }
        let after = workspace_content(&home);
        for (path, content) in expected {
            let content = content.as_str().map(str::to_owned);
            assert!(after.contains(&((*path).to_owned(), content)), "{command}: {after:?}");
        }
        assert!(!command.contains("mv a ") || !home.workspace().join("a").exists(), "{command}");
        let undone = home.run(&["undo"]);
        assert_eq!(undone.code, 0, "{command}: {undone:?}");
        assert_eq!(workspace_content(&home), before, "{command}");
    }
}
