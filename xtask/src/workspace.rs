//! The paths of the repository and its build directory, and cargo's metadata of the packages.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;

/// The repository.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The output of `cargo metadata --no-deps`.
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
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let target = outside_tmp(directory(&metadata, "target_directory")?, home.as_deref());
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

    /// A file in the directory of tools that are installed for this repository alone.
    pub(crate) fn tools(&self, path: impl AsRef<Path>) -> PathBuf {
        self.target.join("tools").join(path)
    }

    /// The command `cargo ARGUMENTS`, in the repository.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = self.command("cargo");
        command.args(arguments).env("CARGO_TARGET_DIR", &self.target);
        command
    }

    /// A command that runs a program in the repository.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        command
    }

    /// The files that git knows, relative to the root, in order, without those that are deleted in the work tree. New files
    /// that are not ignored are included, because they are likely to be committed.
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

/// The build directory, in the home directory if it would be below `/tmp`: programs in the sandbox have a `/tmp` of their own, and the
/// tests start the programs that were built as such.
fn outside_tmp(target: PathBuf, home: Option<&Path>) -> PathBuf {
    let is_hidden = |path: &Path| path.starts_with("/tmp") || path.starts_with("/var/tmp");
    match home {
        Some(home) if is_hidden(&target) && home.is_absolute() && !is_hidden(home) => {
            let name = target.to_string_lossy().replace('/', "-");
            home.join(".cache/windlass-build").join(name.trim_start_matches('-'))
        }
        _ => target,
    }
}

/// A path in the metadata of cargo.
fn directory(metadata: &Value, key: &str) -> Result<PathBuf> {
    let path = metadata.get(key).and_then(Value::as_str);
    path.map(PathBuf::from).with_context(|| format!("`cargo metadata` gave no `{key}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_directory_is_visible_in_the_sandbox() {
        for (target, home, expected) in [
            ("/src/w/target", Some("/home/ada"), "/src/w/target"),
            ("/tmp/w/target", Some("/home/ada"), "/home/ada/.cache/windlass-build/tmp-w-target"),
            ("/tmp/w/target", Some("/tmp/ada"), "/tmp/w/target"),
            ("/tmp/w/target", None, "/tmp/w/target"),
            ("/tmpfiles/target", Some("/home/ada"), "/tmpfiles/target"),
        ] {
            let found = outside_tmp(target.into(), home.map(Path::new));
            assert_eq!(found, Path::new(expected), "{target} {home:?}");
        }
    }
}
