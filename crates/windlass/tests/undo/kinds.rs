//! All kinds of files and changes: an undo restores the exact tree, and an undo of the undo makes the change again.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;

use serde_json::{Value, json};
use windlass::{Outcome, ToolCall, Undo, quote};

use crate::support::{TestWorkspace, Tree, text};

/// Undoes the session, undoes the undo, and undoes again; each time the tree must be exactly the expected one.
async fn check_undo_and_redo(test: &TestWorkspace, before: &Tree) {
    let after = test.tree();
    assert!(before.describe_differences(&after).is_some(), "nothing was changed");
    let mut what = Undo::Session(test.session.id().clone());
    for expected in [before, &after, before, &after] {
        let done = test.undo(what).await;
        assert_eq!(done.outcome, Outcome::Ok, "{}", text(&done));
        expected.assert_same(&test.tree(), "a session taken back, or done again");
        what = Undo::Call(done.call);
    }
}

/// Makes one delta and checks its undo.
async fn check_delta(test: &TestWorkspace, changes: Value) {
    let before = test.tree();
    test.call_ok("delta", json!({"changes": changes})).await;
    check_undo_and_redo(test, &before).await;
}

#[tokio::test]
async fn un_1_links_directories_and_modes() {
    for changes in [
        json!([{"path": "d/new", "to": "symlink", "target": "anywhere"}]),
        json!([{"path": "d/link", "to": "symlink", "target": "elsewhere"}]),
        json!([{"path": "d/link", "to": "nothing"}]),
        json!([{"path": "d/link", "to": "file", "content": "was a link"}]),
        json!([{"path": "d/file", "to": "symlink", "target": "was/a/file"}]),
        json!([{"path": "d/file", "to": "mode", "mode": 0o750}]),
        json!([{"path": "d", "to": "mode", "mode": 0o700}]),
        json!([{"path": "made/deep", "to": "directory", "mode": 0o700},
               {"path": "made/deep/file", "to": "file", "content": "", "mode": 0o755}]),
        json!([{"path": "hollow", "to": "nothing"}]),
        json!([{"path": "hollow", "to": "file", "content": "was a directory"}]),
        json!([{"path": "d/file", "to": "nothing"}, {"path": "d/link", "to": "nothing"},
               {"path": "d", "to": "nothing"}]),
        json!([{"path": "moved", "to": "moved", "from": "d/file"}]),
        json!([{"path": "new/moved", "to": "moved", "from": "d/file", "content": "and changed"}]),
    ] {
        let test = TestWorkspace::with(&[("d/file", "content\n"), ("hollow/", "")]);
        symlink("file", test.path("d/link")).expect("a link");
        check_delta(&test, changes).await;
    }
}

/// A file replaces a directory that has files in it.
#[tokio::test]
async fn un_1_file_that_replaces_a_directory() {
    let test = TestWorkspace::with(&[("d/deep/file", "content\n")]);
    let before = test.tree();
    let gone = json!([{"path": "d/deep/file", "to": "nothing"}, {"path": "d/deep", "to": "nothing"},
                      {"path": "d", "to": "nothing"}]);
    test.call_ok("delta", json!({"changes": gone})).await;
    test.call_ok("write", json!({"path": "d", "content": "a file now\n"})).await;
    check_undo_and_redo(&test, &before).await;
}

