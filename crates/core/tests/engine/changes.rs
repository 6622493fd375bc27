//! Changes that a program left on its stage: the approval of them, and the changes that the request shows.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::json;
use windlass_core::testing::{EmptyHost, MockTool};
use windlass_core::{
    ApprovalRequest, Attributes, BoxFuture, ChangedTo, Clock, CommandLine, Confinement, Effect,
    EffectKinds, Files, Fingerprint, Host, Mode, Output, Policy, Process, ProcessChange,
    ProcessChanges, ProcessEnd, ProcessRequest, Processes, Program, Signal, ToolError, Tracking,
};

use crate::support::Setup;

/// A machine without files, on which every program leaves the same changes on its stage.
struct StageHost {
    empty: EmptyHost,
    confinement: Confinement,
    changes: fn(&Path) -> Vec<ProcessChange>,
    stage: tempfile::TempDir,
}

impl Host for StageHost {
    fn files(&self) -> &dyn Files {
        &self.empty
    }

    fn clock(&self) -> &dyn Clock {
        self.empty.clock()
    }

    fn processes(&self) -> Option<&dyn Processes> {
        Some(self)
    }
}

impl Processes for StageHost {
    fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    fn start(&self, _: &ProcessRequest) -> Result<Box<dyn Process>, ToolError> {
        Ok(Box::new(EndedProcess((self.changes)(self.stage.path()).into())))
    }

    fn scratch(&self) -> io::Result<std::fs::File> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A process that has ended, with its changes.
struct EndedProcess(Mutex<Vec<ProcessChange>>);

impl Process for EndedProcess {
    fn read<'a>(&'a self, _: &'a mut Vec<u8>) -> BoxFuture<'a, io::Result<usize>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    fn write<'a>(&'a self, _: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(std::future::ready(Err(io::ErrorKind::BrokenPipe.into())))
    }

    fn ended(&self) -> BoxFuture<'_, ProcessEnd> {
        Box::pin(std::future::ready(ProcessEnd::Exited(0)))
    }

    fn signal(&self, _: Signal) -> io::Result<()> {
        Ok(())
    }

    fn kill(&self) {}

    fn waits_for_input(&self) -> bool {
        false
    }

    fn changes(&self) -> Result<ProcessChanges, ToolError> {
        let changes = std::mem::take(&mut *self.0.lock().unwrap());
        Ok(ProcessChanges { changes, ..ProcessChanges::none(Tracking::Staged) })
    }
}

/// Makes the change of a new file with this text.
fn written(stage: &Path, path: &str, text: &str) -> ProcessChange {
    let staged = stage.join(path.replace('/', "_"));
    std::fs::write(&staged, text).expect("a file");
    let to = ChangedTo::File(staged, Attributes::default());
    ProcessChange { path: Path::new("/w").join(path), before: None, to }
}

/// Makes the change of a removed file.
fn removed(path: &str) -> ProcessChange {
    let seen = Fingerprint { device: 1, inode: 1, len: 1, modified: 1, changed: 1 };
    ProcessChange { path: Path::new("/w").join(path), before: Some(seen), to: ChangedTo::Nothing }
}

/// Runs a command that makes these changes, and returns the approval requests that it leads to.
async fn approval_requests(
    policy: Policy,
    changes: fn(&Path) -> Vec<ProcessChange>,
) -> Vec<ApprovalRequest> {
    let tool = MockTool::named("run")
        .with_effects(EffectKinds::EXEC, |_| Effect::Exec(CommandLine::words(["make"])).into())
        .answering(|cx, _| async move {
            let directory = cx.files().resolve(".".as_ref())?;
            let request = ProcessRequest::new(Program::words(["make"]), directory);
            let (_, end) = cx.processes()?.run(request, None, None).await?;
            Ok(Output::text(format!("{}", end.is_some_and(|end| end.changed.is_ok()))))
        });
    let questions = Arc::new(Mutex::new(Vec::new()));
    let host = StageHost {
        empty: EmptyHost::default(),
        confinement: Confinement::default(),
        changes,
        stage: tempfile::tempdir().expect("a folder"),
    };
    let collected = questions.clone();
    let setup = Setup::on(Arc::new(host), [tool], |builder| {
        builder.policy(policy).attendant(move |request: &ApprovalRequest| {
            collected.lock().unwrap().push(request.clone());
            false
        })
    });
    setup.call("run", json!({})).await;
    std::mem::take(&mut *questions.lock().unwrap())
}

#[tokio::test]
async fn git_hook_asks_in_every_mode_and_shows_its_text() {
    for mode in [Mode::Auto, Mode::Yolo] {
        let allowed = Policy::new(mode).allow("write **".parse().expect("a rule"));
        let questions = approval_requests(allowed, |stage| {
            vec![written(stage, ".git/hooks/pre-commit", "x\n")]
        })
        .await;
        let [question] = questions.as_slice() else { panic!("{mode}: {questions:?}") };
        assert_eq!(question.by.to_string(), "always asked: git's hooks and configuration");
        let [change] = &*question.changes else { panic!("{:?}", question.changes) };
        assert_eq!(change.path, PathBuf::from("/w/.git/hooks/pre-commit"));
        assert_eq!(change.after.as_deref(), Some(b"x\n".as_slice()));
    }
}

#[tokio::test]
async fn inert_git_configuration_needs_no_approval() {
    let inert = |stage: &Path| vec![written(stage, ".git/config", "[core]\n\tbare = false\n")];
    assert!(approval_requests(Policy::new(Mode::Auto), inert).await.is_empty());
    let active = |stage: &Path| vec![written(stage, ".git/config", "[core]\n\tpager = x\n")];
    assert_eq!(approval_requests(Policy::new(Mode::Auto), active).await.len(), 1);
}

#[tokio::test]
async fn request_lists_protected_and_hidden_files_of_a_removed_tree() {
    let gone =
        |_: &Path| ["sub/.envrc", "sub/.env", "sub/a", "sub"].into_iter().map(removed).collect();
    let questions = approval_requests(Policy::new(Mode::Auto), gone).await;
    let [question] = questions.as_slice() else { panic!("{questions:?}") };
    let effects: Vec<String> = question.effects.iter().map(ToString::to_string).collect();
    assert_eq!(effects, ["delete /w/sub/.envrc", "delete /w/sub/.env", "delete /w/sub/**"]);
}
