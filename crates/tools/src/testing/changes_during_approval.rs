//! Tests of file changes by a person while a call waits for an approval: the approved call runs as it was planned, or is refused. It is
//! never planned anew.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use windlass_core::testing::EchoHost;
use windlass_core::{
    ApprovalRequest, CallResult, Clock, ContentHash, Engine, Files, HistoryError, HistoryLock,
    Host, Mode, Outcome, Overrides, Policy, Processes, Proposal, ProposalStore, Proposals, Session,
    SessionId, Snapshot, ToolCall, ToolHandle, Toolbox,
};
use windlass_host::LocalHost;

use crate::{Apply, Restore};

/// The files of this machine, with programs that print their own command line.
struct EchoingHost {
    local: LocalHost,
    echo: EchoHost,
}

impl Host for EchoingHost {
    fn files(&self) -> &dyn Files {
        self.local.files()
    }

    fn clock(&self) -> &dyn Clock {
        self.local.clock()
    }

    fn processes(&self) -> Option<&dyn Processes> {
        self.echo.processes()
    }
}

/// A workspace in which each call of a model asks for an approval.
struct AskingWorkspace {
    directory: tempfile::TempDir,
    host: Arc<EchoingHost>,
    shelf: Arc<MemoryShelf>,
}

impl AskingWorkspace {
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let local = LocalHost::open(directory.path()).unwrap();
        let host = Arc::new(EchoingHost { local, echo: EchoHost::default() });
        Self { directory, host, shelf: Arc::default() }
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.directory.path().join(name)).ok()
    }

    /// Makes the calls in one session. When the last one asks, the person first calls `meanwhile` and then approves.
    fn calls(
        &self,
        session: Session,
        tool: Option<ToolHandle>,
        calls: &[(&str, Value)],
        meanwhile: impl Fn(&Path) + Send + Sync + 'static,
    ) -> CallResult {
        let mut tools = Toolbox::new();
        let builtin = crate::BUILTIN.iter().map(|tool| ToolHandle::Static(*tool));
        for tool in builtin.chain(tool) {
            tools.add(tool).unwrap();
        }
        let place = self.directory.path().to_owned();
        let (last, _) = calls.last().unwrap();
        let last = (*last).to_owned();
        let approve = move |request: &ApprovalRequest| {
            if request.tool == last {
                meanwhile(&place);
            }
            true
        };
        let engine = Engine::builder(self.host.clone())
            .toolbox(tools)
            .policy(Policy::new(Mode::Ask).asking_before(true))
            .attendant(approve)
            .build();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let session = Arc::new(session);
        let call = |(tool, input): &(&str, Value)| ToolCall::new(*tool, input.clone());
        let results = calls.iter().map(|one| runtime.block_on(engine.call(&session, call(one))));
        results.last().unwrap()
    }
}

fn new_session() -> Session {
    Session::new(SessionId::new("s1"))
}

/// The files of a workspace, a tool with its input, the change during the approval, and the expected outcome and text.
type ApprovalCase<'a> = (&'a [(&'a str, &'a str)], &'a str, Value, fn(&Path), Outcome, &'a str);

/// Makes the call of a case, and checks its outcome and text.
#[track_caller]
fn check((files, tool, input, meanwhile, outcome, expected): ApprovalCase<'_>) {
    let result =
        AskingWorkspace::new(files).calls(new_session(), None, &[(tool, input)], meanwhile);
    let text = result.output.to_text();
    assert_eq!(result.outcome, outcome, "{tool}: {text}");
    assert!(text.contains(expected), "{tool}: {text}");
}

fn no_change(_: &Path) {}

fn replace_directory_by_link(place: &Path) {
    std::fs::rename(place.join("d"), place.join("old")).unwrap();
    symlink(place.join("elsewhere"), place.join("d")).unwrap();
}

fn remove_directory(place: &Path) {
    std::fs::remove_dir_all(place.join("d")).unwrap();
}

fn add_cargo_project(place: &Path) {
    std::fs::write(place.join("Cargo.toml"), "").unwrap();
}

