//! Behaviours of Errata: proposals, snapshots, rewind and direct writes; a shell with allowed prefixes, time limits and sandbox modes. An
//! id such as 3C-4 names one of its weaknesses, which Windlass must not have.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass::host::{Isolated, Isolation};
use windlass::process::{Confinement, NetworkAccess, ProcessSettings, SandboxLevel};
use windlass::session::SessionId;
use windlass::tool::{Overrides, Predicate};
use windlass::{CallResult, Mode, Outcome, Session, ToolCall, Undo};

use crate::support::{TestWorkspace, text};

async fn call(
    test: &TestWorkspace,
    session: &Arc<Session>,
    tool: &str,
    input: Value,
) -> CallResult {
    let result = test.windlass.call(session, ToolCall::new(tool, input)).await;
    assert_eq!(result.outcome, Outcome::Ok, "{}", text(&result));
    result
}

fn proposing(test: &TestWorkspace) -> Arc<Session> {
    test.windlass.proposing(Session::new(SessionId::new("p"))).unwrap()
}

#[tokio::test]
async fn errata_proposals_are_held_and_seen_by_the_session() {
    let test = TestWorkspace::with(&[("a.txt", "alpha\n"), ("gone.txt", "g\n")]);
    let before = test.tree();
    let session = proposing(&test);
    call(
        &test,
        &session,
        "edit",
        json!({"path": "a.txt", "old_string": "alpha", "new_string": "beta"}),
    )
    .await;
    call(&test, &session, "write", json!({"path": "new/n.txt", "content": "beta too\n"})).await;
    let patch = "*** Begin Patch\n*** Delete File: gone.txt\n*** End Patch\n";
    let held = call(&test, &session, "patch", json!({"patch": patch})).await;
    assert!(text(&held).contains("held as a proposal"), "{}", text(&held));
    before.assert_same(&test.tree(), "proposals change nothing");
    let seen = |tool, input| call(&test, &session, tool, input);
    assert!(text(&seen("read", json!({"path": "a.txt"})).await).contains("beta"));
    let found = text(&seen("grep", json!({"pattern": "beta"})).await);
    assert!(found.contains("a.txt:1:beta") && found.contains("new/n.txt:1:beta too"), "{found}");
    let names = text(&seen("glob", json!({"pattern": "*.txt"})).await);
    assert!(names.contains("new/n.txt") && !names.contains("gone.txt"), "{names}");
    let listed = text(&seen("list", json!({})).await);
    assert_eq!(listed, "a.txt (5 B)\nnew/\n  n.txt (9 B)");
    seen("edit", json!({"path": "new/n.txt", "old_string": "too", "new_string": "also"})).await;

    let proposals = test.windlass.proposals(session.id()).unwrap();
    let applied = test.windlass.apply(&test.windlass.new_session(), &proposals, None).await;
    assert_eq!(applied.outcome, Outcome::Ok, "{}", text(&applied));
    assert_eq!(test.text("new/n.txt"), "beta also\n");
    assert!(!test.path("gone.txt").exists());
    assert!(test.windlass.proposals(session.id()).unwrap().list().is_empty());
    assert_eq!(test.undo(Undo::Call(applied.call)).await.outcome, Outcome::Ok);
    before.assert_same(&test.tree(), "one undo takes all of it back");
}

#[tokio::test]
async fn errata_proposal_for_a_file_changed_since_is_refused_and_can_be_dropped() {
    let test = TestWorkspace::with(&[("a.txt", "alpha\n"), ("b.txt", "b\n")]);
    let session = proposing(&test);
    for (path, old) in [("a.txt", "alpha"), ("b.txt", "b")] {
        let edit = json!({"path": path, "old_string": old, "new_string": "new"});
        call(&test, &session, "edit", edit).await;
    }
    test.put("a.txt", "by hand\n");
    let before = test.tree();
    let proposals = test.windlass.proposals(session.id()).unwrap();
    let refused = test.windlass.apply(&test.session, &proposals, None).await;
    assert_eq!(refused.outcome, Outcome::Error);
    assert!(text(&refused).starts_with("stale: "), "{}", text(&refused));
    before.assert_same(&test.tree(), "all or nothing");
    proposals.drop_paths(Some(&[test.workspace().join("a.txt")])).unwrap();
    assert_eq!(test.windlass.apply(&test.session, &proposals, None).await.outcome, Outcome::Ok);
    assert_eq!((test.text("a.txt"), test.text("b.txt")), ("by hand\n".into(), "new\n".into()));
}

