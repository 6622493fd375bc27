//! Which file a program is. One that lies in the workspace is found by its path only, never by its name: a repository must not be
//! able to slip in a `git` of its own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use windlass_core::Program;

use super::environment::USUAL_PATH;
use super::refusal::Refusal;

/// The shell that command lines are given to.
///
/// Command lines are read as bash reads them before they run. Other shells than these two would understand some of them otherwise.
///
/// ```
/// use windlass_host::{ProcessSettings, Shell};
/// let settings = ProcessSettings { shell: Shell::Posix, ..ProcessSettings::default() };
/// assert_ne!(settings.shell, Shell::default());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shell {
    /// `bash`.
    #[default]
    Bash,
    /// `sh`, whichever the system has under that name.
    Posix,
}

impl FromStr for Shell {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "bash" => Ok(Self::Bash),
            "sh" => Ok(Self::Posix),
            _ => Err(format!("unknown shell `{text}`: it is bash or sh")),
        }
    }
}

impl Shell {
    fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Posix => "sh",
        }
    }
}

/// The directories that shells are in, looked through before `PATH`.
const SHELL_DIRECTORIES: [&str; 3] = ["/bin", "/usr/bin", "/usr/local/bin"];

/// The file to execute, and its arguments with its own name first.
pub(super) fn find(
    program: &Program,
    shell: Shell,
    workspace: &Path,
) -> Result<(PathBuf, Vec<OsString>), Refusal> {
    match program {
        Program::Shell(text) => {
            let name = shell.name();
            let usual = SHELL_DIRECTORIES.iter().map(|place| Path::new(place).join(name));
            let file = match { usual }.find(|file| file.exists()) {
                Some(file) => file,
                None => named(name.as_ref(), workspace)?,
            };
            Ok((file, vec![name.into(), "-c".into(), "--".into(), text.into()]))
        }
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

/// Looks a program up where programs are.
fn named(name: &OsStr, workspace: &Path) -> Result<PathBuf, Refusal> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into());
    std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute() && !directory.starts_with(workspace))
        .map(|directory| directory.join(name))
        .find(|file| is_program(file))
        .ok_or_else(|| {
            let name = name.to_string_lossy();
            Refusal::Program(format!("cannot run `{name}`: no program of that name is in PATH"))
        })
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
