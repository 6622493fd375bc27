//! A process that is killed while it commits a command's changes of sources and build directories: the next start commits both or drops
//! both, and reports it.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use serde_json::json;
use windlass::files::OpenedContent;
use windlass::{Outcome, Undo};
use windlass_core::{
    CallId, Checkpoint, CheckpointQuery, ContentHash, History, HistoryError, HistoryLock,
    NewCheckpoint, PendingCheckpoint, Recovery,
};
use windlass_store::{StoredKind, UndoHistory};

use crate::support::TestWorkspace;

/// The moment at which a process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KillMoment {
    BeforeRecord,
    AfterRecord,
    BeforeMark,
    AfterMark,
}

/// A history that copies workspace and state at one moment. The copy is the state that a kill at this moment leaves.
struct CopyingHistory {
    inner: UndoHistory,
    at: KillMoment,
    folder: PathBuf,
}

impl CopyingHistory {
    fn reach(&self, moment: KillMoment) {
        if moment == self.at {
            run("mkdir copy && cp -a work state copy", &self.folder);
        }
    }
}

fn run(command: &str, folder: &PathBuf) {
    let done = Command::new("sh").args(["-c", command]).current_dir(folder).status();
    assert!(done.expect("sh").success(), "{command}");
}

impl History for CopyingHistory {
    fn record<'h>(
        &'h self,
        new: &NewCheckpoint<'_>,
    ) -> Result<Box<dyn PendingCheckpoint + 'h>, HistoryError> {
        self.reach(KillMoment::BeforeRecord);
        let pending = self.inner.record(new)?;
        self.reach(KillMoment::AfterRecord);
        Ok(Box::new(CopyingPending { history: self, inner: pending }))
    }

    fn checkpoints(&self, query: &CheckpointQuery) -> Result<Vec<Checkpoint>, HistoryError> {
        self.inner.checkpoints(query)
    }

    fn undone_by(&self, call: &CallId) -> Result<Option<CallId>, HistoryError> {
        self.inner.undone_by(call)
    }

    fn exclusive(&self) -> Result<HistoryLock<'_>, HistoryError> {
        self.inner.exclusive()
    }

    fn content(&self, hash: &ContentHash) -> Result<Vec<u8>, HistoryError> {
        self.inner.content(hash)
    }
}

struct CopyingPending<'h> {
    history: &'h CopyingHistory,
    inner: Box<dyn PendingCheckpoint + 'h>,
}

impl PendingCheckpoint for CopyingPending<'_> {
    fn open(&self, hash: &ContentHash) -> Result<OpenedContent, HistoryError> {
        self.inner.open(hash)
    }

    fn finish(self: Box<Self>) -> Result<(), HistoryError> {
        self.history.reach(KillMoment::BeforeMark);
        self.inner.finish()?;
        self.history.reach(KillMoment::AfterMark);
        Ok(())
    }

    fn abandon(self: Box<Self>) -> Result<(), HistoryError> {
        self.inner.abandon()
    }
}

const COMMAND: &str = "echo 2 > source; rm -r node_modules/old; mkdir -p node_modules/new; echo x > node_modules/new/x";

/// Simulates a kill at this moment of a command, and the next start.
async fn killed(at: KillMoment) -> TestWorkspace {
    let test = TestWorkspace::with(&[("source", "1\n"), ("node_modules/old/file", "")]);
    let folder = test.parent_directory().to_owned();
    let inner = UndoHistory::open(&test.state()).expect("a history");
    let history = Arc::new(CopyingHistory { inner, at, folder: folder.clone() });
    let test = test.reopen_with(|builder| builder.configure(|engine| engine.history(history)));
    test.call_ok("bash", json!({"command": COMMAND})).await;
    assert_eq!(
        (test.text("source").as_str(), test.text("node_modules/new/x").as_str()),
        ("2\n", "x\n")
    );
    run("rm -r state && mv copy/state state && rm -r work && mv copy/work work", &folder);
    test.restart()
}

#[tokio::test]
async fn build_directories_and_sources_are_both_committed_or_both_dropped() {
    for (at, is_made) in [
        (KillMoment::BeforeRecord, false),
        (KillMoment::AfterRecord, false),
        (KillMoment::BeforeMark, true),
        (KillMoment::AfterMark, true),
    ] {
        let test = killed(at).await;
        let told = test.windlass.recovered().join("\n");
        assert_eq!(test.text("source") == "2\n", is_made, "{at:?}: {told}");
        let found = ["new/x", "old/file"].map(|name| test.path("node_modules").join(name).exists());
        assert_eq!(found, [is_made, !is_made], "{at:?}: {told}");
        let word = if is_made { "they are kept now: " } else { "were dropped with the others: " };
        let word = format!("{word}{}", test.path("node_modules").display());
        assert!(told.contains(&word), "{at:?}: {told}");
        // It is reported once, and after the next command no stage is left.
        let test = test.restart();
        assert_eq!(test.windlass.recovered(), [""; 0], "{at:?}");
        test.call_ok("bash", json!({"command": "true"})).await;
        let left = std::fs::read_dir(test.state().join("stages")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{at:?}");
        assert_eq!(test.text("source") == "2\n", is_made, "{at:?}");
        let log = test.windlass.store().expect("a journal").records(None, 0, 100).expect("records");
        let logged: Vec<Recovery> = log
            .iter()
            .filter(|row| row.kind == StoredKind::Recovered)
            .map(|row| row.body_as().expect("a body"))
            .collect();
        assert!(logged.iter().any(|body| body.text.contains(&word)), "{at:?}: {logged:?}");
    }
}

/// A call that was rolled back is no step of undo, also if a person changed one of its files before the next start.
#[tokio::test]
async fn rolled_back_call_is_no_step_of_undo() {
    let test = TestWorkspace::with(&[("a", "1\n"), ("b", "1\n")]);
    let folder = test.parent_directory().to_owned();
    let earlier = json!({"path": "earlier", "content": "x\n"});
    test.call_ok("write", earlier).await;
    let inner = UndoHistory::open(&test.state()).expect("a history");
    let history =
        Arc::new(CopyingHistory { inner, at: KillMoment::BeforeMark, folder: folder.clone() });
    let test = test.reopen_with(|builder| builder.configure(|engine| engine.history(history)));
    let cut_off =
        test.call_ok("bash", json!({"command": "echo 2 > a; echo 2 > b; echo 2 > c"})).await;
    run("rm -r state && mv copy/state state && rm -r work && mv copy/work work", &folder);
    run("echo 1 > work/b; echo mine > work/a", &folder);
    let test = test.restart();
    assert!(test.windlass.recovered().join("\n").contains("left alone"));
    assert_eq!((test.text("a").as_str(), test.path("c").exists()), ("mine\n", false));
    let query = CheckpointQuery::Call(cut_off.call);
    assert_eq!(test.windlass.history().checkpoints(&query).expect("a history"), []);
    assert_eq!(test.undo(Undo::Last).await.outcome, Outcome::Ok);
    assert_eq!((test.text("a").as_str(), test.path("earlier").exists()), ("mine\n", false));
}
