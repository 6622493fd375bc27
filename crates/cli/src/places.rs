//! Where our own files live, by the platform's customs. The only file that asks the environment for directories.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use windlass_core::ContentHash;

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

/// The directory of what is kept outside of the state on purpose: `$XDG_DATA_HOME/windlass`, or `~/.local/share/windlass`.
pub(crate) fn data() -> Result<PathBuf> {
    base("XDG_DATA_HOME", ".local/share")
}

/// The file outside of a state directory that says how far its journal came; none where there is no place for it.
pub(crate) fn outside_anchor(state: &Path) -> Option<PathBuf> {
    let state = canonical(state);
    let name = ContentHash::of(state.as_os_str().as_encoded_bytes()).to_string();
    let anchors = data().ok()?.join("anchors");
    // Inside of the state it would be put back with it.
    (!anchors.starts_with(&state)).then(|| anchors.join(name))
}

/// A path without links, as far as it is there: so that a directory has one name before and after it is made.
fn canonical(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(below)) = (std::fs::canonicalize(above), path.strip_prefix(above)) {
            return if below.as_os_str().is_empty() { real } else { real.join(below) };
        }
    }
    path.to_owned()
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