#[tokio::test]
async fn errata_proposals_of_a_sub_session_bubble_up() {
    let test = TestWorkspace::new();
    let session = proposing(&test);
    let child = session.child(SessionId::new("child"), Predicate::All, &Overrides::default());
    let child = Arc::new(child);
    call(&test, &child, "write", json!({"path": "c.txt", "content": "c\n"})).await;
    assert!(text(&call(&test, &session, "read", json!({"path": "c.txt"})).await).contains('c'));
    let list = test.windlass.proposals(session.id()).unwrap().list();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].by[0].session, *child.id());
}

#[tokio::test]
async fn errata_a_snapshot_is_restored_and_that_can_be_undone() {
    let test = TestWorkspace::with(&[("a.txt", "a\n"), ("d/b.txt", "b\n")]);
    let before = test.tree().but_for_directory_times();
    let snapshot = test.windlass.snapshot(&[".".into()]).unwrap();
    test.put("a.txt", "changed\n");
    std::fs::remove_file(test.path("d/b.txt")).unwrap();
    test.put("d/created.txt", "c\n");
    let changed = test.tree();
    let restored = test.windlass.restore(&test.session, &snapshot).await.unwrap();
    assert_eq!(restored.outcome, Outcome::Ok, "{}", text(&restored));
    before.assert_same(&test.tree().but_for_directory_times(), "the snapshot");
    assert_eq!(test.undo(Undo::Call(restored.call)).await.outcome, Outcome::Ok);
    changed.assert_same(&test.tree(), "what was there before the snapshot was restored");
    test.windlass.forget_snapshot(&snapshot).unwrap();
}

#[tokio::test]
async fn errata_direct_writes_in_a_copy_are_told_apart() {
    let test = TestWorkspace::with(&[("a.txt", "a\n"), ("gone.txt", "g\n")]);
    let copy =
        Isolated::create(&test.workspace(), &test.parent_directory().join("copy"), Isolation::Copy);
    let copy = copy.unwrap();
    let direct =
        windlass::Windlass::builder(copy.path()).mode(windlass::Mode::Auto).build().unwrap();
    let session = direct.new_session();
    let patch = "*** Begin Patch\n*** Update File: a.txt\n-a\n+b\n*** Delete File: gone.txt\n\
        *** Add File: untracked.txt\n+u\n*** End Patch\n";
    let result = direct.call(&session, ToolCall::new("patch", json!({"patch": patch}))).await;
    assert_eq!(result.outcome, Outcome::Ok, "{}", text(&result));
    assert_eq!(test.text("a.txt"), "a\n", "the workspace is untouched");
    let mut changed: Vec<String> = copy
        .changes()
        .unwrap()
        .iter()
        .map(|change| format!("{:?} {}", change.kind, change.path.display()))
        .collect();
    changed.sort();
    assert_eq!(changed, ["Changed a.txt", "Created untracked.txt", "Deleted gone.txt"]);
}

