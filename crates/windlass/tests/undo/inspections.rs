//! The number of times that an undo inspects a file, and changes that a person makes between plan and undo.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use windlass::changes::{CheckpointQuery, UndoPlan};
use windlass::files::Durability;
use windlass::policy::Policy;
use windlass::tool::{PlanContext, Planned, PlannedTool, Toolbox};
use windlass::{Context, EffectKinds, Effects, Mode, Outcome, Output, ToolError};
use windlass_core::{
    Alteration, Altered, Clock, Engine, FileError, Files, FoundEntry, Host, OpenFile, Resolved,
    Session, SessionId, Stat, ToolCall, Visitor, WalkOptions, WalkReport,
};
use windlass_host::{LocalHost, RandomIds};
use windlass_store::UndoHistory;
use windlass_tools::BUILTIN;

use crate::support::{TestWorkspace, text};

/// A host that counts the inspections of each path, which hash the file.
struct CountingHost {
    inner: LocalHost,
    looks: Mutex<HashMap<PathBuf, usize>>,
}

impl Host for CountingHost {
    fn files(&self) -> &dyn Files {
        self
    }

    fn clock(&self) -> &dyn Clock {
        self.inner.clock()
    }
}

impl Files for CountingHost {
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
        self.inner.files().walk(root, options, visitors)
    }

    fn inspect(&self, path: &Resolved) -> Result<Option<FoundEntry>, FileError> {
        *self.looks.lock().unwrap().entry(path.path.clone()).or_default() += 1;
        self.inner.files().inspect(path)
    }

    fn alter(&self, path: &Resolved, alteration: &Alteration<'_>) -> Result<Altered, FileError> {
        self.inner.files().alter(path, alteration)
    }

    fn excluded_by(&self, path: &Resolved) -> Result<Option<PathBuf>, FileError> {
        self.inner.files().excluded_by(path)
    }

    fn nearest(&self, path: &Path) -> Option<PathBuf> {
        self.inner.files().nearest(path)
    }
}

const FILES: usize = 20;

fn file_name(number: usize) -> String {
    format!("f{number:02}")
}

/// Returns the ctime of a file.
fn change_time(path: &Path) -> (i64, i64) {
    let facts = fs::symlink_metadata(path).unwrap();
    (facts.ctime(), facts.ctime_nsec())
}

/// Touches the last of the new files, which an undo inspects first, until its ctime is later than that of all others.
fn advance_change_time(test: &TestWorkspace) {
    let last = test.path(&file_name(FILES - 1));
    let latest = (0..FILES - 1).map(|number| change_time(&test.path(&file_name(number)))).max();
    while Some(change_time(&last)) <= latest {
        let mode = fs::metadata(&last).unwrap().permissions();
        fs::set_permissions(&last, mode).unwrap();
    }
}

#[tokio::test]
async fn undo_does_not_read_files_with_a_proven_fingerprint() {
    let test = TestWorkspace::new();
    let inner = LocalHost::open_with(&test.workspace(), Durability::Kernel).unwrap();
    let host = Arc::new(CountingHost { inner, looks: Mutex::default() });
    let engine = Engine::builder(host.clone())
        .ids(Arc::new(RandomIds::default()))
        .toolbox(Toolbox::of(BUILTIN).unwrap())
        .policy(Policy::new(Mode::Yolo))
        .history(Arc::new(UndoHistory::open(&test.state()).unwrap()))
        .build();
    let session = Arc::new(Session::new(SessionId::new("counting")));
    let added =
        (0..FILES).map(|number| format!("*** Add File: {}\n+{number}\n", file_name(number)));
    let patch = format!("*** Begin Patch\n{}*** End Patch\n", added.collect::<String>());
    let made = engine.call(&session, ToolCall::new("patch", json!({"patch": patch}))).await;
    assert_eq!(made.outcome, Outcome::Ok, "{}", text(&made));
    advance_change_time(&test);
    host.looks.lock().unwrap().clear();
    let undone = engine.call(&session, ToolCall::new("undo", json!({}))).await;
    assert_eq!(undone.outcome, Outcome::Ok, "{}", text(&undone));
    let looks = host.looks.lock().unwrap();
    for number in 0..FILES - 1 {
        let path = test.path(&file_name(number));
        assert!(!path.exists());
        // For the plan, and for the lines of the report.
        assert_eq!(looks.get(&path), Some(&2), "{}", path.display());
    }
}

/// A tool that plans an undo of the last change, lets a person change a file, and then performs the plan.
struct InterruptedUndo;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Index of the change that the person makes.
    change: usize,
}

impl PlannedTool for InterruptedUndo {
    const NAME: &'static str = "interrupted";
    const KINDS: EffectKinds = EffectKinds::STATE.with(EffectKinds::DELETE);
    type Args = Args;
    type Plan = (UndoPlan, usize);

    fn plan(&self, args: Args, scene: &PlanContext<'_>) -> Result<Planned<Self::Plan>, ToolError> {
        let plan = scene.undo_plan(&CheckpointQuery::LastOfSession(scene.session().clone()))?;
        let tree = windlass::effect::PathPattern::tree(scene.workspace());
        let effects = Effects::state("undo").and(windlass::effect::Effect::Delete(tree));
        Ok(Planned { effects, plan: (plan, args.change) })
    }

    async fn call(&self, cx: &Context, (plan, change): Self::Plan) -> Result<Output, ToolError> {
        cx.blocking(move |cx| {
            let file = cx.files().resolve(Path::new(&file_name(3)))?.path;
            PERSON_CHANGES[change].1(&file);
            cx.undo()?.perform(&plan)?;
            Ok(Output::text("undid it"))
        })
        .await?
    }
}

/// A change that a person makes to a file: a description and a function.
type PersonChange = (&'static str, fn(&Path));

/// Changes that a person makes to a file. No undo may overwrite them.
const PERSON_CHANGES: &[PersonChange] = &[
    ("writes as many bytes and sets the old time", |path| {
        let old = fs::metadata(path).unwrap().modified().unwrap();
        fs::write(path, "x\n").unwrap();
        fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    }),
    ("moves a file of the same length and time over it", |path| {
        let (other, old) = (path.with_extension("other"), fs::metadata(path).unwrap());
        fs::write(&other, "x\n").unwrap();
        let file = fs::File::options().write(true).open(&other).unwrap();
        file.set_modified(old.modified().unwrap()).unwrap();
        fs::rename(&other, path).unwrap();
    }),
    ("changes its mode", |path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }),
    ("puts a link there", |path| {
        fs::remove_file(path).unwrap();
        symlink("elsewhere", path).unwrap();
    }),
    ("removes it", |path| fs::remove_file(path).unwrap()),
];

#[tokio::test]
async fn changes_between_plan_and_undo_stay() {
    for (number, (change, _)) in PERSON_CHANGES.iter().enumerate() {
        let test = TestWorkspace::with_builder(&[], |builder| builder.tool(InterruptedUndo));
        let files = (0..FILES).map(|number| {
            json!({"path": file_name(number), "to": "file", "content": format!("{}\n", number % 10)})
        });
        test.call_ok("delta", json!({"changes": files.collect::<Vec<_>>()})).await;
        advance_change_time(&test);
        let refused = test.call("interrupted", json!({"change": number})).await;
        let said = text(&refused);
        assert_eq!(refused.outcome, Outcome::Error, "{change}: {said}");
        assert!(said.contains("stale"), "{change}: {said}");
        let left =
            (0..FILES).filter(|number| *number != 3 && test.path(&file_name(*number)).exists());
        assert_eq!(left.count(), FILES - 1, "{change}: {said}");
    }
}
