//! Where our own files live, by the platform's customs. The only file that asks the environment for directories.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

/// Sessions, journal, outputs and trust: `$XDG_STATE_HOME/windlass`, or `~/.local/state/windlass`.
pub(crate) fn state() -> Result<PathBuf> {
    base("XDG_STATE_HOME", ".local/state")
        .context("there is no place for the state: give one with --state DIR")
}

/// The person's own configuration: `$XDG_CONFIG_HOME/windlass`, or `~/.config/windlass`.
pub(crate) fn config() -> Result<PathBuf> {
    base("XDG_CONFIG_HOME", ".config")
}

/// The person's own command tools.
pub(crate) fn command_tools() -> Result<PathBuf> {
    Ok(config()?.join("tools"))
}

/// For what is thrown away again.
pub(crate) fn temporary() -> PathBuf {
    std::env::temp_dir()
}

fn base(variable: &str, in_home: &str) -> Result<PathBuf> {
    let given = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = match given {
        Some(base) => base,
        None => home().context("neither HOME nor its XDG variable is set")?.join(in_home),
    };
    Ok(base.join("windlass"))
}

/// The person's home directory.
pub(crate) fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute())
}
