//! A host that fails in the middle of a commit, of its rollback, and of the recovery: the next start restores the files as they were.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::json;
use windlass::files::Durability;
use windlass::policy::Policy;
use windlass::tool::Toolbox;
use windlass::{Mode, Outcome, Undo};
use windlass_core::{
    Alteration, Altered, CallId, CheckpointQuery, Clock, Engine, FileError, FileErrorKind, Files,
    FoundEntry, Host, OpenFile, Recovered, Resolved, Session, SessionId, Stat, ToolCall, ToolError,
    Visitor, WalkOptions, WalkReport, recover,
};
use windlass_host::{LocalHost, RandomIds};
use windlass_store::UndoHistory;
use windlass_tools::BUILTIN;

use crate::support::TestWorkspace;

/// The duration of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FailureDuration {
    Once,
    Always,
}

/// A host on which one look at a file or one change fails, or all from then on.
struct FailingHost {
    inner: LocalHost,
    /// Number of operations that work before the failure.
    working_operations: AtomicI64,
    duration: FailureDuration,
}

impl FailingHost {
    fn new(test: &TestWorkspace, working_operations: i64, duration: FailureDuration) -> Self {
        let inner = LocalHost::open_with(&test.workspace(), Durability::Kernel).unwrap();
        Self { inner, working_operations: AtomicI64::new(working_operations), duration }
    }

    fn count(&self, doing: &'static str, path: &Resolved) -> Result<(), FileError> {
        let left = self.working_operations.fetch_sub(1, Ordering::Relaxed);
        if left == 0 || (left < 0 && self.duration == FailureDuration::Always) {
            return Err(FileError::new(doing, &path.path, FileErrorKind::NoSpace));
        }
        Ok(())
    }
}

impl Host for FailingHost {
    fn files(&self) -> &dyn Files {
        self
    }

    fn clock(&self) -> &dyn Clock {
        self.inner.clock()
    }
}

impl Files for FailingHost {
    fn workspace(&self) -> &Path {
        self.inner.files().workspace()
    }

    fn resolve(&self, path: &Path) -> Result<Resolved, FileError> {
        self.inner.files().resolve(path)
    }

    fn stat(&self, path: &Resolved) -> Result<Stat, FileError> {
        self.inner.files().stat(path)
    }

    fn open(&self, path: &Resolved) -> Result<OpenFile, FileError> {
        self.inner.files().open(path)
    }

    fn walk<'a>(
        &self,
        root: &Resolved,
        options: &WalkOptions<'a>,
        visitors: &(dyn Fn() -> Box<dyn Visitor + 'a> + Sync + 'a),
    ) -> Result<WalkReport, FileError> {
        self.count("walk", root)?;
        self.inner.files().walk(root, options, visitors)
    }

    fn inspect(&self, path: &Resolved) -> Result<Option<FoundEntry>, FileError> {
        self.count("look at", path)?;
        self.inner.files().inspect(path)
    }

    fn alter(&self, path: &Resolved, alteration: &Alteration<'_>) -> Result<Altered, FileError> {
        self.count("change", path)?;
        self.inner.files().alter(path, alteration)
    }

    fn excluded_by(&self, path: &Resolved) -> Result<Option<PathBuf>, FileError> {
        self.inner.files().excluded_by(path)
    }

    fn nearest(&self, path: &Path) -> Option<PathBuf> {
        self.inner.files().nearest(path)
    }
}

const PATCH: &str = "\
*** Begin Patch
*** Add File: added/here/new.txt
+new
*** Update File: one.txt
@@
-one
+changed
*** Update File: two.txt
*** Move to: moved/two.txt
@@
-two
+moved
*** Delete File: second-name.txt
*** Update File: shared.txt
@@
-shared
+longer than it was
*** Delete File: last.txt
*** End Patch
";

fn test_workspace() -> TestWorkspace {
    let files = [
        ("one.txt", "one\n"),
        ("two.txt", "two\n"),
        ("first-name.txt", "names\n"),
        ("shared.txt", "shared\n"),
        ("last.txt", "last\n"),
    ];
    let test = TestWorkspace::with(&files);
    for (name, other) in [("first-name.txt", "second-name.txt"), ("shared.txt", "also-shared.txt")]
    {
        std::fs::hard_link(test.path(name), test.path(other)).unwrap();
    }
    test
}

