//! The door to files: each path resolved, and held against the grant.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Inner, Observed};
use crate::changes::commit;
use crate::policy::Withheld;
use crate::sync::Lock;
use crate::{
    Altered, Application, CallId, Entry, Expect, FileError, FileErrorKind, Files, Fingerprint,
    Note, OpenFile, Opener, Origin, Overrides, Proposals, Resolved, SnapshotPlan, Source, Stat,
    Step, To, ToolError, Visitor, Walk, WalkOptions, WalkReport, quote,
};

/// The door to files. Paths are as the model wrote them; each is resolved, and held against the grant.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{Effects, Kinds, Output, testing::MockTool};
/// # use windlass_core::{Engine, ToolCall, Toolbox, testing::EmptyHost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// let tool = MockTool::named("look")
///     .with_effects(Kinds::READ, |_| Effects::read("declared.txt"))
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
    /// The directory that the session works on.
    pub fn workspace(&self) -> &Path {
        self.cx.session_files.get().workspace()
    }

    /// Whether no tool may see what is in this file.
    pub fn is_hidden(&self, path: &Path) -> bool {
        let files = self.cx.session_files.get();
        self.cx.policy.hides(path, files, self.cx.host.clock().now())
            || !matches!(files.excluded_by(&commit::beside(files, path)), Ok(None))
    }

    /// Where a path really leads: what it was when the call was decided on, if it was declared.
    pub fn resolve(&self, path: &Path) -> Result<Resolved, ToolError> {
        match self.cx.resolved.iter().find(|(declared, _)| declared == path) {
            Some((_, resolved)) => Ok(resolved.clone()),
            None => Ok(resolve(&*self.cx.files(), &self.cx.overrides, path)?),
        }
    }

    /// Facts about a file or directory; `None` if there is nothing.
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
        let opened = self.cx.files().open(&resolved).map_err(|error| self.explain(error, path))?;
        self.observe(&resolved, opened.stat.fingerprint);
        Ok(opened)
    }

    /// Visits everything below a directory, or the one file that `root` is; one visitor per thread.
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
        let asked = Asked::default();
        let left_out = |path: &Path, _| asked.note(path, &withheld);
        let cancelled = || self.cx.cancel.is_cancelled();
        let options = WalkOptions {
            max_depth: walk.max_depth,
            ignore_files: walk.ignore_files,
            version_control: false,
            threads: walk.threads,
            hidden: &hidden,
            left_out: &left_out,
            cancelled: &cancelled,
        };
        let observed = Lock::new(Observed::default());
        let watching = || -> Box<dyn Visitor + '_> {
            Box::new(Watcher {
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
            .map_err(|error| self.explain(error, root))?;
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

    /// Creates a file, and the directories above it. Fails if there is something already.
    ///
    /// Blocking: call it in [`Context::blocking`](crate::Context::blocking).
    pub fn create(&self, path: &Path, content: &[u8]) -> Result<Altered, ToolError> {
        self.put(path, content, Expect::Absent, None)
    }

    /// Replaces a file that was read before: `seen` and `before` are its facts and bytes at that time. Fails as `stale` if it has
    /// changed since.
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
        self.put(path, content, Expect::Same(seen.fingerprint), Some(before))
    }

    fn put(
        self,
        path: &Path,
        content: &[u8],
        expect: Expect,
        before: Option<&[u8]>,
    ) -> Result<Altered, ToolError> {
        let to = To::File { content: Source::Bytes(content), attributes: None };
        let step = Step { before, ..Step::new(self.resolve(path)?, expect, to) };
        self.commit(&[step])?.pop().ok_or_else(|| ToolError::internal("a change was not made"))
    }

    /// Makes several changes, all or none: with what is there saved first, and what was done taken back if one fails. What became
    /// of each step's object, in their order.
    ///
    /// Blocking: call it in [`Context::blocking`](crate::Context::blocking).
    pub fn commit(&self, steps: &[Step<'_>]) -> Result<Vec<Altered>, ToolError> {
        for step in steps {
            self.check(step)?;
        }
        self.go_on()?;
        let known: Vec<bool> = steps.iter().map(|step| self.has_seen(step)).collect();
        let files = self.cx.files();
        let is_stopped = || self.cx.cancel.is_cancelled();
        let origin = self.origin(Vec::new());
        let altered = commit::commit(&*files, self.cx.history(), &origin, steps, &is_stopped)
            .map_err(|refused| refused.into_error(files.workspace()))?;
        for ((step, altered), known) in steps.iter().zip(&altered).zip(known) {
            self.remember(step, altered, known);
        }
        Ok(altered)
    }

    /// Makes the changes of a plan, and takes them from the list of proposals; the paths that changed. What is no longer proposed as it
    /// was planned is not made.
    ///
    /// Blocking: call it in [`Context::blocking`](crate::Context::blocking).
    pub fn apply(
        &self,
        plan: &Application,
        proposals: &Proposals,
    ) -> Result<Vec<PathBuf>, ToolError> {
        let _alone = proposals.exclusive()?;
        plan.check_held(proposals)?;
        let chosen: Vec<PathBuf> = plan.paths().map(|one| one.path.clone()).collect();
        self.commit(&plan.steps(&*self.cx.files()))?;
        proposals.remove(Some(&chosen))?;
        Ok(chosen)
    }

    /// Makes everything that a snapshot is about what it was; the paths that changed.
    ///
    /// Blocking: call it in [`Context::blocking`](crate::Context::blocking).
    pub fn restore(&self, plan: &SnapshotPlan) -> Result<Vec<PathBuf>, ToolError> {
        let steps = plan.steps(&*self.cx.files());
        self.commit(&steps)?;
        Ok(steps.into_iter().map(|step| step.path.path).collect())
    }

    /// Whoever stopped a call was told that it is over: nothing more is begun.
    pub(super) fn go_on(self) -> Result<(), ToolError> {
        if self.cx.cancel.is_cancelled() {
            return Err(ToolError::cancelled("the call was stopped before anything was changed"));
        }
        self.cx.lineage.check_open()
    }

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

    /// Holds a change against the grant.
    fn check(self, step: &Step<'_>) -> Result<(), ToolError> {
        let grant = &self.cx.grant;
        if let To::Moved { from, .. } = step.to
            && !grant.may_delete(&from.path)
        {
            return Err(undeclared("remove", from));
        }
        let (may, what) = match step.to {
            To::Nothing => (grant.may_delete(&step.path.path), "remove"),
            _ => (grant.may_write(&step.path.path), "write"),
        };
        if may { Ok(()) } else { Err(undeclared(what, &step.path)) }
    }

    /// Whether the session knows all of what a step changes: to have changed some lines of a file is not to have seen the rest.
    fn has_seen(self, step: &Step<'_>) -> bool {
        let seen = |path: &Path, what| self.cx.session.has_seen(path, what, None).is_ok();
        match (step.to, step.expect) {
            (To::Moved { from, seen: what }, _) => seen(&from.path, what),
            (_, Expect::Same(what)) => seen(&step.path.path, what),
            (_, Expect::Absent) => true,
        }
    }

    fn remember(self, step: &Step<'_>, altered: &Altered, known: bool) {
        let session = &self.cx.session;
        if let To::Moved { from, .. } = step.to {
            session.forget(&from.path);
        }
        match altered.stat {
            Some(stat) if known => session.wrote(&step.path.path, stat.fingerprint),
            _ => session.forget(&step.path.path),
        }
    }

    fn readable(self, path: &Path) -> Result<Resolved, ToolError> {
        self.cx.lineage.check_open()?;
        let resolved = self.resolve(path)?;
        if self.cx.grant.may_read(&resolved.path) {
            Ok(resolved)
        } else {
            Err(undeclared("read", &resolved))
        }
    }

    fn observe(self, resolved: &Resolved, fingerprint: Fingerprint) {
        self.cx.observed.lock().extend(Some([(resolved.path.clone(), fingerprint)]));
    }

    /// Says what was probably meant, where nothing was found.
    fn explain(self, error: FileError, asked: &Path) -> ToolError {
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

/// What was left out of a search because a person would have to be asked: by rule, the first and how many.
#[derive(Default)]
struct Asked(Lock<BTreeMap<String, (PathBuf, usize)>>);

impl Asked {
    fn note(&self, path: &Path, withheld: &Withheld<'_>) {
        let Some(rule) = withheld.asks(path) else { return };
        let mut all = self.0.lock();
        let (first, count) = all.entry(rule.to_string()).or_insert_with(|| (path.to_owned(), 0));
        *count += 1;
        if path < first.as_path() {
            path.clone_into(first);
        }
    }

    fn notes(&self, root: &Path) -> Vec<Note> {
        let note = |(rule, (first, count)): (&String, &(PathBuf, usize))| {
            let more = match count - 1 {
                0 => String::new(),
                more => format!(" with {more} more"),
            };
            let why = format!("left out{more}: `{rule}`; whoever names it is asked");
            Note { path: first.strip_prefix(root).unwrap_or(first).to_owned(), why }
        };
        self.0.lock().iter().map(note).collect()
    }
}

pub(super) fn undeclared(what: &str, resolved: &Resolved) -> ToolError {
    ToolError::undeclared_effect(format!(
        "the tool tried to {what} {} without having declared it",
        resolved.display()
    ))
}

/// How a tool wants to walk; the rest of [`WalkOptions`] is not its to choose.
///
/// ```
/// use windlass_core::WalkSettings;
/// let shallow = WalkSettings { max_depth: 1, ..WalkSettings::default() };
/// assert!(shallow.ignore_files, "what git ignores is left out unless asked for");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct WalkSettings {
    /// How deep; the root's own entries are at depth 1.
    pub max_depth: usize,
    /// Whether `.gitignore`, `.ignore` and `.rgignore` hide things.
    pub ignore_files: bool,
    /// How many threads; 0 for as many as are useful here.
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

/// Resolves all of a path but its last part, so that a link stands for itself. Below what is not a directory there is nothing to
/// resolve.
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
            Ok(parent) => return Ok(commit::beside(files, &parent.path.join(rest))),
            Err(FileError { kind: FileErrorKind::NotADirectory, .. }) => {}
            Err(error) => return Err(error),
        }
    }
    resolve(files, overrides, path)
}

/// Notes what a visitor opens, for the cache.
struct Watcher<'w, 'v> {
    inner: Box<dyn Visitor + 'v>,
    root: &'w Path,
    seen: Option<Vec<(PathBuf, Fingerprint)>>,
    all: &'w Lock<Observed>,
}

impl Visitor for Watcher<'_, '_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        let Some(seen) = &mut self.seen else { return self.inner.visit(entry) };
        let watched = Watched { inner: entry.opener, seen: Cell::new(None) };
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

impl Drop for Watcher<'_, '_> {
    fn drop(&mut self) {
        self.all.lock().extend(self.seen.take());
    }
}

struct Watched<'a> {
    inner: &'a dyn Opener,
    seen: Cell<Option<Fingerprint>>,
}

impl Opener for Watched<'_> {
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
