//! The door to files: resolves each path, and checks it against the grant.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Inner, ObservedFiles};
use crate::changes::commit;
use crate::policy::Withheld;
use crate::sync::Lock;
use crate::{
    Altered, CallId, CommitStep, ContentSource, Entry, ExpectedState, FileError, FileErrorKind,
    Files, Fingerprint, OpenFile, Opener, Origin, Overrides, ProposalApplication, Proposals,
    Resolved, SkippedPath, SnapshotPlan, Stat, TargetState, ToolError, Visitor, Walk, WalkOptions,
    WalkReport, quote,
};

/// The door to files. Takes paths as the model wrote them, resolves each, and checks it against the grant.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{Effects, EffectKinds, Output, testing::MockTool};
/// # use windlass_core::{Engine, ToolCall, Toolbox, testing::EmptyHost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// let tool = MockTool::named("look")
///     .with_effects(EffectKinds::READ, |_| Effects::read("declared.txt"))
///     .answering(|cx, _| async move {
///         assert_eq!(cx.files().stat("declared.txt".as_ref())?, None, "this machine has no files");
///         cx.files().open("another.txt".as_ref())?;
///         Ok(Output::text("not reached"))
///     });
/// # let mut tools = Toolbox::new();
/// # tools.add(tool)?;
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
/// let result = engine.call(&engine.new_session(), ToolCall::new("look", json!({}))).await;
/// assert_eq!(result.code, Some("undeclared_effect"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct FilesDoor<'a> {
    pub(super) cx: &'a Inner,
}

impl std::fmt::Debug for FilesDoor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilesDoor").finish_non_exhaustive()
    }
}

