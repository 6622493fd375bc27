//! Conflicts: files that a person or another process changed after the call that is undone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use windlass::{Outcome, ToolCall, Undo};

use crate::support::{TestWorkspace, text};

#[tokio::test]
async fn un_4_file_changed_since_is_not_overwritten() {
    let test = TestWorkspace::with(&[("a.txt", "one\ntwo\nthree\n")]);
    test.call_ok("edit", json!({"path": "a.txt", "old_string": "two", "new_string": "2"})).await;
    test.call_ok("write", json!({"path": "b.txt", "content": "b\n"})).await;
    test.put("a.txt", "one\n2\nthree, by hand\n");
    let before = test.tree();
    let refused = test.undo(Undo::Session(test.session.id().clone())).await;
    assert_eq!(refused.outcome, Outcome::Error);
    let said = text(&refused);
    for part in
        ["conflict: nothing was undone", "a.txt: it was changed since", "+three, by hand", "+two"]
    {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    before.assert_same(&test.tree(), "a refused undo changes nothing");
    test.put("a.txt", "one\n2\nthree\n");
    assert_eq!(test.undo(Undo::Session(test.session.id().clone())).await.outcome, Outcome::Ok);
    assert_eq!(test.text("a.txt"), "one\ntwo\nthree\n");
}

/// A person's change of a mode or of an extended attribute is a conflict, like a change of the content.
#[tokio::test]
async fn un_4_mode_and_attribute_changed_since_are_not_lost() {
    let calls = [
        ("edit", json!({"path": "d/a.txt", "old_string": "a", "new_string": "b"})),
        ("write", json!({"path": "d/a.txt", "content": "b\n"})),
        ("write", json!({"path": "d/new", "content": "b\n"})),
        ("write", json!({"path": "d/new/and/deep", "content": "b\n"})),
        ("bash", json!({"command": "echo more >> d/a.txt"})),
        ("bash", json!({"command": "chmod 750 d/a.txt d"})),
        ("bash", json!({"command": "echo new > d/new; chmod 700 d"})),
    ];
    for (tool, input) in &calls {
        let names = ["d/new/and/deep", "d/new", "d/a.txt"];
        let is_named = |name: &&&str| input.to_string().contains(**name);
        let name = *names.iter().find(is_named).expect("a name");
        let mut cases = vec![
            (name, "user.note", None, "its extended attributes were changed since"),
            (name, "user.old", None, "its extended attributes were changed since"),
            (name, "", Some(0o640), "its permissions were changed since"),
        ];
        if input.to_string().contains("chmod") {
            cases.push(("d", "user.note", None, "its extended attributes were changed since"));
            cases.push(("d", "", Some(0o711), "its permissions were changed since"));
        }
        for (name, attribute, mode, why) in cases {
            let test = TestWorkspace::with(&[("d/a.txt", "a\n")]);
            let flags = rustix::fs::XattrFlags::empty();
            let attach = |name: &str, attribute: &str| {
                rustix::fs::setxattr(test.path(name), attribute, b"1", flags).expect("attached");
            };
            attach("d/a.txt", "user.old");
            test.call_ok("read", json!({"path": "d/a.txt"})).await;
            test.call_ok(tool, input.clone()).await;
            match mode {
                Some(mode) => {
                    let mode = fs::Permissions::from_mode(mode);
                    fs::set_permissions(test.path(name), mode).expect("a mode");
                }
                None if attribute == "user.old" && name == "d/a.txt" => {
                    rustix::fs::removexattr(test.path(name), attribute).expect("removed");
                }
                None => attach(name, attribute),
            }
            let before = test.tree();
            let refused = test.undo(Undo::Last).await;
            let said = text(&refused);
            assert_eq!(refused.outcome, Outcome::Error, "{input}: {name} {attribute}: {said}");
            assert!(said.contains(&format!("{name}: {why}")), "{input}: {said}");
            before.assert_same(&test.tree(), "a refused undo changes nothing");
        }
    }
}

#[tokio::test]
async fn un_3_files_that_a_call_did_not_create_stay() {
    let test = TestWorkspace::new();
    test.call_ok("write", json!({"path": "made/by/call.txt", "content": "a\n"})).await;
    test.put("made/by/person.txt", "mine\n");
    assert_eq!(test.undo(Undo::Last).await.outcome, Outcome::Ok);
    assert_eq!(test.text("made/by/person.txt"), "mine\n");
    assert!(!test.path("made/by/call.txt").exists());
}

#[tokio::test]
async fn un_6_two_sessions_in_one_directory_and_a_restart() {
    let test = TestWorkspace::with(&[("shared.txt", "0\n")]);
    let other = test.windlass.new_session();
    test.call_ok("edit", json!({"path": "shared.txt", "old_string": "0", "new_string": "1"})).await;
    let call = windlass::ToolCall::new(
        "edit",
        json!({"path": "shared.txt", "old_string": "1", "new_string": "2"}),
    );
    assert_eq!(test.windlass.call(&other, call).await.outcome, Outcome::Ok);
    let test = test.restart();
    let mine = Undo::Session(test.session.id().clone());
    assert_eq!(test.undo(mine.clone()).await.outcome, Outcome::Error, "the other came after");
    assert_eq!(test.undo(Undo::Session(other.id().clone())).await.outcome, Outcome::Ok);
    assert_eq!(test.text("shared.txt"), "1\n");
    assert_eq!(test.undo(mine).await.outcome, Outcome::Ok);
    assert_eq!(test.text("shared.txt"), "0\n");
}

#[tokio::test]
async fn un_5_an_undo_can_be_undone() {
    let test = TestWorkspace::new();
    test.call_ok("write", json!({"path": "a.txt", "content": "a\n"})).await;
    let undone = test.undo(Undo::Last).await;
    assert!(!test.path("a.txt").exists());
    assert_eq!(test.undo(Undo::Call(undone.call)).await.outcome, Outcome::Ok);
    assert_eq!(test.text("a.txt"), "a\n");
    assert_eq!(test.undo(Undo::Last).await.outcome, Outcome::Ok);
    let nothing = test.undo(Undo::Last).await;
    assert_eq!(
        (nothing.outcome, text(&nothing)),
        (Outcome::Error, "there is nothing to undo".into())
    );
}

#[tokio::test]
async fn un_5_calls_undone_within_a_session_stay_undone() {
    let test = TestWorkspace::with(&[("a.txt", "0\n")]);
    let before = test.tree();
    test.call_ok("edit", json!({"path": "a.txt", "old_string": "0", "new_string": "1"})).await;
    test.call_ok("undo", json!({})).await;
    let all = Undo::Session(test.session.id().clone());
    let nothing = test.undo(all.clone()).await;
    assert_eq!(text(&nothing), "there is nothing to undo");
    before.assert_same(&test.tree(), "its changes were taken back already");
    test.call_ok("write", json!({"path": "b.txt", "content": "b\n"})).await;
    let own = test.call_ok("undo", json!({})).await;
    test.call_ok("undo", json!({"call": own.call})).await;
    assert_eq!(test.undo(all).await.outcome, Outcome::Ok);
    before.assert_same(&test.tree(), "one change was taken back, the other made again");
}

#[tokio::test]
async fn un_5_an_undo_of_another_session_is_a_change() {
    let test = TestWorkspace::with(&[("a.txt", "0\n")]);
    test.call_ok("edit", json!({"path": "a.txt", "old_string": "0", "new_string": "1"})).await;
    let person = test.windlass.new_session();
    let undone = test.windlass.undo(&person, Undo::Last).await;
    let turn =
        windlass::session::TurnId::new(undone.output.metadata["turn"].as_str().expect("a turn"));
    assert_eq!(test.undo(Undo::Session(person.id().clone())).await.outcome, Outcome::Ok);
    assert_eq!(test.text("a.txt"), "1\n");
    assert_eq!(test.undo(Undo::Turn(turn)).await.outcome, Outcome::Error, "it is undone");
}

#[tokio::test]
async fn un_4_file_that_a_person_restored_already_is_no_conflict() {
    let test = TestWorkspace::with(&[("a.txt", "0\n"), ("b.txt", "0\n")]);
    let before = test.tree();
    test.call_ok("write", json!({"path": "made.txt", "content": "1\n"})).await;
    for (old, new) in [("0", "1"), ("1", "2")] {
        let patch = format!(
            "*** Begin Patch\n*** Update File: a.txt\n-{old}\n+{new}\n*** Update File: b.txt\n-{old}\n+{new}\n*** End Patch"
        );
        test.call_ok("patch", json!({"patch": patch})).await;
    }
    std::fs::remove_file(test.path("made.txt")).expect("it was made");
    test.put("a.txt", "0\n");
    let undone = test.undo(Undo::Session(test.session.id().clone())).await;
    assert_eq!(undone.outcome, Outcome::Ok, "{}", text(&undone));
    assert_eq!(undone.output.metadata["paths"], json!(["b.txt"]));
    let names = |tree: &crate::support::Tree| tree.files();
    assert_eq!(names(&test.tree()), names(&before));
    assert_eq!((test.text("a.txt"), test.text("b.txt")), ("0\n".into(), "0\n".into()));
}

#[tokio::test]
async fn un_4_conflict_names_the_kind_of_an_object_that_is_no_file() {
    let test = TestWorkspace::with(&[("a.txt", "0\n")]);
    let patch = "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch";
    test.call_ok("patch", json!({"patch": patch})).await;
    std::fs::create_dir(test.path("a.txt")).expect("a folder");
    let said = text(&test.undo(Undo::Last).await);
    assert!(said.contains("something was put there since"), "{said}");
    assert!(said.contains("there is a directory now"), "{said}");
}

/// A file that another process created first at the path of a change stays, also if it equals the one that the call would have made.
#[tokio::test]
async fn un_4_failed_call_leaves_files_of_another_process() {
    let test = TestWorkspace::with(&[("theirs.txt", "the same\n"), ("a.txt", "the same\n")]);
    std::os::unix::fs::symlink("somewhere", test.path("link")).expect("a link");
    std::fs::create_dir(test.path("directory")).expect("a directory");
    for late in [
        json!({"path": "theirs.txt", "to": "file", "content": "the same\n", "unseen": true}),
        json!({"path": "link", "to": "symlink", "target": "somewhere", "unseen": true}),
        json!({"path": "directory", "to": "directory", "unseen": true}),
        json!({"path": "theirs.txt", "to": "moved", "from": "a.txt", "unseen": true}),
        json!({"path": "theirs.txt", "to": "linked", "with": "a.txt", "unseen": true}),
    ] {
        let first = json!({"path": "new/first.txt", "to": "file", "content": "ours\n"});
        let said = test.call_refused("delta", json!({"changes": [first, late]})).await;
        assert!(said.contains("exists already"), "{late}: {said}");
    }
}

/// A call of another workspace can be undone only there.
#[tokio::test]
async fn un_4_call_of_another_workspace_is_refused_with_a_remedy() {
    let test = TestWorkspace::with(&[("a.txt", "one\n")]);
    let call = test.call_ok("write", json!({"path": "b.txt", "content": "two\n"})).await.call;
    let there = test.workspace();
    let elsewhere = tempfile::tempdir().expect("a directory");
    let here = elsewhere.path().canonicalize().expect("its path");
    let windlass = windlass::Windlass::builder(&here).state(test.state()).build();
    let windlass = windlass.expect("another workspace");
    let result = windlass.undo(&windlass.new_session(), Undo::Call(call.clone())).await;
    assert_eq!(result.outcome, Outcome::Error, "{}", text(&result));
    let hint = format!("windlass -C {} undo --call {call}", there.display());
    assert!(text(&result).contains(&hint), "{}", text(&result));
    assert_eq!(test.text("b.txt"), "two\n");
    let undone = test.undo(Undo::Call(call)).await;
    assert_eq!(undone.outcome, Outcome::Ok, "{}", text(&undone));
}

/// Calls of one turn run in their order: `undo` undoes the write before it, not the one after it.
#[tokio::test]
async fn un_5_undo_in_a_turn_undoes_the_call_before_it() {
    let test = TestWorkspace::with(&[("a.txt", "one\n")]);
    for (number, before) in ["first.txt", "new/deep.txt"].into_iter().enumerate() {
        let write = |path: &str| {
            ToolCall::new("write", json!({"path": path, "content": "x\n", "mode": "create"}))
        };
        let after = format!("after{number}.txt");
        let calls = vec![write(before), ToolCall::new("undo", json!({})), write(&after)];
        let results = test.windlass.turn(&test.session, calls).await;
        let said: Vec<String> = results.iter().map(text).collect();
        assert!(results.iter().all(|one| one.outcome == Outcome::Ok), "{said:?}");
        assert!(!test.path(before).exists() && test.path(&after).exists(), "{said:?}");
    }
}
