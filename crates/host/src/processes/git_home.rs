//! Writes git's configuration for a program's home, from the person's own.
//!
//! Identity and habits are kept. Credentials, signing keys and everything that starts another program are not, except `git-lfs`. Settings
//! must be on a list and are written anew, so that git reads nothing that was not parsed here. Included files are not followed.

mod allowed;
mod config;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use self::allowed::is_allowed;
use self::config::Setting;

/// Maximum bytes of a configuration file; a larger one is ignored.
const MAX_CONFIG_BYTES: u64 = 1024 * 1024;

/// Maximum bytes of an ignore file; a larger one is ignored.
const MAX_IGNORE_BYTES: u64 = 256 * 1024;

/// Returns the text of `.gitconfig` for a program's home; `None` if nothing of the person's configuration is kept.
pub(super) fn git_config(
    home: &Path,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Option<String> {
    let kept: Vec<Setting> = settings(home, variable).into_iter().filter(is_allowed).collect();
    (!kept.is_empty()).then(|| config::write(&kept))
}

/// Returns the content of the person's global ignore file, for `.config/git/ignore` in a program's home.
pub(super) fn git_ignore(
    home: &Path,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Option<Vec<u8>> {
    let is_named = |setting: &&Setting| setting.is("core", "excludesfile");
    let settings = settings(home, variable);
    let named = settings.iter().rev().find(is_named).and_then(|setting| setting.value.as_deref());
    let path = match named {
        Some(name) => expand_home(name, home)?,
        None => git_directory(home, variable).join("ignore"),
    };
    read_bounded(&path, MAX_IGNORE_BYTES)
}

/// Returns the settings of the person's own files, in the order in which git reads them.
fn settings(home: &Path, variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<Setting> {
    let files = match variable("GIT_CONFIG_GLOBAL") {
        Some(file) => vec![PathBuf::from(file)],
        None => vec![git_directory(home, variable).join("config"), home.join(".gitconfig")],
    };
    let read = |file: &PathBuf| read_bounded(file, MAX_CONFIG_BYTES).unwrap_or_default();
    files.iter().flat_map(|file| config::parse(&String::from_utf8_lossy(&read(file)))).collect()
}

/// Returns the directory of git's user configuration.
fn git_directory(home: &Path, variable: &dyn Fn(&str) -> Option<OsString>) -> PathBuf {
    let moved = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    moved.unwrap_or_else(|| home.join(".config")).join("git")
}

/// Expands `~` in a path of the configuration. `None` for relative paths and homes of other users.
fn expand_home(name: &str, home: &Path) -> Option<PathBuf> {
    let path = match name.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => name.into(),
    };
    path.is_absolute().then_some(path)
}

/// Returns the content of a regular file that is not larger than the limit.
fn read_bounded(path: &Path, limit: u64) -> Option<Vec<u8>> {
    // Opening another kind of object could block forever.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(limit + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= limit).then_some(bytes)
}
