//! Denies that no rule and no mode can lift: secret files, our own state, the system's directories, malformed host names.
//!
//! Every file that a tool opens is checked, also each entry of a search, so the checks work on names alone and allocate nothing.
//! Which names are secret is in the table of `secret_names.rs`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::rule::{PathGlob, host_of};
use super::secret_names::{self, SecretName};
use crate::{Effect, Reach};

/// What is denied in every mode, for every tool, from every front door.
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
    own: Vec<PathBuf>,
    exceptions: Vec<PathGlob>,
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

    /// The home directories that are known.
    pub(crate) fn homes(&self) -> &[PathBuf] {
        self.home.as_slice()
    }

    /// A hash of all settings and of the version, which has the names: equal hashes hide the same files.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        env!("CARGO_PKG_VERSION").hash(&mut hasher);
        (&self.own, &self.home).hash(&mut hasher);
        for glob in &self.exceptions {
            glob.as_path().hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The reason to deny an effect, if there is one. A name that may be secret by its content counts as secret.
    pub fn denies(&self, effect: &Effect, workspace: &Path) -> Option<&'static str> {
        self.denies_but(effect, workspace, &[])
    }

    /// The same, but for files whose content was found to hold no credential.
    pub(super) fn denies_but(
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
                // All of the workspace can be brought back, what it is in cannot.
                if is_removed && workspace != at.path && workspace.starts_with(&at.path) {
                    return Some("what the workspace is in");
                }
                self.fixed(&at.path, workspace).or_else(|| hidden(&at.path))
            }
            // Whoever connects may read another host out of it than a rule does.
            Effect::Net { origin, .. } if !is_host(host_of(origin)) => Some("no name of a host"),
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

    /// Why something outside of the workspace is not changed by anybody's word.
    fn fixed(&self, path: &Path, workspace: &Path) -> Option<&'static str> {
        if path.parent().is_none() {
            return Some("the root of the file system");
        }
        if self.home.as_deref() == Some(path) {
            return Some("the home directory itself");
        }
        let is_system = !path.starts_with(workspace) && system_directory(path).is_some();
        is_system.then_some("a directory of the system")
    }

    /// The reason to hide a file, if there is one: it is secret by name, or ours. A name that may be secret by its content counts
    /// as secret.
    pub fn hidden(&self, path: &Path, workspace: &Path) -> Option<&'static str> {
        self.secret_name(path, workspace).reason()
    }

    /// The secrecy of a file by its name, the directories that it is in, and the exceptions.
    pub fn secret_name(&self, path: &Path, workspace: &Path) -> SecretName {
        if let Some(reason) = self.ours(path).or_else(|| memory_of_a_process(path)) {
            return SecretName::Yes(reason);
        }
        self.unless_excepted(secret_names::of_path(path, workspace), path, workspace)
    }

    /// The same for an entry of a directory that is not hidden itself, so that only its own name counts. Asked for every entry
    /// of a walk.
    pub fn secret_entry(&self, path: &Path, workspace: &Path) -> SecretName {
        if let Some(reason) = self.ours(path) {
            return SecretName::Yes(reason);
        }
        self.unless_excepted(secret_names::of_entry(path, workspace), path, workspace)
    }

    fn unless_excepted(&self, secret: SecretName, path: &Path, workspace: &Path) -> SecretName {
        let excepts = |glob: &PathGlob| glob.covers_file(path, workspace);
        match secret {
            SecretName::No => SecretName::No,
            _ if self.exceptions.iter().any(excepts) => SecretName::No,
            secret => secret,
        }
    }

    /// The reason if it is one of our own places, or below one. Both paths are absolute and normal, so bytes are enough.
    fn ours(&self, path: &Path) -> Option<&'static str> {
        let path = path.as_os_str().as_bytes();
        let below = |own: &PathBuf| {
            let rest = path.strip_prefix(own.as_os_str().as_bytes());
            rest.is_some_and(|rest| rest.first().is_none_or(|next| *next == b'/'))
        };
        self.own.iter().any(below).then_some("our own state and configuration")
    }
}

/// The directory of the system that a path is in, in which tools change nothing.
///
/// ```
/// let directory = windlass_core::system_directory("/usr/lib/x".as_ref());
/// assert_eq!(directory, Some("/usr".as_ref()));
/// ```
pub fn system_directory(path: &Path) -> Option<&'static Path> {
    SYSTEM.iter().map(Path::new).find(|system| path.starts_with(system))
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

#[cfg(test)]
mod tests {
    use super::*;

    const W: &str = "/w";

    #[test]
    fn a_walk_hides_what_a_path_hides() {
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
            let path = Path::new(W).join(path);
            assert_eq!(denies.hidden(&path, W.as_ref()).is_some(), is_secret, "{}", path.display());
            // In a walk, it is hidden itself or something above it is.
            let mut above = path.ancestors().take_while(|path| *path != Path::new(W));
            let is_hidden = |path| denies.secret_entry(path, W.as_ref()) != SecretName::No;
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
            assert_eq!(denies.hidden(path, W.as_ref()).is_some(), is_hidden, "{}", path.display());
            let in_walk = denies.secret_entry(path, W.as_ref()) != SecretName::No;
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
        assert!(denies.hidden(Path::new("/proc/cpuinfo"), workspace).is_none());
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
        let is_hidden =
            |path: &str| denies.secret_entry(Path::new(path), workspace) != SecretName::No;
        assert!(is_hidden("/s") && is_hidden("/s/a/b") && !is_hidden("/s2"));
        assert!(denies.denies(&Effect::Delete(at("/w")), workspace).is_some());
        assert!(denies.denies(&Effect::Delete(at("/w/p/a")), workspace).is_none());
        assert!(denies.denies(&Effect::Write(at("/")), workspace).is_some());
    }
}
