//! Creates git worktrees, in which git commands work.
//!
//! Git only creates the worktree and lists tracked and ignored files. It checks out no files, so no filter runs; hooks and the file system
//! monitor of a repository are switched off, and git gets none of the `GIT_` variables of our environment.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use windlass_core::{FileError, FileErrorKind};

use super::copy::Selection;
use crate::kernel::as_path;

/// Mode of a submodule in git's list of files.
const SUBMODULE_MODE: &[u8] = b"160000 ";

/// A repository with a commit, whose top is the workspace.
#[derive(Debug)]
pub(super) struct Repository<'a> {
    program: PathBuf,
    workspace: &'a Path,
    commit: String,
}

impl<'a> Repository<'a> {
    /// Finds the repository of a workspace. Fails if the workspace is not its top or it has no commit.
    pub(super) fn find(workspace: &'a Path) -> Result<Self, FileError> {
        let program = find_program(workspace).ok_or_else(|| {
            refused(workspace, "there is no program `git` on the path outside of the workspace")
        })?;
        let mut repository = Self { program, workspace, commit: String::new() };
        let output =
            repository.run(workspace, &["rev-parse", "--show-toplevel", "HEAD^{commit}"])?;
        let output = output.trim_ascii_end();
        let line = output.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        let (top, commit) = output.split_at(line);
        if as_path(top) != workspace {
            return Err(refused(workspace, "it is not the top of a repository"));
        }
        repository.commit = String::from_utf8_lossy(commit.trim_ascii()).into_owned();
        Ok(repository)
    }

    /// Returns all paths that are tracked, or neither tracked nor ignored.
    pub(super) fn selection(&self) -> Result<Selection, FileError> {
        let mut selected = SelectedPaths::default();
        let tracked = self.run(self.workspace, &["ls-files", "-z", "--cached", "--stage"])?;
        for entry in tracked.split(|byte| *byte == 0) {
            let Some(tab) = entry.iter().position(|byte| *byte == b'\t') else { continue };
            let (facts, path) = entry.split_at(tab);
            selected.add(path.get(1..).unwrap_or_default(), facts.starts_with(SUBMODULE_MODE));
        }
        let arguments = ["ls-files", "-z", "--others", "--exclude-standard"];
        for path in self.run(self.workspace, &arguments)?.split(|byte| *byte == 0) {
            // Another repository is listed as a directory, with a final slash.
            selected.add(path.strip_suffix(b"/").unwrap_or(path), path.ends_with(b"/"));
        }
        Ok(Selection::Only { paths: selected.paths, whole: selected.whole })
    }

    /// Creates an empty worktree and returns the directory in which git keeps its data about it.
    pub(super) fn add_worktree(&self, at: &Path) -> Result<PathBuf, FileError> {
        let mut command = self.command(self.workspace);
        command.args(["worktree", "add", "--quiet", "--detach", "--no-checkout"]);
        command.arg(at).arg(&self.commit);
        self.output(command)?;
        let pointer = fs::read(at.join(".git")).unwrap_or_default();
        let registration = pointer.trim_ascii().strip_prefix(b"gitdir:").map(<[u8]>::trim_ascii);
        match registration {
            Some(path) if path.starts_with(b"/") => Ok(as_path(path).to_owned()),
            // Git writes a relative path if it is configured to.
            Some(path) => fs::canonicalize(at.join(as_path(path)))
                .map_err(|why| FileError::new("find", at, FileErrorKind::Io(why))),
            None => Err(refused(at, "git made a worktree that does not say where it belongs")),
        }
    }

    /// Sets the worktree's index to the commit, so that `git status` shows uncommitted changes there.
    pub(super) fn fill_index(&self, at: &Path) -> Result<(), FileError> {
        self.run(at, &["read-tree", &self.commit]).map(drop)
    }

    /// Runs git in a directory and returns its standard output.
    fn run(&self, within: &Path, arguments: &[&str]) -> Result<Vec<u8>, FileError> {
        let mut command = self.command(within);
        command.args(arguments);
        self.output(command)
    }

    /// Runs a command; on failure the error has the last line of its standard error.
    fn output(&self, mut command: Command) -> Result<Vec<u8>, FileError> {
        let output = command
            .output()
            .map_err(|why| FileError::new("run git in", self.workspace, FileErrorKind::Io(why)))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(refused(self.workspace, said.lines().last().unwrap_or("it failed")))
    }

    /// Returns a git command that runs no code of the repository and reads no `GIT_` variable.
    fn command(&self, within: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("-C").arg(within);
        for setting in [
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            "core.untrackedCache=false",
            "core.quotePath=false",
            "submodule.recurse=false",
            "protocol.allow=never",
            "gc.auto=0",
        ] {
            command.arg("-c").arg(setting);
        }
        for (name, _) in std::env::vars_os() {
            if name.as_bytes().starts_with(b"GIT_") {
                command.env_remove(name);
            }
        }
        command.env("GIT_OPTIONAL_LOCKS", "0");
        command.env("GIT_TERMINAL_PROMPT", "0");
        command.env("GIT_NO_LAZY_FETCH", "1");
        command.env("LC_ALL", "C");
        command.stdin(Stdio::null());
        command
    }
}

/// Paths that git selected.
#[derive(Default)]
struct SelectedPaths {
    paths: HashSet<PathBuf>,
    whole: Vec<PathBuf>,
}

impl SelectedPaths {
    /// Adds a path with the directories above it; `whole` adds everything below it too.
    fn add(&mut self, path: &[u8], whole: bool) {
        if path.is_empty() {
            return;
        }
        let path = as_path(path);
        for path in path.ancestors().filter(|path| !path.as_os_str().is_empty()) {
            if !self.paths.insert(path.to_owned()) {
                break;
            }
        }
        if whole {
            self.whole.push(path.to_owned());
        }
    }
}

/// Removes git's data about a worktree that is gone, if it belongs to that worktree. Data about other worktrees stays, even if they are
/// gone too.
pub(super) fn forget_worktree(registration: &Path, worktree: &Path) -> io::Result<()> {
    let pointer = match fs::read(registration.join("gitdir")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read?,
    };
    let pointer = registration.join(as_path(pointer.trim_ascii()));
    if !is_pointer_of(&pointer, worktree) {
        return Err(io::Error::other("git knows another worktree by this name now"));
    }
    super::remove_tree::remove_tree(registration)?;
    if let Some(all) = registration.parent() {
        // Git removes this directory with the last worktree, and so do we. It is not empty otherwise.
        drop(fs::remove_dir(all));
    }
    Ok(())
}

/// Returns whether a path is the `.git` file of a worktree. The worktree itself is gone, its parent directory is not.
fn is_pointer_of(pointer: &Path, worktree: &Path) -> bool {
    let Some(output) = pointer.parent().filter(|_| pointer.ends_with(".git")) else { return false };
    let real = |path: &Path| Some(fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?));
    output == worktree || real(output).is_some_and(|output| Some(output) == real(worktree))
}

/// Finds the first `git` on `PATH` that is outside of the workspace.
fn find_program(workspace: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let is_program = |file: &PathBuf| {
        fs::metadata(file)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute() && !directory.starts_with(workspace))
        .map(|directory| directory.join(OsStr::new("git")))
        .find(is_program)
}

/// Returns the error that no worktree could be created.
fn refused(path: &Path, why: &str) -> FileError {
    FileError::new(
        "make a git worktree of",
        path,
        FileErrorKind::Io(io::Error::other(why.to_owned())),
    )
}
