//! Hector's human in the loop: a call waits for a person's answer, also across a restart, and continues then.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass::event::EventKind;
use windlass::people::{Answer, Approval, ApprovalState};
use windlass::session::{ApprovalId, SessionId};
use windlass::tool::{Overrides, Predicate};
use windlass::{Outcome, Session, ToolCall, Windlass};

use super::{RecordingAttendant, TestDirectories, call, leave_open, session};
use crate::support::text;

fn write(path: &str) -> ToolCall {
    ToolCall::new("write", json!({"path": path, "content": "x\n"}))
}

async fn open(windlass: &Windlass) -> Vec<Approval> {
    let mut all = windlass.engine().approvals().await.unwrap();
    all.retain(|one| one.settled == ApprovalState::Pending);
    all
}

async fn resume(
    windlass: &Windlass,
    session: &Arc<Session>,
    id: &ApprovalId,
) -> windlass::CallResult {
    windlass.engine().resume(session, id).await.unwrap().expect("no other engine makes the call")
}

#[tokio::test]
async fn hector_hitl_pending_call_survives_a_restart_and_runs_once_approved() {
    let directories = TestDirectories::new();
    leave_open(&directories, "s", vec![write("a")]).await;
    let windlass = directories.unattended();
    let [question] = &open(&windlass).await[..] else { panic!("one question is open") };
    assert_eq!((question.tool.as_str(), question.session.as_str()), ("write", "s"));
    assert!(!directories.path("work/a").exists());
    windlass.engine().answer(&question.id, Answer::allow()).await.unwrap();
    assert!(
        windlass.engine().answer(&question.id, Answer::allow()).await.is_err(),
        "there is one answer"
    );
    drop(windlass);
    // A restart between the answer and the call makes no difference.
    let windlass = directories.unattended();
    let session = session("s");
    let result = resume(&windlass, &session, &question.id).await;
    assert_eq!(result.outcome, Outcome::Ok, "{}", text(&result));
    assert!(directories.path("work/a").exists());
    assert!(windlass.engine().approvals().await.unwrap().is_empty(), "the decision is used up");
    assert!(windlass.engine().resume(&session, &question.id).await.is_err());
    std::fs::remove_file(directories.path("work/a")).unwrap();
    let again = windlass.call(&session, write("a")).await;
    assert_eq!(again.outcome, Outcome::Denied, "the same call asks again");
}

#[tokio::test]
async fn hector_hitl_denial_is_no_error_and_runs_no_call() {
    let directories = TestDirectories::new();
    leave_open(&directories, "s", vec![write("a")]).await;
    let windlass = directories.unattended();
    let id = open(&windlass).await[0].id.clone();
    windlass.engine().answer(&id, Answer::deny("not this one")).await.unwrap();
    let result = resume(&windlass, &session("s"), &id).await;
    assert_eq!(result.outcome, Outcome::Denied);
    assert!(text(&result).contains("not this one"), "{}", text(&result));
    assert!(!directories.path("work/a").exists());
    assert!(windlass.engine().approvals().await.unwrap().is_empty());
    let failed = call(&windlass, &session("s"), "read", json!({"path": "a"})).await;
    assert_eq!(failed.outcome, Outcome::Error, "which is something else");
}

/// The model may make the same call again: it gets the stored answer.
#[tokio::test]
async fn hector_hitl_stored_answer_is_used_when_the_model_calls_again() {
    let directories = TestDirectories::new();
    leave_open(&directories, "s", vec![write("a")]).await;
    let windlass = directories.unattended();
    let id = open(&windlass).await[0].id.clone();
    windlass.engine().answer(&id, Answer::allow()).await.unwrap();
    assert_eq!(
        windlass.call(&session("t"), write("a")).await.outcome,
        Outcome::Denied,
        "not its own"
    );
    assert_eq!(
        windlass.call(&session("s"), write("b")).await.outcome,
        Outcome::Denied,
        "another call"
    );
    assert_eq!(windlass.call(&session("s"), write("a")).await.outcome, Outcome::Ok);
    std::fs::remove_file(directories.path("work/a")).unwrap();
    assert_eq!(windlass.call(&session("s"), write("a")).await.outcome, Outcome::Denied, "once");
}

/// 3B-6: an approval of one call ran every open call of that tool, with arguments that the person had not seen.
#[tokio::test]
async fn hector_3b_6_approval_is_for_one_call() {
    let directories = TestDirectories::new();
    leave_open(&directories, "s", vec![write("a"), write("b"), write("c")]).await;
    let windlass = directories.unattended();
    let questions = open(&windlass).await;
    assert_eq!(questions.len(), 3);
    let is_b = |one: &&Approval| one.input.as_ref().is_some_and(|input| input["path"] == "b");
    let chosen = questions.iter().find(is_b).unwrap();
    windlass.engine().answer(&chosen.id, Answer::allow()).await.unwrap();
    resume(&windlass, &session("s"), &chosen.id).await;
    let there = ["a", "b", "c"].map(|name| directories.path("work").join(name).exists());
    assert_eq!(there, [false, true, false]);
    assert_eq!(open(&windlass).await.len(), 2, "the others wait");
}