/// Changes of a file with two hard links.
#[tokio::test]
async fn un_1_changes_of_hard_links() {
    let edit = |path: &str| json!({"path": path, "old_string": "old", "new_string": "new"});
    let gone = |path: &str| json!({"changes": [{"path": path, "to": "nothing"}]});
    let linked = json!({"changes": [{"path": "three", "to": "linked", "with": "one"}]});
    let both =
        json!({"changes": [{"path": "one", "to": "nothing"}, {"path": "d/two", "to": "nothing"}]});
    let moved =
        json!({"changes": [{"path": "three", "to": "moved", "from": "one", "content": "other\n"}]});
    for calls in [
        vec![("edit", edit("one"))],
        vec![("delta", gone("one"))],
        vec![("delta", both)],
        vec![("delta", gone("one")), ("delta", gone("d/two"))],
        vec![("delta", gone("one")), ("edit", edit("d/two"))],
        vec![("edit", edit("one")), ("delta", gone("one"))],
        vec![("edit", edit("one")), ("delta", gone("d/two")), ("delta", gone("one"))],
        vec![("delta", linked.clone()), ("edit", edit("three"))],
        vec![("delta", linked), ("edit", edit("three")), ("delta", gone("one"))],
        vec![("delta", moved)],
    ] {
        for one_by_one in [false, true] {
            let test = TestWorkspace::with(&[("one", "old\n"), ("d/", "")]);
            fs::hard_link(test.path("one"), test.path("d/two")).expect("a link");
            let before = test.tree();
            for (tool, input) in &calls {
                test.call_ok(tool, input.clone()).await;
            }
            if one_by_one {
                for _ in &calls {
                    test.call_ok("undo", json!({})).await;
                }
                before.assert_same(&test.tree(), &format!("one by one: {calls:?}"));
            } else {
                check_undo_and_redo(&test, &before).await;
            }
        }
    }
}

/// A write to one hard link makes it a file of its own, also if one call writes to both.
#[tokio::test]
async fn write_changes_only_the_named_hard_link() {
    let test = TestWorkspace::with(&[("one", "old\n")]);
    fs::hard_link(test.path("one"), test.path("two")).expect("a link");
    fs::hard_link(test.path("one"), test.parent_directory().join("three")).expect("a link");
    let before = test.tree();
    let written =
        test.call_ok("edit", json!({"path": "one", "old_string": "old", "new_string": "1"})).await;
    let said = text(&written);
    assert!(said.contains("had 2 other names (hard links), which keep the old content"), "{said}");
    test.call_ok("read", json!({"path": "one"})).await;
    test.call_ok("write", json!({"path": "one", "content": "once more\n"})).await;
    assert_eq!((test.text("one"), test.text("two")), ("once more\n".into(), "old\n".into()));
    test.call_ok("undo", json!({})).await;
    test.call_ok("undo", json!({})).await;
    before.assert_same(&test.tree(), "the names are one file again");
    let patch = "*** Begin Patch\n*** Update File: one\n-old\n+first\n*** Update File: two\n-old\n+second\n*** End Patch\n";
    test.call_ok("patch", json!({"patch": patch})).await;
    assert_eq!((test.text("one"), test.text("two")), ("first\n".into(), "second\n".into()));
    assert_eq!(fs::read(test.parent_directory().join("three")).expect("the third name"), b"old\n");
    check_undo_and_redo(&test, &before).await;
}

/// A file that only root can read.
#[tokio::test]
async fn un_1_a_file_without_permissions() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let test = TestWorkspace::with(&[("a", "a\n"), ("b", "b\n")]);
    fs::set_permissions(test.path("b"), fs::Permissions::from_mode(0o000)).expect("a mode");
    let before = test.tree();
    test.call_ok("bash", json!({"command": "chmod 0 a; chmod 600 b; echo more >> b; chmod 0 b"}))
        .await;
    check_undo_and_redo(&test, &before).await;
}

