//! Which file a program is. One that lies in the workspace is found by its path only, never by its name: a repository must not be
//! able to slip in a `git` of its own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use windlass_core::Program;

use super::environment::USUAL_PATH;
use super::refusal::Refusal;

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
            Ok((shell, vec!["bash".into(), "-c".into(), "--".into(), text.into()]))
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
