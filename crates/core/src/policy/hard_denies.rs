//! Denies that no rule and no mode can lift: secret files, our own state, the system's directories, malformed host names.
//!
//! Every file that a tool opens is checked, also each entry of a search, so the checks work on names alone and allocate nothing.
//! The names of secret files are in the table of `secret_names.rs`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::rule::{PathGlob, host_of};
use super::secret_names::{self, SecretName};
use crate::{Effect, Reach};

/// Denials in every mode, for every tool, from every front door.
///
/// ```
/// use windlass_core::HardDenies;
/// let denies = HardDenies::default();
/// let is_hidden = |path: &str| denies.hidden(path.as_ref(), "/w".as_ref()).is_some();
/// assert!(is_hidden("/w/.env.local"));
/// assert!(!is_hidden("/w/.env.example"));
/// assert!(is_hidden("/home/a/.ssh/config"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct HardDenies {
    own_directories: Vec<PathBuf>,
    exceptions: Vec<PathGlob>,
    home: Option<PathBuf>,
}

/// Directories that belong to the system: tools change nothing in them, unless the workspace itself is there.
const SYSTEM_DIRECTORIES: &[&str] = &[
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

impl HardDenies {
    /// Protects these directories of ours too: state and configuration.
    #[must_use]
    pub fn protect(mut self, places: impl IntoIterator<Item = PathBuf>) -> Self {
        self.own_directories.extend(places);
        self
    }

    /// Protects the person's home directory itself, but not its content, against being removed or replaced as a whole.
    #[must_use]
    pub fn home(mut self, home: PathBuf) -> Self {
        self.home = Some(home);
        self
    }

    /// Lets these files be read although their names look secret: globs relative to the workspace or absolute, or exact paths.
    ///
    /// ```
    /// use windlass_core::{HardDenies, PathGlob};
    /// let denies = HardDenies::default().except(["tests/**/*.pem".parse::<PathGlob>()?]);
    /// let is_hidden = |path: &str| denies.hidden(path.as_ref(), "/w".as_ref()).is_some();
    /// assert!(!is_hidden("/w/tests/tls/server.pem"));
    /// assert!(is_hidden("/w/server.pem"));
    /// # Ok::<(), windlass_core::RuleError>(())
    /// ```
    #[must_use]
    pub fn except<G: Into<PathGlob>>(mut self, files: impl IntoIterator<Item = G>) -> Self {
        self.exceptions.extend(files.into_iter().map(Into::into));
        self
    }

    /// Returns the known home directories.
    pub(crate) fn homes(&self) -> &[PathBuf] {
        self.home.as_slice()
    }

    /// Returns a hash of all settings and of the version, which determines the names: equal hashes hide the same files.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        env!("CARGO_PKG_VERSION").hash(&mut hasher);
        (&self.own_directories, &self.home).hash(&mut hasher);
        for glob in &self.exceptions {
            glob.as_path().hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Returns the reason to deny an effect, if there is one. A name that may be secret depending on its content counts as secret.
    pub fn denies(&self, effect: &Effect, workspace: &Path) -> Option<&'static str> {
        self.denies_unless_harmless(effect, workspace, &[])
    }

    /// Returns the same, but lets the files in `harmless` pass, whose content was found to hold no credential.
    pub(super) fn denies_unless_harmless(
        &self,
        effect: &Effect,
        workspace: &Path,
        harmless: &[PathBuf],
    ) -> Option<&'static str> {
        let hidden = |path: &Path| match self.secret_name(path, workspace) {
            SecretName::IfCredential(_) if harmless.iter().any(|known| known == path) => None,
            secret => secret.reason(),
        };
        match effect {
            Effect::Read(at) => hidden(&at.path),
            Effect::Write(at) | Effect::Delete(at) => {
                let is_removed = matches!(effect, Effect::Delete(_)) && at.reach == Reach::Tree;
                // The content of the workspace can be restored, the directory around it cannot.
                if is_removed && workspace != at.path && workspace.starts_with(&at.path) {
                    return Some("the directory that contains the workspace");
                }
                self.unchangeable_reason(&at.path, workspace).or_else(|| hidden(&at.path))
            }
            // A malformed host could mean one host to a rule and another to the program that connects.
            Effect::Net { origin, .. } if !is_host(host_of(origin)) => Some("not a host name"),
            Effect::Net { .. }
            | Effect::Exec(_)
            | Effect::Secret(_)
            | Effect::Ask
            | Effect::Agent(_)
            | Effect::Mcp { .. }
            | Effect::Plugin(_)
            | Effect::State(_) => None,
        }
    }

    /// Returns the reason why a path outside the workspace can never be changed, if there is one.
    fn unchangeable_reason(&self, path: &Path, workspace: &Path) -> Option<&'static str> {
        if path.parent().is_none() {
            return Some("the root of the file system");
        }
        if self.home.as_deref() == Some(path) {
            return Some("the home directory itself");
        }
        let is_system = !path.starts_with(workspace) && system_directory(path).is_some();
        is_system.then_some("a directory of the system")
    }

    /// Returns the reason to hide a file, if there is one: it is secret by name, or ours. A name that may be secret depending on its
    /// content counts as secret.
    pub fn hidden(&self, path: &Path, workspace: &Path) -> Option<&'static str> {
        self.secret_name(path, workspace).reason()
    }

    /// Returns the secrecy of a file by its name, its directories and the exceptions.
    pub fn secret_name(&self, path: &Path, workspace: &Path) -> SecretName {
        if let Some(reason) = self.own_path_reason(path).or_else(|| process_memory_reason(path)) {
            return SecretName::Yes(reason);
        }
        self.unless_excepted(secret_names::classify_path(path, workspace), path, workspace)
    }

    /// Returns the same for an entry of a directory that is not hidden itself, so that only its own name counts. Called for every
    /// entry of a walk.
    pub fn secret_entry(&self, path: &Path, workspace: &Path) -> SecretName {
        if let Some(reason) = self.own_path_reason(path) {
            return SecretName::Yes(reason);
        }
        self.unless_excepted(secret_names::classify_entry(path, workspace), path, workspace)
    }

    /// Returns the secrecy, or [`SecretName::No`] if an exception names the file.
    fn unless_excepted(&self, secret: SecretName, path: &Path, workspace: &Path) -> SecretName {
        let excepts = |glob: &PathGlob| glob.covers_file(path, workspace);
        match secret {
            SecretName::No => SecretName::No,
            _ if self.exceptions.iter().any(excepts) => SecretName::No,
            secret => secret,
        }
    }

    /// Returns the reason if a path is in a directory of ours. Both paths are absolute and normal, so comparing bytes is enough.
    fn own_path_reason(&self, path: &Path) -> Option<&'static str> {
        let path = path.as_os_str().as_bytes();
        let below = |own: &PathBuf| {
            let rest = path.strip_prefix(own.as_os_str().as_bytes());
            rest.is_some_and(|rest| rest.first().is_none_or(|next| *next == b'/'))
        };
        self.own_directories.iter().any(below).then_some("our own state and configuration")
    }
}