#[test]
fn program_runs_as_approved_or_not_at_all() {
    let tree = &[("d/x", ""), ("elsewhere/x", "")];
    let bash = |cwd: &str| json!({"command": "make all", "cwd": cwd});
    let not_it = "it is not the directory any more that the command was decided on for";
    let changed = "cannot look at d: it changed while the call was under way";
    let gone = "cannot run a command in d: there is no such directory";
    let make = &[("Makefile", "test:\n\ttrue\n"), ("d/Makefile", "test:\n\ttrue\n")];
    let given = json!({"command": "./check all", "path": "d"});
    for case in [
        (tree as &[_], "bash", bash("d"), no_change as fn(&Path), Outcome::Ok, "make all"),
        (tree, "bash", bash("d"), replace_directory_by_link, Outcome::Error, changed),
        (tree, "bash", bash("d"), remove_directory, Outcome::Error, gone),
        (tree, "test", given.clone(), no_change, Outcome::Ok, "./check all"),
        (tree, "test", given, replace_directory_by_link, Outcome::Error, not_it),
        // A second search for the project would find Cargo before Make.
        (make, "test", json!({}), no_change, Outcome::Ok, "make test"),
        (make, "test", json!({}), add_cargo_project, Outcome::Ok, "make test"),
        (make, "test", json!({"path": "d"}), replace_directory_by_link, Outcome::Error, not_it),
    ] {
        check(case);
    }
}

fn remove_repository(place: &Path) {
    std::fs::rename(place.join(".git"), place.join("git")).unwrap();
}

fn add_nearer_repository(place: &Path) {
    std::fs::create_dir(place.join("d/.git")).unwrap();
}

