//! A process that is killed while it commits the held changes of a command, which a person allowed after the call had ended. At each
//! moment the next start finds either the approval closed and the changes made, or the approval open and no changes; an open approval can
//! be answered again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use serde_json::json;
use windlass::files::OpenedContent;
use windlass::people::{ApprovalFile, Attendant, AttendantReply, BookError};
use windlass::{Mode, Outcome, Undo};
use windlass_core::{
    Answer, AnswerError, Approval, ApprovalId, ApprovalRequest, ApprovalState, BoxFuture, CallId,
    Checkpoint, CheckpointQuery, ContentHash, History, HistoryError, HistoryLock, InquiryBook,
    NewCheckpoint, PendingCheckpoint, WaitGuard,
};
use windlass_store::UndoHistory;

use crate::support::{TestWorkspace, text};

/// The moment at which a process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KillMoment {
    BeforeAnswer,
    AfterAnswer,
    BeforeRecord,
    AfterRecord,
    BeforeMark,
    AfterMark,
    BeforeUse,
    AfterUse,
}

/// Copies workspace and state at one moment. The copy is the state that a kill at this moment leaves.
#[derive(Clone)]
struct StateCopier {
    at: Arc<Mutex<Option<KillMoment>>>,
    folder: PathBuf,
}

impl StateCopier {
    fn reach(&self, moment: KillMoment) {
        if *self.at.lock().unwrap() == Some(moment) {
            self.run("mkdir copy && cp -a work state copy");
        }
    }

    fn run(&self, command: &str) {
        let done = Command::new("sh").args(["-c", command]).current_dir(&self.folder).status();
        assert!(done.expect("sh").success(), "{command}");
    }
}

struct KilledHistory(UndoHistory, StateCopier);

impl History for KilledHistory {
    fn record<'h>(
        &'h self,
        new: &NewCheckpoint<'_>,
    ) -> Result<Box<dyn PendingCheckpoint + 'h>, HistoryError> {
        self.1.reach(KillMoment::BeforeRecord);
        let pending = self.0.record(new)?;
        self.1.reach(KillMoment::AfterRecord);
        Ok(Box::new(KilledPending(pending, &self.1)))
    }

    fn checkpoints(&self, query: &CheckpointQuery) -> Result<Vec<Checkpoint>, HistoryError> {
        self.0.checkpoints(query)
    }

    fn undone_by(&self, call: &CallId) -> Result<Option<CallId>, HistoryError> {
        self.0.undone_by(call)
    }

    fn exclusive(&self) -> Result<HistoryLock<'_>, HistoryError> {
        self.0.exclusive()
    }

    fn content(&self, hash: &ContentHash) -> Result<Vec<u8>, HistoryError> {
        self.0.content(hash)
    }
}

struct KilledPending<'h>(Box<dyn PendingCheckpoint + 'h>, &'h StateCopier);

impl PendingCheckpoint for KilledPending<'_> {
    fn open(&self, hash: &ContentHash) -> Result<OpenedContent, HistoryError> {
        self.0.open(hash)
    }

    fn finish(self: Box<Self>) -> Result<(), HistoryError> {
        self.1.reach(KillMoment::BeforeMark);
        self.0.finish()?;
        self.1.reach(KillMoment::AfterMark);
        Ok(())
    }

    fn abandon(self: Box<Self>) -> Result<(), HistoryError> {
        self.0.abandon()
    }
}

struct KilledBook(ApprovalFile, StateCopier);

impl InquiryBook<Approval> for KilledBook {
    fn list(&self) -> Result<Vec<Approval>, BookError> {
        self.0.list()
    }

    fn put(&self, record: &Approval) -> Result<(), BookError> {
        self.0.put(record)
    }

    fn write_answer(
        &self,
        id: &str,
        answer: Answer,
        now: SystemTime,
    ) -> Result<Approval, AnswerError> {
        self.1.reach(KillMoment::BeforeAnswer);
        let settled = self.0.write_answer(id, answer, now);
        self.1.reach(KillMoment::AfterAnswer);
        settled
    }

    fn take(&self, id: &str) -> Result<Option<Approval>, BookError> {
        self.1.reach(KillMoment::BeforeUse);
        let taken = self.0.take(id);
        self.1.reach(KillMoment::AfterUse);
        taken
    }

