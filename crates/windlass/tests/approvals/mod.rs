//! Changes that an approval shows: the result of each file, found by a trial run.

mod killed;

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use windlass::event::EventKind;
use windlass::people::{
    ApprovalRequest, EventAttendant, FileChange, Question, QuestionAnswer, Selection,
};
use windlass::testing::MockTool;
use windlass::{EffectKinds, Effects, Mode, Outcome, Output, ToolCall, Windlass};

use crate::support::TestWorkspace;

type ShownChanges = Arc<Mutex<Vec<Vec<FileChange>>>>;

/// Creates a workspace whose attendant allows everything. Returns it and the list of the changes that were shown.
fn workspace_with_approvals(files: &[(&str, &str)]) -> (TestWorkspace, ShownChanges) {
    let asked = ShownChanges::default();
    let hears = asked.clone();
    let test = TestWorkspace::with_builder(files, |builder| {
        builder.mode(Mode::Ask).attendant(move |request: &ApprovalRequest| {
            hears.lock().unwrap().push(request.changes.to_vec());
            true
        })
    });
    (test, asked)
}

async fn call(test: &TestWorkspace, tool: &str, input: Value) -> Outcome {
    test.windlass.call(&test.session, ToolCall::new(tool, input)).await.outcome
}

fn text(bytes: Option<&Vec<u8>>) -> Option<&str> {
    bytes.map(|bytes| std::str::from_utf8(bytes).expect("text"))
}

#[tokio::test]
async fn every_change_is_shown_before_it_is_made() {
    let (test, asked) = workspace_with_approvals(&[("a.txt", "one\ntwo\n"), ("b.txt", "gone\n")]);
    let edit = json!({"path": "a.txt", "old_string": "two", "new_string": "three"});
    assert_eq!(call(&test, "edit", edit).await, Outcome::Ok);
    let new = json!({"path": "d/new.txt", "content": "hello\n"});
    assert_eq!(call(&test, "write", new).await, Outcome::Ok);
    let patch = "*** Begin Patch\n*** Delete File: b.txt\n*** End Patch\n";
    assert_eq!(call(&test, "patch", json!({"patch": patch})).await, Outcome::Ok);
    let asked = asked.lock().unwrap();
    let told: Vec<Vec<_>> = asked
        .iter()
        .map(|changes| {
            let files = changes.iter().filter(|change| change.verb != "make");
            files
                .map(|one| (one.verb, text(one.before.as_ref()), text(one.after.as_ref())))
                .collect()
        })
        .collect();
    assert_eq!(
        told,
        [
            [("change", Some("one\ntwo\n"), Some("one\nthree\n"))],
            [("create", None, Some("hello\n"))],
            [("delete", Some("gone\n"), None)],
        ]
    );
    assert_eq!(test.text("a.txt"), "one\nthree\n");
}

#[tokio::test]
async fn call_that_would_fail_needs_no_approval() {
    let (test, asked) = workspace_with_approvals(&[("a.txt", "one\n")]);
    let edit = json!({"path": "a.txt", "old_string": "two", "new_string": "three"});
    assert_eq!(call(&test, "edit", edit).await, Outcome::Error);
    let stale = json!({"path": "a.txt", "content": "all new\n"});
    assert_eq!(call(&test, "write", stale).await, Outcome::Error);
    assert!(asked.lock().unwrap().is_empty());
    assert_eq!(test.text("a.txt"), "one\n");
}

#[tokio::test]
async fn denied_trial_leaves_no_trace() {
    let test = TestWorkspace::with_builder(&[("a.txt", "one\n")], |builder| {
        builder.mode(Mode::Ask).attendant(|_: &ApprovalRequest| false)
    });
    let before = test.tree();
    let edit = json!({"path": "a.txt", "old_string": "one", "new_string": "three"});
    assert_eq!(call(&test, "edit", edit.clone()).await, Outcome::Denied);
    before.assert_same(&test.tree(), "a denied edit");
    let write = json!({"path": "a.txt", "content": "x\n"});
    assert_eq!(call(&test, "write", write).await, Outcome::Error, "a trial is no reading");
    assert!(test.windlass.engine().approvals().await.unwrap().is_empty());
}

