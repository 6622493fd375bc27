//! Finds the credentials in a toolchain's directory.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::table::ToolchainRow;

/// Maximum entries of a directory that are compared with a `*`.
const MAX_ENTRIES: usize = 256;

/// Maximum bytes of a configuration file that is searched; a larger one is masked unread.
const MAX_SUSPECT_BYTES: u64 = 256 * 1024;

/// Words that stand beside credentials in configuration files, in lower case.
const WORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "token",
    "secret",
    "credential",
    "apikey",
    "api_key",
    "api-key",
    "_auth",
    "privatekey",
    "private_key",
    "private key",
    "authorization",
    "/t/",
];

/// Beginnings of comment lines in most configuration files.
const COMMENTS: &[&str] = &["#", ";", "--"];

/// Returns the paths in `directory` that hold credentials of the row's toolchain. Paths with a fixed name need not exist: a program could
/// otherwise see them appear.
pub(super) fn masked(directory: &Path, row: &ToolchainRow) -> Vec<PathBuf> {
    let mut masked = Vec::new();
    for credential in row.credentials {
        if credential.contains('*') {
            masked.extend(expand(directory, credential));
        } else {
            masked.push(credential.into());
        }
    }
    for suspect in row.suspects {
        for name in expand(directory, suspect) {
            masked.extend(secret_files(directory, name));
        }
    }
    masked
}

/// Returns the existing paths below `directory` that match a pattern. A `*` stands for any part of one name.
pub(super) fn expand(directory: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.split('/') {
        found = match part.split_once('*') {
            None => found.into_iter().map(|path| path.join(part)).collect(),
            Some((start, end)) => {
                let list = |path: PathBuf| matching(&directory.join(&path), &path, start, end);
                found.into_iter().flat_map(list).collect()
            }
        };
    }
    found.retain(|path| directory.join(path).symlink_metadata().is_ok());
    found
}

/// Returns the entries of a directory whose names begin and end with these texts.
fn matching(directory: &Path, inside: &Path, start: &str, end: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let names = entries.take(MAX_ENTRIES).flatten().map(|entry| entry.file_name());
    let is_match = |name: &&str| name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end));
    let mut paths: Vec<PathBuf> = names
        .filter(|name| name.to_str().as_ref().is_some_and(is_match))
        .map(|name| inside.join(name))
        .collect();
    paths.sort();
    paths
}

/// Returns the path itself or, for a directory, the files in it, if they hold credentials.
fn secret_files(directory: &Path, name: PathBuf) -> Vec<PathBuf> {
    let path = directory.join(&name);
    if !path.is_dir() {
        return if holds_secret(&path) { vec![name] } else { Vec::new() };
    }
    let mut files = matching(&path, &name, "", "");
    // With more files than are searched, all of them may hold some.
    if files.len() >= MAX_ENTRIES {
        return vec![name];
    }
    files.retain(|file| {
        let path = directory.join(file);
        !path.is_dir() && holds_secret(&path)
    });
    files
}

/// Returns whether a file seems to hold a credential, or cannot be read.
fn holds_secret(path: &Path) -> bool {
    let mut bytes = Vec::new();
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    let read = |file: File| file.take(MAX_SUSPECT_BYTES + 1).read_to_end(&mut bytes);
    match is_file.then(|| File::open(path).and_then(read)) {
        Some(Ok(length)) if length as u64 <= MAX_SUSPECT_BYTES => is_secret(&bytes),
        _ => true,
    }
}

/// Returns whether a text seems to hold a credential.
fn is_secret(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    text.lines().map(str::trim).any(|line| {
        let is_comment = COMMENTS.iter().any(|start| line.starts_with(start));
        !is_comment && (WORDS.iter().any(|word| line.contains(word)) || has_user_in_url(line))
    })
}

/// Returns whether a line has a URL with a user: `https://user:password@host`.
fn has_user_in_url(line: &str) -> bool {
    line.split("://").skip(1).any(|rest| {
        let end = |c: char| c == '/' || c == '"' || c == '\'' || c == '<' || c.is_whitespace();
        rest.split(end).next().is_some_and(|authority| authority.contains('@'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_distinguished_from_settings() {
        for (text, expected) in [
            ("", false),
            ("[global]\nindex-url = https://mirror.example/simple\n", false),
            ("[global]\nindex-url = https://user:word@mirror.example/simple\n", true),
            ("index-url = https://mirror.example/@scope/simple", false),
            ("<server><id>x</id><passWord>y</passWord></server>", true),
            ("<mirror><url>https://mirror.example</url></mirror>", false),
            ("org.gradle.parallel=true\norg.gradle.jvmargs=-Xmx2g\n", false),
            ("org.gradle.parallel=true\nossrhPassword=x\n", true),
            ("# registry token = none\n-- password:\n; secret\n", false),
            ("channels:\n  - https://conda.example/t/ab-123/get\n", true),
            ("<packageSourceCredentials>", true),
            ("//registry.example/:_authToken=x", true),
        ] {
            assert_eq!(is_secret(text.as_bytes()), expected, "{text}");
        }
        assert!(!is_secret(b"\xff\xfe"));
    }
}