#[test]
fn git_works_on_the_approved_repository_or_not_at_all() {
    let files = [(".git/HEAD", "ref: refs/heads/main\n"), ("d/x", "")];
    let branch = json!({"command": "branch", "args": ["new"]});
    for (in_directory, meanwhile, outcome, expected) in [
        (false, no_change as fn(&Path), Outcome::Ok, "git branch"),
        (true, no_change, Outcome::Ok, "git branch"),
        (false, add_nearer_repository, Outcome::Ok, "git branch"),
        (false, remove_repository, Outcome::Error, "the repository is not there any more at"),
        (true, add_nearer_repository, Outcome::Error, "another repository is nearer now"),
        (true, replace_directory_by_link, Outcome::Error, "not the directory any more"),
    ] {
        let workspace = AskingWorkspace::new(&files);
        std::fs::create_dir(workspace.directory.path().join("elsewhere")).unwrap();
        let overrides = Overrides {
            work_dir: in_directory.then(|| workspace.directory.path().join("d")),
            ..Overrides::default()
        };
        let session = new_session().with_overrides(overrides);
        let result = workspace.calls(session, None, &[("git", branch.clone())], meanwhile);
        let text = result.output.to_text();
        assert_eq!(result.outcome, outcome, "{expected}: {text}");
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn undo_restores_the_approved_state_or_nothing() {
    let write = ("write", json!({"path": "a.txt", "content": "one\n"}));
    let undo = || ("undo", json!({}));
    let workspace = AskingWorkspace::new(&[]);
    let result = workspace.calls(new_session(), None, &[write.clone(), undo()], no_change);
    assert_eq!((result.outcome, workspace.read("a.txt")), (Outcome::Ok, None));
    let result = workspace.calls(new_session(), None, &[write, undo()], |place| {
        std::fs::write(place.join("a.txt"), "mine\n").unwrap();
    });
    let text = result.output.to_text();
    assert_eq!(result.outcome, Outcome::Error, "{text}");
    assert!(text.contains("stale: ") && text.contains("a.txt changed just now"), "{text}");
    assert_eq!(workspace.read("a.txt").as_deref(), Some("mine\n"));
}

#[test]
fn a_session_that_only_proposes_has_nothing_to_undo() {
    let workspace = AskingWorkspace::new(&[]);
    let proposals =
        Arc::new(Proposals::open(workspace.shelf.clone(), SessionId::new("s1")).unwrap());
    let calls = [("write", json!({"path": "a.txt", "content": "one\n"})), ("undo", json!({}))];
    let session = new_session().with_proposals(proposals);
    let result = workspace.calls(session, None, &calls, |_| panic!("no approval is needed"));
    assert_eq!(result.output.to_text(), "there is nothing to undo");
}

#[test]
fn snapshot_is_restored_over_the_approved_state_or_not_at_all() {
    for (meanwhile, outcome, left) in [
        (no_change as fn(&Path), Outcome::Ok, "old\n"),
        (|place| std::fs::write(place.join("a.txt"), "mine\n").unwrap(), Outcome::Error, "mine\n"),
    ] {
        let workspace = AskingWorkspace::new(&[("a.txt", "old\n")]);
        let paths = [workspace.directory.path().join("a.txt")];
        let shelf = workspace.shelf.clone();
        let snapshot = Snapshot::take(workspace.host.files(), &*shelf, &paths).unwrap();
        std::fs::write(&paths[0], "new\n").unwrap();
        let restore = Restore::new(snapshot, shelf).into();
        let calls = [("restore", json!({}))];
        let result = workspace.calls(new_session(), Some(restore), &calls, meanwhile);
        assert_eq!(result.outcome, outcome, "{}", result.output.to_text());
        assert_eq!(workspace.read("a.txt").as_deref(), Some(left));
    }
}

#[test]
fn proposals_are_applied_as_approved_or_not_at_all() {
    type Meanwhile = fn(&Path, &Proposals);
    let not_held = "stale: no longer proposed as it was decided on, so nothing is applied: ";
    for (meanwhile, outcome, expected, left) in [
        ((|_, _| {}) as Meanwhile, Outcome::Ok, "applied 1 change", Some("one\n")),
        (|_, all| drop(all.drop_paths(None).unwrap()), Outcome::Error, not_held, None),
        (
            |place, _| std::fs::write(place.join("a.txt"), "mine\n").unwrap(),
            Outcome::Error,
            "a.txt",
            Some("mine\n"),
        ),
    ] {
        let workspace = AskingWorkspace::new(&[]);
        let open =
            || Arc::new(Proposals::open(workspace.shelf.clone(), SessionId::new("s1")).unwrap());
        let write = [("write", json!({"path": "a.txt", "content": "one\n"}))];
        workspace.calls(new_session().with_proposals(open()), None, &write, no_change);
        assert_eq!(workspace.read("a.txt"), None, "it is only proposed");
        let (proposals, others) = (open(), open());
        let apply = Apply::new(proposals).into();
        let calls = [("apply", json!({}))];
        let result = workspace
            .calls(new_session(), Some(apply), &calls, move |place| meanwhile(place, &others));
        let text = result.output.to_text();
        assert_eq!(result.outcome, outcome, "{text}");
        assert!(text.contains(expected), "{text}");
        assert_eq!(workspace.read("a.txt").as_deref(), left);
    }
}

/// A shelf in memory.
#[derive(Default)]
struct MemoryShelf {
    contents: Mutex<HashMap<ContentHash, Vec<u8>>>,
    lists: Mutex<HashMap<SessionId, Vec<Proposal>>>,
    stamp: AtomicU64,
}

impl ProposalStore for MemoryShelf {
    fn keep(&self, hash: &ContentHash, bytes: &[u8]) -> Result<(), HistoryError> {
        self.contents.lock().unwrap().insert(*hash, bytes.to_owned());
        Ok(())
    }

    fn open(&self, hash: &ContentHash) -> Result<File, HistoryError> {
        let contents = self.contents.lock().unwrap();
        let bytes = contents.get(hash).ok_or(HistoryError::Dropped(*hash))?;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Ok(file)
    }

    fn load(&self, session: &SessionId) -> Result<Vec<Proposal>, HistoryError> {
        Ok(self.lists.lock().unwrap().get(session).cloned().unwrap_or_default())
    }

    fn save(&self, session: &SessionId, proposals: &[Proposal]) -> Result<(), HistoryError> {
        self.lists.lock().unwrap().insert(session.clone(), proposals.to_owned());
        self.stamp.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn exclusive(&self) -> Result<HistoryLock<'_>, HistoryError> {
        Ok(HistoryLock::unshared())
    }

    fn stamp(&self, _: &SessionId) -> u64 {
        self.stamp.load(Ordering::SeqCst)
    }

    fn sessions(&self) -> Result<Vec<SessionId>, HistoryError> {
        Ok(self.lists.lock().unwrap().keys().cloned().collect())
    }
}