/// 3C-12: a second edit was made on the file on the disk, and so discarded the first.
/// 3C-4: a link led a change out, and the path of a proposal depended on the working directory of the program.
#[tokio::test]
async fn errata_3c_4_proposal_belongs_to_one_path_inside() {
    let test = TestWorkspace::outside_tmp(&[("sub/", "")], |builder| builder.mode(Mode::Auto));
    let outside = test.parent_directory().join("kept");
    std::fs::write(&outside, "kept\n").unwrap();
    std::os::unix::fs::symlink(&outside, test.path("link")).unwrap();
    let session = proposing(&test);
    let edit = json!({"path": "link", "old_string": "kept", "new_string": "lost"});
    let denied = test.windlass.call(&session, ToolCall::new("edit", edit)).await;
    assert_eq!(denied.outcome, Outcome::Denied, "{}", text(&denied));

    let overrides = Overrides { work_dir: Some(test.path("sub")), ..Overrides::default() };
    let write = ToolCall::new("write", json!({"path": "a.txt", "content": "a\n"}));
    let held = test.windlass.call(&session, write.with_overrides(overrides)).await;
    assert_eq!(held.outcome, Outcome::Ok, "{}", text(&held));
    // A link that leads out by the time of `apply` is not followed.
    std::fs::remove_dir(test.path("sub")).unwrap();
    let away = test.parent_directory().join("away");
    std::fs::create_dir(&away).unwrap();
    std::os::unix::fs::symlink(&away, test.path("sub")).unwrap();
    let proposals = test.windlass.proposals(session.id()).unwrap();
    let person = test.windlass.new_session();
    let refused = test.windlass.apply(&person, &proposals, None).await;
    assert_ne!(refused.outcome, Outcome::Ok, "{}", text(&refused));
    assert_eq!(std::fs::read_dir(&away).unwrap().count(), 0);
    std::fs::remove_file(test.path("sub")).unwrap();
    std::fs::create_dir(test.path("sub")).unwrap();
    let applied = test.windlass.apply(&person, &proposals, None).await;
    assert_eq!(applied.outcome, Outcome::Ok, "{}", text(&applied));
    assert_eq!(test.text("sub/a.txt"), "a\n");
    assert_eq!(std::fs::read(&outside).unwrap(), b"kept\n");
}

#[tokio::test]
async fn errata_3c_12_later_calls_see_the_proposed_content() {
    let test = TestWorkspace::with(&[("a.txt", "one\ntwo\n"), ("b.txt", "b\n")]);
    let session = proposing(&test);
    let edit = |path: &str, old: &str, new: &str| json!({"path": path, "old_string": old, "new_string": new});
    call(&test, &session, "edit", edit("a.txt", "one", "1")).await;
    call(&test, &session, "edit", edit("a.txt", "two", "2")).await;
    call(&test, &session, "write", json!({"path": "new.txt", "content": "n\n"})).await;
    call(&test, &session, "edit", edit("new.txt", "n", "m")).await;
    let patch = "*** Begin Patch\n*** Update File: b.txt\n*** Move to: moved.txt\n-b\n+c\n*** Delete File: new.txt\n*** End Patch\n";
    call(&test, &session, "patch", json!({"patch": patch})).await;
    call(&test, &session, "edit", edit("moved.txt", "c", "d")).await;
    let proposals = test.windlass.proposals(session.id()).unwrap();
    let applied = test.windlass.apply(&test.session, &proposals, None).await;
    assert_eq!(applied.outcome, Outcome::Ok, "{}", text(&applied));
    assert_eq!(test.text("a.txt"), "1\n2\n");
    assert_eq!(test.text("moved.txt"), "d\n");
    assert!(!test.path("new.txt").exists() && !test.path("b.txt").exists());
}

