//! The information that a tool may use to plan a call, before the call is decided on.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::changes::commit::recorded_path;
use crate::changes::history::Untracked;
use crate::sync::Lock;
use crate::{
    CheckpointQuery, CommitStep, Effect, Effects, Entry, FileKind, Files, History, Host, Overrides,
    PathPattern, Planned, Policy, Processes, ProposalApplication, ProposalStore, Proposals,
    Resolved, Session, SessionId, Shell, Snapshot, SnapshotPlan, TargetState, ToolError, UndoPlan,
    Visitor, Walk, WalkOptions, context,
};

/// Gives a tool the information that it needs to plan a call. Files are those of the machine, also if the session only proposes its
/// changes: no grant exists yet, and programs see no other files.
///
/// ```
/// use windlass_core::{Effect, PathPattern, Planned, CheckpointQuery, PlanContext, ToolError, UndoPlan};
///
/// /// Plans to take back the last change of this session.
/// fn plan(scene: &PlanContext<'_>) -> Result<Planned<UndoPlan>, ToolError> {
///     let plan = scene.undo_plan(&CheckpointQuery::LastOfSession(scene.session().clone()))?;
///     let effects = plan.declared().map(|way| Effect::Write(PathPattern::entry(&way.path))).collect();
///     Ok(Planned { effects, plan })
/// }
/// ```
#[derive(Clone, Copy)]
pub struct PlanContext<'a> {
    pub(crate) session: &'a Session,
    pub(crate) host: &'a dyn Host,
    pub(crate) files: &'a dyn Files,
    pub(crate) history: &'a dyn History,
    pub(crate) policy: &'a Policy,
    pub(crate) overrides: &'a Overrides,
}

impl std::fmt::Debug for PlanContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scene").field("session", self.session.id()).finish_non_exhaustive()
    }
}

impl PlanContext<'_> {
    /// Returns the session that the call belongs to.
    pub fn session(&self) -> &SessionId {
        self.session.id()
    }

    /// Returns the root of the workspace.
    pub fn workspace(&self) -> &Path {
        self.files.workspace()
    }

    /// Returns the person's home directory, which programs know as `HOME`, if it is known.
    pub fn home(&self) -> Option<&Path> {
        self.policy.hard_denies().homes().first().map(PathBuf::as_path)
    }

    /// Returns the shell that runs commands.
    pub fn shell(&self) -> Shell {
        self.host.processes().map_or_else(Shell::default, Processes::shell)
    }

    /// Resolves a path of the call, through links, to the path that it leads to.
    pub fn resolve(&self, path: &Path) -> Result<Resolved, ToolError> {
        Ok(context::resolve(self.files, self.overrides, path)?)
    }

    /// Returns the kind of the file at a path; `None` if there is no file or it cannot be inspected.
    pub fn kind(&self, path: &Path) -> Option<FileKind> {
        let files = self.files;
        let resolved = context::resolve(files, self.overrides, path).ok()?;
        files.stat(&resolved).ok().map(|stat| stat.kind)
    }

    /// Reads at most `max_bytes` from the beginning of a file of the workspace that tools may see. Needs no grant, for plans that
    /// depend on content. Returns `None` for other files.
    pub fn peek(&self, path: &Path, max_bytes: u64) -> Option<Vec<u8>> {
        let files = self.files;
        let resolved = context::resolve(files, self.overrides, path).ok()?;
        if resolved.inside.is_none() || self.is_hidden(&resolved.path) {
            return None;
        }
        let mut bytes = Vec::new();
        files.open(&resolved).ok()?.file.take(max_bytes).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Lists a directory of the workspace by name, without entries that tools may not see. A directory that cannot be listed gives an empty list.
    pub fn names(&self, directory: &Path) -> Vec<(OsString, FileKind)> {
        let files = self.files;
        let Ok(root) = context::resolve(files, self.overrides, directory) else {
            return Vec::new();
        };
        if root.inside.is_none() {
            return Vec::new();
        }
        let names = Lock::default();
        let now = self.host.clock().now();
        let hidden = |path: &Path| self.policy.hides_entry_of(path, files, now);
        let options = WalkOptions {
            max_depth: 1,
            ignore_files: false,
            threads: 1,
            hidden: &hidden,
            ..WalkOptions::default()
        };
        // A directory that cannot be listed gives no names. A tool that works in it later gets the error.
        drop(files.walk(&root, &options, &|| Box::new(EntryCollector(&names))));
        let mut names = std::mem::take(&mut *names.lock());
        names.sort_by(|(a, _), (b, _)| a.cmp(b));
        names
    }

    /// Plans to undo these changes. A session that only proposes its changes has no recorded changes.
    pub fn undo_plan(&self, query: &CheckpointQuery) -> Result<UndoPlan, ToolError> {
        let history = if self.session.proposals().is_some() { &Untracked } else { self.history };
        UndoPlan::make(self.files, history, query)
    }

    /// Plans to restore a snapshot.
    pub fn plan_restore(
        &self,
        snapshot: &Snapshot,
        shelf: &dyn ProposalStore,
    ) -> Result<Planned<SnapshotPlan>, ToolError> {
        let plan = SnapshotPlan::load(self.files, shelf, snapshot)?;
        Ok(Planned { effects: effects(&plan.steps(self.files)), plan })
    }

    /// Plans to apply proposed changes: those of these paths, or all.
    pub fn plan_apply(
        &self,
        proposals: &Proposals,
        paths: Option<&[PathBuf]>,
    ) -> Result<Planned<ProposalApplication>, ToolError> {
        let plan = ProposalApplication::load(self.files, proposals, paths)?;
        Ok(Planned { effects: effects(&plan.steps(self.files)), plan })
    }

    /// Returns whether no tool may see this file. Changes that a process made to it can still be undone.
    pub fn is_hidden(&self, path: &Path) -> bool {
        let files = self.files;
        self.policy.hides(path, files, self.host.clock().now())
            || !matches!(files.excluded_by(&recorded_path(files, path)), Ok(None))
    }
}

/// Derives the effects of a commit of these steps: a deletion for each removed path, a write for each other path.
fn effects(steps: &[CommitStep<'_>]) -> Effects {
    let effect = |step: &CommitStep<'_>| {
        let path = PathPattern::entry(&step.path.path);
        match step.to {
            TargetState::Nothing => Effect::Delete(path),
            _ => Effect::Write(path),
        }
    };
    steps.iter().map(effect).collect()
}

/// Collects the names and kinds of the entries of one directory.
struct EntryCollector<'a>(&'a Lock<Vec<(OsString, FileKind)>>);

impl Visitor for EntryCollector<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        self.0.lock().push((entry.path.as_os_str().to_owned(), entry.kind));
        Walk::Skip
    }
}