impl FilesDoor<'_> {
    /// Returns the workspace directory of the session.
    pub fn workspace(&self) -> &Path {
        self.cx.session_files.get().workspace()
    }

    /// Returns whether the content of this file is hidden from all tools.
    pub fn is_hidden(&self, path: &Path) -> bool {
        let files = self.cx.session_files.get();
        self.cx.policy.hides(path, files, self.cx.host.clock().now())
            || !matches!(files.excluded_by(&commit::recorded_path(files, path)), Ok(None))
    }

    /// Resolves a path. A declared path resolves as it did when the call was decided on.
    pub fn resolve(&self, path: &Path) -> Result<Resolved, ToolError> {
        match self.cx.resolved.iter().find(|(declared, _)| declared == path) {
            Some((_, resolved)) => Ok(resolved.clone()),
            None => Ok(resolve(&*self.cx.files(), &self.cx.overrides, path)?),
        }
    }

    /// Returns the facts about a file or directory; `None` if it does not exist.
    pub fn stat(&self, path: &Path) -> Result<Option<Stat>, ToolError> {
        let resolved = self.readable(path)?;
        match self.cx.files().stat(&resolved) {
            Ok(stat) => {
                self.observe(&resolved, stat.fingerprint);
                Ok(Some(stat))
            }
            Err(FileError { kind: FileErrorKind::NotFound, .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a regular file for reading.
    pub fn open(&self, path: &Path) -> Result<OpenFile, ToolError> {
        let resolved = self.readable(path)?;
        let opened =
            self.cx.files().open(&resolved).map_err(|error| self.with_suggestion(error, path))?;
        self.observe(&resolved, opened.stat.fingerprint);
        Ok(opened)
    }

    /// Visits everything below a directory, or the file `root` itself; one visitor per thread.
    ///
    /// Blocking: call it in [`Context::blocking`](crate::Context::blocking).
    pub fn walk<'v>(
        &self,
        root: &Path,
        walk: WalkSettings,
        visitors: &(dyn Fn() -> Box<dyn Visitor + 'v> + Sync + 'v),
    ) -> Result<WalkReport, ToolError> {
        let resolved = self.readable(root)?;
        let (files, now) = (self.cx.session_files.get(), self.cx.host.clock().now());
        let withheld = self.cx.policy.withheld(self.cx.grant.effects(), files, now);
        let hidden = |path: &Path| withheld.hides_entry(path);
        let asked = WithheldPaths::default();
        let left_out = |path: &Path, _| asked.note(path, &withheld);
        let cancelled = || self.cx.cancel.is_cancelled();
        let options = WalkOptions {
            max_depth: walk.max_depth,
            ignore_files: walk.ignore_files,
            threads: walk.threads,
            hidden: &hidden,
            left_out: &left_out,
            cancelled: &cancelled,
            ..WalkOptions::default()
        };
        let observed = Lock::new(ObservedFiles::default());
        let watching = || -> Box<dyn Visitor + '_> {
            Box::new(ObservingVisitor {
                inner: visitors(),
                root: &resolved.path,
                seen: Some(Vec::new()),
                all: &observed,
            })
        };
        let mut report = self
            .cx
            .files()
            .walk(&resolved, &options, &watching)
            .map_err(|error| self.with_suggestion(error, root))?;
        let mut all = self.cx.observed.lock();
        all.extend(observed.lock().0.take());
        all.extend(report.observed.clone());
        drop(all);
        report.notes.extend(asked.notes(&resolved.path));
        if self.cx.cancel.is_cancelled() {
            return Err(ToolError::cancelled("stopped while looking through the files"));
        }
        Ok(report)
    }

    /// Creates a file, and missing directories above it. Fails if the path exists.
    ///
    /// Blocking: call it in [`Context::blocking`](crate::Context::blocking).
    pub fn create(&self, path: &Path, content: &[u8]) -> Result<Altered, ToolError> {
        self.write_file(path, content, ExpectedState::Absent, None)
    }

    /// Replaces a file that was read before: `seen` and `before` are its facts and bytes at that time. Fails as `stale` if the file
    /// has changed since.
    ///
    /// ```
    /// # use std::path::Path;
    /// use std::io::Read as _;
    /// use windlass_core::{Context, ToolError};
    ///
    /// fn add_line(cx: &Context, path: &Path) -> Result<(), ToolError> {
    ///     let mut opened = cx.files().open(path)?;
    ///     let mut before = Vec::new();
    ///     opened.file.read_to_end(&mut before).map_err(|error| ToolError::host_failed(error.to_string()))?;
    ///     let after = [&before[..], b"one more line\n"].concat();
    ///     cx.files().replace(path, &after, &opened.stat, &before)?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// Blocking: call it in [`Context::blocking`](crate::Context::blocking).
    pub fn replace(
        &self,
        path: &Path,
        content: &[u8],
        seen: &Stat,
        before: &[u8],
    ) -> Result<Altered, ToolError> {
        self.write_file(path, content, ExpectedState::Same(seen.fingerprint), Some(before))
    }

    /// Commits new content of one file.
    fn write_file(
        self,
        path: &Path,
        content: &[u8],
        expect: ExpectedState,
        before: Option<&[u8]>,
    ) -> Result<Altered, ToolError> {
        let to = TargetState::File { content: ContentSource::Bytes(content), attributes: None };
        let step = CommitStep { before, ..CommitStep::new(self.resolve(path)?, expect, to) };
        self.commit(&[step])?.pop().ok_or_else(|| ToolError::internal("a change was not made"))
    }

    /// Makes several changes, all or none: saves the present contents first, and takes everything back if one change fails. Returns
    /// the result of each step, in order.
    ///
    /// Blocking: call it in [`Context::blocking`](crate::Context::blocking).
    pub fn commit(&self, steps: &[CommitStep<'_>]) -> Result<Vec<Altered>, ToolError> {
        for step in steps {
            self.check_granted(step)?;
        }
        self.check_not_stopped()?;
        let known: Vec<bool> = steps.iter().map(|step| self.has_seen(step)).collect();
        let files = self.cx.files();
        let is_stopped = || self.cx.cancel.is_cancelled();
        let origin = self.origin(Vec::new());
        let altered = commit::commit(&*files, self.cx.history(), &origin, steps, &is_stopped)
            .map_err(|refused| refused.into_error(files.workspace()))?;
        for ((step, altered), known) in steps.iter().zip(&altered).zip(known) {
            self.update_seen(step, altered, known);
        }
        Ok(altered)
    }

    /// Applies proposals and removes them from the list. Returns the changed paths. Fails if a proposal changed since the plan was
    /// made.
    ///
    /// Blocking: call it in [`Context::blocking`](crate::Context::blocking).
    pub fn apply(
        &self,
        plan: &ProposalApplication,
        proposals: &Proposals,
    ) -> Result<Vec<PathBuf>, ToolError> {
        let _alone = proposals.exclusive()?;
        plan.check_held(proposals)?;
        let chosen: Vec<PathBuf> = plan.paths().map(|one| one.path.clone()).collect();
        self.commit(&plan.steps(&*self.cx.files()))?;
        proposals.remove(Some(&chosen))?;
        Ok(chosen)
    }

    /// Restores all paths of a snapshot. Returns the changed paths.
    ///
    /// Blocking: call it in [`Context::blocking`](crate::Context::blocking).
    pub fn restore(&self, plan: &SnapshotPlan) -> Result<Vec<PathBuf>, ToolError> {
        let steps = plan.steps(&*self.cx.files());
        self.commit(&steps)?;
        Ok(steps.into_iter().map(|step| step.path.path).collect())
    }

    /// Fails if the call was stopped: its end was reported already, so no further change begins.
    pub(super) fn check_not_stopped(self) -> Result<(), ToolError> {
        if self.cx.cancel.is_cancelled() {
            return Err(ToolError::cancelled("the call was stopped before anything was changed"));
        }
        self.cx.lineage.check_open()
    }

    /// Returns this call as the origin of a checkpoint.
    pub(super) fn origin(self, undoes: Vec<CallId>) -> Origin {
        Origin {
            call: self.cx.call.clone(),
            session: self.cx.session.id().clone(),
            turn: self.cx.turn.clone(),
            tool: self.cx.tool.clone(),
            workspace: self.cx.session_files.get().workspace().to_owned(),
            at: self.cx.host.clock().now(),
            undoes,
        }
    }

    /// Checks a change against the grant.
    fn check_granted(self, step: &CommitStep<'_>) -> Result<(), ToolError> {
        let grant = &self.cx.grant;
        if let TargetState::Moved { from, .. } = step.to
            && !grant.may_delete(&from.path)
        {
            return Err(undeclared("remove", from));
        }
        let (may, what) = match step.to {
            TargetState::Nothing => (grant.may_delete(&step.path.path), "remove"),
            _ => (grant.may_write(&step.path.path), "write"),
        };
        if may { Ok(()) } else { Err(undeclared(what, &step.path)) }
    }

    /// Returns whether the session has seen all of the content that a step changes: a change of some lines does not prove that the
    /// rest was read.
    fn has_seen(self, step: &CommitStep<'_>) -> bool {
        let seen = |path: &Path, what| self.cx.session.has_seen(path, what, None).is_ok();
        match (step.to, step.expect) {
            (TargetState::Moved { from, seen: what }, _) => seen(&from.path, what),
            (_, ExpectedState::Same(what)) => seen(&step.path.path, what),
            (_, ExpectedState::Absent) => true,
        }
    }

    /// Updates the session's seen files after a step.
    fn update_seen(self, step: &CommitStep<'_>, altered: &Altered, known: bool) {
        let session = &self.cx.session;
        if let TargetState::Moved { from, .. } = step.to {
            session.forget(&from.path);
        }
        match altered.stat {
            Some(stat) if known => session.wrote(&step.path.path, stat.fingerprint),
            _ => session.forget(&step.path.path),
        }
    }

    /// Resolves a path, and checks that the grant allows reading it.
    fn readable(self, path: &Path) -> Result<Resolved, ToolError> {
        self.cx.lineage.check_open()?;
        let resolved = self.resolve(path)?;
        if self.cx.grant.may_read(&resolved.path) {
            Ok(resolved)
        } else {
            Err(undeclared("read", &resolved))
        }
    }

    /// Notes a fingerprint for the cache.
    fn observe(self, resolved: &Resolved, fingerprint: Fingerprint) {
        self.cx.observed.lock().extend(Some([(resolved.path.clone(), fingerprint)]));
    }

    /// Adds a suggestion of an existing path to a "not found" error.
    fn with_suggestion(self, error: FileError, asked: &Path) -> ToolError {
        let near = match error.kind {
            FileErrorKind::NotFound => self.cx.files().nearest(asked),
            _ => None,
        };
        let error = ToolError::from(FileError { path: asked.to_owned(), ..error });
        match near {
            Some(near) => error.hint(format!("did you mean `{}`?", quote::path(&near))),
            None => error,
        }
    }
}

/// Paths that a search left out because a person would have to be asked: for each rule, the first path and the number of paths.
#[derive(Default)]
struct WithheldPaths(Lock<BTreeMap<String, (PathBuf, usize)>>);

impl WithheldPaths {
    /// Counts a path if a rule asks about it.
    fn note(&self, path: &Path, withheld: &Withheld<'_>) {
        let Some(rule) = withheld.asks(path) else { return };
        let mut all = self.0.lock();
        let (first, count) = all.entry(rule.to_string()).or_insert_with(|| (path.to_owned(), 0));
        *count += 1;
        if path < first.as_path() {
            path.clone_into(first);
        }
    }

    /// Returns a note for each rule.
    fn notes(&self, root: &Path) -> Vec<SkippedPath> {
        let note = |(rule, (first, count)): (&String, &(PathBuf, usize))| {
            let more = match count - 1 {
                0 => String::new(),
                more => format!(" with {more} more"),
            };
            let why = format!("left out{more}: `{rule}`; a call that names it is asked about");
            SkippedPath { path: first.strip_prefix(root).unwrap_or(first).to_owned(), why }
        };
        self.0.lock().iter().map(note).collect()
    }
}

/// Makes the error of an access that the tool did not declare.
pub(super) fn undeclared(what: &str, resolved: &Resolved) -> ToolError {
    ToolError::undeclared_effect(format!(
        "the tool tried to {what} {} without having declared it",
        resolved.display()
    ))
}

/// A tool's settings for a walk; it cannot choose the rest of [`WalkOptions`].
///
/// ```
/// use windlass_core::WalkSettings;
/// let shallow = WalkSettings { max_depth: 1, ..WalkSettings::default() };
/// assert!(shallow.ignore_files, "what git ignores is left out unless asked for");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct WalkSettings {
    /// Maximum depth; the root's own entries are at depth 1.
    pub max_depth: usize,
    /// True if `.gitignore`, `.ignore` and `.rgignore` hide entries.
    pub ignore_files: bool,
    /// Number of threads; 0 for a number that suits the machine.
    pub threads: usize,
}

impl Default for WalkSettings {
    fn default() -> Self {
        Self { max_depth: usize::MAX, ignore_files: true, threads: 0 }
    }
}

/// Resolves a path as a model wrote it: quoted or plain, relative to the working directory of the call.
pub(crate) fn resolve(
    files: &dyn Files,
    overrides: &Overrides,
    path: &Path,
) -> Result<Resolved, FileError> {
    let unquoted = path.to_str().map(quote::unpath);
    let path = unquoted.as_deref().unwrap_or(path);
    match &overrides.work_dir {
        Some(directory) if path.is_relative() => files.resolve(&directory.join(path)),
        _ => files.resolve(path),
    }
}

/// Resolves all of a path but its last component, so that a symbolic link stands for itself. If a parent is not a directory,
/// resolves the nearest directory above it and keeps the rest as it is.
pub(crate) fn resolve_entry(
    files: &dyn Files,
    overrides: &Overrides,
    path: &Path,
) -> Result<Resolved, FileError> {
    let mut above = path.ancestors();
    above.next();
    for parent in above {
        let Ok(rest) = path.strip_prefix(parent) else { break };
        let here = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match resolve(files, overrides, here) {
            Ok(parent) => return Ok(commit::recorded_path(files, &parent.path.join(rest))),
            Err(FileError { kind: FileErrorKind::NotADirectory, .. }) => {}
            Err(error) => return Err(error),
        }
    }
    resolve(files, overrides, path)
}

/// Visitor that notes the files which an inner visitor opens, for the cache.
struct ObservingVisitor<'w, 'v> {
    inner: Box<dyn Visitor + 'v>,
    root: &'w Path,
    seen: Option<Vec<(PathBuf, Fingerprint)>>,
    all: &'w Lock<ObservedFiles>,
}

impl Visitor for ObservingVisitor<'_, '_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        let Some(seen) = &mut self.seen else { return self.inner.visit(entry) };
        let watched = ObservingOpener { inner: entry.opener, seen: Cell::new(None) };
        let walk = self.inner.visit(&Entry { opener: &watched, ..*entry });
        if let Some(fingerprint) = watched.seen.get() {
            seen.push((self.root.join(entry.path), fingerprint));
        }
        if seen.len() > WalkReport::MAX_OBSERVED {
            self.seen = None;
        }
        walk
    }
}

impl Drop for ObservingVisitor<'_, '_> {
    fn drop(&mut self) {
        self.all.lock().extend(self.seen.take());
    }
}

/// Notes the fingerprint of the file that an inner opener opens.
struct ObservingOpener<'a> {
    inner: &'a dyn Opener,
    seen: Cell<Option<Fingerprint>>,
}

impl Opener for ObservingOpener<'_> {
    fn open(&self) -> Result<OpenFile, FileError> {
        let opened = self.inner.open()?;
        self.seen.set(Some(opened.stat.fingerprint));
        Ok(opened)
    }

    fn stat(&self) -> Result<Stat, FileError> {
        let stat = self.inner.stat()?;
        self.seen.set(Some(stat.fingerprint));
        Ok(stat)
    }
}
