//! Pins: the files of a workspace that a hook reaches, with the hashes that a person trusted. They are checked again before and
//! after each run.

use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use windlass_core::{ContentHash, FileError, FileKind, Files, Fingerprint, quote};

use super::HookCommand;

/// Maximum bytes of a pinned file. A larger file is not a script.
const MAX_PINNED_BYTES: u64 = 4 << 20;

/// Reason why a file cannot be pinned, or no longer matches its pin.
///
/// ```
/// use windlass_hooks::PinError;
/// let error = PinError::Outside { path: "link".into() };
/// assert_eq!(error.to_string(), "link leads out of the workspace");
/// ```
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The file is not the trusted one.
    #[error(
        "{} is not what was trusted; `windlass trust` shows and allows what is there now",
        quote::path(path)
    )]
    Changed {
        /// Path relative to the workspace.
        path: PathBuf,
    },
    /// The path leads out of the workspace.
    #[error("{} leads out of the workspace", quote::path(path))]
    Outside {
        /// Path as it was given.
        path: PathBuf,
    },
    /// The path is neither a file nor a directory.
    #[error("{} is {kind}", quote::path(path))]
    NotAFile {
        /// Path as it was given.
        path: PathBuf,
        /// Kind of the thing at the path.
        kind: FileKind,
    },
    /// The file is too large for a script.
    #[error("{} is larger than {} MiB", quote::path(path), MAX_PINNED_BYTES >> 20)]
    TooLarge {
        /// Path as it was given.
        path: PathBuf,
    },
    /// The content cannot be read.
    #[error("cannot read {}: {error}", quote::path(path))]
    Unreadable {
        /// Path as it was given.
        path: PathBuf,
        /// Error of the read.
        error: std::io::Error,
    },
    /// The path cannot be resolved or opened.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A path in the workspace and the hash of its content when a person trusted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Path relative to the workspace.
    pub path: PathBuf,
    /// Hash of the file's content; `None` if there was no file.
    pub hash: Option<ContentHash>,
}

impl Pin {
    /// Returns the pin of the file as it is now, and its content.
    pub fn take(files: &dyn Files, path: &Path) -> Result<(Self, Vec<u8>), PinError> {
        let held = PinnedContent::open(files, path)?;
        let hash = held.as_ref().map(|held| ContentHash::of(&held.bytes));
        let bytes = held.map(|held| held.bytes).unwrap_or_default();
        Ok((Self { path: path.to_owned(), hash }, bytes))
    }

    /// Checks that the file still has the trusted content, and returns its content.
    pub(super) fn check(&self, files: &dyn Files) -> Result<Option<PinnedContent>, PinError> {
        let held = PinnedContent::open(files, &self.path)?;
        if held.as_ref().map(|held| ContentHash::of(&held.bytes)) == self.hash {
            return Ok(held);
        }
        Err(PinError::Changed { path: self.path.clone() })
    }

    /// Checks that the file did not change since `held` was read.
    pub(super) fn check_unchanged(
        &self,
        files: &dyn Files,
        held: Option<&PinnedContent>,
    ) -> Result<(), PinError> {
        let now = PinnedContent::open(files, &self.path)?;
        let is_same = match (held, &now) {
            (None, None) => true,
            (Some(held), Some(now)) => held.fingerprint == now.fingerprint,
            _ => false,
        };
        if is_same { Ok(()) } else { Err(PinError::Changed { path: self.path.clone() }) }
    }
}

/// Content and fingerprint of an opened file.
pub(super) struct PinnedContent {
    bytes: Vec<u8>,
    fingerprint: Fingerprint,
}

