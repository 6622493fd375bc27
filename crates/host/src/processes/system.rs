//! The parts of the system that every program sees read-only, and the files of name resolution.
//!
//! A distribution uses links in its layout (`/bin` → `usr/bin`, `/etc/resolv.conf` → `/run/…`), so links are mounted as links, and their
//! targets are mounted beside them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use windlass_core::FileKind;
use windlass_sandbox::{Mount, MountSource, PathHandle};

use crate::survey::{MaskRule, Masking, survey};

/// Directories of programs, libraries and package databases. A link among them stays a link.
const SYSTEM_DIRECTORIES: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/libexec",
    "/opt",
    "/nix",
    "/gnu/store",
    "/snap",
    "/run/current-system",
    "/run/booted-system",
    "/run/wrappers",
    "/run/opengl-driver",
    "/var/lib/apk",
    "/var/lib/apt",
    "/var/lib/dpkg",
    "/var/lib/pacman",
    "/var/lib/rpm",
    "/var/run",
];

/// Directories that exist in a view, empty except for other mounts in them.
const EMPTY_DIRECTORIES: &[&str] = &["/run", "/home", "/mnt", "/var/log", "/var/lib", "/var/cache"];

/// Private keys and credentials below `/etc`, whatever their modes.
const PRIVATE_PATHS: &[&str] = &[
    "/etc/NetworkManager/system-connections",
    "/etc/cups/ssl",
    "/etc/ipsec.secrets",
    "/etc/krb5.keytab",
    "/etc/kubernetes",
    "/etc/letsencrypt",
    "/etc/openvpn",
    "/etc/pki/nssdb/key4.db",
    "/etc/pki/tls/private",
    "/etc/ppp",
    "/etc/rancher",
    "/etc/salt/pki",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/wireguard",
];

/// Files of name resolution. They may be links into `/run`.
const NAME_RESOLUTION: &[&str] = &["/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"];

/// Returns the mounts of the system.
pub(super) fn mounts() -> Vec<Mount> {
    let mut mounts: Vec<Mount> =
        EMPTY_DIRECTORIES.iter().map(|path| directory(Path::new(path))).collect();
    for path in SYSTEM_DIRECTORIES.iter().map(Path::new) {
        mounts.extend(mount(path));
    }
    if let Ok(object) = PathHandle::open(Path::new("/sys")) {
        mounts.push(Mount { at: "/sys".into(), source: MountSource::Sysfs(object) });
    }
    mounts
}

/// Returns additional mounts for name resolution, for a program with a network.
pub(super) fn name_resolution() -> Vec<Mount> {
    let real = NAME_RESOLUTION.iter().filter_map(|path| Path::new(path).canonicalize().ok());
    let outside = real.filter(|path| !path.starts_with("/etc") && is_file(path));
    outside.filter_map(|path| read_only(&path)).collect()
}

/// Returns the paths below `/etc` that must not be opened: private keys, and for root also files that only their owner may read, because
/// the kernel already keeps an ordinary user from them. `index` is the path of the survey index.
pub(super) fn masked(index: &Path) -> Vec<PathBuf> {
    let mut masked: Vec<PathBuf> = PRIVATE_PATHS.iter().map(PathBuf::from).collect();
    if rustix::process::geteuid().is_root() {
        masked.extend(unreadable(index));
    }
    masked.extend(host_keys());
    masked.sort();
    masked.dedup_by(|next, kept| next.starts_with(kept));
    masked
}

/// Returns the paths at which a file system is mounted.
pub(super) fn mount_points() -> Vec<PathBuf> {
    let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n');
    let points = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    points.map(|point| PathBuf::from(OsString::from_vec(unescape(point)))).collect()
}

/// Decodes the octal escapes of the kernel for blanks and backslashes.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let code = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(code.unwrap_or(*first));
        rest = if code.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    plain
}

