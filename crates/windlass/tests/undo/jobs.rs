//! Jobs beside calls. A job works on the real workspace, so its changes cannot be undone. An undo of calls is exact and never overwrites a
//! job's files. A protected path that a job creates is removed, also if the process is killed during the removal.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use windlass::{Mode, Outcome, Undo};
use windlass_core::{
    CallId, CheckpointQuery, ContentHash, ContentSource, FileState, History as _, NewCheckpoint,
    NewContent, RecordedChange,
};
use windlass_store::{Store, StoredKind, UndoHistory};

use crate::support::{Random, TestWorkspace, text};

/// Runs a script as a job and waits for its end.
async fn run_job(test: &TestWorkspace, script: &str) {
    test.put("script", script);
    test.call_ok("bash", json!({"command": "sh script", "background": true})).await;
    for job in test.session.all_jobs() {
        let end = job.wait().await;
        assert!(end.changed.is_ok(), "{script}: {:?}", end.changed);
    }
}

/// Records the removal a second time and leaves it unfinished, as a killed process does; the paths that it had not removed exist again.
#[tokio::test]
async fn removal_of_a_planted_path_is_finished_after_a_kill() {
    for still_there in [&[][..], &["pre-commit"], &["pre-commit", "deep/x"]] {
        let test = TestWorkspace::new();
        run_job(
            &test,
            "mkdir -p .husky/deep; echo evil > .husky/pre-commit; echo x > .husky/deep/x",
        )
        .await;
        assert!(!test.path(".husky").exists(), "a finished removal");
        let history = UndoHistory::open(&test.state()).unwrap();
        let removal =
            history.checkpoints(&CheckpointQuery::Workspace(test.workspace())).unwrap().remove(0);
        let hash = |state: &FileState| match state {
            FileState::File { hash, .. } => Some(*hash),
            _ => None,
        };
        let hashes = removal.changes.iter().filter_map(|change| hash(&change.before));
        let kept: Vec<_> = hashes.map(|hash| (hash, history.content(&hash).unwrap())).collect();
        let contents: Vec<_> = kept
            .iter()
            .map(|(hash, bytes)| NewContent {
                hash: *hash,
                source: ContentSource::Bytes(bytes),
                base: None,
            })
            .collect();
        let changes = &removal.changes;
        let new = NewCheckpoint {
            origin: &removal.origin,
            changes,
            contents: &contents,
            without_history: &[],
        };
        drop(history.record(&new).unwrap());
        drop(history);
        for name in still_there {
            let content = if *name == "pre-commit" { "evil\n" } else { "x\n" };
            test.put(&format!(".husky/{name}"), content);
        }
        let test = test.restart();
        assert!(!test.path(".husky").exists(), "{still_there:?}");
    }
}

/// A directory that a job created around a protected path is removed and restored with it.
#[tokio::test]
async fn removed_protected_path_leaves_no_empty_directory() {
    for (script, left) in [
        ("mkdir .vscode; echo evil > .vscode/tasks.json", &[][..]),
        ("mkdir -p a/b/.vscode; echo evil > a/b/.vscode/tasks.json", &[]),
        ("mkdir -p a/.vscode; echo evil > a/.vscode/tasks.json; echo x > a/kept", &["a", "a/kept"]),
        ("mkdir -p there/.vscode; echo evil > there/.vscode/tasks.json", &["there"]),
        ("mkdir .vscode empty; echo evil > .vscode/tasks.json", &["empty"]),
    ] {
        let test = TestWorkspace::new();
        if left == ["there"] {
            test.put("there/", "");
        }
        run_job(&test, script).await;
        for name in [".vscode", "a", "a/kept", "a/.vscode", "there", "there/.vscode", "empty"] {
            let is_there = test.path(name).exists();
            assert_eq!(is_there, left.contains(&name), "{script}: {name}");
        }
        let call = test.session.all_jobs()[0].call().clone();
        assert_eq!(test.undo(Undo::Call(call)).await.outcome, Outcome::Ok, "{script}");
        let planted = script.split("> ").nth(1).unwrap().split(';').next().unwrap();
        assert_eq!(test.text(planted), "evil\n", "{script}");
    }
}

/// On a real directory, an xattr of overlayfs would hide a file from every later command.
#[tokio::test]
async fn a_job_cannot_hide_a_file_from_later_commands() {
    let test = TestWorkspace::with(&[
        (".gitignore", "target/\n"),
        ("target/empty", ""),
        ("target/a", "a"),
    ]);
    let plant = |file: &str, note: &str| {
        format!(
            "python3 -c 'import os; os.setxattr(\"target/{file}\", \"user.overlay.{note}\", b\"\")' 2>&1 | tail -n 1 >> target/said\n"
        )
    };
    run_job(&test, &(plant("empty", "whiteout") + &plant("a", "metacopy"))).await;
    assert_eq!(test.text("target/said").matches("[Errno 95]").count(), 2);
    let seen = test.call_ok("bash", json!({"command": "sh -c 'cat target/empty target/a'"})).await;
    assert_eq!(text(&seen).lines().next(), Some("a"));
}

