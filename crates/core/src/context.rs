//! What a tool gets: the only doors to the machine, each open for what was granted and nothing else.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};
use std::time::SystemTime;

use tokio_util::sync::CancellationToken;

use crate::engine::Stream;
use crate::event::Bus;
use crate::sync::Lock;
use crate::{
    CallId, Change, Entry, Event, FileError, FileErrorKind, Fingerprint, Grant, HardDenies, Host,
    OpenFile, Opener, Outputs, Overrides, Resolved, Secrets, Session, Stat, ToolError, Visitor,
    Walk, WalkOptions, WalkReport, Written, quote,
};

/// The surroundings of one call. Cheap to clone.
///
/// A context is made by the engine, from a [`Grant`]; there is no other way to get one.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{Output, testing::MockTool};
/// # use windlass_core::{Engine, ToolCall, Toolbox, testing::EmptyHost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// let tool = MockTool::named("sum").answering(|cx, _| async move {
///     let sum: u64 = cx.blocking(|cx| (1..=100).take_while(|_| !cx.is_cancelled()).sum()).await?;
///     cx.progress(100, Some(100), "added up");
///     Ok(Output::text(sum.to_string()))
/// });
/// # let mut tools = Toolbox::new();
/// # tools.add(tool)?;
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
/// let result = engine.call(&engine.new_session(), ToolCall::new("sum", json!({}))).await;
/// assert_eq!(result.output.to_text(), "5050");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Context(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) call: CallId,
    pub(crate) session: Arc<Session>,
    pub(crate) grant: Grant,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) outputs: Arc<dyn Outputs>,
    pub(crate) hard_denies: Arc<HardDenies>,
    pub(crate) overrides: Overrides,
    pub(crate) cancel: CancellationToken,
    pub(crate) events: Arc<Bus>,
    pub(crate) secrets: Arc<Secrets>,
    /// What the declared paths were found to be when the call was decided on.
    pub(crate) resolved: Vec<(PathBuf, Resolved)>,
    pub(crate) observed: Lock<Observed>,
    pub(crate) said: Lock<Said>,
}

/// What a tool has said so far: all there is to show if it is stopped.
#[derive(Debug, Default)]
pub(crate) struct Said {
    partial: String,
    stream: Stream,
}

/// How much of what a tool said is kept for the case that it is stopped.
const PARTIAL_BYTES: usize = 1 << 20;

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("call", &self.0.call)
            .field("grant", &self.0.grant)
            .finish_non_exhaustive()
    }
}

impl Context {
    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// The call's id.
    pub fn call(&self) -> &CallId {
        &self.0.call
    }

    /// The session that the call belongs to.
    pub fn session(&self) -> &Arc<Session> {
        &self.0.session
    }

    /// What may be done, and who decided so.
    pub fn grant(&self) -> &Grant {
        &self.0.grant
    }

    /// Limits and settings of this call.
    pub fn overrides(&self) -> &Overrides {
        &self.0.overrides
    }

    /// The present moment.
    pub fn now(&self) -> SystemTime {
        self.0.host.clock().now()
    }

