//! Changes without a history: an undo always names them when it skips them, and does not lose files that were moved out of a build
//! directory.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde_json::json;
use windlass::process::{Confinement, ProcessSettings, SandboxLevel};
use windlass::{CallResult, Outcome, Undo};
use windlass_core::{ChangeWithoutHistory, CheckpointQuery};

use crate::support::{TestWorkspace, text};

const WITH_MODULES: &[(&str, &str)] = &[
    (".gitignore", "node_modules\ntarget\n"),
    ("node_modules/left/index.js", "left"),
    ("node_modules/right/index.js", "right"),
    ("src/main.js", "main"),
];

fn assert_refused(result: &CallResult, words: &[&str]) {
    let said = text(result);
    assert_eq!(result.outcome, Outcome::Error, "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in {said}");
    }
}

/// A call that changed only build directories cannot be undone: it is named, and the change before it is undone.
#[tokio::test]
async fn change_of_build_directories_only_is_skipped_and_named() {
    let test = TestWorkspace::with(WITH_MODULES);
    test.call_ok("write", json!({"path": "a.txt", "content": "a\n"})).await;
    let command = "mkdir target; printf 12345 > target/out; rm -r node_modules/left";
    let built = test.call_ok("bash", json!({"command": command})).await;
    test.call_ok("bash", json!({"command": "printf 123456 > target/out"})).await;
    let words = [
        built.call.as_str(),
        "changed only build directories, which have no history",
        "target/ (1 file, 5 B)",
        "node_modules/ (files removed)",
    ];
    let before = test.tree();
    assert_refused(&test.undo(Undo::Call(built.call.clone())).await, &words);
    let preview = test.windlass.undo_preview(&test.windlass.new_session(), Undo::Last).await;
    assert!(text(&preview).contains("would undo"), "{}", text(&preview));
    before.assert_same(&test.tree(), "nothing is taken back");
    let undone = test.undo(Undo::Last).await;
    let said = text(&undone);
    assert_eq!(undone.outcome, Outcome::Ok, "{said}");
    for word in ["target/ (1 file, 6 B)", "node_modules/ (files removed)", "stay as they are"] {
        assert!(said.contains(word), "{word:?} is not in {said}");
    }
    assert!(!said.contains(built.call.as_str()), "it was not undone: {said}");
    assert!(!test.path("a.txt").exists());
    assert_refused(&test.undo(Undo::Call(built.call.clone())).await, &words);
    assert_refused(&test.undo(Undo::Last).await, &["there is nothing to undo"]);
}

#[tokio::test]
async fn skipped_change_is_named_each_time_if_no_other_is_left() {
    let test = TestWorkspace::with(WITH_MODULES);
    test.call_ok("bash", json!({"command": "mkdir target; printf 12345 > target/out"})).await;
    let words = ["the last change, ", "target/ (1 file, 5 B)", "there is no earlier change"];
    assert_refused(&test.undo(Undo::Last).await, &words);
    assert_refused(&test.undo(Undo::Last).await, &words);
}

#[tokio::test]
async fn undo_tool_names_skipped_changes_to_a_model() {
    let test = TestWorkspace::with(WITH_MODULES);
    test.call_ok("write", json!({"path": "a.txt", "content": "a\n"})).await;
    test.call_ok("bash", json!({"command": "echo 1 > node_modules/new"})).await;
    let undone = test.call_ok("undo", json!({})).await;
    let said = text(&undone);
    assert!(said.contains("node_modules/ (1 file, 2 B) stays as it is"), "{said}");
    assert!(!test.path("a.txt").exists());
}