/// 3B-6: the target of a link or directory at the time of the approval is part of the approval.
#[tokio::test]
async fn hector_3b_6_approval_is_for_the_shown_target() {
    let directories = TestDirectories::new();
    directories.put("work/d/keep", "");
    directories.put("work/e/keep", "");
    std::os::unix::fs::symlink("d", directories.path("work/link")).unwrap();
    leave_open(&directories, "s", vec![write("link/a")]).await;
    let windlass = directories.unattended();
    let id = open(&windlass).await[0].id.clone();
    windlass.engine().answer(&id, Answer::allow()).await.unwrap();
    std::fs::remove_file(directories.path("work/link")).unwrap();
    std::os::unix::fs::symlink("e", directories.path("work/link")).unwrap();
    assert_eq!(resume(&windlass, &session("s"), &id).await.outcome, Outcome::Denied);
    assert!(!directories.path("work/e/a").exists() && !directories.path("work/d/a").exists());
}

/// 3B-7: the text "approve" was taken for an answer, or lost. An answer names its approval.
#[tokio::test]
async fn hector_3b_7_answer_names_its_approval() {
    let directories = TestDirectories::new();
    leave_open(&directories, "s", vec![write("a")]).await;
    let windlass = directories.unattended();
    for id in ["approve", "write", "", "s"] {
        assert!(
            windlass.engine().answer(&ApprovalId::new(id), Answer::allow()).await.is_err(),
            "{id}"
        );
    }
    assert_eq!(open(&windlass).await.len(), 1);
}

/// 3B-8, 3B-21: other results of a turn were lost if one call waited, and a denial ended the other calls.
#[tokio::test]
async fn hector_3b_8_turn_has_all_its_results_despite_a_denial() {
    let directories = TestDirectories::new();
    directories.put("work/a", "here\n");
    let windlass = directories.open(RecordingAttendant::new(Answer::deny("no")));
    let read = || ToolCall::new("read", json!({"path": "a"}));
    let results = windlass.turn(&session("s"), vec![read(), write("b"), read()]).await;
    let outcomes: Vec<Outcome> = results.iter().map(|result| result.outcome).collect();
    assert_eq!(outcomes, [Outcome::Ok, Outcome::Denied, Outcome::Ok]);
    assert!(text(&results[2]).contains("here"));
}

/// 3B-9: an approved call that failed was reported as a success.
#[tokio::test]
async fn hector_3b_9_failing_approved_call_is_an_error() {
    let directories = TestDirectories::new();
    let windlass = directories.open(RecordingAttendant::new(Answer::allow()));
    let result =
        call(&windlass, &session("s"), "bash", json!({"command": "echo out; exit 3"})).await;
    assert_eq!((result.outcome, result.output.is_error), (Outcome::Error, true));
    assert_eq!(result.output.metadata["exit_code"], json!(3));
    assert!(text(&result).starts_with("out\n"), "{}", text(&result));
}

/// 3B-27: an approval of a child session never reached a listener that could answer.
#[tokio::test]
async fn hector_3b_27_childs_approval_reaches_the_listener() {
    let directories = TestDirectories::new();
    let windlass = directories.unattended();
    let (mut events, parent) = (windlass.subscribe(), session("s"));
    let _there = windlass.engine().attend(parent.id(), windlass::people::EventAttendant::default());
    let child = parent.child(SessionId::new("c"), Predicate::All, &Overrides::default());
    let (_, running) = windlass.start(&Arc::new(child), write("a"));
    let running = tokio::spawn(running);
    let request = loop {
        if let EventKind::Approval(request) = events.next().await.kind {
            break request;
        }
    };
    assert_eq!(request.asker.parent, Some(SessionId::new("s")));
    windlass.engine().answer(&request.id, Answer::allow()).await.unwrap();
    assert_eq!(running.await.unwrap().outcome, Outcome::Ok);
}

/// Arguments with a secret are not stored with the approval, so such a call cannot be made from the record.
#[tokio::test]
async fn hector_hitl_secret_is_not_stored_with_an_approval() {
    let directories = TestDirectories::new();
    leave_open(&directories, "s", vec![write("a")]).await;
    let file = directories.path("state/approvals.json");
    let mut all: Vec<Value> = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    all[0]["input"] = Value::Null;
    std::fs::write(&file, serde_json::to_vec(&all).unwrap()).unwrap();
    let windlass = directories.unattended();
    let id = open(&windlass).await[0].id.clone();
    windlass.engine().answer(&id, Answer::allow()).await.unwrap();
    let error = windlass.engine().resume(&session("s"), &id).await.unwrap_err();
    assert!(error.to_string().contains("the model has to make it again"), "{error}");
    assert_eq!(windlass.call(&session("s"), write("a")).await.outcome, Outcome::Ok);
}
