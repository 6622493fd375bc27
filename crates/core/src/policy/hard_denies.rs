//! What no rule and no mode can allow: secret files, our own state, the system's own directories, hosts that are not spelled as such.
//!
//! Looked at for every file that a tool opens, also in the middle of a search, so it works on names alone and allocates nothing.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::rule::host_of;
use crate::{Effect, Reach};

/// What is denied in every mode, for every tool, from every front door.
///
/// ```
/// use windlass_core::HardDenies;
/// let denies = HardDenies::default();
/// assert!(denies.secret("/w/.env.local".as_ref()).is_some());
/// assert!(denies.secret("/w/.env.example".as_ref()).is_none());
/// assert!(denies.secret("/home/a/.ssh/config".as_ref()).is_some());
/// ```
#[derive(Debug, Clone, Default)]
pub struct HardDenies {
    own: Vec<PathBuf>,
    exceptions: Vec<PathBuf>,
    home: Option<PathBuf>,
}

/// Directories that belong to the system: tools change nothing in them, unless the workspace itself is there.
const SYSTEM: &[&str] = &[
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var/lib",
    "/var/log",
    "/var/spool",
];

/// Directories whose content is secret, wherever they are.
const SECRET_DIRECTORIES: &[&[u8]] =
    &[b".ssh", b".aws", b".gnupg", b".azure", b".kube", b".password-store", b"keyrings", b"gcloud"];

/// Files that are secret by name.
const SECRET_NAMES: &[&[u8]] = &[
    b".netrc",
    b"_netrc",
    b".git-credentials",
    b".pgpass",
    b".npmrc",
    b".pypirc",
    b".htpasswd",
    b".vault-token",
    b"credentials.json",
    b"login.keychain-db",
];

/// Files that are secret by ending.
const SECRET_ENDINGS: &[&[u8]] =
    &[b".pem", b".key", b".p12", b".pfx", b".jks", b".keystore", b".kdbx", b".ppk", b".keychain"];

/// Beginnings of the names of private keys; the public halves end in `.pub`.
const KEY_NAMES: &[&[u8]] = &[b"id_rsa", b"id_dsa", b"id_ecdsa", b"id_ed25519", b"id_xmss"];

/// `.env` files that are meant to be read.
const ENV_EXAMPLES: &[&[u8]] = &[b".env.example", b".env.sample", b".env.template", b".env.dist"];

impl HardDenies {
    /// Protects these directories of ours too: state and configuration.
    #[must_use]
    pub fn protect(mut self, places: impl IntoIterator<Item = PathBuf>) -> Self {
        self.own.extend(places);
        self
    }

    /// Protects the person's home directory itself, not what is in it: nobody wants to lose all of it at once.
    #[must_use]
    pub fn home(mut self, home: PathBuf) -> Self {
        self.home = Some(home);
        self
    }

    /// Lets these very files be read although their names look secret: a person's own word.
    #[must_use]
    pub fn except(mut self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        self.exceptions.extend(files);
        self
    }