    fn update(&self, id: &str, change: &mut dyn FnMut(&mut Approval)) -> Result<bool, BookError> {
        self.0.update(id, change)
    }

    fn version(&self) -> u64 {
        InquiryBook::<Approval>::version(&self.0)
    }

    fn hold(&self, id: &str) -> Result<WaitGuard, BookError> {
        self.0.hold(id)
    }

    fn is_held(&self, id: &str) -> Result<bool, BookError> {
        self.0.is_held(id)
    }

    fn claim(&self, id: &str) -> Result<Option<WaitGuard>, BookError> {
        self.0.claim(id)
    }
}

/// An attendant that defers every approval to a later answer.
struct DeferringAttendant;

impl Attendant for DeferringAttendant {
    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, AttendantReply<Answer>> {
        Box::pin(std::future::ready(AttendantReply::Deferred))
    }
}

const COMMAND: &str = "echo x >> a; rm -r d; echo n > n; chmod +x s; ln -sf a l";
const FILES: &[(&str, &str)] = &[("a", "one\n"), ("d/e/f", "gone\n"), ("s", "#!/bin/sh\n")];
const BUILT: &str = "echo x >> a; rm -r d node_modules/old; echo n > n; chmod +x s; ln -sf a l; echo x > node_modules/new";

/// Runs a command whose approval stays open. Returns the workspace, the id of the approval, and the object that copies it.
async fn deferred(
    command: &str,
    at: Option<KillMoment>,
) -> (TestWorkspace, ApprovalId, StateCopier) {
    let mut copier = None;
    let test = TestWorkspace::outside_tmp_with(FILES, |builder, folder| {
        let state = folder.join("state");
        let shared = StateCopier { at: Arc::default(), folder: folder.to_owned() };
        let history = UndoHistory::open(&state).expect("a history");
        let history = Arc::new(KilledHistory(history, shared.clone()));
        let book = Arc::new(KilledBook(ApprovalFile::in_state(&state), shared.clone()));
        copier = Some(shared);
        builder
            .mode(Mode::Ask)
            .attendant(DeferringAttendant)
            .configure(|engine| engine.history(history).approval_book(book))
    });
    test.put("node_modules/old", "old\n");
    std::os::unix::fs::symlink("nowhere", test.path("l")).expect("a link");
    let result = test.call("bash", json!({"command": command})).await;
    let id = result.output.metadata["approval"].as_str().map(ApprovalId::new);
    let id = id.unwrap_or_else(|| panic!("no question: {}", text(&result)));
    let copier = copier.expect("it was built");
    *copier.at.lock().unwrap() = at;
    (test, id, copier)
}

/// Returns whether the changes of the command are made; panics if only a part of them is.
fn are_changes_made(test: &TestWorkspace, at: KillMoment) -> bool {
    let found = (test.text("a"), test.path("n").exists(), test.path("d/e/f").exists());
    let link = fs::read_link(test.path("l")).expect("a link");
    match (found.0.as_str(), found.1, found.2, link.as_path() == Path::new("a")) {
        ("one\nx\n", true, false, true) => true,
        ("one\n", false, true, false) => false,
        part => panic!("{at:?}: a part is made: {part:?}"),
    }
}

fn questions(test: &TestWorkspace) -> Vec<Approval> {
    ApprovalFile::in_state(&test.state()).list().expect("a book")
}

async fn approve(test: &TestWorkspace, id: &ApprovalId) -> windlass::CallResult {
    let engine = test.windlass.engine();
    let result = match questions(test).iter().find(|one| one.id == *id) {
        Some(one) if one.settled == ApprovalState::Allowed => {
            engine.resume(&test.session, id).await
        }
        _ => engine.answer_and_resume(&test.session, id, Answer::allow()).await,
    };
    result.expect("an answer").expect("a result")
}

/// Opens the copied workspace and state, as the next start does after the kill.
fn next_start(test: TestWorkspace, copier: &StateCopier) -> TestWorkspace {
    copier.run("rm -r state work && mv copy/state state && mv copy/work work");
    test.restart()
}

