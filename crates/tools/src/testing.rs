//! Helpers for tests of tools: temporary workspaces, and calls through the whole engine on the real machine.
#![expect(
    clippy::disallowed_methods,
    reason = "tests make the files that tools then read and change"
)]

mod changes_during_approval;
mod guarantees;
mod programs;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use windlass_core::{
    Alteration, Altered, CallResult, Clock, Confinement, ContentHash, Engine, Entry, FileError,
    FileErrorKind, FileKind, Files, FoundEntry, Host, Mode, OpenFile, Opener, Overrides, Policy,
    Resolved, Secrets, Session, SkippedPath, Stat, TargetState, ToolCall, ToolHandle, Toolbox,
    Visitor, Walk, WalkOptions, WalkReport, quote,
};
use windlass_host::LocalHost;

use self::programs::ScriptedHost;

/// A secret that every workspace knows under the name `TEST_KEY`.
pub(crate) const SECRET: &str = "open-sesame-4711";

/// A temporary directory with one session of an engine that has every built-in tool and mode `auto`.
pub(crate) struct Workspace {
    directory: tempfile::TempDir,
    engine: Engine,
    session: Arc<Session>,
    runtime: tokio::runtime::Runtime,
}

impl Workspace {
    /// Makes a workspace with files, given as (name, content). A name may be quoted as tools write it, `$'caf\xe9.txt'`; a name that ends
    /// in
    /// `/` makes a directory.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        Self::on(files, |local| Arc::new(local))
    }

    /// Makes a workspace whose programs are scripts: see [`programs`]. Its clock advances when nothing else is left to do.
    pub(crate) fn scripted(confinement: Confinement, policy: Policy) -> Self {
        let host = |local| Arc::new(ScriptedHost::new(local, confinement)) as Arc<dyn Host>;
        let mut workspace = Self::with_policy(&[], host, policy);
        let mut builder = tokio::runtime::Builder::new_current_thread();
        workspace.runtime = builder.enable_all().start_paused(true).build().unwrap();
        workspace
    }

    /// Makes a workspace on a host that wraps the local one.
    pub(crate) fn on(
        files: &[(&str, &str)],
        host: impl FnOnce(LocalHost) -> Arc<dyn Host>,
    ) -> Self {
        Self::with_policy(files, host, Policy::new(Mode::Auto))
    }

    /// Makes a workspace with this policy.
    pub(crate) fn with_policy(
        files: &[(&str, &str)],
        host: impl FnOnce(LocalHost) -> Arc<dyn Host>,
        policy: Policy,
    ) -> Self {
        Self::in_directory(tempfile::tempdir().unwrap(), files, host, policy)
    }

    /// Makes a workspace in an existing directory.
    pub(crate) fn in_directory(
        directory: tempfile::TempDir,
        files: &[(&str, &str)],
        host: impl FnOnce(LocalHost) -> Arc<dyn Host>,
        policy: Policy,
    ) -> Self {
        let mut tools = Toolbox::new();
        for tool in crate::BUILTIN {
            tools.add(ToolHandle::Static(*tool)).unwrap();
        }
        let host = host(LocalHost::open(directory.path()).unwrap());
        let secrets = Secrets::new([("TEST_KEY", SECRET)]);
        let engine = Engine::builder(host).toolbox(tools).policy(policy).secrets(secrets).build();
        let session = engine.new_session();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let workspace = Self { directory, engine, session, runtime };
        for (name, content) in files {
            workspace.write(name, content);
        }
        workspace
    }

    /// Returns the path of a file on the machine.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(quote::unpath(name))
    }

    /// Creates or replaces a file and its parent directories; makes a directory if the name ends in `/`.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        if name.ends_with('/') {
            return std::fs::create_dir_all(path).unwrap();
        }
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Returns the bytes of a file.
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// Returns the session of all calls.
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Runs a future to its end.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Waits for work that stopped calls still do on other threads.
    pub(crate) fn finish(&mut self) {
        // Dropping a runtime waits for its threads.
        self.runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    }

    /// Calls a tool.
    pub(crate) fn call(&self, tool: &str, input: Value) -> CallResult {
        self.run(ToolCall::new(tool, input))
    }

    /// Calls a tool with overrides for this call.
    pub(crate) fn call_with(&self, tool: &str, input: Value, overrides: Overrides) -> CallResult {
        self.run(ToolCall::new(tool, input).with_overrides(overrides))
    }

    /// Calls a tool and returns the text of its output.
    pub(crate) fn text(&self, tool: &str, input: Value) -> String {
        self.call(tool, input).output.to_text()
    }

    /// Undoes changes as a person does.
    pub(crate) fn undo_as_person(&self, input: Value) -> CallResult {
        let tool = ToolHandle::Static(crate::UNDO_ANY);
        self.block_on(self.engine.act_for_person(&self.session, tool, input))
    }

    fn run(&self, call: ToolCall) -> CallResult {
        self.block_on(self.engine.call(&self.session, call))
    }
}

/// A function that gets every file that a walk opens, and may return an error for it.
type OpenObserver = Box<dyn Fn(&Path, &OpenFile) -> Result<(), FileErrorKind> + Send + Sync>;

/// The local host with functions that observe or refuse file operations. Tests may run as root, for whom permissions have
/// no effect.
pub(crate) struct InterceptingHost {
    inner: LocalHost,
    opened: OpenObserver,
    /// Gets every entry that a walk visits.
    visited: Box<dyn Fn(&Path) + Send + Sync>,
    /// Names of directories that cannot be listed.
    locked: &'static [&'static str],
    changing: ChangeObserver,
}

