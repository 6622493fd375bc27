//! Jobs beside calls. A job works on the workspace itself, so that nothing it changes can be undone; an undo of calls is exact, and never
//! overwrites what a job wrote. A protected place that a job makes is removed, also if the removal is cut off.

use std::fs;

use serde_json::json;
use windlass_core::{FileState, History as _, NewCheckpoint, NewContent, Query, Source};
use windlass_store::UndoHistory;

use crate::support::Place;

/// Runs a script as a job to its end.
async fn job(place: &Place, script: &str) {
    place.put("script", script);
    place.ok("bash", json!({"command": "sh script", "background": true})).await;
    for job in place.session.all_jobs() {
        let end = job.wait().await;
        assert!(end.changed.is_ok(), "{script}: {:?}", end.changed);
    }
}

/// The removal is recorded anew and left there, as by a process that is killed; what it has not come to is there.
#[tokio::test]
async fn the_removal_of_a_planted_place_is_finished_after_a_kill() {
    for still_there in [&[][..], &["pre-commit"], &["pre-commit", "deep/x"]] {
        let place = Place::new();
        job(&place, "mkdir -p .husky/deep; echo evil > .husky/pre-commit; echo x > .husky/deep/x")
            .await;
        assert!(!place.path(".husky").exists(), "a finished removal");
        let history = UndoHistory::open(&place.state()).unwrap();
        let removal = history.checkpoints(&Query::Workspace(place.workspace())).unwrap().remove(0);
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
                source: Source::Bytes(bytes),
                base: None,
            })
            .collect();
        let changes = &removal.changes;
        let new = NewCheckpoint { origin: &removal.origin, changes, contents: &contents };
        drop(history.record(&new).unwrap());
        drop(history);
        for name in still_there {
            let content = if *name == "pre-commit" { "evil\n" } else { "x\n" };
            place.put(&format!(".husky/{name}"), content);
        }
        let place = place.restart();
        assert!(!place.path(".husky").exists(), "{still_there:?}");
    }
}

/// A job that builds and plants ends beside a call of its session, which loses nothing.
#[tokio::test]
async fn a_job_ends_beside_a_call_of_its_session() {
    let place = Place::with(&[(".gitignore", "target/\n"), ("log", ""), ("edited", "0\n")]);
    for round in 0..6 {
        place.put(
            "script",
            format!(
                "while ! test -e go; do :; done; mkdir -p target; echo {round} > target/{round}; echo evil > .envrc"
            ),
        );
        place.ok("bash", json!({"command": "sh script", "background": true})).await;
        place.put("go", "");
        let command = format!("echo {round} >> log; mkdir -p target; echo c > target/c{round}");
        place.ok("bash", json!({"command": command})).await;
        let edit = json!({"path": "edited", "old_string": format!("{round}\n"), "new_string": format!("{}\n", round + 1)});
        place.ok("edit", edit).await;
        for job in place.session.all_jobs() {
            assert!(job.wait().await.changed.is_ok());
        }
        assert!(!place.path(".envrc").exists(), "round {round}");
        for name in [format!("target/{round}"), format!("target/c{round}")] {
            assert!(place.path(&name).exists(), "{name} is lost");
        }
        fs::remove_file(place.path("go")).unwrap();
    }
    assert_eq!(place.text("log"), "0\n1\n2\n3\n4\n5\n");
    assert_eq!(place.text("edited"), "6\n");
    let checkpoints = UndoHistory::open(&place.state())
        .unwrap()
        .checkpoints(&Query::Workspace(place.workspace()))
        .unwrap();
    let of = |name: &str| {
        let path = place.path(name);
        checkpoints
            .iter()
            .filter(|one| one.changes.iter().any(|change| change.path == path))
            .count()
    };
    assert_eq!((of(".envrc"), of("log"), of("edited")), (6, 6, 6), "each is done once");
}

/// What lies there meanwhile was made by others.
#[tokio::test]
async fn a_removal_that_is_finished_later_leaves_what_others_made() {
    let place = Place::new();
    job(&place, "echo evil > .envrc").await;
    let history = UndoHistory::open(&place.state()).unwrap();
    let removal = history.checkpoints(&Query::Workspace(place.workspace())).unwrap().remove(0);
    let changes = &removal.changes;
    let bytes = b"evil\n";
    let contents = [NewContent {
        hash: windlass_core::ContentHash::of(bytes),
        source: Source::Bytes(bytes),
        base: None,
    }];
    let new = NewCheckpoint { origin: &removal.origin, changes, contents: &contents };
    drop(history.record(&new).unwrap());
    drop(history);
    fs::write(place.path(".envrc"), "export MINE=1\n").unwrap();
    let place = place.restart();
    assert_eq!(place.text(".envrc"), "export MINE=1\n");
}
