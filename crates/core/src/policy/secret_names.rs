//! The table of names that mark a file or directory as secret.
//!
//! Every entry of a walk is compared with it, so it works on bytes and allocates nothing. Names compare without case: on some file systems
//! `ID_RSA` is `id_rsa`. Build directories and the system contain many certificates with the endings of keys; those endings count only
//! outside of them.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// Secrecy of a file as far as its name tells.
///
/// ```
/// use windlass_core::{HardDenies, SecretName};
/// let name = |path: &str| HardDenies::default().secret_name(path.as_ref(), "/w".as_ref());
/// assert_eq!(name("/w/README.md"), SecretName::No);
/// assert!(matches!(name("/w/.env"), SecretName::Yes(_)));
/// assert!(matches!(name("/w/.npmrc"), SecretName::IfCredential(_)), "most hold only settings");
/// assert!(matches!(name("/home/ada/.npmrc"), SecretName::Yes(_)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretName {
    /// It is not secret.
    No,
    /// It is secret, for this reason.
    Yes(&'static str),
    /// It is secret if [`holds_credential`](crate::holds_credential) returns true for its content.
    IfCredential(&'static str),
}

impl SecretName {
    /// Returns the reason to hide the file. A name that may be secret depending on its content counts as secret.
    pub(super) fn reason(self) -> Option<&'static str> {
        match self {
            Self::Yes(reason) | Self::IfCredential(reason) => Some(reason),
            Self::No => None,
        }
    }
}

/// Names of directories that builds and package managers fill.
pub const PASS_THROUGH: [&str; 14] = [
    "target",
    "node_modules",
    ".venv",
    "venv",
    "dist",
    "build",
    "__pycache__",
    ".tox",
    ".gradle",
    ".next",
    ".cache",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
];

/// Directories of installed packages beside [`PASS_THROUGH`], as their last one or two components.
const INSTALLED_PACKAGES: &[(&str, &str)] = &[("", "site-packages"), ("vendor", "bundle")];

/// Directories in which the system and its package managers keep certificates.
const SYSTEM_CERTIFICATES: &[&str] = &[
    "/usr",
    "/etc/ssl/certs",
    "/etc/pki",
    "/etc/ca-certificates",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix",
    "/snap",
    "/gnu/store",
    "/var/lib/ca-certificates",
];

/// Directories whose content is secret, wherever they are.
const SECRET_DIRECTORIES: &[&[u8]] =
    &[b".ssh", b".aws", b".gnupg", b".azure", b".kube", b".password-store", b"keyrings", b"gcloud"];

/// Files of credentials.
const CREDENTIAL_FILES: &[&[u8]] = &[
    b".netrc",
    b"_netrc",
    b".git-credentials",
    b".pgpass",
    b".pypirc",
    b".htpasswd",
    b".vault-token",
    b"credentials.json",
    b"login.keychain-db",
];

/// Endings of key files and key stores.
const KEY_ENDINGS: &[&[u8]] =
    &[b".pem", b".key", b".p12", b".pfx", b".jks", b".keystore", b".kdbx", b".ppk", b".keychain"];

/// Prefixes of the names that `ssh-keygen` gives to private keys.
const KEY_PREFIXES: &[&[u8]] =
    &[b"id_rsa", b"id_dsa", b"id_ecdsa", b"id_ed25519", b"id_ed448", b"id_xmss"];

/// Extensions of source code: `id_rsa.rs` implements RSA.
const CODE_EXTENSIONS: &[&[u8]] = &[
    b"rs", b"go", b"py", b"pyi", b"js", b"jsx", b"mjs", b"cjs", b"ts", b"tsx", b"c", b"h", b"cc",
    b"cpp", b"cxx", b"hh", b"hpp", b"m", b"mm", b"java", b"kt", b"kts", b"scala", b"swift", b"rb",
    b"php", b"cs", b"fs", b"ml", b"mli", b"hs", b"ex", b"exs", b"erl", b"lua", b"pl", b"pm",
    b"zig", b"nim", b"dart", b"jl", b"clj", b"el", b"sh", b"s", b"asm", b"proto", b"html", b"css",
    b"vue", b"svelte",
];

/// Last parts of `.env` names that hold no values.
const ENV_EXAMPLES: &[&[u8]] = &[b"example", b"sample", b"template", b"dist", b"defaults"];

/// Endings that editors and people give to copies.
const COPY_ENDINGS: &[&[u8]] =
    &[b"~", b".bak", b".backup", b".orig", b".save", b".saved", b".old", b".copy", b".tmp"];

/// Maximum number of backup endings that are removed from a name to find the original (`a.bak.1~`).
const MAX_COPY_ENDINGS: usize = 4;

