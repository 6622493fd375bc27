//! Approvals, permissions and lists of the systems that Windlass learned from, and their weaknesses.

mod agentctl;
mod errata;
mod hector;
mod hex;
mod hygge;

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;
use windlass::event::EventKind;
use windlass::files::Durability;
use windlass::people::{Answer, ApprovalRequest, Attendant, AttendantReply, EventAttendant};
use windlass::session::SessionId;
use windlass::tool::BoxFuture;
use windlass::{Builder, CallResult, Mode, Session, ToolCall, Windlass};

/// Temporary workspaces with a shared state directory, for several engines in sequence.
struct TestDirectories {
    folder: TempDir,
}

impl TestDirectories {
    fn new() -> Self {
        Self::in_folder(tempfile::tempdir().unwrap())
    }

    /// The same outside of `/tmp`, so that files beside a workspace are outside of it and not in the session's own `/tmp`.
    fn outside_tmp() -> Self {
        Self::in_folder(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    fn in_folder(folder: TempDir) -> Self {
        let directories = Self { folder };
        for workspace in ["work", "other"] {
            fs::create_dir(directories.folder.path().join(workspace)).unwrap();
        }
        directories
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn put(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn builder(&self, workspace: &str) -> Builder {
        Windlass::builder(self.path(workspace))
            .state(self.path("state"))
            .durability(Durability::Kernel)
            .mode(Mode::Ask)
            .ask_before(true)
    }

    /// Opens an engine in the workspace `work` with this attendant.
    fn open(&self, attendant: impl Attendant) -> Windlass {
        self.builder("work").attendant(attendant).build().unwrap()
    }

    /// Opens an engine in the workspace `work` without an attendant.
    fn unattended(&self) -> Windlass {
        self.builder("work").build().unwrap()
    }
}

/// An attendant that gives the same answer to every approval and records the requests.
#[derive(Clone)]
struct RecordingAttendant {
    answer: Answer,
    heard: Arc<Mutex<Vec<ApprovalRequest>>>,
}

impl RecordingAttendant {
    fn new(answer: Answer) -> Self {
        Self { answer, heard: Arc::default() }
    }

    fn count(&self) -> usize {
        self.heard.lock().unwrap().len()
    }

    fn last(&self) -> ApprovalRequest {
        self.heard.lock().unwrap().last().unwrap().clone()
    }
}

impl Attendant for RecordingAttendant {
    fn approve<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> BoxFuture<'a, AttendantReply<Answer>> {
        self.heard.lock().unwrap().push(request.clone());
        Box::pin(std::future::ready(AttendantReply::Answered(self.answer.clone())))
    }
}

fn session(id: &str) -> Arc<Session> {
    Arc::new(Session::new(SessionId::new(id)))
}

async fn call(windlass: &Windlass, session: &Arc<Session>, tool: &str, input: Value) -> CallResult {
    windlass.call(session, ToolCall::new(tool, input)).await
}

/// Makes calls that each need an approval, and leaves these open, as a kill does: recorded, with no call that waits.
async fn leave_open(directories: &TestDirectories, id: &str, calls: Vec<ToolCall>) {
    let windlass = directories.open(EventAttendant::default());
    let mut events = windlass.subscribe();
    let (session, count) = (session(id), calls.len());
    let turn = tokio::spawn({
        let windlass = windlass.clone();
        async move { windlass.turn(&session, calls).await }
    });
    for _ in 0..count {
        while !matches!(events.next().await.kind, EventKind::Approval(_)) {}
    }
    let file = directories.path("state/approvals.json");
    let record = fs::read(&file).unwrap();
    turn.abort();
    drop(turn.await);
    // The marks of waiting calls are removed in the background.
    while fs::read_dir(directories.path("state/waiting")).unwrap().next().is_some() {
        tokio::task::yield_now().await;
    }
    drop((windlass, events));
    fs::write(file, record).unwrap();
}
