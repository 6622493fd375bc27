//! The places of our own files, by the platform's customs. The only file that asks the environment for directories and secrets.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use windlass_hub::{Environment, Places};

/// Sessions, journal, outputs and trust: `$XDG_STATE_HOME/windlass`, or `~/.local/state/windlass`.
pub(crate) fn state() -> Result<PathBuf> {
    base("XDG_STATE_HOME", ".local/state")
        .context("neither HOME nor its XDG variable is set")
        .context("there is no place for the state: give one with --state DIR")
}

/// The person's directories and environment. The configuration is in `$XDG_CONFIG_HOME/windlass` or `~/.config/windlass`; what is kept
/// outside of the state on purpose in `$XDG_DATA_HOME/windlass` or `~/.local/share/windlass`.
pub(crate) fn all() -> Places {
    Places {
        home: home(),
        config: base("XDG_CONFIG_HOME", ".config"),
        data: base("XDG_DATA_HOME", ".local/share"),
        environment: Environment::new(std::env::vars_os()),
    }
}

/// For what is thrown away again.
pub(crate) fn temporary() -> PathBuf {
    std::env::temp_dir()
}

fn base(variable: &str, in_home: &str) -> Option<PathBuf> {
    let given = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = given.or_else(|| Some(home()?.join(in_home)))?;
    Some(base.join("windlass"))
}

/// The person's home directory.
fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute())
}
