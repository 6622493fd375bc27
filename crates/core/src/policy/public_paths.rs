//! Paths of the machine that every program may read: the system, and installed toolchains and packages.
//!
//! A command that is known to read only there needs no approval. Secret files stay denied wherever they are. Files in `/etc` that only
//! root may read are not public either, since a session may run as root.

use std::path::{Component, Path, PathBuf};

use crate::PathPattern;

/// Directories of the system.
const SYSTEM_DIRECTORIES: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/sys",
    "/nix/store",
    "/gnu/store",
    "/snap",
    "/var/lib/dpkg",
];

/// Files that only root and its services may read below `/etc`.
const PRIVATE_PATHS: &[&str] = &[
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/security/opasswd",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/letsencrypt",
    "/etc/wireguard",
    "/etc/openvpn",
    "/etc/ipsec.secrets",
    "/etc/ipsec.d",
    "/etc/krb5.keytab",
    "/etc/ppp",
    "/etc/netplan",
    "/etc/NetworkManager",
    "/etc/wpa_supplicant",
    "/etc/crypttab",
    "/etc/kubernetes",
    "/etc/rancher",
    "/etc/mysql",
    "/etc/docker",
    "/etc/credstore",
    "/etc/credstore.encrypted",
    "/etc/windlass",
];

/// Directories in which toolchains keep compilers and packages, below a home directory. Their settings are elsewhere.
const PACKAGE_DIRECTORIES: &[&str] = &[
    ".cargo/registry",
    ".cargo/git",
    ".cargo/bin",
    ".rustup",
    ".nvm/versions",
    ".npm-global/lib",
    ".local/share/pnpm",
    ".local/lib",
    ".local/share/uv",
    ".local/share/mise/installs",
    ".pyenv/versions",
    ".rbenv/versions",
    ".asdf/installs",
    ".sdkman/candidates",
    ".m2/repository",
    ".gradle/caches",
    ".gradle/wrapper",
    ".nuget/packages",
    ".pub-cache/hosted",
    "go/pkg",
    ".cache/go-build",
    ".cabal/packages",
    ".opam",
    ".julia/packages",
];

/// Files of a process in `/proc` that do not show its memory or arguments.
const PUBLIC_PROCESS_FILES: &[&str] = &[
    "cgroup",
    "comm",
    "limits",
    "loginuid",
    "mountinfo",
    "mounts",
    "mountstats",
    "oom_score",
    "sched",
    "schedstat",
    "stat",
    "statm",
    "status",
];

/// Returns whether all paths that a pattern means are public.
pub(super) fn is_public(at: &PathPattern, homes: &[PathBuf]) -> bool {
    let path = at.path.as_path();
    // An unresolved path may lead anywhere.
    if path.components().any(|part| part == Component::ParentDir) {
        return false;
    }
    let is_below = |place: &&str| path.starts_with(place);
    if PRIVATE_PATHS.iter().any(|place| is_below(place) || is_copy_of_private(path, place)) {
        return false;
    }
    SYSTEM_DIRECTORIES.iter().any(is_below)
        || is_public_proc_file(path)
        || homes.iter().any(|home| {
            PACKAGE_DIRECTORIES
                .iter()
                .any(|place| path.starts_with(home) && path.starts_with(home.join(place)))
        })
}

/// Returns whether a path is a copy of a private file that programs leave behind, such as `/etc/shadow-`.
fn is_copy_of_private(path: &Path, place: &str) -> bool {
    let rest = path.to_str().and_then(|path| path.strip_prefix(place));
    rest.is_some_and(|rest| !rest.starts_with('/') && !rest.contains('/'))
}

/// Returns whether a file of `/proc` is about the machine, or about the state of a process but not its content.
fn is_public_proc_file(path: &Path) -> bool {
    let Ok(inside) = path.strip_prefix("/proc") else { return false };
    let mut parts = inside.iter().filter_map(|part| part.to_str());
    let Some(first) = parts.next() else { return false };
    let is_process =
        matches!(first, "self" | "thread-self") || first.bytes().all(|c| c.is_ascii_digit());
    if !is_process {
        return !matches!(first, "kcore" | "kmsg" | "keys" | "key-users");
    }
    parts.next().is_some_and(|what| PUBLIC_PROCESS_FILES.contains(&what)) && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_and_packages_are_public_and_secrets_are_not() {
        let homes = [PathBuf::from("/home/ada")];
        for (path, is_public) in [
            ("/etc/os-release", true),
            ("/etc", true),
            ("/usr/include/stdio.h", true),
            ("/proc/cpuinfo", true),
            ("/proc/sys/kernel/ostype", true),
            ("/proc/self/status", true),
            ("/proc/17/mounts", true),
            ("/sys/class/net", true),
            ("/opt/tool/lib", true),
            ("/home/ada/.rustup/toolchains/x", true),
            ("/home/ada/.cargo/registry/src/a/lib.rs", true),
            ("/home/ada/go/pkg/mod", true),
            ("/etc/shadow", false),
            ("/etc/shadow-", false),
            ("/etc/sudoers.d/x", false),
            ("/etc/ssh/ssh_host_rsa_key", false),
            ("/proc", false),
            ("/proc/self/cmdline", false),
            ("/proc/17/root/home", false),
            ("/proc/17/fd/3", false),
            ("/proc/kcore", false),
            ("/", false),
            ("/usr/../home/ada", false),
            ("/home/ada", false),
            ("/home/ada/.cargo/credentials.toml", false),
            ("/home/bob/.rustup/x", false),
            ("/etcetera", false),
            ("/srv/x", false),
            ("/var/log/syslog", false),
        ] {
            assert_eq!(super::is_public(&PathPattern::tree(path), &homes), is_public, "{path}");
        }
    }
}
