//! The hooks in force: the person's own first, then those of the workspace, if a person trusts it.

use std::io;
use std::path::Path;

use windlass::hooks::{HookDefinition, HookFile, HookShape};
use windlass::tool::Author;

use crate::config::{Config, ConfigError};
use crate::trust::{self, Trusted};

/// Reads the file of nothing but hooks in the person's own configuration directory, if there is one.
pub(crate) fn own(directory: &Path) -> Result<Option<HookFile>, ConfigError> {
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

/// Tells whether nothing is there, which is no error.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Reads the hooks of all files, in their order. What there is to say of them becomes a warning of the configuration.
pub(crate) fn read(
    config: &mut Config,
    workspace: &Path,
    trusted: Option<&Trusted>,
) -> Vec<HookDefinition> {
    let files = std::mem::take(&mut config.hook_files);
    let mut hooks = Vec::new();
    // A file of --config comes after the workspace's, but it is the person's, and the person comes first.
    for author in [Author::Person, Author::Workspace] {
        for file in files.iter().filter(|file| file.author == author) {
            let (mut read, warnings) = file.read();
            config.warn(warnings);
            if let (Author::Workspace, Some(trusted)) = (author, trusted) {
                leave_out_unaccepted(config, trusted, file, &mut read);
            }
            if author == Author::Workspace && config.only_gates {
                // Where every call is denied, there is nothing to ask a gate.
                read.retain(|hook| hook.can_refuse() && config.closed.is_none());
            }
            hooks.append(&mut read);
        }
    }
    for hook in &mut hooks {
        trust::pin(hook, workspace, trusted);
    }
    hooks
}

/// A gate that cannot be pinned stays a gate, and refuses; any other hook that cannot be pinned is left out.
fn leave_out_unaccepted(
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
