//! Which file a program is. One that lies in the workspace is found by its path only, never by its name: a repository must not be
//! able to slip in a `git` of its own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use windlass_core::{Level, Program, Shell, quote};

use super::ProcessSettings;
use super::environment::USUAL_PATH;
use super::refusal::Refusal;
use super::view::is_session_tmp;

const SHELLS: [&str; 3] = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"];

/// The file to execute, and its arguments with its own name first.
pub(super) fn find(
    program: &Program,
    workspace: &Path,
) -> Result<(PathBuf, Vec<OsString>), Refusal> {
    match program {
        Program::Shell(text) => {
            let shell = SHELLS.iter().map(Path::new).find(|shell| shell.exists());
            let shell = match shell {
                Some(shell) => shell.to_owned(),
                None => named("bash".as_ref(), workspace)?,
            };
            Ok((shell, words(&Shell::default(), text)))
        }
        Program::InShell(shell, text) => Ok((shell.file().to_owned(), words(shell, text))),
        Program::Words(words) => {
            let Some(first) = words.first() else {
                return Err(Refusal::Program("there is no program to run".to_owned()));
            };
            let path = if first.as_bytes().contains(&b'/') {
                PathBuf::from(first)
            } else {
                named(first, workspace)?
            };
            Ok((path, words.clone()))
        }
    }
}

/// A text behind the arguments of its shell.
fn words(shell: &Shell, text: &str) -> Vec<OsString> {
    let mut words = shell.words();
    words.push(text.into());
    words
}

/// Looks a program up where programs are.
fn named(name: &OsStr, workspace: &Path) -> Result<PathBuf, Refusal> {
    in_path(name, workspace).ok_or_else(|| {
        let name = name.to_string_lossy();
        Refusal::Program(format!("cannot run `{name}`: no program of that name is in PATH"))
    })
}

fn in_path(name: &OsStr, workspace: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into());
    std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute() && !directory.starts_with(workspace))
        .map(|directory| directory.join(name))
        .find(|file| is_program(file))
}

/// The reason why a shell cannot run commands.
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
    why: String,
}

impl std::fmt::Display for ShellError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the shell `{}` cannot be used: {}", self.shell, self.why)
    }
}

impl std::error::Error for ShellError {}

impl ProcessSettings {
    /// The same, with the path of the shell. A shell is found by its absolute path, or by its name in `PATH`; it must be executable,
    /// and lie outside the workspace, where calls could replace it. The usual bash is looked for when a command first needs it.
    pub fn with_shell_found(mut self, workspace: &Path) -> Result<Self, ShellError> {
        if self.shell.is_usual() {
            return Ok(self);
        }
        let (shell, is_confined) = (self.shell, self.confinement.level != Level::Off);
        let found = find_shell(shell.program(), workspace, is_confined);
        match found {
            Ok((program, file)) => self.shell = shell.found(program, file),
            Err(why) => return Err(ShellError { shell: shell.to_string(), why }),
        }
        Ok(self)
    }
}

/// The path of a shell, and the file that this is.
fn find_shell(
    given: &Path,
    workspace: &Path,
    is_confined: bool,
) -> Result<(PathBuf, PathBuf), String> {
    let name = quote::path(given);
    let path = if given.is_absolute() {
        given.to_owned()
    } else if given.components().count() == 1 && given.file_name().is_some() {
        in_path(given.as_os_str(), workspace).ok_or_else(|| {
            format!("no program `{name}` is in PATH; install it, or give its absolute path")
        })?
    } else {
        return Err("give an absolute path, or the name of a program in PATH".to_owned());
    };
    let file = path
        .canonicalize()
        .map_err(|error| format!("{}: {error}; install it, or name another", quote::path(&path)))?;
    let place = quote::path(&file);
    let workspace = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
    if !is_program(&file) {
        return Err(format!("{place} is not a program that may be executed; name another"));
    }
    if file.starts_with(&workspace) || path.starts_with(&workspace) {
        return Err(format!(
            "{place} is in the workspace, where a call could replace it; name one outside of it"
        ));
    }
    if is_confined && is_session_tmp(&file) {
        return Err(format!(
            "{place} is where the sandbox puts temporary files of a session; name one elsewhere"
        ));
    }
    Ok((path, file))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