/// Without a sandbox the changes of a command are unknown, so an undo does not undo the change before it instead. The result names that
/// call; a model that sees the warning does not use up the person's.
#[tokio::test]
async fn a_command_without_tracking_is_named() {
    let test = TestWorkspace::with_builder(&[], |builder| {
        let confinement = Confinement { level: SandboxLevel::Off, ..Confinement::default() };
        builder.processes(ProcessSettings { confinement, ..ProcessSettings::default() })
    });
    let written = test.call_ok("write", json!({"path": "a.txt", "content": "a\n"})).await;
    let ran =
        test.call_ok("bash", json!({"command": "echo two > a.txt; sh -c 'echo b > b.txt'"})).await;
    test.call_ok("bash", json!({"command": "cat a.txt"})).await;
    let words = ["the last change, ", ran.call.as_str(), "ran without tracking"];
    let name = format!("name its call: {} (write)", written.call);
    for _ in 0..2 {
        let said = test.call_refused("undo", json!({})).await;
        assert!(words.iter().chain([&&*name]).all(|word| said.contains(word)), "{said}");
    }
    let preview = test.windlass.undo_preview(&test.windlass.new_session(), Undo::Last).await;
    assert_refused(&preview, &words);
    assert_refused(&test.undo(Undo::Call(ran.call.clone())).await, &words[1..]);
    assert_eq!(test.text("a.txt"), "two\n");
    assert_refused(&test.undo(Undo::Last).await, &[&words[..], &["undo again"]].concat());
    // Now it selects the change before, whose file has changed since.
    assert_eq!(test.undo(Undo::Last).await.outcome, Outcome::Error);
    assert_eq!((test.text("a.txt"), test.text("b.txt")), ("two\n".into(), "b\n".into()));
}

#[tokio::test]
async fn undo_names_the_build_directories_that_stay() {
    let test = TestWorkspace::with(WITH_MODULES);
    let command = "echo 2 > src/main.js; echo 1234 > node_modules/new";
    test.call_ok("bash", json!({"command": command})).await;
    let undone = test.undo(Undo::Last).await;
    let said = text(&undone);
    assert_eq!(undone.outcome, Outcome::Ok, "{said}");
    assert!(
        said.contains("[node_modules/ (1 file, 5 B) stays as it is, since it has no history]"),
        "{said}"
    );
    assert_eq!(undone.output.metadata["without_history"], json!(["node_modules/ (1 file, 5 B)"]));
    assert_eq!(
        (test.text("src/main.js").as_str(), test.text("node_modules/new").as_str()),
        ("main", "1234\n")
    );
}

/// Caches that tools write, and commands that change nothing, are not selected by an undo of the last change.
#[tokio::test]
async fn caches_are_not_the_last_change() {
    let test = TestWorkspace::with(&[(".gitignore", "__pycache__\n"), ("__pycache__/m.pyc", "1")]);
    test.call_ok("write", json!({"path": "a.txt", "content": "a\n"})).await;
    test.call_ok("bash", json!({"command": "echo 2 > __pycache__/m.pyc; cat a.txt"})).await;
    let query = CheckpointQuery::Workspace(test.workspace());
    let recorded = test.windlass.history().checkpoints(&query).expect("a history");
    assert_eq!(recorded.len(), 1, "{recorded:?}");
    assert_eq!(test.undo(Undo::Last).await.outcome, Outcome::Ok);
    assert!(!test.path("a.txt").exists());
}

#[tokio::test]
async fn changes_without_history_are_known_after_a_restart() {
    let test = TestWorkspace::with(WITH_MODULES);
    test.call_ok("bash", json!({"command": "echo 123 > node_modules/new"})).await;
    let test = test.restart();
    let query = CheckpointQuery::LastOfWorkspace(test.workspace());
    let recorded = test.windlass.history().checkpoints(&query).expect("a history");
    let [ChangeWithoutHistory::BuildDirectory(built)] = recorded[0].without_history.as_slice()
    else {
        panic!("{recorded:?}");
    };
    assert_eq!((built.path.clone(), built.files, built.bytes), (test.path("node_modules"), 1, 4));
}

