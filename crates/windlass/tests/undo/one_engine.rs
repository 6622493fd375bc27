//! Undo, apply and restore by a person are calls of the one engine: they publish events and are recorded, like any other call.

use std::sync::Arc;

use serde_json::json;
use windlass::changes::CheckpointQuery;
use windlass::event::{EventKind, Subscription};
use windlass::hooks::{Hook, HookAnswer, HookEvent};
use windlass::policy::Secrets;
use windlass::session::SessionId;
use windlass::tool::BoxFuture;
use windlass::{Builder, Mode, Outcome, Session, ToolCall, ToolError, Undo, Windlass};

use crate::support::{TestWorkspace, text};

/// Receives the events of the next call, as `started TOOL` and `OUTCOME TOOL`. They come when their records are safe.
async fn next_call_events(events: &mut Subscription) -> Vec<String> {
    let mut told = Vec::new();
    loop {
        match events.next().await.kind {
            EventKind::Started(started) => told.push(format!("started {}", started.tool)),
            EventKind::Finished(done) => {
                told.push(format!("{} {}", done.outcome.as_str(), done.tool));
                return told;
            }
            _ => {}
        }
    }
}

/// A hook that denies every call while a file `closed` exists.
struct Gate(std::path::PathBuf);

impl Hook for Gate {
    fn name(&self) -> &'static str {
        "gate"
    }

    fn on<'a>(&'a self, _: HookEvent<'a>) -> BoxFuture<'a, Result<HookAnswer, ToolError>> {
        let is_closed = self.0.join("closed").exists();
        let answer = if is_closed { HookAnswer::deny("closed") } else { HookAnswer::go_on() };
        Box::pin(std::future::ready(Ok(answer)))
    }
}

#[tokio::test]
async fn undo_apply_and_restore_publish_events() {
    let test = TestWorkspace::with(&[("a.txt", "one\n")]);
    let (windlass, person) = (&test.windlass, test.windlass.new_session());
    let snapshot = windlass.snapshot(&["a.txt".into()]).expect("a snapshot");
    test.call_ok("write", json!({"path": "new.txt", "content": "new\n"})).await;
    let proposing = windlass.proposing(Session::new(SessionId::new("p"))).expect("proposals");
    let write = ToolCall::new("write", json!({"path": "held.txt", "content": "held\n"}));
    assert_eq!(windlass.call(&proposing, write).await.outcome, Outcome::Ok);
    let proposals = windlass.proposals(proposing.id()).expect("proposals");
    let mut events = windlass.subscribe();
    let preview = windlass.undo_preview(&person, Undo::Last).await;
    assert_eq!(preview.outcome, Outcome::Ok, "{}", text(&preview));
    assert_eq!(next_call_events(&mut events).await, ["started undo", "ok undo"]);
    assert_eq!(windlass.undo(&person, Undo::Last).await.outcome, Outcome::Ok);
    assert_eq!(next_call_events(&mut events).await, ["started undo", "ok undo"]);
    assert_eq!(windlass.apply(&person, &proposals, None).await.outcome, Outcome::Ok);
    assert_eq!(next_call_events(&mut events).await, ["started apply", "ok apply"]);
    test.put("a.txt", "two\n");
    let restored = windlass.restore(&person, &snapshot).await.expect("a snapshot");
    assert_eq!(restored.outcome, Outcome::Ok, "{}", text(&restored));
    assert_eq!(next_call_events(&mut events).await, ["started restore", "ok restore"]);
    assert_eq!((test.text("a.txt"), test.text("held.txt")), ("one\n".into(), "held\n".into()));
    let changes = windlass.history().checkpoints(&CheckpointQuery::Session(person.id().clone()));
    assert_eq!(changes.expect("a history").len(), 3, "each of them can be undone");
}

#[tokio::test]
async fn rules_and_hooks_do_not_bind_a_persons_undo_apply_and_restore() {
    let test = TestWorkspace::with(&[("a.txt", "one\n")]);
    let gate = Arc::new(Gate(test.workspace()));
    let gated = |mode| {
        let gate = gate.clone();
        move |builder: Builder| builder.mode(mode).configure(|engine| engine.hook(gate))
    };
    let test = test.reopen_with(gated(Mode::Auto));
    test.call_ok("read", json!({"path": "a.txt"})).await;
    test.call_ok("write", json!({"path": "a.txt", "content": "two\n"})).await;
    test.put("closed", "");
    let rule = "write **".parse().unwrap();
    let test = test.reopen_with(|builder| gated(Mode::Deny)(builder).deny(rule));
    test.call_refused("read", json!({"path": "a.txt"})).await;
    let undone = test.undo(Undo::Last).await;
    assert_eq!(undone.outcome, Outcome::Ok, "{}", text(&undone));
    assert_eq!(test.text("a.txt"), "one\n");
}

#[tokio::test]
async fn secrets_are_redacted_in_results_and_records_of_an_undo() {
    let secret = "hunter2hunter2";
    let test = TestWorkspace::with_builder(&[("a.txt", secret)], |builder| {
        builder.configure(|engine| engine.secrets(Secrets::new([("PIN", "hunter2hunter2")])))
    });
    test.call_ok("read", json!({"path": "a.txt"})).await;
    test.call_ok("write", json!({"path": "a.txt", "content": "nothing\n"})).await;
    let undone = test.undo(Undo::Last).await;
    assert_eq!(test.text("a.txt"), secret);
    assert!(!text(&undone).contains(secret), "{}", text(&undone));
    let state = test.state();
    drop(test.windlass);
    let store = windlass::journal::Store::open(&state).expect("a journal");
    let rows = store.records(None, 0, 1_000).expect("records");
    let bodies = rows.iter().filter_map(|row| row.body.as_deref());
    assert!(bodies.into_iter().all(|body| !body.contains(secret)));
}

#[tokio::test]
async fn model_must_read_a_file_again_after_an_undo() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.txt"), "one\n").expect("a file");
    let windlass = Windlass::builder(folder.path()).mode(Mode::Auto).build().expect("a workspace");
    let session = windlass.new_session();
    let read = || windlass.call(&session, ToolCall::new("read", json!({"path": "a.txt"})));
    read().await;
    let write = ToolCall::new("write", json!({"path": "a.txt", "content": "two\n"}));
    windlass.call(&session, write).await;
    assert!(text(&read().await).contains("two"));
    windlass.undo(&session, Undo::Last).await;
    assert!(text(&read().await).contains("one"));
}