    /// The door to files.
    pub fn files(&self) -> FilesDoor<'_> {
        FilesDoor { cx: &self.0, purpose: Purpose::Work }
    }

    /// A whole output that was kept; needs the effect `State("output")`.
    pub fn kept_output(&self, call: &CallId) -> Result<Option<String>, ToolError> {
        if !self.0.grant.may_use_state("output") {
            return Err(ToolError::undeclared_effect(
                "the tool read a kept output without declaring state `output`",
            ));
        }
        self.0.outputs.get(call).map_err(|error| ToolError::host_failed(error.to_string()))
    }

    /// Whether the call was stopped: loops look now and then.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancel.is_cancelled()
    }

    /// Ends when the call is stopped.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + '_ {
        self.0.cancel.cancelled()
    }

    /// Tells whoever watches what is new in the output.
    pub fn output(&self, delta: &str) {
        let mut said = self.0.said.lock();
        let clean = said.stream.push(&self.0.secrets, delta);
        self.say(said, &clean);
    }

    /// Tells what was held back because it might have been the beginning of a secret.
    pub(crate) fn end_output(&self) {
        let mut said = self.0.said.lock();
        let rest = said.stream.end(&self.0.secrets);
        self.say(said, &rest);
    }

    fn say(&self, mut said: MutexGuard<'_, Said>, clean: &str) {
        if clean.is_empty() {
            return;
        }
        said.partial.push_str(clean);
        if said.partial.len() > PARTIAL_BYTES {
            let cut = said.partial.ceil_char_boundary(said.partial.len() - PARTIAL_BYTES / 2);
            said.partial.drain(..cut);
        }
        drop(said);
        if self.0.events.is_heard() {
            self.0
                .events
                .publish(&Event::Output { call: self.0.call.clone(), delta: clean.into() });
        }
    }

    /// Tells whoever watches how far the call is.
    pub fn progress(&self, done: u64, total: Option<u64>, message: &str) {
        if self.0.events.is_heard() {
            let message = self.0.secrets.redact(message).into();
            self.0.events.publish(&Event::Progress {
                call: self.0.call.clone(),
                done,
                total,
                message,
            });
        }
    }

    /// Does something that blocks (searching a tree, reading a large file) where it holds up nobody.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Context) -> T + Send + 'static,
    ) -> Result<T, ToolError> {
        let cx = self.clone();
        match tokio::task::spawn_blocking(move || work(&cx)).await {
            Ok(done) => Ok(done),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(error) => Err(ToolError::cancelled(error.to_string())),
        }
    }

    pub(crate) fn take_partial(&self) -> String {
        std::mem::take(&mut self.0.said.lock().partial)
    }

    /// What was looked at, so that the answer can be trusted until it changes; `None` if it was too much to keep.
    pub(crate) fn take_observed(&self) -> Option<Vec<(PathBuf, Fingerprint)>> {
        std::mem::take(&mut *self.0.observed.lock()).0
    }
}

/// The objects that a call looked at.
#[derive(Debug)]
pub(crate) struct Observed(Option<Vec<(PathBuf, Fingerprint)>>);

impl Default for Observed {
    fn default() -> Self {
        Self(Some(Vec::new()))
    }
}

impl Observed {
    fn extend(&mut self, more: Option<impl IntoIterator<Item = (PathBuf, Fingerprint)>>) {
        let (Some(all), Some(more)) = (&mut self.0, more) else {
            self.0 = None;
            return;
        };
        all.extend(more);
        if all.len() > WalkReport::MAX_OBSERVED {
            self.0 = None;
        }
    }
}

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
    cx: &'a Inner,
    purpose: Purpose,
}

/// What a door is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// What the call is there for.
    Work,
    /// To undo what the same call did, because it could not do all of it.
    TakingBack,
}

impl std::fmt::Debug for FilesDoor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilesDoor").finish_non_exhaustive()
    }
}

