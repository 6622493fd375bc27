//! Decides which directories are never shown, whatever a variable or a link names: too broad ones, and those with secrets.

use std::ffi::OsStr;
use std::path::{Component, Path};

use crate::processes::home::HOME_SECRETS;

/// Directories of the system that hold much besides toolchains.
const BROAD: &[&str] = &[
    "/bin",
    "/home",
    "/lib",
    "/lib32",
    "/lib64",
    "/media",
    "/mnt",
    "/nix",
    "/opt",
    "/root",
    "/sbin",
    "/srv",
    "/tmp",
    "/usr",
    "/usr/local",
    "/usr/share",
    "/usr/lib",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/tmp",
];

/// Directories in which there are no toolchains.
const NEVER: &[&str] = &["/boot", "/dev", "/etc", "/proc", "/sys", "/var/log", "/var/spool"];

/// Directories of a home directory that hold much besides toolchains.
const BROAD_AT_HOME: &[&str] = &[
    ".cache",
    ".config",
    ".local",
    ".local/share",
    ".local/state",
    "Desktop",
    "Documents",
    "Downloads",
    "Music",
    "Pictures",
    "Public",
    "Templates",
    "Videos",
];

/// Names of directories that hold secrets, in any home.
const SECRET_NAMES: &[&str] =
    &[".ssh", ".aws", ".gnupg", ".azure", ".kube", ".password-store", "keyrings", "gcloud"];

/// Components of `/run/user/1000`, below which the programs of a login session keep directories.
const RUNTIME_DEPTH: usize = 4;

/// Returns whether a directory may be shown although only a variable, a link or `PATH` names it.
pub(super) fn is_showable(path: &Path, home: &Path) -> bool {
    let holds_secrets = HOME_SECRETS.iter().any(|secret| home.join(secret).starts_with(path));
    !holds_secrets && is_showable_by_default(path, home)
}

/// Returns the same for a directory of the table, whose secrets are masked.
pub(super) fn is_showable_by_default(path: &Path, home: &Path) -> bool {
    let is_plain = |component: Component<'_>| match component {
        Component::Normal(name) => !SECRET_NAMES.iter().any(|secret| OsStr::new(secret) == name),
        Component::RootDir => true,
        _ => false,
    };
    path.is_absolute()
        && path.components().all(is_plain)
        && !home.starts_with(path)
        && !is_broad(path)
        && !NEVER.iter().any(|never| path.starts_with(never))
        && path.strip_prefix(home).map_or(true, is_showable_at_home)
}

/// Returns whether a directory of the system is too broad.
fn is_broad(path: &Path) -> bool {
    let is_runtime = path.starts_with("/run") && path.components().count() <= RUNTIME_DEPTH;
    is_runtime || BROAD.iter().any(|broad| path == Path::new(broad))
}

/// Returns whether a directory of a home may be shown, by its path in the home.
fn is_showable_at_home(inside: &Path) -> bool {
    !BROAD_AT_HOME.iter().any(|broad| inside == Path::new(broad))
        && !HOME_SECRETS.iter().any(|secret| inside.starts_with(secret))
}
