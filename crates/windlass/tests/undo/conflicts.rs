//! Conflicts: files that a person or another process changed after the call that is undone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use windlass::{Outcome, ToolCall, Undo};

use crate::support::{Place, text};

#[tokio::test]
async fn un_4_file_changed_since_is_not_overwritten() {
    let place = Place::with(&[("a.txt", "one\ntwo\nthree\n")]);
    place.ok("edit", json!({"path": "a.txt", "old_string": "two", "new_string": "2"})).await;
    place.ok("write", json!({"path": "b.txt", "content": "b\n"})).await;
    place.put("a.txt", "one\n2\nthree, by hand\n");
    let before = place.tree();
    let refused = place.undo(Undo::Session(place.session.id().clone())).await;
    assert_eq!(refused.outcome, Outcome::Error);
    let said = text(&refused);
    for part in
        ["conflict: nothing was undone", "a.txt: it was changed since", "+three, by hand", "+two"]
    {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    before.assert_is(&place.tree(), "a refused undo changes nothing");
    place.put("a.txt", "one\n2\nthree\n");
    assert_eq!(place.undo(Undo::Session(place.session.id().clone())).await.outcome, Outcome::Ok);
    assert_eq!(place.text("a.txt"), "one\ntwo\nthree\n");
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
            let place = Place::with(&[("d/a.txt", "a\n")]);
            let flags = rustix::fs::XattrFlags::empty();
            let attach = |name: &str, attribute: &str| {
                rustix::fs::setxattr(place.path(name), attribute, b"1", flags).expect("attached");
            };
            attach("d/a.txt", "user.old");
            place.ok("read", json!({"path": "d/a.txt"})).await;
            place.ok(tool, input.clone()).await;
            match mode {
                Some(mode) => {
                    let mode = fs::Permissions::from_mode(mode);
                    fs::set_permissions(place.path(name), mode).expect("a mode");
                }
                None if attribute == "user.old" && name == "d/a.txt" => {
                    rustix::fs::removexattr(place.path(name), attribute).expect("removed");
                }
                None => attach(name, attribute),
            }
            let before = place.tree();
            let refused = place.undo(Undo::Last).await;
            let said = text(&refused);
            assert_eq!(refused.outcome, Outcome::Error, "{input}: {name} {attribute}: {said}");
            assert!(said.contains(&format!("{name}: {why}")), "{input}: {said}");
            before.assert_is(&place.tree(), "a refused undo changes nothing");
        }
    }
}

#[tokio::test]
async fn un_3_files_that_a_call_did_not_create_stay() {
    let place = Place::new();
    place.ok("write", json!({"path": "made/by/call.txt", "content": "a\n"})).await;
    place.put("made/by/person.txt", "mine\n");
    assert_eq!(place.undo(Undo::Last).await.outcome, Outcome::Ok);
    assert_eq!(place.text("made/by/person.txt"), "mine\n");
    assert!(!place.path("made/by/call.txt").exists());
}

#[tokio::test]
async fn un_6_two_sessions_in_one_directory_and_a_restart() {
    let place = Place::with(&[("shared.txt", "0\n")]);
    let other = place.windlass.new_session();
    place.ok("edit", json!({"path": "shared.txt", "old_string": "0", "new_string": "1"})).await;
    let call = windlass::ToolCall::new(
        "edit",
        json!({"path": "shared.txt", "old_string": "1", "new_string": "2"}),
    );
    assert_eq!(place.windlass.call(&other, call).await.outcome, Outcome::Ok);
    let place = place.restart();
    let mine = Undo::Session(place.session.id().clone());
    assert_eq!(place.undo(mine.clone()).await.outcome, Outcome::Error, "the other came after");
    assert_eq!(place.undo(Undo::Session(other.id().clone())).await.outcome, Outcome::Ok);
    assert_eq!(place.text("shared.txt"), "1\n");
    assert_eq!(place.undo(mine).await.outcome, Outcome::Ok);
    assert_eq!(place.text("shared.txt"), "0\n");
}

#[tokio::test]
async fn un_5_an_undo_can_be_undone() {
    let place = Place::new();
    place.ok("write", json!({"path": "a.txt", "content": "a\n"})).await;
    let undone = place.undo(Undo::Last).await;
    assert!(!place.path("a.txt").exists());
    assert_eq!(place.undo(Undo::Call(undone.call)).await.outcome, Outcome::Ok);
    assert_eq!(place.text("a.txt"), "a\n");
    assert_eq!(place.undo(Undo::Last).await.outcome, Outcome::Ok);
    let nothing = place.undo(Undo::Last).await;
    assert_eq!(
        (nothing.outcome, text(&nothing)),
        (Outcome::Error, "there is nothing to undo".into())
    );
}

#[tokio::test]
async fn un_5_calls_undone_within_a_session_stay_undone() {
    let place = Place::with(&[("a.txt", "0\n")]);
    let before = place.tree();
    place.ok("edit", json!({"path": "a.txt", "old_string": "0", "new_string": "1"})).await;
    place.ok("undo", json!({})).await;
    let all = Undo::Session(place.session.id().clone());
    let nothing = place.undo(all.clone()).await;
    assert_eq!(text(&nothing), "there is nothing to undo");
    before.assert_is(&place.tree(), "its changes were taken back already");
    place.ok("write", json!({"path": "b.txt", "content": "b\n"})).await;
    let own = place.ok("undo", json!({})).await;
    place.ok("undo", json!({"call": own.call})).await;
    assert_eq!(place.undo(all).await.outcome, Outcome::Ok);
    before.assert_is(&place.tree(), "one change was taken back, the other made again");
}