/// Reason for files that hold a credential only sometimes.
const CREDENTIALS_REASON: &str = "a file of credentials";
/// Reason for files that hold values of secrets.
const SECRETS_REASON: &str = "a file of secrets";
/// Reason for private keys.
const KEY_REASON: &str = "a private key";
/// Reason for directories that hold secrets.
const STORE_REASON: &str = "a store of secrets";

/// Returns whether a hard deny for this reason depends on the name alone, so that `not_secret` lifts it.
pub(super) fn is_by_name(reason: &str) -> bool {
    [CREDENTIALS_REASON, SECRETS_REASON, KEY_REASON, STORE_REASON].contains(&reason)
}

/// Returns the secrecy of a path by its last component, and for some names by its location.
pub(super) fn classify_entry(path: &Path, workspace: &Path) -> SecretName {
    let bytes = path.as_os_str().as_bytes();
    let name = bytes.rsplit(|byte| *byte == b'/').next().unwrap_or(bytes);
    match classify_name(name) {
        NameClass::Open => secret_directory_reason(name).map_or(SecretName::No, SecretName::Yes),
        NameClass::Secret(reason) => SecretName::Yes(reason),
        NameClass::Key if may_hold_certificates(path, workspace) => SecretName::No,
        NameClass::Key => SecretName::Yes(KEY_REASON),
        NameClass::Settings if path.starts_with(workspace) => {
            SecretName::IfCredential(CREDENTIALS_REASON)
        }
        NameClass::Settings => SecretName::Yes(CREDENTIALS_REASON),
    }
}

/// Returns the same, also taking the directories of the path into account.
pub(super) fn classify_path(path: &Path, workspace: &Path) -> SecretName {
    let mut above = path.as_os_str().as_bytes().rsplit(|byte| *byte == b'/').skip(1);
    match above.find_map(secret_directory_reason) {
        Some(reason) => SecretName::Yes(reason),
        None => classify_entry(path, workspace),
    }
}

/// Returns whether the text of an `.npmrc` holds a credential. A value that is only `${VARIABLE}` is none.
///
/// ```
/// use windlass_core::holds_credential;
/// assert!(!holds_credential(b"registry=https://registry.example/\n//r.example/:_authToken=${TOKEN}\n"));
/// assert!(holds_credential(b"//r.example/:_authToken=abc\n"));
/// ```
pub fn holds_credential(text: &[u8]) -> bool {
    match std::str::from_utf8(text) {
        Ok(text) => text.split(['\n', '\r']).any(line_holds_credential),
        Err(_) => true,
    }
}

/// Returns whether a line holds a credential, also if it is commented out.
fn line_holds_credential(line: &str) -> bool {
    let line = line.trim_start_matches(|c: char| c.is_whitespace() || c == '#' || c == ';');
    let Some((key, value)) = line.split_once('=') else { return false };
    let value = value.trim().trim_matches(['"', '\'']).trim();
    if value.is_empty() || is_variable(value) {
        return false;
    }
    let key = key.trim().trim_matches(['"', '\'']).to_ascii_lowercase();
    let key = key.trim_end_matches("[]");
    let last = key.rsplit(':').next().unwrap_or(key);
    let is_credential = ["_authtoken", "_auth", "password"].iter().any(|end| last.ends_with(end))
        || ["key", "cert", "token", "otp"].contains(&last);
    is_credential || has_login(value)
}

/// Returns whether a value is `${NAME}`, also with npm's marks for names that may be missing.
fn is_variable(value: &str) -> bool {
    let name = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| {
        let name = name.trim_end_matches(['?', '-']);
        !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
    })
}

