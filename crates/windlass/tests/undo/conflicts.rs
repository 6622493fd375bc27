//! Where somebody changed something since.

use serde_json::json;
use windlass::{Outcome, Undo};

use crate::support::{Place, text};

#[tokio::test]
async fn un_4_what_somebody_changed_since_is_not_overwritten() {
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

#[tokio::test]
async fn un_3_what_a_call_did_not_make_stays() {
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
