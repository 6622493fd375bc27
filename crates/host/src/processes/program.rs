//! Finds the file of a program. A program in the workspace is found only by its path, never by its name: a repository must not be able to
//! provide a `git` of its own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use windlass_core::{Program, SandboxLevel, Shell, quote};

use super::ProcessSettings;
use super::environment::DEFAULT_PATH;
use super::refusal::Refusal;
use super::view::is_session_tmp;

/// Paths of the shell for hooks and default commands.
const SHELLS: [&str; 3] = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"];

/// Returns the file to execute, and its arguments with the name of the program first.
pub(super) fn find(
    program: &Program,
    workspace: &Path,
) -> Result<(PathBuf, Vec<OsString>), Refusal> {
    match program {
        Program::Shell(text) => {
            let shell = SHELLS.iter().map(Path::new).find(|shell| shell.exists());
            let shell = match shell {
                Some(shell) => shell.to_owned(),
                None => find_on_path("bash".as_ref(), workspace)?,
            };
            Ok((shell, shell_arguments(&Shell::default(), text)))
        }
        Program::InShell(shell, text) => {
            Ok((shell.file().to_owned(), shell_arguments(shell, text)))
        }
        Program::Words(words) => {
            let Some(first) = words.first() else {
                return Err(Refusal::Program("there is no program to run".to_owned()));
            };
            let path = if first.as_bytes().contains(&b'/') {
                PathBuf::from(first)
            } else {
                find_on_path(first, workspace)?
            };
            Ok((path, words.clone()))
        }
    }
}

/// Returns the arguments of a shell, followed by the text of a command.
fn shell_arguments(shell: &Shell, text: &str) -> Vec<OsString> {
    let mut words = shell.words();
    words.push(text.into());
    words
}

/// Finds a program on `PATH`, or fails with a sentence for the model.
fn find_on_path(name: &OsStr, workspace: &Path) -> Result<PathBuf, Refusal> {
    in_path(name, workspace).ok_or_else(|| {
        let name = name.to_string_lossy();
        Refusal::Program(format!("cannot run `{name}`: no program of that name is in PATH"))
    })
}

/// Finds a program on `PATH`, outside of the workspace.
fn in_path(name: &OsStr, workspace: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute() && !directory.starts_with(workspace))
        .map(|directory| directory.join(name))
        .find(|file| is_program(file))
}

/// Error about a shell that cannot be used.
///
/// ```
/// use windlass_core::Shell;
/// use windlass_host::ProcessSettings;
/// # let workspace = tempfile::tempdir()?;
/// let settings = ProcessSettings { shell: Shell::new("/opt/none/fish"), ..ProcessSettings::default() };
/// let error = settings.with_shell_found(workspace.path()).unwrap_err();
/// assert!(error.to_string().starts_with("the shell `/opt/none/fish` cannot be used: "));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellError {
    /// The shell, as it was named.
    pub shell: String,
    problem: ShellProblem,
}

impl std::fmt::Display for ShellError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the shell `{}` cannot be used: {}", self.shell, self.problem)
    }
}

impl std::error::Error for ShellError {}

/// Reason why a shell cannot be used. Each path and name is quoted for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ShellProblem {
    NotInPath {
        name: String,
    },
    /// It is neither an absolute path nor a single name.
    NotAbsolute,
    Unreachable {
        path: String,
        error: String,
    },
    NotExecutable {
        place: String,
    },
    InWorkspace {
        place: String,
    },
    InSessionTmp {
        place: String,
    },
}

impl std::fmt::Display for ShellProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotInPath { name } => {
                write!(f, "no program `{name}` is in PATH; install it, or give its absolute path")
            }
            Self::NotAbsolute => {
                f.write_str("give an absolute path, or the name of a program in PATH")
            }
            Self::Unreachable { path, error } => {
                write!(f, "{path}: {error}; install it, or name another")
            }
            Self::NotExecutable { place } => {
                write!(f, "{place} is not a program that may be executed; name another")
            }
            Self::InWorkspace { place } => write!(
                f,
                "{place} is in the workspace, where a call could replace it; name one outside of it"
            ),
            Self::InSessionTmp { place } => write!(
                f,
                "{place} is where the sandbox puts temporary files of a session; name one elsewhere"
            ),
        }
    }
}

impl ProcessSettings {
    /// Returns the settings with the path of the shell. A shell is given by its absolute path, or by its name in `PATH`; it must be
    /// executable, and lie outside the workspace, where calls could replace it. The default bash is searched when a command first needs it.
    pub fn with_shell_found(mut self, workspace: &Path) -> Result<Self, ShellError> {
        if self.shell.is_usual() {
            return Ok(self);
        }
        let (shell, is_confined) = (self.shell, self.confinement.level != SandboxLevel::Off);
        let found = find_shell(shell.program(), workspace, is_confined);
        match found {
            Ok((program, file)) => self.shell = shell.found(program, file),
            Err(problem) => return Err(ShellError { shell: shell.to_string(), problem }),
        }
        Ok(self)
    }
}

/// Returns the path of a shell, and its path with links resolved.
fn find_shell(
    given: &Path,
    workspace: &Path,
    is_confined: bool,
) -> Result<(PathBuf, PathBuf), ShellProblem> {
    let name = quote::path(given);
    let path = if given.is_absolute() {
        given.to_owned()
    } else if given.components().count() == 1 && given.file_name().is_some() {
        in_path(given.as_os_str(), workspace)
            .ok_or_else(|| ShellProblem::NotInPath { name: name.into_owned() })?
    } else {
        return Err(ShellProblem::NotAbsolute);
    };
    let file = path.canonicalize().map_err(|error| ShellProblem::Unreachable {
        path: quote::path(&path).into_owned(),
        error: error.to_string(),
    })?;
    let place = quote::path(&file).into_owned();
    let workspace = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
    if !is_program(&file) {
        return Err(ShellProblem::NotExecutable { place });
    }
    if file.starts_with(&workspace) || path.starts_with(&workspace) {
        return Err(ShellProblem::InWorkspace { place });
    }
    if is_confined && is_session_tmp(&file) {
        return Err(ShellProblem::InSessionTmp { place });
    }
    Ok((path, file))
}

/// Returns whether a file can be executed.
fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