async fn check(command: &str, at: KillMoment, spoil: &str, is_expected: bool) {
    let (test, id, copier) = deferred(command, Some(at)).await;
    let made = approve(&test, &id).await;
    assert_eq!(made.outcome, Outcome::Ok, "{at:?}: {}", text(&made));
    copier.run(spoil);
    let test = next_start(test, &copier);
    let told = test.windlass.recovered().join("\n");
    assert_eq!(are_changes_made(&test, at), is_expected, "{at:?}: {told}");
    assert_eq!(questions(&test).is_empty(), is_expected, "{at:?}: {told}");
    if !is_expected {
        let made = approve(&test, &id).await;
        assert_eq!(made.outcome, Outcome::Ok, "{at:?}: {} {told}", text(&made));
        assert!(are_changes_made(&test, at) && questions(&test).is_empty(), "{at:?}");
    }
    if command == BUILT {
        let found = ["node_modules/new", "node_modules/old"].map(|name| test.path(name).exists());
        assert_eq!(found, [true, false], "{at:?}: {told}");
    }
    let undone = test.undo(Undo::Last).await;
    assert!(!are_changes_made(&test, at), "{at:?}: {}", text(&undone));
    // After the next start no stage is left.
    let test = test.restart();
    test.call_ok("bash", json!({"command": "true"})).await;
    let left = fs::read_dir(test.state().join("stages")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "{at:?}: {told}");
}

#[tokio::test]
async fn allowed_commit_cut_off_by_a_kill_is_finished_or_can_be_allowed_again() {
    for (at, is_expected) in [
        (KillMoment::BeforeAnswer, false),
        (KillMoment::AfterAnswer, false),
        (KillMoment::BeforeRecord, false),
        (KillMoment::AfterRecord, false),
        (KillMoment::BeforeMark, true),
        (KillMoment::AfterMark, true),
        (KillMoment::BeforeUse, true),
        (KillMoment::AfterUse, true),
    ] {
        check(COMMAND, at, "true", is_expected).await;
    }
}

#[tokio::test]
async fn build_directories_share_the_fate_of_an_allowed_commit_cut_off_by_a_kill() {
    for (at, is_expected) in [
        (KillMoment::AfterRecord, false),
        (KillMoment::BeforeMark, true),
        (KillMoment::BeforeUse, true),
    ] {
        check(BUILT, at, "true", is_expected).await;
    }
}

/// The finished part of the commit is rolled back, which gives the files other inodes and ctimes.
#[tokio::test]
async fn allowed_commit_rolled_back_after_a_kill_can_be_allowed_again() {
    for spoil in [
        "rm copy/work/n",
        "printf 'one\\n' > copy/work/a",
        "mkdir -p copy/work/d/e && printf 'gone\\n' > copy/work/d/e/f",
        "ln -sfn nowhere copy/work/l; rm copy/work/n",
    ] {
        check(COMMAND, KillMoment::BeforeMark, spoil, false).await;
    }
}

/// A person touches files, rewrites them with the same bytes, or changes them.
#[tokio::test]
async fn touched_file_is_no_conflict() {
    for (command, is_conflict) in [
        ("touch a d/e/f s d; touch -h l", false),
        ("cp a b; mv b a; cp d/e/f f; mv f d/e/f", false),
        ("cp -r d c; rm -r d; mv c d; ln -sfn nowhere l", false),
        ("echo one > a", false),
        ("echo two > a", true),
        ("touch -r a t; echo two > b; touch -r t b; mv b a; rm t", true),
        ("chmod 600 a", true),
        ("ln a other", true),
        ("ln -sfn elsewhere l", true),
        ("rm d/e/f", true),
        ("echo mine > d/mine", true),
    ] {
        let (test, id, copier) = deferred(COMMAND, None).await;
        copier.run(&format!("cd work; {command}"));
        let before = test.tree();
        let made = approve(&test, &id).await;
        let is_refused = made.outcome != Outcome::Ok;
        assert_eq!(is_refused, is_conflict, "{command}: {}", text(&made));
        if is_conflict {
            before.assert_same(&test.tree(), command);
            assert_eq!(questions(&test)[0].settled, ApprovalState::Pending, "{command}");
        } else {
            assert!(are_changes_made(&test, KillMoment::AfterMark), "{command}");
        }
    }
}