/// Files that an ordinary user cannot read are created, changed and removed like others, and restored with their mode. Directories that the
/// user cannot list are masked from commands.
#[tokio::test]
async fn un_1_a_file_that_its_owner_cannot_read() {
    if rustix::process::geteuid().is_root() {
        return;
    }
    for (shut, command) in [
        (&[][..], "chmod 0 a"),
        (&[], "echo x > n; chmod 0 n"),
        (&[], "mkdir e; echo x > e/f; chmod 0 e/f e"),
        (&[], "mkdir -p e/e; echo x > e/e/f; ln e/e/f e/g; chmod 0 e/e/f e/e e"),
        (&[], "chmod 0 d"),
        (&[], "chmod 0 d/f d; echo x > n"),
        (&["a"], "rm -f a"),
        (&["a"], "rm -f a; echo x > b"),
        (&["a"], "chmod 600 a; echo more >> a"),
        (&["a"], "chmod 600 a; echo more >> a; chmod 0 a"),
        (&["a"], "rm -f a; echo other > a; chmod 0 a"),
        (&["a"], "chmod 644 a"),
        (&["a"], "touch -d @7 a"),
        (&["a"], "mv a c"),
        (&["a"], "mv a c; chmod 600 c; echo more >> c"),
        (&["a"], "mv b a"),
        (&["a"], "ln -sfn b a"),
        (&["a"], "ln a l"),
        (&["one"], "rm -f one"),
        (&["one"], "chmod 600 one; echo more >> one"),
        (&["one"], "mv two three"),
        (&["d/f"], "rm -rf d"),
        (&["d/f"], "mv d e"),
        (&["d/f"], "chmod 600 d/f; cp d/f n; chmod 0 n d/f"),
    ] {
        let test =
            TestWorkspace::with(&[("a", "a\n"), ("b", "b\n"), ("d/f", "f\n"), ("one", "one\n")]);
        fs::hard_link(test.path("one"), test.path("two")).expect("a link");
        for name in shut {
            fs::set_permissions(test.path(name), fs::Permissions::from_mode(0o000))
                .expect("a mode");
        }
        let before = test.tree();
        let done = test.call("bash", json!({"command": command})).await;
        assert_eq!(done.outcome, Outcome::Ok, "{shut:?} {command}: {}", text(&done));
        let after = test.tree();
        assert!(before != after, "{shut:?} {command}");
        let mut what = Undo::Last;
        for expected in [&before, &after, &before] {
            let undone = test.undo(what).await;
            assert_eq!(undone.outcome, Outcome::Ok, "{shut:?} {command}: {}", text(&undone));
            expected.assert_same(&test.tree(), &format!("{shut:?} {command}"));
            what = Undo::Call(undone.call);
        }
    }
}

/// A file with a hard link outside of the workspace: the undo creates the name inside again, if needed as a separate file, and never
/// touches the one outside.
#[tokio::test]
async fn un_3_hard_link_outside_of_the_workspace_is_not_touched() {
    for command in ["rm one", "echo more >> one", "chmod 600 one", "mv one two; echo x >> two"] {
        let test = TestWorkspace::with(&[("one", "old\n")]);
        fs::hard_link(test.path("one"), test.parent_directory().join("other")).expect("a link");
        let facts = |path: PathBuf| {
            let facts = fs::metadata(path).expect("a file");
            (facts.ino(), facts.len(), facts.mode(), facts.mtime_nsec())
        };
        test.call_ok("bash", json!({"command": command})).await;
        let before = facts(test.parent_directory().join("other"));
        let undone = test.undo(Undo::Last).await;
        assert_eq!(undone.outcome, Outcome::Ok, "{command}: {}", text(&undone));
        assert_eq!(test.text("one"), "old\n", "{command}");
        let is_told = text(&undone).contains("1 other name (hard links)");
        let is_apart = facts(test.path("one")).0 != before.0;
        assert_eq!(is_told, is_apart, "{command}: {}", text(&undone));
        let after = facts(test.parent_directory().join("other"));
        let is_shared = facts(test.path("one")).0 == after.0;
        assert!(before == after || is_shared, "{command}: {before:?} {after:?}");
        assert_eq!(
            fs::read(test.parent_directory().join("other")).expect("a file"),
            b"old\n",
            "{command}"
        );
    }
}