/// A job that builds, and that creates a protected path, ends while a call of its session runs, which loses no change.
#[tokio::test]
async fn a_job_ends_beside_a_call_of_its_session() {
    let test = TestWorkspace::with(&[(".gitignore", "target/\n"), ("log", ""), ("edited", "0\n")]);
    for round in 0..6 {
        test.put(
            "script",
            format!(
                "while ! test -e go; do :; done; mkdir -p target; echo {round} > target/{round}; echo evil > .envrc"
            ),
        );
        test.call_ok("bash", json!({"command": "sh script", "background": true})).await;
        test.put("go", "");
        let command = format!("echo {round} >> log; mkdir -p target; echo c > target/c{round}");
        test.call_ok("bash", json!({"command": command})).await;
        let edit = json!({"path": "edited", "old_string": format!("{round}\n"), "new_string": format!("{}\n", round + 1)});
        test.call_ok("edit", edit).await;
        for job in test.session.all_jobs() {
            assert!(job.wait().await.changed.is_ok());
        }
        assert!(!test.path(".envrc").exists(), "round {round}");
        for name in [format!("target/{round}"), format!("target/c{round}")] {
            assert!(test.path(&name).exists(), "{name} is lost");
        }
        fs::remove_file(test.path("go")).unwrap();
    }
    assert_eq!(test.text("log"), "0\n1\n2\n3\n4\n5\n");
    assert_eq!(test.text("edited"), "6\n");
    let checkpoints = UndoHistory::open(&test.state())
        .unwrap()
        .checkpoints(&CheckpointQuery::Workspace(test.workspace()))
        .unwrap();
    let of = |name: &str| {
        let path = test.path(name);
        checkpoints
            .iter()
            .filter(|one| one.changes.iter().any(|change| change.path == path))
            .count()
    };
    assert_eq!((of(".envrc"), of("log"), of("edited")), (6, 6, 6), "each is done once");
}

/// Files that other processes created at the path meanwhile stay.
#[tokio::test]
async fn late_removal_leaves_files_of_other_processes() {
    let test = TestWorkspace::new();
    run_job(&test, "echo evil > .envrc").await;
    let history = UndoHistory::open(&test.state()).unwrap();
    let removal =
        history.checkpoints(&CheckpointQuery::Workspace(test.workspace())).unwrap().remove(0);
    let changes = &removal.changes;
    let bytes = b"evil\n";
    let contents = [NewContent {
        hash: windlass_core::ContentHash::of(bytes),
        source: ContentSource::Bytes(bytes),
        base: None,
    }];
    let new = NewCheckpoint {
        origin: &removal.origin,
        changes,
        contents: &contents,
        without_history: &[],
    };
    drop(history.record(&new).unwrap());
    drop(history);
    fs::write(test.path(".envrc"), "export MINE=1\n").unwrap();
    let test = test.restart();
    assert_eq!(test.text(".envrc"), "export MINE=1\n");
}

const SEED: u64 = 0x10B5;
const SESSIONS: u64 = 4;
const STEPS: usize = 9;

/// Random sessions in which jobs write sources beside calls, as a rule allows. The journal names each file that a job wrote; an undo of a
/// call is exact, or a conflict if a job has changed the file since.
#[tokio::test]
async fn un_1_random_jobs_beside_calls() {
    for number in 0..SESSIONS {
        let mut random = Random::new(SEED ^ number);
        let (test, calls) = play_session(&mut random).await;
        let test = check_journal(test);
        for call in calls.iter().rev() {
            check_undo(&test, call).await;
        }
    }
}

/// Plays one session. Returns its workspace and the calls that changed files.
async fn play_session(random: &mut Random) -> (TestWorkspace, Vec<CallId>) {
    let files = ["src/a", "src/b", "src/c", "src/d"].map(|name| (name, "first\n"));
    let test = TestWorkspace::with_builder(&files, |builder| {
        let allow = |rule: &str| rule.parse().expect("a rule");
        builder.mode(Mode::Ask).allow(allow("write src/**")).allow(allow("exec sh"))
    });
    let mut calls = Vec::new();
    for number in 0..STEPS {
        let is_job = random.one_in(2);
        let (who, script) = (if is_job { "job" } else { "call" }, format!("script{number}"));
        test.put(&script, file_script(random, &format!("{who} {number}")));
        let input = json!({"command": format!("sh {script}"), "background": is_job});
        let done = test.call("bash", input).await;
        match done.outcome {
            Outcome::Ok if !is_job => calls.push(done.call),
            // A file that a job changed meanwhile is not overwritten.
            Outcome::Error if !is_job => assert!(text(&done).contains("stale"), "{}", text(&done)),
            outcome => assert_eq!(outcome, Outcome::Ok, "{}", text(&done)),
        }
        if random.one_in(2) {
            wait_for_jobs(&test).await;
        }
    }
    wait_for_jobs(&test).await;
    (test, calls)
}

