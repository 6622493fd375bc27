//! A worktree of git's: the frame of a second place, which git knows and in which its commands work.
//!
//! Git only makes the frame and says what is tracked or ignored. It checks nothing out, so no filter runs; hooks and the file
//! system monitor that a repository may ask for are switched off, and nothing of our environment that is about git reaches it.

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

/// How git marks a submodule in its list of files.
const SUBMODULE: &[u8] = b"160000 ";

/// A repository whose top is the workspace, and which has a commit.
#[derive(Debug)]
pub(super) struct Repository<'a> {
    program: PathBuf,
    workspace: &'a Path,
    commit: String,
}

impl<'a> Repository<'a> {
    /// The repository of a workspace.
    pub(super) fn find(workspace: &'a Path) -> Result<Self, FileError> {
        let program = find_program(workspace).ok_or_else(|| {
            refused(workspace, "there is no program `git` on the path outside of the workspace")
        })?;
        let mut repository = Self { program, workspace, commit: String::new() };
        let told = repository.run(workspace, &["rev-parse", "--show-toplevel", "HEAD^{commit}"])?;
        let told = told.trim_ascii_end();
        let line = told.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        let (top, commit) = told.split_at(line);
        if as_path(top) != workspace {
            return Err(refused(workspace, "it is not the top of a repository"));
        }
        repository.commit = String::from_utf8_lossy(commit.trim_ascii()).into_owned();
        Ok(repository)
    }

    /// All that is tracked, or neither tracked nor ignored.
    pub(super) fn selection(&self) -> Result<Selection, FileError> {
        let mut selected = Selected::default();
        let tracked = self.run(self.workspace, &["ls-files", "-z", "--cached", "--stage"])?;
        for entry in tracked.split(|byte| *byte == 0) {
            let Some(tab) = entry.iter().position(|byte| *byte == b'\t') else { continue };
            let (facts, path) = entry.split_at(tab);
            selected.add(path.get(1..).unwrap_or_default(), facts.starts_with(SUBMODULE));
        }
        let arguments = ["ls-files", "-z", "--others", "--exclude-standard"];
        for path in self.run(self.workspace, &arguments)?.split(|byte| *byte == 0) {
            // Another repository is told as a directory, with a slash at its end.
            selected.add(path.strip_suffix(b"/").unwrap_or(path), path.ends_with(b"/"));
        }
        Ok(Selection::Only { paths: selected.paths, whole: selected.whole })
    }

    /// Makes an empty worktree; where git keeps what it knows about it.
    pub(super) fn add_worktree(&self, at: &Path) -> Result<PathBuf, FileError> {
        let mut command = self.command(self.workspace);
        command.args(["worktree", "add", "--quiet", "--detach", "--no-checkout"]);
        command.arg(at).arg(&self.commit);
        self.output(command)?;
        let pointer = fs::read(at.join(".git")).unwrap_or_default();
        let registration = pointer.trim_ascii().strip_prefix(b"gitdir:").map(<[u8]>::trim_ascii);
        match registration {
            Some(path) if path.starts_with(b"/") => Ok(as_path(path).to_owned()),
            // Git writes relative ones if it is told to.
            Some(path) => fs::canonicalize(at.join(as_path(path)))
                .map_err(|why| FileError::new("find", at, FileErrorKind::Io(why))),
            None => Err(refused(at, "git made a worktree that does not say where it belongs")),
        }
    }

    /// Tells the worktree what the commit has, so that git sees there what is not committed as that.
    pub(super) fn fill_index(&self, at: &Path) -> Result<(), FileError> {
        self.run(at, &["read-tree", &self.commit]).map(drop)
    }

    fn run(&self, within: &Path, arguments: &[&str]) -> Result<Vec<u8>, FileError> {
        let mut command = self.command(within);
        command.args(arguments);
        self.output(command)
    }

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

#[derive(Default)]
struct Selected {
    paths: HashSet<PathBuf>,
    whole: Vec<PathBuf>,
}

impl Selected {
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

/// Takes away what git knows about a worktree that is gone, if it is about that one. Others are none of our business, also if git
/// would find them gone.
pub(super) fn forget_worktree(registration: &Path, worktree: &Path) -> io::Result<()> {
    let pointer = match fs::read(registration.join("gitdir")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read?,
    };
    let pointer = registration.join(as_path(pointer.trim_ascii()));
    if !is_pointer_of(&pointer, worktree) {
        return Err(io::Error::other("git knows another worktree by this name now"));
    }
    super::clear::remove_tree(registration)?;
    if let Some(all) = registration.parent() {
        // Git removes it with the last worktree; so do we. Others keep it.
        drop(fs::remove_dir(all));
    }
    Ok(())
}

/// Whether it is the `.git` of a worktree. The worktree is gone, the directory in which it was is not.
fn is_pointer_of(pointer: &Path, worktree: &Path) -> bool {
    let Some(told) = pointer.parent().filter(|_| pointer.ends_with(".git")) else { return false };
    let real = |path: &Path| Some(fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?));
    told == worktree || real(told).is_some_and(|told| Some(told) == real(worktree))
}

/// The first `git` on the path that the workspace has no hand in.
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

fn refused(path: &Path, why: &str) -> FileError {
    FileError::new(
        "make a git worktree of",
        path,
        FileErrorKind::Io(io::Error::other(why.to_owned())),
    )
}