impl PinnedContent {
    /// Reads the file at a path; `None` if there is no regular file.
    fn open(files: &dyn Files, path: &Path) -> Result<Option<Self>, PinError> {
        let at = files.resolve(path)?;
        if !at.exists {
            return Ok(None);
        }
        if at.inside.is_none() {
            return Err(PinError::Outside { path: path.to_owned() });
        }
        // Checked before opening: a named pipe would block us.
        let stat = files.stat(&at)?;
        match stat.kind {
            FileKind::File => {}
            FileKind::Directory => return Ok(None),
            kind => return Err(PinError::NotAFile { path: path.to_owned(), kind }),
        }
        let open = files.open(&at)?;
        let mut bytes = Vec::new();
        let read = (&open.file).take(MAX_PINNED_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| PinError::Unreadable { path: path.to_owned(), error })?;
        if bytes.len() as u64 > MAX_PINNED_BYTES {
            return Err(PinError::TooLarge { path: path.to_owned() });
        }
        Ok(Some(Self { bytes, fingerprint: open.stat.fingerprint }))
    }
}

/// Returns the paths in the workspace that a command names, whether they exist or not: relative to the workspace, each once.
///
/// ```
/// use windlass_hooks::{HookCommand, named_files};
/// let command = HookCommand::Shell(r#"python3 "$CLAUDE_PROJECT_DIR"/.claude/check.py --fast"#.into());
/// assert_eq!(named_files(&command, "/w".as_ref()), [std::path::Path::new(".claude/check.py")]);
/// ```
pub fn named_files(command: &HookCommand, workspace: &Path) -> Vec<PathBuf> {
    let words: Vec<String> = match command {
        HookCommand::Words(words) => words.clone(),
        HookCommand::Shell(text) => shell_words(text),
    };
    let mut named = Vec::new();
    for (at, word) in words.iter().enumerate() {
        // A program name without a slash is never looked up in the workspace.
        let is_program = at == 0 && !word.contains('/');
        if is_program || word.starts_with('-') || word.is_empty() {
            continue;
        }
        if let Some(path) = workspace_relative(word, workspace)
            && !named.contains(&path)
        {
            named.push(path);
        }
    }
    named
}

/// Splits a shell text roughly into words: quotes and operators are removed, and variables for the workspace are replaced by `./`.
/// Extra words do no harm.
fn shell_words(text: &str) -> Vec<String> {
    let text = text.replace(['"', '\'', '\\'], "");
    let text = ["${CLAUDE_PROJECT_DIR}/", "$CLAUDE_PROJECT_DIR/", "${PWD}/", "$PWD/"]
        .iter()
        .fold(text, |text, variable| text.replace(variable, "./"));
    text.split(|c: char| c.is_whitespace() || ";&|()<>`=$".contains(c))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns a word as a path relative to the workspace; `None` if it is not in the workspace.
pub(super) fn workspace_relative(word: &str, workspace: &Path) -> Option<PathBuf> {
    let path = windlass_core::normalize(&workspace.join(word));
    let inside = path.strip_prefix(workspace).ok()?;
    let is_plain = inside.components().all(|part| matches!(part, Component::Normal(_)));
    (is_plain && !inside.as_os_str().is_empty()).then(|| inside.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_named_by_a_command() {
        let workspace = Path::new("/w");
        for (text, named) in [
            ("./check.sh", &["check.sh"][..]),
            ("bash -eu hooks/check.sh a", &["hooks/check.sh", "a"]),
            ("node check.js", &["check.js"]),
            ("check", &[]),
            ("/usr/bin/true && $CLAUDE_PROJECT_DIR/a.py", &["a.py"]),
            ("cat < in; ./b", &["in", "b"]),
            ("/w/x/../y.sh /etc/passwd ../out", &["y.sh"]),
            ("FOO=./c.sh true", &["c.sh", "true"]),
        ] {
            let found = named_files(&HookCommand::Shell(text.into()), workspace);
            let named: Vec<PathBuf> = named.iter().map(PathBuf::from).collect();
            assert_eq!(found, named, "{text}");
        }
        let words = HookCommand::Words(vec!["jq".into(), ".x".into(), "a b.json".into()]);
        assert_eq!(named_files(&words, workspace), [Path::new(".x"), Path::new("a b.json")]);
    }
}