/// Changes of commands, each made on a stage and committed like every other change.
#[tokio::test]
async fn un_1_changes_of_commands_are_undone() {
    for command in [
        "ln d/file new",
        "ln -f d/file other",
        "ln one first; rm one",
        "echo more >> one",
        "chmod 600 one",
        "mv one three; echo more >> three",
        "mv d e",
        "rm -r d; ln -s other d",
        "rm d/link",
        "ln -sfn elsewhere d/link",
        "mv d/link moved",
        "rm d/link; echo x > d/link",
        "rm d/link; mkdir d/link; echo x > d/link/file",
        "rm -r hollow; ln -s d hollow",
        "mkdir ro; echo x > ro/file; mkdir ro/deep; echo y > ro/deep/file; chmod 555 ro/deep ro",
        "chmod 755 shut; rm shut/file; echo new > shut/new; chmod 555 shut",
        "chmod 755 shut; rm -r shut",
        "chmod 555 d",
        "chmod 400 d/file other",
        "touch -d 2001-01-01 one other d",
        "python3 -c 'import os; os.setxattr(\"other\", \"user.new\", b\"1\")'",
        "python3 -c 'import os; os.removexattr(\"marked\", \"user.old\")'",
        "python3 -c 'import os; os.setxattr(\"marked\", \"user.old\", b\"2\")'; echo x >> marked",
        "python3 -c 'import os; os.setxattr(\"d\", \"user.new\", b\"1\"); os.removexattr(\"marked\", \"user.old\")'; echo x >> marked",
    ] {
        let files =
            [("d/file", "content\n"), ("d/deep/er", "er\n"), ("one", "1\n"), ("other", "other\n")];
        let test = TestWorkspace::with(&files);
        for (name, content) in [("hollow/", ""), ("shut/file", "x\n"), ("marked", "marked\n")] {
            test.put(name, content);
        }
        symlink("file", test.path("d/link")).expect("a link");
        fs::hard_link(test.path("one"), test.path("d/two")).expect("a link");
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(test.path("marked"), "user.old", b"1", flags).expect("an attribute");
        fs::set_permissions(test.path("shut"), fs::Permissions::from_mode(0o555)).expect("a mode");
        let before = test.tree();
        let done = test.call_ok("bash", json!({"command": command})).await;
        assert!(before.describe_differences(&test.tree()).is_some(), "{command}: {}", text(&done));
        check_undo_and_redo(&test, &before).await;
        if test.path("shut").exists() {
            fs::set_permissions(test.path("shut"), fs::Permissions::from_mode(0o755))
                .expect("a directory that can be cleared away");
        }
    }
}

/// Names and contents of all kinds, written by the built-in tools.
#[tokio::test]
async fn un_1_any_content_and_any_name() {
    let test = TestWorkspace::with(&[(".gitignore", "ignored/\n"), ("empty", "")]);
    test.put("ignored/file", "ignored\n");
    test.put("latin.txt", b"d\xe9j\xe0 vu, \xe0 l'\xe9t\xe9\nno\n");
    test.put("$'caf\\xe9\\n'", "its name is in Latin-1\n");
    let before = test.tree();
    let append = |path: &str| json!({"path": path, "content": "more\n", "mode": "append"});
    for path in ["ignored/file", "empty", "latin.txt", "$'caf\\xe9\\n'", "$'new\\xff'"] {
        test.call_ok("write", append(path)).await;
    }
    let test = test.restart();
    check_undo_and_redo(&test, &before).await;
}

#[tokio::test]
async fn un_1_a_binary_file_of_70_mib_that_was_deleted() {
    let test = TestWorkspace::new();
    let bytes: Vec<u8> =
        (0..70_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    test.put("huge", &bytes);
    let gone = json!({"changes": [{"path": "huge", "to": "nothing"}]});
    test.call_ok("delta", gone).await;
    let test = test.restart();
    let undone = test.undo(Undo::Last).await;
    assert_eq!(undone.outcome, Outcome::Ok, "{}", text(&undone));
    assert!(test.read("huge") == bytes);
}

/// More files than a result names are all restored.
#[tokio::test]
async fn un_1_more_files_than_a_result_names() {
    let test = TestWorkspace::with(&[("kept", "kept\n")]);
    let before = test.tree();
    let added = |number: usize| {
        let directory = ["", "a/", "b/c/"][number % 3];
        format!("*** Add File: {directory}{number}.txt\n+{number}\n")
    };
    let added: Vec<String> = (0..300).map(added).collect();
    let patch = format!("*** Begin Patch\n{}*** End Patch\n", added.concat());
    test.call_ok("patch", json!({"patch": patch})).await;
    let undone = test.call("undo", json!({})).await;
    assert_eq!(undone.outcome, Outcome::Ok, "{}", text(&undone));
    before.assert_same(&test.tree(), "300 files");
    let again = test.undo(Undo::Call(undone.call)).await;
    assert_eq!(again.outcome, Outcome::Ok, "{}", text(&again));
    assert_eq!(test.text("b/c/299.txt"), "299\n");
}

/// An undo that finds all files restored already counts: the next one undoes the change before.
#[tokio::test]
async fn un_5_an_undo_with_nothing_to_do_is_a_step_back() {
    let test = TestWorkspace::new();
    test.call_ok("write", json!({"path": "a", "content": "a\n"})).await;
    test.call_ok("delta", json!({"changes": [{"path": "d", "to": "directory"}]})).await;
    fs::remove_dir(test.path("d")).expect("a person removes it");
    for _ in 0..2 {
        test.call_ok("undo", json!({})).await;
    }
    assert!(!test.path("a").exists());
    assert_eq!(test.call_refused("undo", json!({})).await, "there is nothing to undo");
}

/// Times of files are restored, also of files that were only moved or whose mode was changed.
#[tokio::test]
async fn un_1_times_and_modes_of_scripts() {
    let test = TestWorkspace::with(&[("run.sh", "#!/bin/sh\n")]);
    let path = test.path("run.sh");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).expect("permissions");
    let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 5);
    let file = fs::File::options().append(true).open(&path).expect("a file");
    file.set_modified(long_ago).expect("a time");
    let before = test.tree();
    test.call_ok("edit", json!({"path": "run.sh", "old_string": "sh\n", "new_string": "bash\n"}))
        .await;
    let patch = "*** Begin Patch\n*** Update File: run.sh\n*** Move to: bin/run\n@@\n-#!/bin/bash\n+#!/bin/zsh\n*** End Patch\n";
    test.call_ok("patch", json!({"patch": patch})).await;
    check_undo_and_redo(&test, &before).await;
}

