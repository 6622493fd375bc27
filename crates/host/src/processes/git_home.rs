//! Writes git's configuration for a program's home, made of the person's own.
//!
//! Identity and habits are kept; credentials, signing keys and everything that starts another program are not, with the one
//! exception of `git-lfs`. Settings pass a list of those that are allowed, and are written anew, so git reads nothing that was
//! not understood here. Included files are not followed.

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

/// A larger configuration file is ignored.
const CONFIG_BYTES: u64 = 1024 * 1024;

/// A larger ignore file is ignored.
const IGNORE_BYTES: u64 = 256 * 1024;

/// The text of `.gitconfig` for a program's home, or `None` if nothing of the person's configuration is kept.
pub(super) fn git_config(
    home: &Path,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Option<String> {
    let kept: Vec<Setting> = settings(home, variable).into_iter().filter(is_allowed).collect();
    (!kept.is_empty()).then(|| config::write(&kept))
}

/// The content of the person's global ignore file, for `.config/git/ignore` in a program's home.
pub(super) fn git_ignore(
    home: &Path,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Option<Vec<u8>> {
    let is_named = |setting: &&Setting| setting.is("core", "excludesfile");
    let settings = settings(home, variable);
    let named = settings.iter().rev().find(is_named).and_then(|setting| setting.value.as_deref());
    let path = match named {
        Some(name) => expanded(name, home)?,
        None => git_directory(home, variable).join("ignore"),
    };
    bounded(&path, IGNORE_BYTES)
}

/// The settings of the person's own files, in the order in which git reads them.
fn settings(home: &Path, variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<Setting> {
    let files = match variable("GIT_CONFIG_GLOBAL") {
        Some(file) => vec![PathBuf::from(file)],
        None => vec![git_directory(home, variable).join("config"), home.join(".gitconfig")],
    };
    let read = |file: &PathBuf| bounded(file, CONFIG_BYTES).unwrap_or_default();
    files.iter().flat_map(|file| config::parse(&String::from_utf8_lossy(&read(file)))).collect()
}

fn git_directory(home: &Path, variable: &dyn Fn(&str) -> Option<OsString>) -> PathBuf {
    let moved = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    moved.unwrap_or_else(|| home.join(".config")).join("git")
}

/// A path of the configuration, with `~` for the home directory. Those of other people's homes and relative ones are not used.
fn expanded(name: &str, home: &Path) -> Option<PathBuf> {
    let path = match name.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => name.into(),
    };
    path.is_absolute().then_some(path)
}

/// The content of a regular file that is not larger than the limit.
fn bounded(path: &Path, limit: u64) -> Option<Vec<u8>> {
    // Opening something else could wait forever.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(limit + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= limit).then_some(bytes)
}