async fn wait_for_jobs(test: &TestWorkspace) {
    for job in test.session.all_jobs() {
        let end = job.wait().await;
        assert!(end.changed.is_ok(), "{:?}", end.changed);
    }
}

/// Returns a random script that changes a file. Jobs take a moment, so that calls run meanwhile.
fn file_script(random: &mut Random, words: &str) -> String {
    let (file, other) = (random.below(4), random.below(4));
    let name = |number: usize| format!("src/{}", ["a", "b", "c", "d"][number]);
    let (file, other) = (name(file), name(other));
    let done = match random.below(6) {
        0 => format!("echo {words} > {file}"),
        1 => format!("echo {words} >> {file}; echo {words} > {other}"),
        2 => format!("rm -f {file}; echo {words} >> {other}"),
        3 => format!("echo {words} > '{file} {words}'"),
        4 => format!("mv {file} '{file} {words}'"),
        _ => format!("echo {words} > {file}; mv {file} {other}"),
    };
    format!("{done}\nsleep 0.0{}\ntrue\n", random.below(6))
}

type SourceFiles = BTreeMap<PathBuf, Vec<u8>>;

fn sources(test: &TestWorkspace) -> SourceFiles {
    let entries = fs::read_dir(test.path("src")).expect("the sources");
    let read = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.expect("an entry").path();
        (path.clone(), fs::read(path).expect("a file"))
    };
    entries.map(read).collect()
}

/// Checks that each file that a job wrote last is in the record of that job.
fn check_journal(test: TestWorkspace) -> TestWorkspace {
    let test = test.restart();
    let store = Store::open_read_only(&test.state()).expect("the journal");
    let mut ended = Vec::new();
    let take = |row: windlass_store::JournalRow| {
        if row.kind == StoredKind::JobEnded {
            ended.push(row.body.unwrap_or_default());
        }
    };
    store.records(None, 0, usize::MAX).expect("the records").into_iter().for_each(take);
    let ended: Vec<Value> =
        ended.iter().map(|body| serde_json::from_str(body).expect("JSON")).collect();
    for (path, bytes) in sources(&test) {
        let last = String::from_utf8_lossy(&bytes).lines().last().unwrap_or_default().to_owned();
        let name = format!("src/{}", path.file_name().unwrap_or_default().to_string_lossy());
        // A call may have moved a file of a job.
        if !last.starts_with("job") || name.contains("call") {
            continue;
        }
        let name = windlass::quote::path(name.as_ref()).into_owned();
        let is_named = ended.iter().any(|body| {
            let files = body["changed"].as_array().expect("files");
            files.iter().any(|file| file["path"] == name.as_str())
        });
        assert!(is_named, "{name}, with {last:?}, is named by none of {ended:?}");
    }
    test
}

/// Undoes one call: exactly, or not at all if a job has changed one of its files.
async fn check_undo(test: &TestWorkspace, call: &CallId) {
    let history = UndoHistory::open(&test.state()).unwrap();
    let recorded = history.checkpoints(&CheckpointQuery::Call(call.clone())).unwrap();
    let changes: Vec<RecordedChange> = recorded.into_iter().flat_map(|one| one.changes).collect();
    let is_file = |state: &FileState| matches!(state, FileState::File { .. } | FileState::Absent);
    let changes: Vec<&RecordedChange> =
        changes.iter().filter(|one| is_file(&one.before) && is_file(&one.after)).collect();
    let is = |files: &SourceFiles, path: &PathBuf, state: &FileState| match state {
        FileState::File { hash, .. } => {
            files.get(path).is_some_and(|bytes| ContentHash::of(bytes) == *hash)
        }
        _ => !files.contains_key(path),
    };
    let then = sources(test);
    let is_untouched = changes.iter().all(|one| is(&then, &one.path, &one.after));
    let undone = test.undo(Undo::Call(call.clone())).await;
    let now = sources(test);
    let said = text(&undone);
    if undone.outcome != Outcome::Ok {
        assert!(!is_untouched || changes.is_empty(), "{call} is not undone: {said}");
        assert_eq!(now, then, "an undo that failed changed something: {said}");
        return;
    }
    for one in &changes {
        assert!(
            is(&now, &one.path, &one.before),
            "{} is not as it was: {said}",
            one.path.display()
        );
        let is_ours = is(&then, &one.path, &one.after) || is(&then, &one.path, &one.before);
        assert!(is_ours, "what a job wrote to {} is overwritten: {said}", one.path.display());
    }
    let is_changed = |path: &&PathBuf| changes.iter().any(|one| one.path == **path);
    for path in then.keys().chain(now.keys()).filter(|path| !is_changed(path)) {
        assert_eq!(then.get(path), now.get(path), "{} is another: {said}", path.display());
    }
}