/// Undo works without a Git repository, and never touches the files of one.
#[tokio::test]
async fn undo_needs_no_git_and_leaves_git_alone() {
    let test = TestWorkspace::with(&[(".git/HEAD", "ref: refs/heads/main\n"), ("a", "a\n")]);
    let git = Tree::of(&test.path(".git"));
    test.call_ok("edit", json!({"path": "a", "old_string": "a", "new_string": "b"})).await;
    test.call_ok("undo", json!({})).await;
    git.assert_same(&Tree::of(&test.path(".git")), ".git");
}

/// An undo of a turn undoes all its calls.
#[tokio::test]
async fn turn_is_undone_as_one_step() {
    let test = TestWorkspace::with(&[("a", "a\n")]);
    // The later call found the time that the turn had left, and its undo restores that time.
    let before = test.tree().but_for_directory_times();
    let calls =
        ["x", "y"].map(|name| ToolCall::new("write", json!({"path": name, "content": "1\n"})));
    let results = test.windlass.turn(&test.session, calls.to_vec()).await;
    assert!(results.iter().all(|result| result.outcome == Outcome::Ok));
    test.call_ok("write", json!({"path": "later", "content": "2\n"})).await;
    let turn = results.first().expect("a result").turn.clone();
    let undone = test.undo(Undo::Turn(turn)).await;
    assert_eq!(undone.outcome, Outcome::Ok, "{}", text(&undone));
    let names: Vec<PathBuf> = test.tree().files();
    assert_eq!(names, [PathBuf::from("a"), "later".into()], "{}", quote::path(&test.workspace()));
    test.call_ok("undo", json!({})).await;
    before.assert_same(&test.tree().but_for_directory_times(), "all of it");
}

#[tokio::test]
async fn swapped_files_keep_their_permissions() {
    let test = TestWorkspace::with(&[("a", "a\n"), ("b", "b\n"), ("c", "c\n")]);
    for (name, mode) in [("a", 0o755), ("b", 0o600), ("c", 0o640)] {
        fs::set_permissions(test.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let before = test.tree();
    let patch = "*** Begin Patch\n*** Update File: a\n*** Move to: t\n*** Update File: b\n*** Move to: a\n\
                 *** Update File: c\n*** Move to: b\n@@\n-c\n+C\n*** End Patch";
    test.call_ok("patch", json!({"patch": patch})).await;
    for (name, content, mode) in [("t", "a\n", 0o755), ("a", "b\n", 0o600), ("b", "C\n", 0o640)] {
        let facts = fs::metadata(test.path(name)).unwrap();
        let now = (test.text(name), facts.permissions().mode() & 0o7777);
        assert_eq!(now, (content.to_owned(), mode), "{name}");
    }
    assert!(!test.path("c").exists());
    assert_eq!(test.undo(Undo::Last).await.outcome, Outcome::Ok);
    before.assert_same(&test.tree(), "every one is in its place again");
}