impl FilesDoor<'_> {
    /// Where a path really leads: what it was when the call was decided on, if it was declared.
    pub fn resolve(&self, path: &Path) -> Result<Resolved, ToolError> {
        match self.cx.resolved.iter().find(|(declared, _)| declared == path) {
            Some((_, resolved)) => Ok(resolved.clone()),
            None => Ok(resolve(&*self.cx.host, &self.cx.overrides, path)?),
        }
    }

    /// Facts about a file or directory; `None` if there is nothing.
    pub fn stat(&self, path: &Path) -> Result<Option<Stat>, ToolError> {
        let resolved = self.readable(path)?;
        match self.cx.host.files().stat(&resolved) {
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
            self.cx.host.files().open(&resolved).map_err(|error| self.explain(error, path))?;
        self.observe(&resolved, opened.stat.fingerprint);
        Ok(opened)
    }

    /// Visits everything below a directory, or the one file that `root` is; one visitor per thread.
    ///
    /// Blocking: call it in [`Context::blocking`].
    pub fn walk<'v>(
        &self,
        root: &Path,
        walk: WalkSettings,
        visitors: &(dyn Fn() -> Box<dyn Visitor + 'v> + Sync + 'v),
    ) -> Result<WalkReport, ToolError> {
        let resolved = self.readable(root)?;
        let hidden = |path: &Path| self.cx.hard_denies.hidden_entry(path);
        let cancelled = || self.cx.cancel.is_cancelled();
        let options = WalkOptions {
            max_depth: walk.max_depth,
            ignore_files: walk.ignore_files,
            threads: walk.threads,
            hidden: &hidden,
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
        let report = self
            .cx
            .host
            .files()
            .walk(&resolved, &options, &watching)
            .map_err(|error| self.explain(error, root))?;
        let mut all = self.cx.observed.lock();
        all.extend(observed.lock().0.take());
        all.extend(report.observed.clone());
        drop(all);
        if self.cx.cancel.is_cancelled() {
            return Err(ToolError::cancelled("stopped while looking through the files"));
        }
        Ok(report)
    }

    /// Replaces or creates a file, all or nothing.
    pub fn change(&self, path: &Path, change: &Change<'_>) -> Result<Written, ToolError> {
        let resolved = self.writable(path)?;
        let written = self.cx.host.files().change(&resolved, change)?;
        self.cx.session.wrote(&resolved.path, written.stat.fingerprint);
        Ok(written)
    }

    /// Removes a file that is exactly what was seen before.
    pub fn remove(&self, path: &Path, expect: Fingerprint) -> Result<(), ToolError> {
        let resolved = self.removable(path)?;
        self.cx.host.files().remove(&resolved, expect)?;
        self.cx.session.forget(&resolved.path);
        Ok(())
    }

    /// Moves a file that is exactly what was seen before to a place where nothing is. What the session has seen of it, it has
    /// seen there.
    pub fn rename(&self, from: &Path, expect: Fingerprint, to: &Path) -> Result<Stat, ToolError> {
        let (from, to) = (self.removable(from)?, self.writable(to)?);
        let had_seen = self.cx.session.has_seen(&from.path, expect).is_ok();
        let stat = self.cx.host.files().rename(&from, expect, &to)?;
        self.cx.session.forget(&from.path);
        if had_seen {
            self.cx.session.wrote(&to.path, stat.fingerprint);
        }
        Ok(stat)
    }

    /// The same door, for taking back what this very call did because it could not do all of it.
    ///
    /// It stays open when the call was stopped, since half of a change is worse than none. What was granted is granted there and
    /// back: what may be written may be removed again, what may be removed may be written again.
    #[must_use]
    pub fn taking_back(self) -> Self {
        Self { purpose: Purpose::TakingBack, ..self }
    }

    /// Removes an empty directory that was made for a file of this call: only in taking it back.
    pub fn remove_directory(&self, path: &Path) -> Result<(), ToolError> {
        let resolved = self.resolve(path)?;
        let is_ours = self.cx.grant.may_write_below(&resolved.path);
        if self.purpose != Purpose::TakingBack || !is_ours {
            return Err(undeclared("remove", &resolved));
        }
        Ok(self.cx.host.files().remove_directory(&resolved)?)
    }

    fn writable(self, path: &Path) -> Result<Resolved, ToolError> {
        let resolved = self.resolve(path)?;
        let (grant, path) = (&self.cx.grant, &resolved.path);
        let back = self.purpose == Purpose::TakingBack && grant.may_delete(path);
        if !grant.may_write(path) && !back {
            return Err(undeclared("write", &resolved));
        }
        self.go_on("the call was stopped before anything was written")?;
        Ok(resolved)
    }

    fn removable(self, path: &Path) -> Result<Resolved, ToolError> {
        let resolved = self.resolve(path)?;
        let (grant, path) = (&self.cx.grant, &resolved.path);
        let back = self.purpose == Purpose::TakingBack && grant.may_write(path);
        if !grant.may_delete(path) && !back {
            return Err(undeclared("remove", &resolved));
        }
        self.go_on("the call was stopped before anything was removed")?;
        Ok(resolved)
    }

    /// Whoever stopped a call was told that it is over: nothing more is begun.
    fn go_on(self, why_not: &'static str) -> Result<(), ToolError> {
        match self.purpose {
            Purpose::Work if self.cx.cancel.is_cancelled() => Err(ToolError::cancelled(why_not)),
            _ => Ok(()),
        }
    }

    fn readable(self, path: &Path) -> Result<Resolved, ToolError> {
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
            FileErrorKind::NotFound => self.cx.host.files().nearest(asked),
            _ => None,
        };
        let error = ToolError::from(FileError { path: asked.to_owned(), ..error });
        match near {
            Some(near) => error.hint(format!("did you mean `{}`?", quote::path(&near))),
            None => error,
        }
    }
}

fn undeclared(what: &str, resolved: &Resolved) -> ToolError {
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
    host: &dyn Host,
    overrides: &Overrides,
    path: &Path,
) -> Result<Resolved, FileError> {
    let unquoted = path.to_str().map(quote::unpath);
    let path = unquoted.as_deref().unwrap_or(path);
    match &overrides.work_dir {
        Some(directory) if path.is_relative() => host.files().resolve(&directory.join(path)),
        _ => host.files().resolve(path),
    }
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
