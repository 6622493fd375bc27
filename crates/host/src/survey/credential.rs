//! Detects credentials in configuration files of npm and similar package managers.
//!
//! Most `.npmrc` files of projects only name a registry, and installing packages fails if they are masked. A file that cannot be
//! read, or is too large, counts as one that holds a credential.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use windlass_core::FileKind;

use crate::inputs::InputState;
use crate::kernel::{FOR_READING, open_child, stat};

/// Maximum bytes that are read. A larger file counts as one that holds a credential.
const MAX_BYTES: u64 = 1 << 20;

/// Endings of setting names that hold a credential, in lower case.
const SECRET_SETTINGS: [&str; 6] =
    ["_auth", "authtoken", "authident", "password", "secret", "_token"];

/// Reads the file `name` of a directory. Returns whether it holds a credential, and its state at that time.
pub(super) fn read(directory: BorrowedFd<'_>, name: &OsStr) -> (bool, InputState) {
    let file = match open_child(directory, name, FOR_READING) {
        Ok(file) => file,
        // The file was removed or became a link meanwhile: then the directory changed too and is listed again.
        Err(Errno::NOENT | Errno::LOOP) => return (false, InputState::Named(None)),
        Err(_) => return (true, InputState::Unknown),
    };
    let Ok(found) = stat(&file) else { return (true, InputState::Unknown) };
    if found.kind != FileKind::File {
        return (false, InputState::Named(None));
    }
    let state = InputState::Named(Some(found.fingerprint));
    if found.len > MAX_BYTES {
        return (true, state);
    }
    let mut bytes = Vec::new();
    match std::fs::File::from(file).take(MAX_BYTES).read_to_end(&mut bytes) {
        Ok(_) => (has_credential(&String::from_utf8_lossy(&bytes)), state),
        Err(_) => (true, InputState::Unknown),
    }
}

/// Returns whether any line of a file sets a credential.
fn has_credential(text: &str) -> bool {
    text.lines().any(is_credential)
}

/// Returns whether one line sets a credential, or an address with a password in it.
fn is_credential(line: &str) -> bool {
    let line = line.trim();
    if line.starts_with(['#', ';']) {
        return false;
    }
    let Some((name, value)) = line.split_once('=').or_else(|| line.split_once(": ")) else {
        return line.contains("-----BEGIN ") && line.contains("PRIVATE KEY");
    };
    let value = value.trim().trim_matches(['"', '\'']);
    // npm writes the registry before the setting (`//HOST/:_authToken`), and `[]` after a list.
    let name = name.trim().trim_matches(['"', '\'']).trim_end_matches("[]");
    let name = name.rsplit(':').next().unwrap_or(name).to_ascii_lowercase();
    let is_secret = SECRET_SETTINGS.iter().any(|known| name.ends_with(known));
    if is_secret || name == "key" {
        return !value.is_empty() && !is_reference(value);
    }
    password_in_address(value).is_some_and(|password| !is_reference(password))
        || value.contains("PRIVATE KEY")
}

/// Returns whether a value is only a reference to an environment variable.
fn is_reference(value: &str) -> bool {
    let Some(inside) = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) else {
        return false;
    };
    let name = inside.strip_suffix('?').unwrap_or(inside);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns the password before the host of an address, or the user name if there is no password.
fn password_in_address(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    let password = user.split_once(':').map_or(user, |(_, password)| password);
    (!password.is_empty()).then_some(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_told_from_settings() {
        let cases = [
            ("", false),
            ("registry=https://registry.example/", false),
            ("always-auth=true", false),
            ("//registry.example/:_authToken=npm_abc", true),
            ("//registry.example/:_authToken = \"npm_abc\"", true),
            ("//registry.example/:_authToken=${NPM_TOKEN}", false),
            ("//registry.example/:_authToken=${NPM_TOKEN?}", false),
            ("//registry.example/:_authToken=a${NPM_TOKEN}", true),
            ("//registry.example/:_authToken=${A}${B}", true),
            ("//registry.example/:_authToken=", false),
            ("; //registry.example/:_authToken=npm_abc", false),
            ("# _auth=abc", false),
            ("save-exact=true\r\n_auth=abc\r\n", true),
            ("_PASSWORD=abc", true),
            ("npmAuthToken: abc", true),
            ("registry=https://me:pass@registry.example/", true),
            ("registry=https://token@registry.example/", true),
            ("proxy=http://me:${PROXY_PASSWORD}@proxy.example", false),
            ("registry=https://registry.example/a@b", false),
            ("key=\"-----BEGIN PRIVATE KEY-----\\nabc\"", true),
            ("-----BEGIN RSA PRIVATE KEY-----", true),
            ("keyfile=/etc/key.pem", false),
        ];
        for (text, expected) in cases {
            assert_eq!(has_credential(text), expected, "{text}");
        }
    }
}