/// 3C-13: proposals of one model were in the tree of the others.
#[tokio::test]
async fn errata_3c_12_proposed_files_are_listed_in_their_directories() {
    let test = TestWorkspace::with(&[("a/1", "1"), ("c/1", "1"), ("c/2", "2"), ("e", "e")]);
    let session = proposing(&test);
    for path in ["a/0", "a/2/x", "b/x", "c/0", "d", "f/x"] {
        call(&test, &session, "write", json!({"path": path, "content": "0"})).await;
    }
    let moved = "*** Begin Patch\n*** Update File: e\n*** Move to: c/e\n*** Delete File: c/1\n*** End Patch";
    call(&test, &session, "patch", json!({"patch": moved})).await;
    let all = "a/\n  0 (1 B)\n  1 (1 B)\n  2/\n    x (1 B)\nb/\n  x (1 B)\nc/\n  0 (1 B)\n  2 (1 B)\n  e (1 B)\n\
               d (1 B)\nf/\n  x (1 B)";
    for (input, expected) in [
        (json!({"depth": 3}), all),
        (json!({"depth": 1}), "a/\nb/\nc/\nd (1 B)\nf/"),
        (json!({"path": "a"}), "0 (1 B)\n1 (1 B)\n2/\n  x (1 B)"),
        (json!({"path": "b"}), "x (1 B)"),
    ] {
        assert_eq!(text(&call(&test, &session, "list", input).await), expected);
    }
    let found = text(&call(&test, &session, "glob", json!({"pattern": "x", "path": "b"})).await);
    assert_eq!(found, "b/x");
    let cut = text(&call(&test, &session, "list", json!({"depth": 3, "limit": 1})).await);
    assert!(cut.starts_with("a/\n  … 3 more\n… 4 more\n"), "{cut}");
}

#[tokio::test]
async fn errata_3c_14_proposals_applied_before_a_kill_are_not_stale() {
    let test = TestWorkspace::with(&[("a.txt", "a\n"), ("gone.txt", "g\n")]);
    let session = proposing(&test);
    call(&test, &session, "write", json!({"path": "new/b.txt", "content": "b\n"})).await;
    let patch = "*** Begin Patch\n*** Delete File: gone.txt\n*** Update File: a.txt\n@@\n-a\n+A\n*** End Patch";
    call(&test, &session, "patch", json!({"patch": patch})).await;
    // All files are written, but the process was killed before it recorded that.
    test.put("new/b.txt", "b\n");
    test.put("a.txt", "A\n");
    std::fs::remove_file(test.path("gone.txt")).unwrap();
    let proposals = test.windlass.proposals(session.id()).unwrap();
    let applied = test.windlass.apply(&test.windlass.new_session(), &proposals, None).await;
    assert_eq!(applied.outcome, Outcome::Ok, "{}", text(&applied));
    assert!(test.windlass.proposals(session.id()).unwrap().list().is_empty());
    assert_eq!(text(&test.undo(Undo::Last).await), "there is nothing to undo");
}

#[tokio::test]
async fn errata_3c_13_sessions_do_not_see_each_others_proposals() {
    let test = TestWorkspace::with(&[("a.txt", "one\n")]);
    let proposing = |id: &str| test.windlass.proposing(Session::new(SessionId::new(id))).unwrap();
    let (first, second) = (proposing("first"), proposing("second"));
    let edit = json!({"path": "a.txt", "old_string": "one", "new_string": "first"});
    call(&test, &first, "edit", edit).await;
    let edit = json!({"path": "a.txt", "old_string": "one", "new_string": "second"});
    call(&test, &second, "edit", edit).await;
    assert!(text(&call(&test, &first, "read", json!({"path": "a.txt"})).await).contains("first"));
    // One is applied; the other is stale then.
    for (session, outcome) in [(&second, Outcome::Ok), (&first, Outcome::Error)] {
        let proposals = test.windlass.proposals(session.id()).unwrap();
        let applied = test.windlass.apply(&test.session, &proposals, None).await;
        assert_eq!(applied.outcome, outcome, "{}", text(&applied));
    }
    assert_eq!(test.text("a.txt"), "second\n");
}

