//! Where things are: the repository, its build directory, and what cargo knows of its packages.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;

#[derive(Debug)]
pub(crate) struct Workspace {
    /// What `cargo metadata --no-deps` says.
    pub(crate) metadata: Value,
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// The repository that this program was built from.
    pub(crate) fn find() -> Result<Self> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let mut command = Command::new("cargo");
        command.args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(manifest);
        let metadata: Value = serde_json::from_str(&process::capture(&mut command)?)
            .context("`cargo metadata` printed something that is not JSON")?;
        let root = directory(&metadata, "workspace_root")?;
        let target = directory(&metadata, "target_directory")?;
        Ok(Self { metadata, root, target })
    }

    /// A file of the repository.
    pub(crate) fn file(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// A file in the build directory.
    pub(crate) fn target(&self, path: impl AsRef<Path>) -> PathBuf {
        self.target.join(path)
    }

    /// A file in the place where tools are installed for this repository alone.
    pub(crate) fn tools(&self, path: impl AsRef<Path>) -> PathBuf {
        self.target.join("tools").join(path)
    }

    /// `cargo ARGUMENTS`, in the repository.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = self.command("cargo");
        command.args(arguments);
        command
    }

    /// A program, in the repository.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        command
    }

    /// The files that git knows, relative to the root, in order, without those that are deleted in the work tree. A file that
    /// is new and not ignored counts: what is about to be committed should be tidy as well.
    pub(crate) fn tracked_files(&self) -> Result<Vec<PathBuf>> {
        let mut command = self.command("git");
        command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listing = process::capture(&mut command)?;
        let mut files: Vec<PathBuf> = listing.split_terminator('\0').map(PathBuf::from).collect();
        files.sort();
        files.dedup();
        files.retain(|file| self.file(file).is_file());
        Ok(files)
    }
}

fn directory(metadata: &Value, key: &str) -> Result<PathBuf> {
    let path = metadata.get(key).and_then(Value::as_str);
    path.map(PathBuf::from).with_context(|| format!("`cargo metadata` gave no `{key}`"))
}