    /// Why an effect is denied, if it is.
    pub fn denies(&self, effect: &Effect, workspace: &Path) -> Option<&'static str> {
        match effect {
            Effect::Read(at) => self.hidden(&at.path),
            Effect::Write(at) | Effect::Delete(at) => {
                let is_removed = matches!(effect, Effect::Delete(_)) && at.reach == Reach::Tree;
                // All of the workspace can be brought back, what it is in cannot.
                if is_removed && workspace != at.path && workspace.starts_with(&at.path) {
                    return Some("what the workspace is in");
                }
                self.fixed(&at.path, workspace).or_else(|| self.hidden(&at.path))
            }
            // Whoever connects may read another host out of it than a rule does.
            Effect::Net { origin, .. } if !is_host(host_of(origin)) => Some("no name of a host"),
            _ => None,
        }
    }

    /// Why something outside of the workspace is not changed by anybody's word.
    fn fixed(&self, path: &Path, workspace: &Path) -> Option<&'static str> {
        if path.parent().is_none() {
            return Some("the root of the file system");
        }
        if self.home.as_deref() == Some(path) {
            return Some("the home directory itself");
        }
        let is_system = || SYSTEM.iter().any(|system| path.starts_with(system));
        (!path.starts_with(workspace) && is_system()).then_some("a directory of the system")
    }

    /// Why a file must not be looked at, if so: it is secret, or ours.
    pub fn hidden(&self, path: &Path) -> Option<&'static str> {
        self.ours(path).or_else(|| self.secret(path)).or_else(|| memory_of_a_process(path))
    }

    /// The same for something in a directory that is not hidden itself: only its own name can still say so. Asked for every
    /// entry of a walk.
    pub(crate) fn hidden_entry(&self, path: &Path) -> bool {
        let bytes = path.as_os_str().as_bytes();
        let name = bytes.rsplit(|byte| *byte == b'/').next().unwrap_or(bytes);
        let secret = secret_name(name).or_else(|| secret_directory(name));
        (secret.is_some() && !self.exceptions.iter().any(|except| except == path))
            || self.ours(path).is_some()
    }

    /// Whether it is one of our own places, or below one. Both paths are absolute and normal, so bytes are enough.
    fn ours(&self, path: &Path) -> Option<&'static str> {
        let path = path.as_os_str().as_bytes();
        let below = |own: &PathBuf| {
            let rest = path.strip_prefix(own.as_os_str().as_bytes());
            rest.is_some_and(|rest| rest.first().is_none_or(|next| *next == b'/'))
        };
        self.own.iter().any(below).then_some("our own state and configuration")
    }

    /// Why the name says that a file is secret, if it does.
    pub fn secret(&self, path: &Path) -> Option<&'static str> {
        let mut bytes = path.as_os_str().as_bytes();
        // The last part decides by name, the ones before it as directories.
        let mut last = true;
        loop {
            let cut = bytes.iter().rposition(|byte| *byte == b'/');
            let name = &bytes[cut.map_or(0, |cut| cut + 1)..];
            let secret = if last {
                secret_name(name).or_else(|| secret_directory(name))
            } else {
                secret_directory(name)
            };
            if let Some(reason) = secret {
                return (!self.exceptions.iter().any(|except| except == path)).then_some(reason);
            }
            last = false;
            bytes = &bytes[..cut?];
        }
    }
}

/// What `/proc` shows of a process: its variables and its memory hold whatever it knows.
fn memory_of_a_process(path: &Path) -> Option<&'static str> {
    let inside = path.strip_prefix("/proc").ok()?;
    let name = inside.file_name()?;
    (name == "environ" || name == "mem").then_some("what a process knows")
}

/// Whether a text is a host and nothing else: a name in its ASCII form, or an address, that of the newer kind in brackets.
fn is_host(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_allowed = |c: &u8| match inner {
        Some(_) => c.is_ascii_hexdigit() || matches!(c, b':' | b'.'),
        None => c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_'),
    };
    let text = inner.unwrap_or(host);
    !text.is_empty() && text.bytes().all(|c| is_allowed(&c))
}

fn secret_name(name: &[u8]) -> Option<&'static str> {
    // Names are compared without case: on some file systems `ID_RSA` is the same file.
    let is = |known: &&[u8]| name.eq_ignore_ascii_case(known);
    let begins = |known: &&[u8]| {
        name.len() >= known.len() && name[..known.len()].eq_ignore_ascii_case(known)
    };
    let ends = |known: &&[u8]| {
        name.len() > known.len() && name[name.len() - known.len()..].eq_ignore_ascii_case(known)
    };
    match name.first()? {
        b'.' if begins(&&b".env"[..])
            && (name.len() == 4 || name[4] == b'.' || name[4] == b'-') =>
        {
            return (!ENV_EXAMPLES.iter().any(is)).then_some("a file of secrets");
        }
        b'i' | b'I' if KEY_NAMES.iter().any(begins) && !ends(&&b".pub"[..]) => {
            return Some("a private key");
        }
        _ => {}
    }
    if SECRET_ENDINGS.iter().any(ends) {
        return Some("a private key");
    }
    SECRET_NAMES.iter().any(is).then_some("a file of credentials")
}