/// A file that was moved out of a build directory has a history at its new path: an undo moves it back.
#[tokio::test]
async fn file_moved_out_of_a_build_directory_is_moved_back() {
    for command in [
        "mv node_modules x",
        "mv node_modules/left x",
        "mkdir x; mv node_modules/left/index.js x/",
        "mv node_modules/left x; rm -r node_modules; mkdir node_modules; echo 1 > node_modules/new",
        "mv node_modules/left x; mkdir node_modules/left",
    ] {
        let test = TestWorkspace::with(WITH_MODULES);
        let index = test.path("node_modules/left/index.js");
        let inode = |path: &Path| fs::metadata(path).expect("a file").ino();
        let before = inode(&index);
        test.call_ok("bash", json!({"command": command})).await;
        assert!(!index.exists() && test.path("x").exists(), "{command}");
        let undone = test.undo(Undo::Last).await;
        assert_eq!(undone.outcome, Outcome::Ok, "{command}: {}", text(&undone));
        assert_eq!(test.text("node_modules/left/index.js"), "left", "{command}");
        assert_eq!(inode(&index), before, "{command}: it is the same file");
        assert!(!test.path("x").exists(), "{command}");
        let is_rest = text(&undone).contains("stays as it is");
        assert_eq!(is_rest, command.contains("mkdir node_modules"), "{command}: {}", text(&undone));
    }
}

/// A file that was moved into a build directory is restored from the history; the files of the directory stay.
#[tokio::test]
async fn file_moved_into_a_build_directory_is_restored() {
    for command in ["mv src node_modules/src", "mkdir target; mv src target/src", "mv src target"] {
        let test = TestWorkspace::with(WITH_MODULES);
        test.call_ok("bash", json!({"command": command})).await;
        let undone = test.undo(Undo::Last).await;
        let said = text(&undone);
        assert_eq!(undone.outcome, Outcome::Ok, "{command}: {said}");
        assert_eq!(test.text("src/main.js"), "main", "{command}");
        assert!(said.contains("stays as it is, since it has no history]"), "{command}: {said}");
    }
}

/// A job works on the real directory. An undo of an earlier change names the job's files.
#[tokio::test]
async fn files_changed_by_a_job_are_named() {
    let test = TestWorkspace::new();
    test.call_ok("write", json!({"path": "a.txt", "content": "a\n"})).await;
    let command = "echo job > by_job; until [ -e b.txt ]; do sleep 0.05; done";
    let job = test.call_ok("bash", json!({"command": command, "background": true})).await;
    test.call_ok("write", json!({"path": "b.txt", "content": "b\n"})).await;
    for job in test.session.all_jobs() {
        job.wait().await;
    }
    let query = CheckpointQuery::LastOfWorkspace(test.workspace());
    let recorded = test.windlass.history().checkpoints(&query).expect("a history");
    let expected = [ChangeWithoutHistory::Direct(test.path("by_job"))];
    assert_eq!(recorded[0].without_history, expected, "what a call wrote meanwhile has a history");
    let words = [job.call.as_str(), "no history", "by_job (changed by a job)"];
    assert_refused(&test.undo(Undo::Call(job.call.clone())).await, &words);
    let undone = test.undo(Undo::Last).await;
    assert_eq!(undone.outcome, Outcome::Ok, "{}", text(&undone));
    assert!(text(&undone).contains("[by_job (changed by a job) stays"), "{}", text(&undone));
    assert!(!test.path("b.txt").exists() && test.path("by_job").exists());
}

/// A command can change the mode of the workspace itself like that of any directory, unless that would lock its owner out.
#[tokio::test]
async fn mode_of_the_workspace_itself_is_changed_and_undone() {
    let test = TestWorkspace::with(&[("a.txt", "a\n")]);
    let mode = || fs::metadata(test.workspace()).expect("the workspace").mode() & 0o7777;
    let before = mode();
    test.call_ok("bash", json!({"command": "chmod 711 .; echo b > a.txt"})).await;
    assert_eq!(mode(), 0o711);
    assert_eq!(test.undo(Undo::Last).await.outcome, Outcome::Ok);
    assert_eq!((mode(), test.text("a.txt").as_str()), (before, "a\n"));
    let result = test.call_ok("bash", json!({"command": "echo c > a.txt; chmod 300 ."})).await;
    let said = text(&result);
    assert!(said.contains("the workspace itself keeps its mode: with 300"), "{said}");
    assert_eq!((mode(), test.text("a.txt").as_str()), (before, "c\n"));
    test.call_ok("bash", json!({"command": "true"})).await;
    assert_eq!(mode(), before);
}