/// A link that is changed while the person reads the question is not followed, because the question showed its old target.
#[tokio::test]
async fn link_changed_during_an_approval_is_not_followed() {
    for (tool, input) in [
        ("bash", json!({"command": "echo x >> link/f"})),
        ("write", json!({"path": "link/f", "content": "x\n"})),
    ] {
        let workspace = Arc::new(Mutex::new(std::path::PathBuf::new()));
        let known = workspace.clone();
        let swap = move |request: &ApprovalRequest| {
            let link = known.lock().unwrap().join("link");
            assert!(request.effects.to_string().contains("/one/f"), "{}", request.effects);
            std::fs::remove_file(&link).unwrap();
            std::os::unix::fs::symlink("two", link).unwrap();
            true
        };
        let test = TestWorkspace::with_builder(&[("one/", ""), ("two/", "")], |builder| {
            builder.mode(Mode::Ask).ask_before(true).attendant(swap)
        });
        *workspace.lock().unwrap() = test.path("");
        std::os::unix::fs::symlink("one", test.path("link")).unwrap();
        assert_eq!(call(&test, tool, input).await, Outcome::Denied, "{tool}");
        assert!(!test.path("one/f").exists() && !test.path("two/f").exists(), "{tool}");
    }
}

/// A tool that asks a person to choose a letter.
fn choose() -> MockTool {
    MockTool::named("choose")
        .with_effects(EffectKinds::STATE, |_| Effects::state("question"))
        .answering(|cx, _| async move {
            let answer = cx.people()?.ask(&[Question::new("Which?", ["a", "b"])]).await?;
            Ok(Output::text(answer.selections[0].selected.join(",")))
        })
}

/// Two engines share only the state directory, like two processes: one asks, the other answers.
#[tokio::test]
async fn tools_question_is_answered_through_the_state_directory() {
    let folder = tempfile::tempdir().unwrap();
    let (work, state) = (folder.path().join("work"), folder.path().join("state"));
    std::fs::create_dir(&work).unwrap();
    let open = || Windlass::builder(&work).state(&state).tool(choose()).build().unwrap();
    let (here, there) = (open(), open());
    let session = here.new_session();
    let _there = here.engine().attend(session.id(), EventAttendant::default());
    let mut events = here.subscribe();
    let (_, running) = here.start(&session, ToolCall::new("choose", json!({})));
    let running = tokio::spawn(running);
    let request = loop {
        if let EventKind::Question(request) = events.next().await.kind {
            break request;
        }
    };
    let [open_question] = &there.engine().questions().await.unwrap()[..] else {
        panic!("it is on record")
    };
    assert_eq!(open_question.id, request.id);
    let answer = |label| QuestionAnswer::new([Selection::of(label)]);
    there.engine().answer_questions(&request.id, answer("b")).await.unwrap();
    assert!(
        there.engine().answer_questions(&request.id, answer("a")).await.is_err(),
        "the first one counts"
    );
    assert_eq!(running.await.unwrap().output.to_text(), "b");
    assert!(there.engine().questions().await.unwrap().is_empty(), "it is used up");
}

/// The approval of a job says that allowing it lets the job write in the workspace. It does so for this job only, except where a rule
/// denies it.
#[tokio::test]
async fn allowed_job_may_write_where_its_approval_says() {
    let shown: Arc<Mutex<Vec<String>>> = Arc::default();
    let hears = shown.clone();
    let script = "echo job > made; echo job > docs/a; echo job > .git/config; true";
    let files = [("docs/a", "a\n"), (".git/HEAD", ""), ("script", script)];
    let test = TestWorkspace::with_builder(&files, |builder| {
        builder.mode(Mode::Ask).deny("write docs/**".parse().expect("a rule")).attendant(
            move |request: &ApprovalRequest| {
                hears.lock().unwrap().push(request.confinement.clone());
                true
            },
        )
    });
    let outcome = call(&test, "bash", json!({"command": "sh script", "background": true})).await;
    assert_eq!(outcome, Outcome::Ok);
    for job in test.session.all_jobs() {
        job.wait().await;
    }
    assert_eq!((test.text("made").as_str(), test.text("docs/a").as_str()), ("job\n", "a\n"));
    assert!(!test.path(".git/config").exists(), "protected places are not for a job to make");
    let shown = shown.lock().unwrap().clone();
    let words = "; the job may write in the workspace, which cannot be undone";
    assert!(shown.len() == 1 && shown[0].ends_with(words), "{shown:?}");
}