fn secret_directory(name: &[u8]) -> Option<&'static str> {
    SECRET_DIRECTORIES
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
        .then_some("a store of secrets")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_by_name() {
        let denies = HardDenies::default().except([PathBuf::from("/w/test.pem")]);
        for secret in [
            ".env",
            ".env.local",
            ".env-prod",
            "a/.env",
            "server.pem",
            "SERVER.PEM",
            "tls.key",
            "id_rsa",
            "id_ed25519",
            "id_rsa.bak",
            ".ssh/config",
            ".ssh",
            ".aws/credentials",
            ".netrc",
            ".git-credentials",
            ".npmrc",
            "x/.gnupg/ring",
            ".local/share/keyrings/login.keyring",
            "vault.kdbx",
        ] {
            let path = Path::new("/w").join(secret);
            assert!(denies.hidden(&path).is_some(), "{secret}");
            // In a walk, it is hidden itself or something above it is.
            let above = |path: &&Path| path.starts_with("/w/");
            assert!(
                path.ancestors().take_while(above).any(|path| denies.hidden_entry(path)),
                "{secret}"
            );
        }
        for open in [
            ".env.example",
            ".environment",
            ".envrc.md",
            "id_rsa.pub",
            "identity.rs",
            "key.rs",
            "monkey",
            "pem",
            ".pem",
            "src/key/mod.rs",
            "keychain.go",
            "ssh/config",
            "test.pem",
            "id_token.ts",
        ] {
            let path = Path::new("/w").join(open);
            assert!(denies.hidden(&path).is_none(), "{open}");
            assert!(!denies.hidden_entry(&path), "{open}");
        }
    }

    #[test]
    fn the_system_and_the_home_are_not_changed() {
        let denies = HardDenies::default().home(PathBuf::from("/home/ada"));
        let workspace = Path::new("/usr/src/app");
        let file = |path: &str| crate::PathPattern::file(path);
        for (path, is) in [
            ("/etc/passwd", true),
            ("/usr/bin/ls", true),
            ("/usr/src/app/main.c", false),
            ("/usr/src/app2", true),
            ("/etcetera/x", false),
            ("/home/ada", true),
            ("/home/ada/notes.md", false),
            ("/tmp/x", false),
            ("/var/tmp/x", false),
        ] {
            for effect in [Effect::Write(file(path)), Effect::Delete(file(path))] {
                assert_eq!(denies.denies(&effect, workspace).is_some(), is, "{effect}");
            }
            assert_eq!(denies.denies(&Effect::Read(file(path)), workspace), None, "{path}");
        }
        for path in ["/proc/self/environ", "/proc/1/mem", "/proc/1/task/2/environ"] {
            assert!(denies.denies(&Effect::Read(file(path)), workspace).is_some(), "{path}");
        }
        assert!(denies.hidden(Path::new("/proc/cpuinfo")).is_none());
    }

    #[test]
    fn what_is_no_host_is_denied() {
        for (origin, is_denied) in [
            ("https://docs.rs", false),
            ("https://docs.rs:443", false),
            ("http://127.0.0.1:80", false),
            ("http://[::ffff:127.0.0.1]:80", false),
            ("https://a_b.xn--bcher-kva.example.", false),
            ("https://", true),
            ("https://evil\0.docs.rs", true),
            ("https://evil/.docs.rs", true),
            ("https://docs.rs@evil", true),
            ("https://a.docs.rs:443@evil", true),
            ("https://b\u{fc}cher.example", true),
            ("http://[::1%25.docs.rs]", true),
        ] {
            let effect = Effect::Net { origin: origin.into(), method: "GET".into() };
            let denied = HardDenies::default().denies(&effect, Path::new("/w"));
            assert_eq!(denied.is_some(), is_denied, "{origin:?}");
        }
    }

    #[test]
    fn our_own_places_and_roots() {
        let denies = HardDenies::default().protect([PathBuf::from("/s")]);
        let at = |path: &str| crate::PathPattern::tree(path);
        let workspace = Path::new("/w/p");
        assert!(denies.denies(&Effect::Read(at("/s/journal.db")), workspace).is_some());
        assert!(denies.denies(&Effect::Read(at("/s2")), workspace).is_none());
        assert!(denies.hidden_entry(Path::new("/s")) && denies.hidden_entry(Path::new("/s/a/b")));
        assert!(!denies.hidden_entry(Path::new("/s2")));
        assert!(denies.denies(&Effect::Delete(at("/w")), workspace).is_some());
        assert!(denies.denies(&Effect::Delete(at("/w/p/a")), workspace).is_none());
        assert!(denies.denies(&Effect::Write(at("/")), workspace).is_some());
    }
}
