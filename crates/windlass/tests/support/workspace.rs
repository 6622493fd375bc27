//! A temporary workspace with a state directory and an engine, for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;
use windlass::files::Durability;
use windlass::journal::DrainAtClose;
use windlass::{Builder, CallResult, Mode, Outcome, Session, ToolCall, Undo, Windlass, quote};

use super::{Tree, delta};

/// A temporary workspace, its state directory beside it, and an engine in the mode `yolo`, which never asks a person.
pub(crate) struct TestWorkspace {
    folder: TempDir,
    pub(crate) windlass: Windlass,
    /// The session in which [`call`](Self::call) makes calls, as a model does.
    pub(crate) session: Arc<Session>,
}

impl TestWorkspace {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// Creates a workspace with these files. A name may be quoted as tools write it, and one that ends in `/` is a directory.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        Self::with_builder(files, |builder| builder)
    }

    /// The same with additional settings of the builder.
    pub(crate) fn with_builder(
        files: &[(&str, &str)],
        configure: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self::in_folder(folder, files, configure)
    }

    /// The same in a directory that is not below `/tmp`, so that files beside the workspace are outside of it, and not in the `/tmp` of the
    /// session.
    pub(crate) fn outside_tmp(
        files: &[(&str, &str)],
        configure: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        Self::outside_tmp_with(files, |builder, _| configure(builder))
    }

    /// The same, where the builder's settings can use the parent directory of the workspace.
    pub(crate) fn outside_tmp_with(
        files: &[(&str, &str)],
        configure: impl FnOnce(Builder, &Path) -> Builder,
    ) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let path = folder.path().to_owned();
        Self::in_folder(folder, files, |builder| configure(builder, &path))
    }

    /// Creates a workspace in `/dev/shm` if the system has it, for tests that make many changes.
    pub(crate) fn in_memory(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self::in_folder(folder.expect("a folder"), files, |builder| builder)
    }

    fn in_folder(
        folder: TempDir,
        files: &[(&str, &str)],
        configure: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        fs::create_dir(folder.path().join("work")).expect("a folder");
        let windlass = configure(builder(folder.path())).build().expect("a workspace");
        let session = windlass.new_session();
        let test = Self { folder, windlass, session };
        for (name, content) in files {
            test.put(name, content);
        }
        test
    }

    /// Opens a new engine, as a new process would: same workspace, same state, same session id.
    pub(crate) fn restart(self) -> Self {
        let Self { folder, windlass, session } = self;
        drop(windlass);
        let windlass = builder(folder.path()).build().expect("a workspace");
        let session = Arc::new(Session::new(session.id().clone()));
        Self { folder, windlass, session }
    }

    /// Opens a new engine with additional settings of the builder, in a new session.
    pub(crate) fn reopen_with(self, configure: impl FnOnce(Builder) -> Builder) -> Self {
        let Self { folder, windlass, .. } = self;
        drop(windlass);
        let windlass = configure(builder(folder.path())).build().expect("a workspace");
        let session = windlass.new_session();
        Self { folder, windlass, session }
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.path().join("work").canonicalize().expect("the workspace")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn parent_directory(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.workspace().join(quote::unpath(name))
    }

    /// Creates or replaces a file, or creates a directory, as another process would.
    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        if name.ends_with('/') {
            return fs::create_dir_all(path).expect("a folder");
        }
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        if path.is_symlink() {
            // It may lead nowhere.
            fs::remove_file(&path).expect("a link");
        }
        fs::write(path, content).expect("a file");
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("a file")
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).expect("UTF-8")
    }

    /// Reads the tree of the workspace.
    pub(crate) fn tree(&self) -> Tree {
        Tree::of(&self.workspace())
    }

    /// Makes a call as a model does.
    pub(crate) async fn call(&self, tool: &str, input: Value) -> CallResult {
        self.windlass.call(&self.session, ToolCall::new(tool, input)).await
    }

    /// Makes a call that must succeed. Returns its result.
    #[track_caller]
    pub(crate) fn call_ok(&self, tool: &str, input: Value) -> impl Future<Output = CallResult> {
        let caller = std::panic::Location::caller();
        async move {
            let result = self.call(tool, input).await;
            assert_eq!(result.outcome, Outcome::Ok, "at {caller}: {}", text(&result));
            result
        }
    }

    /// Makes a call that must fail and change no file. Returns its text.
    pub(crate) async fn call_refused(&self, tool: &str, input: Value) -> String {
        let before = self.tree();
        let result = self.call(tool, input).await;
        assert_ne!(result.outcome, Outcome::Ok, "{}", text(&result));
        before.assert_same(&self.tree(), "a refused call changed a file");
        text(&result)
    }

    /// Undoes changes as a person, in a new session.
    pub(crate) async fn undo(&self, what: Undo) -> CallResult {
        self.windlass.undo(&self.windlass.new_session(), what).await
    }
}

fn builder(folder: &Path) -> Builder {
    Windlass::builder(folder.join("work"))
        .state(folder.join("state"))
        .durability(Durability::Kernel)
        .drain_at_close(DrainAtClose::WhenLarge)
        .mode(Mode::Yolo)
        .tool(delta())
}

/// Returns the text of a result.
pub(crate) fn text(result: &CallResult) -> String {
    result.output.to_text()
}