/// Applies a patch of several files on a failing host.
async fn patch(
    test: &TestWorkspace,
    working_operations: i64,
    duration: FailureDuration,
) -> Outcome {
    let history = UndoHistory::open(&test.state()).unwrap();
    let engine = Engine::builder(Arc::new(FailingHost::new(test, working_operations, duration)))
        .ids(Arc::new(RandomIds::default()))
        .toolbox(Toolbox::of(BUILTIN).unwrap())
        .policy(Policy::new(Mode::Yolo))
        .history(Arc::new(history))
        .build();
    let session = Arc::new(Session::new(SessionId::new("failing")));
    let call = ToolCall::new("patch", json!({"patch": PATCH}));
    engine.call(&session, call).await.outcome
}

/// Counts the looks and changes that the patch takes.
async fn operations_of_patch() -> i64 {
    let mut operations_of_patch = 0;
    while patch(&test_workspace(), operations_of_patch, FailureDuration::Once).await != Outcome::Ok
    {
        operations_of_patch += 1;
    }
    operations_of_patch
}

#[tokio::test]
async fn wr_6_change_that_fails_at_any_step_leaves_no_trace() {
    for duration in [FailureDuration::Once, FailureDuration::Always] {
        for working_operations in 0.. {
            let test = test_workspace();
            let before = test.tree();
            let outcome = patch(&test, working_operations, duration).await;
            let test = test.restart();
            if outcome == Outcome::Ok {
                assert!(
                    working_operations > 10,
                    "it takes only {working_operations} looks and changes"
                );
                break;
            }
            before.assert_same(&test.tree(), &format!("{duration:?} after {working_operations}"));
        }
    }
}

#[tokio::test]
async fn un_2_recovery_that_fails_at_any_step_is_tried_again() {
    let almost = operations_of_patch().await - 1;
    for duration in [FailureDuration::Once, FailureDuration::Always] {
        let mut postponed = 0;
        for working_operations in 0.. {
            let test = test_workspace();
            let before = test.tree();
            patch(&test, almost, FailureDuration::Always).await;
            let failing = FailingHost::new(&test, working_operations, duration);
            let outcome = recover_on(&test, &failing);
            let test = test.restart();
            before.assert_same(
                &test.tree(),
                &format!("{duration:?} after {working_operations}: {outcome:?}"),
            );
            postponed += usize::from(matches!(outcome, Recovered::Postponed { .. }));
            if failing.working_operations.into_inner() >= 0 {
                break;
            }
        }
        assert!(postponed > 10, "{duration:?}: only {postponed}");
    }
}

/// Recovers the unfinished change as the next start does, on a failing host.
fn recover_on(test: &TestWorkspace, failing: &FailingHost) -> Recovered {
    let history = UndoHistory::open(&test.state()).unwrap();
    let unfinished = history.unfinished().unwrap().pop().unwrap();
    let content = |hash: &_| unfinished.content(hash).map_err(ToolError::from);
    let outcome = recover(failing, &unfinished.changes, &content);
    match &outcome {
        Recovered::RolledBack { left, .. } if left.is_empty() => unfinished.abandon().unwrap(),
        Recovered::Postponed { .. } => drop(unfinished),
        other => panic!("{other:?}"),
    }
    outcome
}

/// Recovers an unfinished change that replaces a directory by a link, or a link by a directory. The recovery must not look for files behind
/// the link.
#[tokio::test]
async fn un_2_unfinished_swap_of_link_and_directory_is_recovered() {
    let test = TestWorkspace::with(&[("d/e/f", "content\n"), ("other/e/f", "other\n")]);
    let recover_on = |call: &CallId| {
        let checkpoints =
            test.windlass.history().checkpoints(&CheckpointQuery::Call(call.clone())).unwrap();
        let host = LocalHost::open_with(&test.workspace(), Durability::Kernel).unwrap();
        let changes = &checkpoints.first().unwrap().changes;
        recover(host.files(), changes, &|_| unreachable!("nothing has to be restored"))
    };
    let linked = test.call_ok("bash", json!({"command": "rm -r d; ln -s other d"})).await;
    let after = test.tree();
    assert_eq!(recover_on(&linked.call), Recovered::Finished);
    let undone = test.undo(Undo::Last).await;
    assert_eq!(undone.outcome, Outcome::Ok);
    let again = test.undo(Undo::Call(undone.call.clone())).await;
    assert_eq!(again.outcome, Outcome::Ok);
    // The state is as before the undo: as if the undo had only been begun.
    let nothing = Recovered::RolledBack { restored: Vec::new(), left: Vec::new() };
    assert_eq!(recover_on(&undone.call), nothing);
    after.assert_same(&test.tree(), "put right");
}
