//! The directories of the person's own files, by the platform's customs. Only this file reads directories and secrets from the environment.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use windlass_hub::{Environment, Places};

/// Returns the default state directory: `$XDG_STATE_HOME/windlass`, or `~/.local/state/windlass`.
pub(crate) fn state_directory() -> Result<PathBuf> {
    app_directory("XDG_STATE_HOME", ".local/state")
        .context("neither HOME nor its XDG variable is set")
        .context("there is no place for the state: give one with --state DIR")
}

/// Returns the person's directories and environment. Configuration is in `$XDG_CONFIG_HOME/windlass` or `~/.config/windlass`; data that
/// must not be in the state directory (the journal's anchor) in `$XDG_DATA_HOME/windlass` or `~/.local/share/windlass`.
pub(crate) fn places() -> Places {
    Places {
        home: home(),
        config: app_directory("XDG_CONFIG_HOME", ".config"),
        data: app_directory("XDG_DATA_HOME", ".local/share"),
        environment: Environment::new(std::env::vars_os()),
    }
}

/// Returns the directory for temporary files.
pub(crate) fn temp_directory() -> PathBuf {
    std::env::temp_dir()
}

/// Returns `windlass` below the directory that an XDG variable names, or below a directory in the home directory.
fn app_directory(variable: &str, in_home: &str) -> Option<PathBuf> {
    let given = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let parent = given.or_else(|| Some(home()?.join(in_home)))?;
    Some(parent.join("windlass"))
}

/// Returns the person's home directory, if `HOME` is an absolute path.
fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute())
}
