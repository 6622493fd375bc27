//! Hostile and broken input from a model, a file system or a stranger: each gives a clear error, no hang, no panic.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::json;

use crate::support::Home;

#[test]
fn paths_out_of_the_workspace_are_asked_about_and_not_read() {
    let home = Home::new_outside_tmp().with_files(&[("sub/a", "inside\n")]);
    let outside = home.workspace().parent().expect("a parent").join("outside");
    std::fs::write(&outside, "top secret\n").expect("a file");
    symlink(&outside, home.workspace().join("link")).expect("a link");
    symlink("..", home.workspace().join("up")).expect("a link");
    for path in [
        "../outside",
        "link",
        "up/outside",
        "sub/../../outside",
        outside.to_str().expect("a name"),
        "/etc/hostname",
    ] {
        let (code, answer) = home.call(&["--mode", "auto"], "read", &json!({"path": path}));
        assert_eq!(code, 3, "{path}: {answer}");
        assert!(!answer.to_string().contains("top secret"), "{path}");
    }
    for path in ["/proc/self/root/etc/hostname", "/proc/self/cwd/sub/a", "/dev/fd/0", "a\u{0}b"] {
        let (code, answer) = home.call(&["--mode", "yolo"], "read", &json!({"path": path}));
        assert_ne!(code, 0, "{path}: {answer}");
    }
    for tool in ["list", "glob", "grep"] {
        let (code, answer) =
            home.call(&["--mode", "auto"], tool, &json!({"path": "..", "pattern": "*"}));
        assert_ne!(code, 0, "{tool}: {answer}");
    }
}

#[test]
fn special_files_are_refused_before_they_are_opened() {
    let home = Home::with_workspace(&[("a", "x\n")]);
    let fifo = home.workspace().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let _socket =
        std::os::unix::net::UnixListener::bind(home.workspace().join("socket")).expect("a socket");
    for (path, what) in
        [("fifo", "a FIFO"), ("socket", "a socket"), (".", "directory"), ("/dev/zero", "a device")]
    {
        let (code, answer) = home.call(&["--mode", "yolo"], "read", &json!({"path": path}));
        assert_eq!(code, 1, "{path}: {answer}");
        assert!(
            answer["content"][0]["text"].as_str().expect("text").contains(what),
            "{path}: {answer}"
        );
    }
    let (code, answer) = home.call(&[], "grep", &json!({"pattern": "x"}));
    assert_eq!(code, 0, "a search passes them over: {answer}");
}

#[test]
fn too_large_and_too_deep_arguments_are_errors() {
    let home = Home::new();
    let large = format!("{{\"path\":\"{}\"}}", "x".repeat(40 << 20));
    let ran = home.run_with_input(&["call", "read", "-", "--json"], large.as_bytes());
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    let deep = format!("{{\"path\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(home.run_with_input(&["call", "read", "-"], deep.as_bytes()).code, 2);
    let huge = vec![b' '; 100 << 20];
    let ran = home.run_with_input(&["call", "read", "-"], &huge);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("64 MiB"), "{}", ran.stderr);
}

#[test]
fn unusable_state_directory_is_a_clear_error() {
    let home = Home::with_workspace(&[("a", "x\n"), ("file", "x\n")]);
    for (state, prepare) in
        [("file", None), ("garbage", Some(&b"this is not a database at all, by any measure"[..]))]
    {
        let state = home.workspace().join(state);
        if let Some(bytes) = prepare {
            std::fs::create_dir(&state).expect("a folder");
            std::fs::write(state.join("journal.db"), bytes.repeat(200)).expect("a file");
        }
        let ran = home.run(&[
            "--state",
            state.to_str().expect("a name"),
            "call",
            "read",
            r#"{"path":"a"}"#,
        ]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(
            ran.stderr.contains(state.to_str().expect("a name")) && ran.stderr.contains("--state"),
            "{ran:?}"
        );
    }
}

#[test]
fn an_unreadable_directory_is_a_note_for_an_ordinary_user() {
    // Root reads everything; the rule is tested where it can fail.
    let home = Home::with_workspace(&[("open/a", "needle\n"), ("closed/b", "needle\n")]);
    let closed = home.workspace().join("closed");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).expect("permissions");
    let (code, answer) = home.call(&[], "grep", &json!({"pattern": "needle"}));
    assert_eq!(code, 0, "{answer}");
    let text = answer["content"][0]["text"].as_str().expect("text");
    assert!(text.contains("open/a:1:needle"), "{text}");
    assert!(text.contains("closed"), "read as root, a note otherwise: {text}");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).expect("permissions");
}

/// With any low limit of open files, the error says so, and a change is made whole or not at all.
#[test]
fn too_few_file_descriptors_are_a_clear_error() {
    let home = Home::with_workspace(&[("a", "old\n"), ("b", "old\n")]);
    std::fs::hard_link(home.workspace().join("a"), home.workspace().join("c")).expect("a link");
    // With fewer the program is not even loaded.
    for most in 4..32 {
        for path in ["a", "b"] {
            let content = std::fs::read_to_string(home.workspace().join(path)).expect("a file");
            let edit =
                json!({"path": path, "old_string": content, "new_string": "new\n"}).to_string();
            let words = ["--mode", "auto", "call", "edit", &edit];
            let ran = home.run_limited(&format!("ulimit -n {most}"), &words);
            assert!(matches!(ran.code, 0..=2), "{most}: {ran:?}");
            let is_told = format!("{}{}", ran.stdout, ran.stderr).contains("Too many open files");
            assert!(ran.code == 0 || is_told, "{most}: {ran:?}");
            while home.run(&["undo"]).code == 0 {}
            let now = std::fs::read_to_string(home.workspace().join(path)).expect("a file");
            assert_eq!(now, "old\n", "{most}: {path}");
            let left = std::fs::read_dir(home.workspace()).expect("the workspace").count();
            assert_eq!(left, 3, "{most}: something was left");
        }
    }
}
