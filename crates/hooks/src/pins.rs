//! The files of a workspace that a hook's command names: they are trusted as they are, and looked at again before each run.

use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use windlass_core::{ContentHash, FileKind, Files, Fingerprint, quote};

use super::HookCommand;

/// A larger file is no script.
const LARGEST: u64 = 4 << 20;

/// A place in the workspace and what was there when a person trusted it.
///
/// ```
/// use windlass_core::ContentHash;
/// use windlass_hooks::Pin;
/// let pin = Pin { path: "check.sh".into(), hash: Some(ContentHash::of(b"exit 0\n")) };
/// assert_ne!(pin, Pin { path: "check.sh".into(), hash: None }, "another thing is a place where nothing was");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// What was in the file; `None` if there was none.
    pub hash: Option<ContentHash>,
}

impl Pin {
    /// What is there now, and its text.
    pub fn take(files: &dyn Files, path: &Path) -> Result<(Self, Vec<u8>), String> {
        let held = Held::open(files, path)?;
        let hash = held.as_ref().map(|held| ContentHash::of(&held.bytes));
        let bytes = held.map(|held| held.bytes).unwrap_or_default();
        Ok((Self { path: path.to_owned(), hash }, bytes))
    }

    /// Makes sure that what is there is what was trusted, and takes hold of it.
    pub(super) fn hold(&self, files: &dyn Files) -> Result<Option<Held>, String> {
        let held = Held::open(files, &self.path)?;
        if held.as_ref().map(|held| ContentHash::of(&held.bytes)) == self.hash {
            return Ok(held);
        }
        Err(changed(&self.path))
    }

    /// Makes sure that it stayed so.
    pub(super) fn still(&self, files: &dyn Files, held: Option<&Held>) -> Result<(), String> {
        let now = Held::open(files, &self.path)?;
        let is_same = match (held, &now) {
            (None, None) => true,
            (Some(held), Some(now)) => held.fingerprint == now.fingerprint,
            _ => false,
        };
        if is_same { Ok(()) } else { Err(changed(&self.path)) }
    }
}

fn changed(path: &Path) -> String {
    let path = quote::path(path);
    format!("{path} is not what was trusted; `windlass trust` shows and allows what is there now")
}

/// A file that was opened, and what was read from it.
pub(super) struct Held {
    bytes: Vec<u8>,
    fingerprint: Fingerprint,
}

impl Held {
    /// `None` if there is no file of that name.
    fn open(files: &dyn Files, path: &Path) -> Result<Option<Self>, String> {
        let at = files.resolve(path).map_err(|error| error.to_string())?;
        if !at.exists {
            return Ok(None);
        }
        if at.inside.is_none() {
            return Err(format!("{} leads out of the workspace", quote::path(path)));
        }
        // Nothing but a file is opened: a pipe would keep us waiting.
        let stat = files.stat(&at).map_err(|error| error.to_string())?;
        match stat.kind {
            FileKind::File => {}
            FileKind::Directory => return Ok(None),
            kind => return Err(format!("{} is {kind}", quote::path(path))),
        }
        let open = files.open(&at).map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        let read = (&open.file).take(LARGEST + 1).read_to_end(&mut bytes);
        read.map_err(|error| format!("cannot read {}: {error}", quote::path(path)))?;
        if bytes.len() as u64 > LARGEST {
            return Err(format!("{} is larger than {} MiB", quote::path(path), LARGEST >> 20));
        }
        Ok(Some(Self { bytes, fingerprint: open.stat.fingerprint }))
    }
}

/// The places in the workspace that a command names, be something there or not: relative to it, each once.
///
/// ```
/// use windlass_hooks::{HookCommand, named_files};
/// let command = HookCommand::Shell(r#"python3 "$CLAUDE_PROJECT_DIR"/.claude/check.py --fast"#.into());
/// assert_eq!(named_files(&command, "/w".as_ref()), [std::path::Path::new(".claude/check.py")]);
/// ```
pub fn named_files(command: &HookCommand, workspace: &Path) -> Vec<PathBuf> {
    let words: Vec<String> = match command {
        HookCommand::Words(words) => words.clone(),
        HookCommand::Shell(text) => words_of(text),
    };
    let mut named = Vec::new();
    for (at, word) in words.iter().enumerate() {
        // A program without a slash in its name is never looked for in the workspace.
        let is_program = at == 0 && !word.contains('/');
        if is_program || word.starts_with('-') || word.is_empty() {
            continue;
        }
        if let Some(path) = inside(word, workspace)
            && !named.contains(&path)
        {
            named.push(path);
        }
    }
    named
}

/// The words of a shell text, roughly: quotes and operators are taken away, what stands for the workspace is put in. Too many words
/// do no harm.
fn words_of(text: &str) -> Vec<String> {
    let text = text.replace(['"', '\'', '\\'], "");
    let text = ["${CLAUDE_PROJECT_DIR}/", "$CLAUDE_PROJECT_DIR/", "${PWD}/", "$PWD/"]
        .iter()
        .fold(text, |text, variable| text.replace(variable, "./"));
    text.split(|c: char| c.is_whitespace() || ";&|()<>`=$".contains(c))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A word as a place in the workspace.
pub(super) fn inside(word: &str, workspace: &Path) -> Option<PathBuf> {
    let path = windlass_core::normalize(&workspace.join(word));
    let inside = path.strip_prefix(workspace).ok()?;
    let is_plain = inside.components().all(|part| matches!(part, Component::Normal(_)));
    (is_plain && !inside.as_os_str().is_empty()).then(|| inside.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_names() {
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