/// A function that gets the operation and path before a file is written, moved or removed, and may return an error.
type ChangeObserver = Box<dyn Fn(&'static str, &Path) -> Result<(), FileErrorKind> + Send + Sync>;

impl InterceptingHost {
    fn new(inner: LocalHost) -> Self {
        Self {
            inner,
            opened: Box::new(|_, _| Ok(())),
            visited: Box::new(|_| ()),
            locked: &[],
            changing: Box::new(|_, _| Ok(())),
        }
    }

    /// Makes a host on which files and directories with these names cannot be read.
    pub(crate) fn locked(inner: LocalHost, locked: &'static [&'static str]) -> Arc<dyn Host> {
        let opened = move |path: &Path, _: &OpenFile| {
            if is_one_of(path, locked) { Err(FileErrorKind::Permission) } else { Ok(()) }
        };
        Arc::new(Self { opened: Box::new(opened), locked, ..Self::new(inner) })
    }

    /// Makes a host that calls `opened` with every file that a walk opens.
    pub(crate) fn observing_opens(
        inner: LocalHost,
        opened: impl Fn(&Path, &OpenFile) + Send + Sync + 'static,
    ) -> Arc<dyn Host> {
        let opened = move |path: &Path, file: &OpenFile| {
            opened(path, file);
            Ok(())
        };
        Arc::new(Self { opened: Box::new(opened), ..Self::new(inner) })
    }

    /// Makes a host that calls `visited` with every entry that a walk visits, by its path below the root.
    pub(crate) fn observing_visits(
        inner: LocalHost,
        visited: impl Fn(&Path) + Send + Sync + 'static,
    ) -> Arc<dyn Host> {
        Arc::new(Self { visited: Box::new(visited), ..Self::new(inner) })
    }

    /// Makes a host that calls `changing` before a file is changed, with `write`, `move` or `remove`, and the path.
    pub(crate) fn before_changes(
        inner: LocalHost,
        changing: impl Fn(&'static str, &Path) -> Result<(), FileErrorKind> + Send + Sync + 'static,
    ) -> Arc<dyn Host> {
        Arc::new(Self { changing: Box::new(changing), ..Self::new(inner) })
    }

    /// Calls `changing` and turns its error into a file error.
    fn ask_before_change(&self, doing: &'static str, path: &Resolved) -> Result<(), FileError> {
        (self.changing)(doing, &path.path)
            .map_err(|kind| FileError::new(doing, path.inside.as_ref().unwrap_or(&path.path), kind))
    }
}

/// Returns whether the last component of a path is one of these names.
fn is_one_of(path: &Path, names: &[&str]) -> bool {
    path.file_name().is_some_and(|name| names.iter().any(|one| name == *one))
}

impl Host for InterceptingHost {
    fn files(&self) -> &dyn Files {
        self
    }

    fn clock(&self) -> &dyn Clock {
        self.inner.clock()
    }
}

impl Files for InterceptingHost {
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
        let notes = std::sync::Mutex::new(Vec::new());
        let mut report = self.inner.files().walk(root, options, &|| {
            Box::new(InterceptingVisitor { machine: self, inner: visitors(), notes: &notes })
        })?;
        report.notes.append(&mut notes.lock().unwrap());
        Ok(report)
    }

    fn hash_index_entries(&self, index: &[u8]) -> Option<ContentHash> {
        self.inner.files().hash_index_entries(index)
    }

    fn inspect(&self, path: &Resolved) -> Result<Option<FoundEntry>, FileError> {
        self.inner.files().inspect(path)
    }

    fn alter(&self, path: &Resolved, alteration: &Alteration<'_>) -> Result<Altered, FileError> {
        match alteration.to {
            TargetState::Nothing => self.ask_before_change("remove", path)?,
            TargetState::Moved { from, .. } => self.ask_before_change("move", from)?,
            TargetState::Directory { .. } => {}
            _ => self.ask_before_change("write", path)?,
        }
        self.inner.files().alter(path, alteration)
    }

    fn excluded_by(&self, path: &Resolved) -> Result<Option<PathBuf>, FileError> {
        self.inner.files().excluded_by(path)
    }

    fn nearest(&self, path: &Path) -> Option<PathBuf> {
        self.inner.files().nearest(path)
    }
}

/// A visitor that observes entries and locks directories for the visitor inside.
struct InterceptingVisitor<'m, 'v> {
    machine: &'m InterceptingHost,
    inner: Box<dyn Visitor + 'v>,
    notes: &'m std::sync::Mutex<Vec<SkippedPath>>,
}

impl Visitor for InterceptingVisitor<'_, '_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        (self.machine.visited)(entry.path);
        let opener =
            InterceptingOpener { machine: self.machine, path: entry.path, inner: entry.opener };
        let walk = self.inner.visit(&Entry { opener: &opener, ..*entry });
        if entry.kind == FileKind::Directory && is_one_of(entry.path, self.machine.locked) {
            let why = FileErrorKind::Permission.to_string();
            self.notes.lock().unwrap().push(SkippedPath { path: entry.path.to_owned(), why });
            return Walk::Skip;
        }
        walk
    }
}

/// An opener that reports every opened file.
struct InterceptingOpener<'a> {
    machine: &'a InterceptingHost,
    path: &'a Path,
    inner: &'a dyn Opener,
}

impl Opener for InterceptingOpener<'_> {
    fn open(&self) -> Result<OpenFile, FileError> {
        let opened = self.inner.open()?;
        match (self.machine.opened)(self.path, &opened) {
            Ok(()) => Ok(opened),
            Err(kind) => Err(FileError::new("read", self.path, kind)),
        }
    }

    fn stat(&self) -> Result<Stat, FileError> {
        self.inner.stat()
    }
}