/// 3C-14: it stopped at a failed write, and the files written before could not be undone.
#[tokio::test]
async fn errata_3c_14_applying_is_all_or_nothing() {
    let test = TestWorkspace::with(&[("a.txt", "a\n"), ("d/b.txt", "b\n")]);
    let session = proposing(&test);
    for path in ["a.txt", "d/b.txt"] {
        let append = json!({"path": path, "content": "more\n", "mode": "append"});
        call(&test, &session, "write", append).await;
    }
    call(&test, &session, "write", json!({"path": "z/new.txt", "content": "n\n"})).await;
    // Another process creates a file at the path of a needed directory.
    test.put("z", "in the way\n");
    let before = test.tree();
    let proposals = test.windlass.proposals(session.id()).unwrap();
    let refused = test.windlass.apply(&test.session, &proposals, None).await;
    assert_ne!(refused.outcome, Outcome::Ok, "{}", text(&refused));
    before.assert_same(&test.tree(), "nothing is applied");
    assert_eq!(proposals.list().len(), 4, "and nothing is dropped: {:?}", proposals.list());
    std::fs::remove_file(test.path("z")).unwrap();
    let applied = test.windlass.apply(&test.session, &proposals, None).await;
    assert_eq!(applied.outcome, Outcome::Ok, "{}", text(&applied));
}

/// 3C-15: a restored file had lost its permissions, and new directories stayed.
#[tokio::test]
async fn errata_3c_15_rewind_restores_permissions_and_removes_new_directories() {
    use std::os::unix::fs::PermissionsExt as _;
    let test = TestWorkspace::with(&[("run.sh", "#!/bin/sh\n"), ("kept/a", "a\n")]);
    let permissions = std::fs::Permissions::from_mode(0o750);
    std::fs::set_permissions(test.path("run.sh"), permissions).unwrap();
    std::os::unix::fs::symlink("kept/a", test.path("link")).unwrap();
    let before = test.tree().but_for_own_time();
    let snapshot = test.windlass.snapshot(&[".".into()]).unwrap();
    std::fs::remove_file(test.path("run.sh")).unwrap();
    std::fs::remove_file(test.path("link")).unwrap();
    std::fs::remove_dir_all(test.path("kept")).unwrap();
    test.put("kept", "a file now\n");
    test.put("made/deep/file", "x\n");
    // The snapshot is a value that a program can keep over a restart.
    let kept = serde_json::to_string(&snapshot).unwrap();
    let test = test.restart();
    let snapshot = serde_json::from_str(&kept).unwrap();
    let restored = test.windlass.restore(&test.session, &snapshot).await.unwrap();
    assert_eq!(restored.outcome, Outcome::Ok, "{}", text(&restored));
    before.assert_same(&test.tree().but_for_own_time(), "the snapshot");
}

#[tokio::test]
async fn errata_snapshot_of_a_file_with_two_hard_links() {
    let test = TestWorkspace::with(&[("one", "old\n")]);
    std::fs::hard_link(test.path("one"), test.path("two")).unwrap();
    let before = test.tree().but_for_own_time();
    let snapshot = test.windlass.snapshot(&[".".into()]).unwrap();
    test.put("one", "new\n");
    let restored = test.windlass.restore(&test.session, &snapshot).await.unwrap();
    assert_eq!(restored.outcome, Outcome::Ok, "{}", text(&restored));
    before.assert_same(&test.tree().but_for_own_time(), "both names");
}

