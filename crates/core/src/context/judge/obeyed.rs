//! Finds paths that other programs act on although their own names do not tell it: a protected link leads to them, or git's
//! configuration names them.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::changes::commit;
use crate::{FileKind, Files, FoundBody, PROTECTED_PLACES, git_config, normalize};

/// Reason for an approval of changes to an obeyed path.
pub(super) const OBEYED_REASON: &str =
    "a file that a protected link or git's configuration leads to";

/// Maximum bytes of a configuration file that are read.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Keys of git's configuration whose values are files that git runs or includes.
const FILE_KEYS: [(&str, &str); 4] =
    [("core", "hookspath"), ("core", "fsmonitor"), ("include", "path"), ("includeif", "path")];

/// Sections and keys, of any driver, whose values are commands that git runs.
const COMMAND_KEYS: [(&str, &[&str]); 3] = [
    ("filter", &["clean", "smudge", "process"]),
    ("diff", &["command", "textconv"]),
    ("merge", &["driver"]),
];

/// Returns the paths of a workspace that are obeyed through a link or git's configuration. Called before a program runs. Blocking.
pub(in crate::context) fn paths(files: &dyn Files) -> Vec<PathBuf> {
    let workspace = files.workspace();
    let mut paths: Vec<PathBuf> = PROTECTED_PLACES
        .iter()
        .flat_map(|place| links_on_the_way(files, &workspace.join(place.pattern)))
        .collect();
    let git = workspace.join(".git");
    let hooks = git.join("hooks");
    if let Ok(Some(found)) = files.inspect(&commit::recorded_path(files, &hooks))
        && let FoundBody::Directory(names) = found.body
    {
        paths.extend(names.iter().filter_map(|name| link_target(files, &hooks.join(name))));
    }
    paths.extend(
        ["config", "config.worktree"].iter().flat_map(|name| files_in_config(files, &git, name)),
    );
    paths.retain(|path| path.starts_with(workspace) && path != workspace);
    paths
}

/// Returns whether a link of this name could lead to a protected file.
pub(super) fn leads_to_protected(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let first = |pattern: &'static str| pattern.split('/').next().unwrap_or(pattern);
    PROTECTED_PLACES.iter().any(|place| first(place.pattern).eq_ignore_ascii_case(name))
}

/// Returns the targets of the links among a path and the directories above it in the workspace.
fn links_on_the_way(files: &dyn Files, path: &Path) -> Vec<PathBuf> {
    let workspace = files.workspace();
    let above = path.ancestors().take_while(|above| *above != workspace);
    above.filter_map(|path| link_target(files, path)).collect()
}

/// Returns the target of a link.
fn link_target(files: &dyn Files, path: &Path) -> Option<PathBuf> {
    let stat = files.stat(&commit::recorded_path(files, path)).ok()?;
    (stat.kind == FileKind::Symlink).then(|| files.resolve(path).ok()).flatten().map(|to| to.path)
}

/// Returns the files that a git configuration names.
fn files_in_config(files: &dyn Files, git: &Path, name: &str) -> Vec<PathBuf> {
    let found = files.inspect(&commit::recorded_path(files, &git.join(name))).ok().flatten();
    let Some(FoundBody::File(file)) = found.map(|found| found.body) else { return Vec::new() };
    let mut text = Vec::new();
    if file.take(MAX_CONFIG_BYTES).read_to_end(&mut text).is_err() {
        return Vec::new();
    }
    let entries = git_config::parse(&text).unwrap_or_default();
    let is_obeyed = |entry: &&git_config::ConfigEntry| {
        FILE_KEYS.contains(&(entry.section.as_str(), entry.key.as_str()))
    };
    let is_command = |entry: &&git_config::ConfigEntry| {
        let (section, key) = (entry.section.as_str(), entry.key.as_str());
        COMMAND_KEYS.iter().any(|(known, keys)| *known == section && keys.contains(&key))
    };
    let words = entries.iter().filter(is_command).filter_map(|entry| entry.value.as_deref());
    let words = words.flat_map(str::split_whitespace).filter(|word| word.contains('/'));
    let run: Vec<PathBuf> =
        words.filter_map(|word| Some(normalize(&git.parent()?.join(word)))).collect();
    let values =
        entries.iter().filter(is_obeyed).filter_map(|entry| Some((entry, entry.value.as_deref()?)));
    values
        .filter_map(|(entry, value)| {
            // Hooks and programs are relative to the working tree, included files to the configuration.
            let from = if entry.section == "core" { git.parent()? } else { git };
            let program = value.split_whitespace().next().filter(|_| entry.key == "fsmonitor");
            Some(normalize(&from.join(program.unwrap_or(value))))
        })
        .chain(run)
        .collect()
}