/// Returns the system directory that contains a path. Tools change nothing in these directories.
///
/// ```
/// let directory = windlass_core::system_directory("/usr/lib/x".as_ref());
/// assert_eq!(directory, Some("/usr".as_ref()));
/// ```
pub fn system_directory(path: &Path) -> Option<&'static Path> {
    SYSTEM_DIRECTORIES.iter().map(Path::new).find(|system| path.starts_with(system))
}

/// Returns the reason to hide files of `/proc` that show the variables or memory of a process.
fn process_memory_reason(path: &Path) -> Option<&'static str> {
    let inside = path.strip_prefix("/proc").ok()?;
    let name = inside.file_name()?;
    (name == "environ" || name == "mem").then_some("the memory of a process")
}

/// Returns whether a text is exactly one host: an ASCII name, an IPv4 address, or an IPv6 address in brackets.
fn is_host(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_allowed = |c: &u8| match inner {
        Some(_) => c.is_ascii_hexdigit() || matches!(c, b':' | b'.'),
        None => c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_'),
    };
    let text = inner.unwrap_or(host);
    !text.is_empty() && text.bytes().all(|c| is_allowed(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKSPACE: &str = "/w";

    #[test]
    fn walk_hides_the_same_files_as_a_path() {
        let denies = HardDenies::default();
        for (path, is_secret) in [
            (".env", true),
            ("a/.env", true),
            (".ssh/config", true),
            ("x/.gnupg/ring", true),
            (".npmrc", true),
            (".env.example", false),
            ("ssh/config", false),
            ("node_modules/a/cert.pem", false),
        ] {
            let path = Path::new(WORKSPACE).join(path);
            assert_eq!(
                denies.hidden(&path, WORKSPACE.as_ref()).is_some(),
                is_secret,
                "{}",
                path.display()
            );
            // In a walk, the path or a directory above it is hidden.
            let mut above = path.ancestors().take_while(|path| *path != Path::new(WORKSPACE));
            let is_hidden = |path| denies.secret_entry(path, WORKSPACE.as_ref()) != SecretName::No;
            assert_eq!(above.any(is_hidden), is_secret, "{}", path.display());
        }
    }

    #[test]
    fn exceptions_are_globs_or_exact_paths() {
        let glob = |text: &str| text.parse::<PathGlob>().expect("a glob");
        let globs = ["tests/**/*.pem", "/srv/*/.env", "fixtures", "/w/a/.env"].map(glob);
        let denies = HardDenies::default().except(globs).except([PathBuf::from("/w/[id]/.env")]);
        for (path, is_hidden) in [
            ("/w/tests/a/b.pem", false),
            ("/w/tests/b.pem", false),
            ("/w/b.pem", true),
            ("/x/tests/b.pem", true),
            ("/srv/a/.env", false),
            ("/srv/a/b/.env", true),
            ("/w/fixtures/.env", false),
            ("/w/a/.env", false),
            ("/w/[id]/.env", false),
            ("/w/i/.env", true),
        ] {
            let path = Path::new(path);
            assert_eq!(
                denies.hidden(path, WORKSPACE.as_ref()).is_some(),
                is_hidden,
                "{}",
                path.display()
            );
            let in_walk = denies.secret_entry(path, WORKSPACE.as_ref()) != SecretName::No;
            assert_eq!(in_walk, is_hidden, "{}", path.display());
        }
    }

    #[test]
    fn every_setting_is_in_the_fingerprint() {
        let usual = HardDenies::default;
        let all = [
            usual(),
            usual().home("/h".into()),
            usual().protect(["/h".into()]),
            usual().except([PathBuf::from("/h")]),
        ];
        for (at, one) in all.iter().enumerate() {
            let same = all.iter().position(|other| other.fingerprint() == one.fingerprint());
            assert_eq!(same, Some(at));
        }
    }

    #[test]
    fn system_and_home_are_not_changed() {
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
        assert!(denies.hidden(Path::new("/proc/cpuinfo"), workspace).is_none());
    }

    #[test]
    fn malformed_host_is_denied() {
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
    fn own_directories_and_roots_are_denied() {
        let denies = HardDenies::default().protect([PathBuf::from("/s")]);
        let at = |path: &str| crate::PathPattern::tree(path);
        let workspace = Path::new("/w/p");
        assert!(denies.denies(&Effect::Read(at("/s/journal.db")), workspace).is_some());
        assert!(denies.denies(&Effect::Read(at("/s2")), workspace).is_none());
        let is_hidden =
            |path: &str| denies.secret_entry(Path::new(path), workspace) != SecretName::No;
        assert!(is_hidden("/s") && is_hidden("/s/a/b") && !is_hidden("/s2"));
        assert!(denies.denies(&Effect::Delete(at("/w")), workspace).is_some());
        assert!(denies.denies(&Effect::Delete(at("/w/p/a")), workspace).is_none());
        assert!(denies.denies(&Effect::Write(at("/")), workspace).is_some());
    }
}
