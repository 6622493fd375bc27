//! Collects the hooks in force: the person's own first, then those of the workspace, if a person trusts it.

use std::io;
use std::path::Path;

use windlass::hooks::{HookDefinition, HookFile, HookShape};
use windlass::tool::Author;

use crate::config::{Config, ConfigError};
use crate::trust::{self, Trusted};

/// Reads `hooks.json` in the person's own configuration directory, if it exists.
pub(crate) fn read_personal(directory: &Path) -> Result<Option<HookFile>, ConfigError> {
    let path = directory.join("hooks.json");
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let shape = HookShape::Windlass;
            Ok(Some(HookFile { path, text, author: Author::Person, shape }))
        }
        Err(error) if is_absent(&error) => Ok(None),
        Err(source) => Err(ConfigError::Unreadable { path, source }),
    }
}

/// Returns whether the error only means that the file does not exist.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Reads the hooks of all files in order. Adds the warnings about them to the configuration.
pub(crate) fn read_all(
    config: &mut Config,
    workspace: &Path,
    trusted: Option<&Trusted>,
) -> Vec<HookDefinition> {
    let files = std::mem::take(&mut config.hook_files);
    let mut hooks = Vec::new();
    // A file of `--config` comes after the workspace's, but its author is the person, and hooks of the person come first.
    for author in [Author::Person, Author::Workspace] {
        for file in files.iter().filter(|file| file.author == author) {
            let (mut read, warnings) = file.read();
            config.warn(warnings);
            if let (Author::Workspace, Some(trusted)) = (author, trusted) {
                refuse_or_drop_unpinnable(config, trusted, file, &mut read);
            }
            if author == Author::Workspace && config.only_gates {
                // If every call is denied, no gate needs to run.
                read.retain(|hook| hook.can_refuse() && config.closed.is_none());
            }
            hooks.append(&mut read);
        }
    }
    for hook in &mut hooks {
        trust::pin_hook(hook, workspace, trusted);
    }
    hooks
}

/// Makes each gate that cannot be pinned refuse everything, and drops any other hook that cannot be pinned.
fn refuse_or_drop_unpinnable(
    config: &mut Config,
    trusted: &Trusted,
    file: &HookFile,
    hooks: &mut Vec<HookDefinition>,
) {
    let all = std::mem::take(hooks).into_iter().enumerate();
    hooks.extend(all.filter_map(|(at, mut hook)| {
        let Some(refusal) = trusted.refusal(&file.path, at) else { return Some(hook) };
        if hook.can_refuse() {
            hook.unusable = Some(refusal.to_string());
            return Some(hook);
        }
        let (name, why) = (&hook.name, &refusal.why);
        config.warn([format!("the hook {name} does not run, it cannot be pinned: {why}")]);
        None
    }));
}