/// 3C-25: uncommitted files were missing in the worktree, non-ASCII names were skipped, and worktrees stayed registered.
#[tokio::test]
async fn errata_3c_25_a_worktree_has_all_that_the_workspace_has() {
    let test = TestWorkspace::with(&[("tracked.txt", "committed\n"), (".gitignore", "ignored\n")]);
    let git = |arguments: &[&str]| {
        let ran = std::process::Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
            .args(arguments)
            .current_dir(test.workspace())
            .output()
            .expect("this test needs git");
        assert!(ran.status.success(), "{arguments:?}: {ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    test.put("tracked.txt", "not committed\n");
    test.put("caf\u{e9}.txt", "untracked\n");
    test.put("$'caf\\xe9.txt'", "untracked\n");
    let at = test.parent_directory().join("worktree");
    let isolated = Isolated::create(&test.workspace(), &at, Isolation::GitWorktree).unwrap();
    assert_eq!(isolated.changes().unwrap(), [], "it begins as the workspace is");
    let direct =
        windlass::Windlass::builder(isolated.path()).mode(windlass::Mode::Auto).build().unwrap();
    let session = direct.new_session();
    let edit =
        json!({"path": "tracked.txt", "old_string": "not committed", "new_string": "edited"});
    assert_eq!(direct.call(&session, ToolCall::new("edit", edit)).await.outcome, Outcome::Ok);
    let patch = "*** Begin Patch\n*** Delete File: caf\u{e9}.txt\n*** Add File: n\u{e9}w.txt\n+n\n*** End Patch\n";
    let patched = direct.call(&session, ToolCall::new("patch", json!({"patch": patch}))).await;
    assert_eq!(patched.outcome, Outcome::Ok, "{}", text(&patched));
    let mut changed: Vec<String> = isolated
        .changes()
        .unwrap()
        .iter()
        .map(|change| format!("{} {}", change.kind, change.path.display()))
        .collect();
    changed.sort();
    assert_eq!(changed, ["changed tracked.txt", "created n\u{e9}w.txt", "deleted caf\u{e9}.txt"]);
    isolated.remove().unwrap();
    assert_eq!(git(&["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
}

/// 3C-27: an edit with an empty old string wrote text into an empty file.
#[tokio::test]
async fn errata_3c_27_edit_needs_an_old_string() {
    let test = TestWorkspace::with(&[("empty", ""), ("a.txt", "a\n")]);
    for path in ["empty", "a.txt"] {
        let edit = json!({"path": path, "old_string": "", "new_string": "x"});
        let said = test.call_refused("edit", edit).await;
        assert!(said.contains("use `write`"), "{said}");
    }
}

/// 3C-14: a path was checked to be inside only when the proposal was applied.
#[tokio::test]
async fn errata_proposal_is_checked_when_it_is_made() {
    let test = TestWorkspace::outside_tmp(&[], |builder| builder.mode(windlass::Mode::Auto));
    let session = proposing(&test);
    let write = json!({"path": "../outside.txt", "content": "x\n"});
    let denied = test.windlass.call(&session, ToolCall::new("write", write)).await;
    assert_eq!(denied.outcome, Outcome::Denied, "{}", text(&denied));
    assert!(test.windlass.proposals(session.id()).unwrap().list().is_empty());
}

/// Errata compares the beginning of the text, so that following commands run too.
#[tokio::test]
async fn errata_allowed_prefix_does_not_allow_following_commands() {
    let test = TestWorkspace::with_builder(&[], |builder| {
        builder.mode(Mode::Ask).allow("exec go test".parse().expect("a rule"))
    });
    for command in [
        "go test; touch made",
        "go test && touch made",
        "go test\ntouch made",
        "go test $(touch made)",
        "go test `touch made`",
        "go test | tee made",
        "go test > made",
        "go testX",
        "*",
        "",
    ] {
        test.call_refused("bash", json!({"command": command})).await;
        assert!(!test.path("made").exists(), "{command}");
    }
}

/// Its recipes have a time limit for all commands; ours belongs to the session, and the output up to the limit is kept.
#[tokio::test]
async fn errata_time_limit_of_the_session_binds_every_command() {
    let test = TestWorkspace::new();
    let overrides = Overrides { timeout: Some(Duration::from_millis(700)), ..Overrides::default() };
    let session = Arc::new(Session::new(SessionId::new("limited")).with_overrides(overrides));
    let command = json!({"command": "echo partial; sleep 60", "timeout": 600});
    let result = test.windlass.call(&session, ToolCall::new("bash", command)).await;
    assert_eq!(result.outcome, Outcome::TimedOut);
    assert!(text(&result).starts_with("partial\n"), "{}", text(&result));
}

/// Errata keeps only the beginning, and cuts characters in two.
#[tokio::test]
async fn errata_long_output_keeps_the_error_at_its_end() {
    let test = TestWorkspace::new();
    let command = "for i in $(seq 5000); do echo 'ein müßiges Zeilchen'; done; echo 'error: the reason' >&2; exit 1";
    let result = test.call("bash", json!({"command": command})).await;
    assert!(text(&result).contains("error: the reason\n[exit code 1"), "{}", text(&result).len());
    assert!(!text(&result).contains('\u{fffd}'));
}

/// Files that Errata's commands write are not recorded, and an undo leaves them.
#[tokio::test]
async fn errata_command_is_undone_like_any_other_change() {
    let test = TestWorkspace::with(&[("a.txt", "a\n"), ("d/b.txt", "b\n")]);
    let before = test.tree();
    let done =
        test.call_ok("bash", json!({"command": "rm -rf d; echo new > a.txt; ln -s a.txt l"})).await;
    assert!(text(&done).contains("changed: "), "{}", text(&done));
    assert_eq!(test.undo(Undo::Call(done.call)).await.outcome, Outcome::Ok);
    before.assert_same(&test.tree(), "what was there before the command");
}

/// A command that is known to only read needs no approval, so it gets no network: its Git configuration could make it run a program.
#[tokio::test]
async fn read_only_command_has_no_network() {
    let confinement = Confinement { network: NetworkAccess::Full, ..Confinement::default() };
    let settings = ProcessSettings { confinement, ..ProcessSettings::default() };
    let test = TestWorkspace::with_builder(&[("a", "a\n")], |builder| builder.processes(settings));
    test.put("tell.sh", "cat /proc/net/dev\n");
    let tell = "sh tell.sh";
    let lines = |said: &str| said.lines().filter(|line| line.contains(':')).count();
    let alone = lines(&text(&test.call_ok("bash", json!({"command": tell})).await));
    assert!(alone > 1, "the machine has no network to hide");
    test.call_ok("bash", json!({"command": "git init -q && git add a && echo b >> a"})).await;
    let config = std::fs::read_to_string(test.path(".git/config")).expect("a configuration");
    test.put(".git/config", format!("{config}[diff]\n\texternal = {tell}\n"));
    let said = text(&test.call_ok("bash", json!({"command": "git diff"})).await);
    assert_eq!(lines(&said), 1, "{said}");
}

/// Its sandbox modes: only the project or no file is writable, with or without the network. Each binds every command, and neither changes
/// the other (3C.9: `network none` made all files read-only, and a missing sandbox was only a line in a log).
#[tokio::test]
async fn errata_sandbox_modes_hold_for_every_command() {
    for (level, may_write) in [(SandboxLevel::ReadOnly, false), (SandboxLevel::Workspace, true)] {
        for network in [NetworkAccess::None, NetworkAccess::Full] {
            let confinement =
                Confinement { level, network: network.clone(), ..Confinement::default() };
            let settings = ProcessSettings { confinement, ..ProcessSettings::default() };
            let test = TestWorkspace::with_builder(&[("kept", "x\n")], |builder| {
                builder.processes(settings)
            });
            let outside = test.parent_directory().join("out");
            let script = format!(
                "touch made 2>/dev/null && echo inside; touch '{}'; test $(wc -l < /proc/net/dev) -gt 3 && echo connected; cat kept",
                outside.display()
            );
            let said = text(&test.call("bash", json!({"command": script})).await);
            assert_eq!(said.contains("inside\n"), may_write, "{level}: {said}");
            assert_eq!(test.path("made").exists(), may_write, "{level}: {said}");
            assert!(!outside.exists(), "{level}: {said}");
            assert!(said.contains("x\n"), "{level}: {said}");
            let is_connected = said.contains("connected");
            assert!(network == NetworkAccess::Full || !is_connected, "{level}, {network}: {said}");
        }
    }
}