/// Returns whether a value is a URL with a password: `https://user:password@host/`.
fn has_login(value: &str) -> bool {
    let rest = value.split_once("://").map_or("", |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or(rest);
    let password = authority.rsplit_once('@').and_then(|(login, _)| login.split_once(':'));
    password.is_some_and(|(_, password)| !password.is_empty() && !is_variable(password))
}

/// Class of a file name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameClass {
    /// Not secret.
    Open,
    /// Secret, for this reason.
    Secret(&'static str),
    /// A key or certificate by its ending: the location decides.
    Key,
    /// Settings that may include a credential: the content decides.
    Settings,
}

/// Returns the class of a name. A backup has the class of its original.
fn classify_name(name: &[u8]) -> NameClass {
    let (mut class, mut copy) = (NameClass::Open, name);
    for _ in 0..MAX_COPY_ENDINGS {
        if class == NameClass::Open {
            class = classify_original(copy);
        }
        match original_of_copy(copy) {
            Some(inner) => copy = inner,
            None => break,
        }
    }
    if is_public(copy) { NameClass::Open } else { class }
}

/// Returns the class of a name without looking for backup endings.
fn classify_original(name: &[u8]) -> NameClass {
    match name.first() {
        Some(b'.') if env_rest(name).is_some() => return NameClass::Secret(SECRETS_REASON),
        Some(b'i' | b'I') if is_ssh_key(name) => return NameClass::Secret(KEY_REASON),
        None => return NameClass::Open,
        _ => {}
    }
    let is = |known: &&[u8]| name.eq_ignore_ascii_case(known);
    if KEY_ENDINGS.iter().any(|ending| without_ending(name, ending).is_some()) {
        NameClass::Key
    } else if CREDENTIAL_FILES.iter().any(is) {
        NameClass::Secret(CREDENTIALS_REASON)
    } else if is(&&b".npmrc"[..]) {
        NameClass::Settings
    } else {
        NameClass::Open
    }
}

/// Returns whether a name is that of a public key or of an example of an `.env` file, which are meant to be read.
fn is_public(name: &[u8]) -> bool {
    let is_example = |rest: &[u8]| {
        let last = rest.rsplit(|c| matches!(c, b'.' | b'-' | b'_')).next().unwrap_or(rest);
        ENV_EXAMPLES.iter().any(|known| last.eq_ignore_ascii_case(known))
    };
    env_rest(name).is_some_and(is_example)
        || (has_prefix(name, b"id_") && without_ending(name, b".pub").is_some())
}

/// Returns the part after `.env` of the name of an `.env` file.
fn env_rest(name: &[u8]) -> Option<&[u8]> {
    let rest = if has_prefix(name, b".env") { name.get(4..)? } else { return None };
    matches!(rest.first(), None | Some(b'.' | b'-' | b'_')).then_some(rest)
}

/// Returns whether a name is that of a private key of ssh.
fn is_ssh_key(name: &[u8]) -> bool {
    let extension = name.rsplit(|c| *c == b'.').next().unwrap_or(name);
    KEY_PREFIXES.iter().any(|known| has_prefix(name, known))
        && !CODE_EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// Returns the name of the original of a backup or an editor's file, or `None` if it is neither.
fn original_of_copy(name: &[u8]) -> Option<&[u8]> {
    match name {
        [b'#', inner @ .., b'#'] | [b'.', b'#', inner @ ..] if !inner.is_empty() => {
            return Some(inner);
        }
        // vim: `.NAME.swp`, then `.swo` and so on; without the dot where the name has one of its own.
        [inner @ .., b'.', b's' | b'S', b'w' | b'W', c] if c.is_ascii_alphabetic() => {
            let is_plain = classify_original(inner) == NameClass::Open && !is_public(inner);
            return Some(inner.strip_prefix(b".").filter(|_| is_plain).unwrap_or(inner));
        }
        _ => {}
    }
    let ending = COPY_ENDINGS.iter().find_map(|ending| without_ending(name, ending));
    ending.or_else(|| {
        let dot = name.iter().rposition(|c| *c == b'.')?;
        let number = name.get(dot + 1..).filter(|number| !number.is_empty())?;
        let is_number = number.iter().all(|c| c.is_ascii_digit() || *c == b'~');
        name.get(..dot).filter(|rest| is_number && !rest.is_empty())
    })
}

/// Returns the reason if this is the name of a directory with secrets.
fn secret_directory_reason(name: &[u8]) -> Option<&'static str> {
    SECRET_DIRECTORIES.iter().any(|known| name.eq_ignore_ascii_case(known)).then_some(STORE_REASON)
}

/// Returns whether a path is below a build directory or where the system keeps certificates. The workspace may itself be below such a
/// directory, which does not count for its own files.
fn may_hold_certificates(path: &Path, workspace: &Path) -> bool {
    let inside = path.strip_prefix(workspace).ok();
    let is_private = || path.components().any(|part| part.as_os_str() == "private");
    if inside.is_none() && SYSTEM_CERTIFICATES.iter().any(|system| path.starts_with(system)) {
        return !is_private();
    }
    let Some(parent) = inside.unwrap_or(path).parent() else { return false };
    let mut last = "";
    parent.components().any(|part| {
        let Component::Normal(name) = part else { return false };
        let name = name.to_str().unwrap_or("");
        let is_installed =
            |(above, known): &(&str, &str)| name == *known && (above.is_empty() || *above == last);
        let is_built = PASS_THROUGH.contains(&name) || INSTALLED_PACKAGES.iter().any(is_installed);
        last = name;
        is_built
    })
}

/// Returns whether a name begins with a text, ignoring case.
fn has_prefix(name: &[u8], known: &[u8]) -> bool {
    name.get(..known.len()).is_some_and(|head| head.eq_ignore_ascii_case(known))
}

/// Returns the part before an ending, if the name has it.
fn without_ending<'n>(name: &'n [u8], ending: &[u8]) -> Option<&'n [u8]> {
    let (head, tail) = name.split_at_checked(name.len().checked_sub(ending.len())?)?;
    (!head.is_empty() && tail.eq_ignore_ascii_case(ending)).then_some(head)
}

#[cfg(test)]
mod tests;
