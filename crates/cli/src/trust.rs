//! Which workspaces a person trusts: by the content of everything in them that could act, not by their names.
//!
//! Until a workspace is trusted, neither its configuration nor its command tools are even parsed. A change of one byte, a file more
//! or a file less asks for trust again.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use windlass::CommandFile;
use windlass_core::quote;

/// What a workspace says about how we work.
const CONFIG: &str = ".windlass/config.toml";
/// A larger file is no configuration.
const LARGEST: u64 = 1 << 20;
/// Where its command tools are.
const TOOLS: &str = ".windlass/tools";

/// What a file that could act is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Config,
    CommandTool,
}

/// A file that could act, and what is in it.
pub(crate) struct Acting {
    pub(crate) role: Role,
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Acting {
    /// As a file that may be a tool.
    pub(crate) fn into_command_file(self) -> CommandFile {
        CommandFile { path: self.path, text: self.text }
    }
}

/// Everything in a workspace that could act, and what is to be said of what could not be read.
pub(crate) fn acting(workspace: &Path) -> (Vec<Acting>, Vec<String>) {
    let mut found = Vec::new();
    let path = workspace.join(CONFIG);
    let (tools, mut warnings) = windlass::command_files(&workspace.join(TOOLS));
    match read(&path) {
        Ok(text) => found.push(Acting { role: Role::Config, path, text }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        // What a workspace has there is no reason not to work in it.
        Err(error) => warnings.push(format!("cannot read {}: {error}", quote::path(&path))),
    }
    let tool = |CommandFile { path, text }| Acting { role: Role::CommandTool, path, text };
    found.extend(tools.into_iter().map(tool));
    (found, warnings)
}

/// A file of moderate size. A pipe would keep us waiting for whoever writes to it, a device for ever.
fn read(path: &Path) -> std::io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a file"));
    }
    let mut text = String::new();
    std::fs::File::open(path)?.take(LARGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(std::io::Error::other(format!("it is larger than {} KiB", LARGEST >> 10)));
    }
    Ok(text)
}

/// Whether a person has trusted exactly this.
pub(crate) fn is_trusted(state: &Path, workspace: &Path, acting: &[Acting]) -> bool {
    load(state).get(&workspace.to_string_lossy().into_owned()) == Some(&fingerprint(acting))
}

/// Remembers that a person trusts exactly this.
pub(crate) fn trust(state: &Path, workspace: &Path, acting: &[Acting]) -> Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(state)
        .with_context(|| format!("cannot create {}", state.display()))?;
    // One writer at a time: two commands that trust two workspaces both count.
    let lock = std::fs::File::create(state.join("trust.lock"))
        .context("cannot create the lock of the trust file")?;
    lock.lock().context("cannot lock the trust file")?;
    let mut known = load(state);
    known.insert(workspace.to_string_lossy().into_owned(), fingerprint(acting));
    let path = state.join("trust.json");
    let new = state.join("trust.json.new");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(serde_json::to_string_pretty(&known)?.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, &path).with_context(|| format!("cannot write {}", path.display()))
}

/// What is trusted so far. A file that cannot be understood trusts nothing.
fn load(state: &Path) -> BTreeMap<String, String> {
    std::fs::read_to_string(state.join("trust.json"))
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default()
}

fn fingerprint(acting: &[Acting]) -> String {
    let mut hasher = blake3::Hasher::new();
    for file in acting {
        for part in [file.path.as_os_str().as_encoded_bytes(), file.text.as_bytes()] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_for_the_very_content() {
        let folder = tempfile::tempdir().expect("a folder");
        let (state, workspace) = (folder.path().join("state"), folder.path().join("w"));
        std::fs::create_dir_all(workspace.join(".windlass")).expect("a folder");
        let acting = |workspace: &Path| acting(workspace).0;
        std::fs::write(workspace.join(".windlass/config.toml"), "mode = \"plan\"").expect("a file");
        let before = acting(&workspace);
        assert_eq!(before.len(), 1);
        assert!(!is_trusted(&state, &workspace, &before));
        trust(&state, &workspace, &before).expect("trusted");
        assert!(is_trusted(&state, &workspace, &before));
        assert!(!is_trusted(&state, folder.path(), &before));
        std::fs::write(workspace.join(".windlass/config.toml"), "mode = \"deny\"").expect("a file");
        assert!(!is_trusted(&state, &workspace, &acting(&workspace)));
        std::fs::write(workspace.join(".windlass/config.toml"), "mode = \"plan\"").expect("a file");
        assert!(is_trusted(&state, &workspace, &acting(&workspace)));
        std::fs::create_dir(workspace.join(TOOLS)).expect("a folder");
        let tool = workspace.join(TOOLS).join("a.md");
        for content in ["one", "two"] {
            std::fs::write(&tool, content).expect("a file");
            let with_tool = acting(&workspace);
            assert_eq!(with_tool.len(), 2);
            assert!(!is_trusted(&state, &workspace, &with_tool), "{content}");
            trust(&state, &workspace, &with_tool).expect("trusted");
            assert!(is_trusted(&state, &workspace, &with_tool));
        }
        std::fs::rename(&tool, workspace.join(TOOLS).join("b.md")).expect("renamed");
        assert!(!is_trusted(&state, &workspace, &acting(&workspace)), "another name");
        std::fs::remove_dir_all(workspace.join(TOOLS)).expect("removed");
        assert!(!is_trusted(&state, &workspace, &acting(&workspace)), "one less");
        trust(&state, &workspace, &before).expect("trusted");
        std::fs::write(state.join("trust.json"), "garbage").expect("a file");
        assert!(!is_trusted(&state, &workspace, &before));
    }
}
