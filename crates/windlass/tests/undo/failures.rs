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
    Alteration, Altered, CallId, Clock, Engine, FileError, FileErrorKind, Files, Found, Host,
    OpenFile, Query, Recovered, Resolved, Session, SessionId, Stat, ToolCall, ToolError, Visitor,
    WalkOptions, WalkReport, recover,
};
use windlass_host::{LocalHost, RandomIds};
use windlass_store::UndoHistory;
use windlass_tools::BUILTIN;

use crate::support::Place;

/// The duration of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lasts {
    Once,
    Always,
}

/// A host on which one look at a file or one change fails, or all from then on.
struct Failing {
    inner: LocalHost,
    /// Number of operations that work before the failure.
    working: AtomicI64,
    lasts: Lasts,
}

impl Failing {
    fn new(place: &Place, working: i64, lasts: Lasts) -> Self {
        let inner = LocalHost::open_with(&place.workspace(), Durability::Kernel).unwrap();
        Self { inner, working: AtomicI64::new(working), lasts }
    }

    fn count(&self, doing: &'static str, path: &Resolved) -> Result<(), FileError> {
        let left = self.working.fetch_sub(1, Ordering::Relaxed);
        if left == 0 || (left < 0 && self.lasts == Lasts::Always) {
            return Err(FileError::new(doing, &path.path, FileErrorKind::NoSpace));
        }
        Ok(())
    }
}

impl Host for Failing {
    fn files(&self) -> &dyn Files {
        self
    }

    fn clock(&self) -> &dyn Clock {
        self.inner.clock()
    }
}

impl Files for Failing {
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

    fn look(&self, path: &Resolved) -> Result<Option<Found>, FileError> {
        self.count("look at", path)?;
        self.inner.files().look(path)
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

fn place() -> Place {
    let files = [
        ("one.txt", "one\n"),
        ("two.txt", "two\n"),
        ("first-name.txt", "names\n"),
        ("shared.txt", "shared\n"),
        ("last.txt", "last\n"),
    ];
    let place = Place::with(&files);
    for (name, other) in [("first-name.txt", "second-name.txt"), ("shared.txt", "also-shared.txt")]
    {
        std::fs::hard_link(place.path(name), place.path(other)).unwrap();
    }
    place
}

/// Applies a patch of several files on a failing host.
async fn patch(place: &Place, working: i64, lasts: Lasts) -> Outcome {
    let history = UndoHistory::open(&place.state()).unwrap();
    let engine = Engine::builder(Arc::new(Failing::new(place, working, lasts)))
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
async fn length() -> i64 {
    let mut length = 0;
    while patch(&place(), length, Lasts::Once).await != Outcome::Ok {
        length += 1;
    }
    length
}

#[tokio::test]
async fn wr_6_change_that_fails_at_any_step_leaves_no_trace() {
    for lasts in [Lasts::Once, Lasts::Always] {
        for working in 0.. {
            let place = place();
            let before = place.tree();
            let outcome = patch(&place, working, lasts).await;
            let place = place.restart();
            if outcome == Outcome::Ok {
                assert!(working > 10, "it takes only {working} looks and changes");
                break;
            }
            before.assert_is(&place.tree(), &format!("{lasts:?} after {working}"));
        }
    }
}

#[tokio::test]
async fn un_2_recovery_that_fails_at_any_step_is_tried_again() {
    let almost = length().await - 1;
    for lasts in [Lasts::Once, Lasts::Always] {
        let mut postponed = 0;
        for working in 0.. {
            let place = place();
            let before = place.tree();
            patch(&place, almost, Lasts::Always).await;
            let failing = Failing::new(&place, working, lasts);
            let outcome = put_right(&place, &failing);
            let place = place.restart();
            before.assert_is(&place.tree(), &format!("{lasts:?} after {working}: {outcome:?}"));
            postponed += usize::from(matches!(outcome, Recovered::Postponed { .. }));
            if failing.working.into_inner() >= 0 {
                break;
            }
        }
        assert!(postponed > 10, "{lasts:?}: only {postponed}");
    }
}

/// Recovers the unfinished change as the next start does, on a failing host.
fn put_right(place: &Place, failing: &Failing) -> Recovered {
    let history = UndoHistory::open(&place.state()).unwrap();
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
    let place = Place::with(&[("d/e/f", "content\n"), ("other/e/f", "other\n")]);
    let put_right = |call: &CallId| {
        let checkpoints = place.windlass.history().checkpoints(&Query::Call(call.clone())).unwrap();
        let host = LocalHost::open_with(&place.workspace(), Durability::Kernel).unwrap();
        let changes = &checkpoints.first().unwrap().changes;
        recover(host.files(), changes, &|_| unreachable!("nothing has to be restored"))
    };
    let linked = place.ok("bash", json!({"command": "rm -r d; ln -s other d"})).await;
    let after = place.tree();
    assert_eq!(put_right(&linked.call), Recovered::Finished);
    let undone = place.undo(Undo::Last).await;
    assert_eq!(undone.outcome, Outcome::Ok);
    let again = place.undo(Undo::Call(undone.call.clone())).await;
    assert_eq!(again.outcome, Outcome::Ok);
    // The state is as before the undo: as if the undo had only been begun.
    let nothing = Recovered::RolledBack { restored: Vec::new(), left: Vec::new() };
    assert_eq!(put_right(&undone.call), nothing);
    after.assert_is(&place.tree(), "put right");
}