/// Returns the mount of a system path, as a link if it is one; `None` if it is missing or a file.
fn mount(path: &Path) -> Option<Mount> {
    let found = path.symlink_metadata().ok()?;
    if found.is_symlink() {
        let target = std::fs::read_link(path).ok()?;
        return Some(Mount { at: path.to_owned(), source: MountSource::Link(target) });
    }
    read_only(path).filter(|_| found.is_dir())
}

/// Returns a read-only mount of a path; `None` if it cannot be opened.
fn read_only(path: &Path) -> Option<Mount> {
    let object = PathHandle::open(path).ok()?;
    Some(Mount { at: path.to_owned(), source: MountSource::ReadOnly(object) })
}

/// Returns the mount of an empty directory.
fn directory(path: &Path) -> Mount {
    Mount { at: path.to_owned(), source: MountSource::Directory }
}

/// Returns whether a path is a regular file, and not a link.
fn is_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_file())
}

/// Returns the private keys of this machine for SSH.
fn host_keys() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir("/etc/ssh") else { return Vec::new() };
    let is_private = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.starts_with("ssh_host_") && path.extension() != Some(OsStr::new("pub"))
    };
    entries.flatten().map(|entry| entry.path()).filter(is_private).collect()
}

/// Returns the files and directories below `/etc` that other users than the owner may not read.
fn unreadable(index: &Path) -> Vec<PathBuf> {
    let root = Path::new("/etc");
    match survey(root, &OwnersOnly, &[], index) {
        Ok(survey) => survey.masked.into_iter().map(|(path, _)| root.join(path)).collect(),
        // If the survey fails, all of `/etc` is masked.
        Err(_) => vec![root.to_owned()],
    }
}

/// Masks files and directories that other users than the owner may not read.
struct OwnersOnly;

impl MaskRule for OwnersOnly {
    /// Returns the current minute, so that an index is valid for a minute: the mode of a file can change without a trace in its directory.
    /// Until then a program sees what every user could read a minute ago.
    fn fingerprint(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_secs() / 60
    }

    fn masks(&self, path: &Path, kind: FileKind) -> Masking {
        let wanted = match kind {
            FileKind::Directory => 0o005,
            FileKind::File => 0o004,
            FileKind::Symlink => return Masking::Show,
            _ => return Masking::Mask,
        };
        let is_for_everybody =
            path.symlink_metadata().is_ok_and(|found| found.mode() & wanted == wanted);
        if is_for_everybody { Masking::Show } else { Masking::Mask }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_the_system_are_masked() {
        let directory = tempfile::tempdir().unwrap();
        let masked = masked(&directory.path().join("index"));
        let covers = |path: &str| masked.iter().any(|known| Path::new(path).starts_with(known));
        for path in ["/etc/ssl/private/x.key", "/etc/sudoers.d/x", "/etc/wireguard/wg0.conf"] {
            assert!(covers(path), "{path}");
        }
        if rustix::process::geteuid().is_root() {
            assert!(covers("/etc/shadow"));
        }
        for path in ["/etc/passwd", "/etc/hosts", "/etc/ssl/certs/x.pem", "/etc/ssh/ssh_config"] {
            assert!(!covers(path), "{path}");
        }
    }

    #[test]
    fn mount_points_are_unescaped() {
        for (text, plain) in
            [("/a", "/a"), ("/a\\040b", "/a b"), ("/a\\134", "/a\\"), ("/a\\9", "/a\\9"), ("", "")]
        {
            assert_eq!(unescape(text.as_bytes()), plain.as_bytes());
        }
        assert!(mount_points().contains(&PathBuf::from("/proc")));
    }

    #[test]
    fn links_stay_links() {
        let mounts = mounts();
        let laid = |at: &str| mounts.iter().find(|mount| mount.at == Path::new(at));
        for path in ["/usr", "/bin", "/lib"] {
            let is_link = Path::new(path).symlink_metadata().unwrap().is_symlink();
            let laid = laid(path).unwrap_or_else(|| panic!("{path} is not there"));
            assert_eq!(matches!(laid.source, MountSource::Link(_)), is_link, "{path}");
        }
        assert!(laid("/root").is_none() && laid("/run/dbus").is_none());
    }
}