#[tokio::test]
async fn un_5_an_undo_of_another_session_is_a_change() {
    let place = Place::with(&[("a.txt", "0\n")]);
    place.ok("edit", json!({"path": "a.txt", "old_string": "0", "new_string": "1"})).await;
    let person = place.windlass.new_session();
    let undone = place.windlass.undo(&person, Undo::Last).await;
    let turn =
        windlass::session::TurnId::new(undone.output.metadata["turn"].as_str().expect("a turn"));
    assert_eq!(place.undo(Undo::Session(person.id().clone())).await.outcome, Outcome::Ok);
    assert_eq!(place.text("a.txt"), "1\n");
    assert_eq!(place.undo(Undo::Turn(turn)).await.outcome, Outcome::Error, "it is undone");
}

#[tokio::test]
async fn un_4_file_that_a_person_restored_already_is_no_conflict() {
    let place = Place::with(&[("a.txt", "0\n"), ("b.txt", "0\n")]);
    let before = place.tree();
    place.ok("write", json!({"path": "made.txt", "content": "1\n"})).await;
    for (old, new) in [("0", "1"), ("1", "2")] {
        let patch = format!(
            "*** Begin Patch\n*** Update File: a.txt\n-{old}\n+{new}\n*** Update File: b.txt\n-{old}\n+{new}\n*** End Patch"
        );
        place.ok("patch", json!({"patch": patch})).await;
    }
    std::fs::remove_file(place.path("made.txt")).expect("it was made");
    place.put("a.txt", "0\n");
    let undone = place.undo(Undo::Session(place.session.id().clone())).await;
    assert_eq!(undone.outcome, Outcome::Ok, "{}", text(&undone));
    assert_eq!(undone.output.metadata["paths"], json!(["b.txt"]));
    let names = |tree: &crate::support::Tree| tree.files();
    assert_eq!(names(&place.tree()), names(&before));
    assert_eq!((place.text("a.txt"), place.text("b.txt")), ("0\n".into(), "0\n".into()));
}

#[tokio::test]
async fn un_4_conflict_names_the_kind_of_an_object_that_is_no_file() {
    let place = Place::with(&[("a.txt", "0\n")]);
    let patch = "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch";
    place.ok("patch", json!({"patch": patch})).await;
    std::fs::create_dir(place.path("a.txt")).expect("a folder");
    let said = text(&place.undo(Undo::Last).await);
    assert!(said.contains("something was put there since"), "{said}");
    assert!(said.contains("there is a directory now"), "{said}");
}

/// A file that another process created first at the path of a change stays, also if it equals the one that the call would have made.
#[tokio::test]
async fn un_4_a_failed_call_leaves_what_another_process_made() {
    let place = Place::with(&[("theirs.txt", "the same\n"), ("a.txt", "the same\n")]);
    std::os::unix::fs::symlink("somewhere", place.path("link")).expect("a link");
    std::fs::create_dir(place.path("directory")).expect("a directory");
    for late in [
        json!({"path": "theirs.txt", "to": "file", "content": "the same\n", "unseen": true}),
        json!({"path": "link", "to": "symlink", "target": "somewhere", "unseen": true}),
        json!({"path": "directory", "to": "directory", "unseen": true}),
        json!({"path": "theirs.txt", "to": "moved", "from": "a.txt", "unseen": true}),
        json!({"path": "theirs.txt", "to": "linked", "with": "a.txt", "unseen": true}),
    ] {
        let first = json!({"path": "new/first.txt", "to": "file", "content": "ours\n"});
        let said = place.refused("delta", json!({"changes": [first, late]})).await;
        assert!(said.contains("exists already"), "{late}: {said}");
    }
}

/// A call of another workspace can be undone only there.
#[tokio::test]
async fn un_4_a_call_of_another_workspace_is_refused_with_what_to_do() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let call = place.ok("write", json!({"path": "b.txt", "content": "two\n"})).await.call;
    let there = place.workspace();
    let elsewhere = tempfile::tempdir().expect("a directory");
    let here = elsewhere.path().canonicalize().expect("its path");
    let windlass = windlass::Windlass::builder(&here).state(place.state()).build();
    let windlass = windlass.expect("another workspace");
    let result = windlass.undo(&windlass.new_session(), Undo::Call(call.clone())).await;
    assert_eq!(result.outcome, Outcome::Error, "{}", text(&result));
    let hint = format!("windlass -C {} undo --call {call}", there.display());
    assert!(text(&result).contains(&hint), "{}", text(&result));
    assert_eq!(place.text("b.txt"), "two\n");
    let undone = place.undo(Undo::Call(call)).await;
    assert_eq!(undone.outcome, Outcome::Ok, "{}", text(&undone));
}

/// Calls of one turn run in their order: `undo` undoes the write before it, not the one after it.
#[tokio::test]
async fn un_5_undo_in_a_turn_undoes_the_call_before_it() {
    let place = Place::with(&[("a.txt", "one\n")]);
    for (number, before) in ["first.txt", "new/deep.txt"].into_iter().enumerate() {
        let write = |path: &str| {
            ToolCall::new("write", json!({"path": path, "content": "x\n", "mode": "create"}))
        };
        let after = format!("after{number}.txt");
        let calls = vec![write(before), ToolCall::new("undo", json!({})), write(&after)];
        let results = place.windlass.turn(&place.session, calls).await;
        let said: Vec<String> = results.iter().map(text).collect();
        assert!(results.iter().all(|one| one.outcome == Outcome::Ok), "{said:?}");
        assert!(!place.path(before).exists() && place.path(&after).exists(), "{said:?}");
    }
}
