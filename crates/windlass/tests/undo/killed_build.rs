//! A process that is killed while it commits a command's changes of sources and build directories: the next start commits both or drops
//! both, and reports it.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use serde_json::json;
use windlass::files::Opened;
use windlass::{Outcome, Undo};
use windlass_core::{
    CallId, Checkpoint, ContentHash, Exclusive, History, HistoryError, NewCheckpoint, Pending,
    Query, Recovery,
};
use windlass_store::{Kind, UndoHistory};

use crate::support::Place;

/// The moment at which a process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    BeforeRecord,
    AfterRecord,
    BeforeMark,
    AfterMark,
}

/// A history that copies workspace and state at one moment. The copy is the state that a kill at this moment leaves.
struct Copying {
    inner: UndoHistory,
    at: Moment,
    folder: PathBuf,
}

impl Copying {
    fn reach(&self, moment: Moment) {
        if moment == self.at {
            run("mkdir copy && cp -a work state copy", &self.folder);
        }
    }
}

fn run(command: &str, folder: &PathBuf) {
    let done = Command::new("sh").args(["-c", command]).current_dir(folder).status();
    assert!(done.expect("sh").success(), "{command}");
}

impl History for Copying {
    fn record<'h>(
        &'h self,
        new: &NewCheckpoint<'_>,
    ) -> Result<Box<dyn Pending + 'h>, HistoryError> {
        self.reach(Moment::BeforeRecord);
        let pending = self.inner.record(new)?;
        self.reach(Moment::AfterRecord);
        Ok(Box::new(CopyingPending { history: self, inner: pending }))
    }

    fn checkpoints(&self, query: &Query) -> Result<Vec<Checkpoint>, HistoryError> {
        self.inner.checkpoints(query)
    }

    fn undone_by(&self, call: &CallId) -> Result<Option<CallId>, HistoryError> {
        self.inner.undone_by(call)
    }

    fn exclusive(&self) -> Result<Exclusive<'_>, HistoryError> {
        self.inner.exclusive()
    }

    fn content(&self, hash: &ContentHash) -> Result<Vec<u8>, HistoryError> {
        self.inner.content(hash)
    }
}

struct CopyingPending<'h> {
    history: &'h Copying,
    inner: Box<dyn Pending + 'h>,
}

impl Pending for CopyingPending<'_> {
    fn open(&self, hash: &ContentHash) -> Result<Opened, HistoryError> {
        self.inner.open(hash)
    }

    fn finish(self: Box<Self>) -> Result<(), HistoryError> {
        self.history.reach(Moment::BeforeMark);
        self.inner.finish()?;
        self.history.reach(Moment::AfterMark);
        Ok(())
    }

    fn abandon(self: Box<Self>) -> Result<(), HistoryError> {
        self.inner.abandon()
    }
}

const COMMAND: &str = "echo 2 > source; rm -r node_modules/old; mkdir -p node_modules/new; echo x > node_modules/new/x";

/// Simulates a kill at this moment of a command, and the next start.
async fn killed(at: Moment) -> Place {
    let place = Place::with(&[("source", "1\n"), ("node_modules/old/file", "")]);
    let folder = place.outside().to_owned();
    let inner = UndoHistory::open(&place.state()).expect("a history");
    let history = Arc::new(Copying { inner, at, folder: folder.clone() });
    let place = place.reopened(|builder| builder.configure(|engine| engine.history(history)));
    place.ok("bash", json!({"command": COMMAND})).await;
    assert_eq!(
        (place.text("source").as_str(), place.text("node_modules/new/x").as_str()),
        ("2\n", "x\n")
    );
    run("rm -r state && mv copy/state state && rm -r work && mv copy/work work", &folder);
    place.restart()
}

#[tokio::test]
async fn build_directories_and_sources_are_both_committed_or_both_dropped() {
    for (at, is_made) in [
        (Moment::BeforeRecord, false),
        (Moment::AfterRecord, false),
        (Moment::BeforeMark, true),
        (Moment::AfterMark, true),
    ] {
        let place = killed(at).await;
        let told = place.windlass.recovered().join("\n");
        assert_eq!(place.text("source") == "2\n", is_made, "{at:?}: {told}");
        let found =
            ["new/x", "old/file"].map(|name| place.path("node_modules").join(name).exists());
        assert_eq!(found, [is_made, !is_made], "{at:?}: {told}");
        let word = if is_made { "they are kept now: " } else { "were dropped with the others: " };
        let word = format!("{word}{}", place.path("node_modules").display());
        assert!(told.contains(&word), "{at:?}: {told}");
        // It is reported once, and after the next command no stage is left.
        let place = place.restart();
        assert_eq!(place.windlass.recovered(), [""; 0], "{at:?}");
        place.ok("bash", json!({"command": "true"})).await;
        let left = std::fs::read_dir(place.state().join("stages")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{at:?}");
        assert_eq!(place.text("source") == "2\n", is_made, "{at:?}");
        let log =
            place.windlass.store().expect("a journal").records(None, 0, 100).expect("records");
        let logged: Vec<Recovery> = log
            .iter()
            .filter(|row| row.kind == Kind::Recovered)
            .map(|row| row.body_as().expect("a body"))
            .collect();
        assert!(logged.iter().any(|body| body.text.contains(&word)), "{at:?}: {logged:?}");
    }
}

/// A call that was rolled back is no step of undo, also if a person changed one of its files before the next start.
#[tokio::test]
async fn rolled_back_call_is_no_step_of_undo() {
    let place = Place::with(&[("a", "1\n"), ("b", "1\n")]);
    let folder = place.outside().to_owned();
    let earlier = json!({"path": "earlier", "content": "x\n"});
    place.ok("write", earlier).await;
    let inner = UndoHistory::open(&place.state()).expect("a history");
    let history = Arc::new(Copying { inner, at: Moment::BeforeMark, folder: folder.clone() });
    let place = place.reopened(|builder| builder.configure(|engine| engine.history(history)));
    let cut_off = place.ok("bash", json!({"command": "echo 2 > a; echo 2 > b; echo 2 > c"})).await;
    run("rm -r state && mv copy/state state && rm -r work && mv copy/work work", &folder);
    run("echo 1 > work/b; echo mine > work/a", &folder);
    let place = place.restart();
    assert!(place.windlass.recovered().join("\n").contains("left alone"));
    assert_eq!((place.text("a").as_str(), place.path("c").exists()), ("mine\n", false));
    let query = Query::Call(cut_off.call);
    assert_eq!(place.windlass.history().checkpoints(&query).expect("a history"), []);
    assert_eq!(place.undo(Undo::Last).await.outcome, Outcome::Ok);
    assert_eq!((place.text("a").as_str(), place.path("earlier").exists()), ("mine\n", false));
}
