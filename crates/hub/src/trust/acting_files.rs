//! Reads the files of a workspace that can make a program run or change what a model is told, such as hooks and skills. Their paths are
//! fixed. Files are read by handle, only up to a plausible size; directories are listed by path. Links out of the workspace are not
//! followed.

use std::io;
use std::path::{Path, PathBuf};

use windlass::files::{FileKind, Files};
use windlass::hooks::{HookShape, Pin};
use windlass::quote;

use super::{Acting, ActingFileRole, ActingFiles};

/// Paths of single acting files, with their roles.
pub(super) const ACTING_FILES: &[(&str, ActingFileRole)] = &[
    (".windlass/config.toml", ActingFileRole::Config),
    (".windlass/hooks.json", ActingFileRole::Hooks(HookShape::Windlass)),
    (".claude/settings.json", ActingFileRole::Hooks(HookShape::Claude)),
    (".claude/settings.local.json", ActingFileRole::Hooks(HookShape::Claude)),
    (".hex/settings.json", ActingFileRole::Hooks(HookShape::Hex)),
    (".agents/hooks.toml", ActingFileRole::Hooks(HookShape::Hygge)),
    (".hygge/hooks.toml", ActingFileRole::Hooks(HookShape::Hygge)),
    (".mcp.json", ActingFileRole::McpServers),
];

/// Directories with acting files: all files below them count; of command tools only those in the directory itself that may be one.
pub(super) const ACTING_DIRECTORIES: &[(&str, ActingFileRole)] = &[
    (".windlass/tools", ActingFileRole::CommandTool),
    (".windlass/skills", ActingFileRole::Skill),
    (".claude/skills", ActingFileRole::Skill),
    (".windlass/plugins", ActingFileRole::Plugin),
];

/// Maximum files of one directory that are read: the first by path. More give a warning.
const MAX_FILES: usize = 256;
/// Maximum depth of subdirectories. A deeper one ends the listing of its directory with a warning.
const MAX_DEPTH: usize = 8;

/// Returns the role that the tables give a path, also if [`scan`] would skip it. A listed directory itself has its role, too.
pub(super) fn role_of_path(path: &Path) -> Option<ActingFileRole> {
    let file = ACTING_FILES.iter().find(|(place, _)| path == Path::new(place));
    let directory = || ACTING_DIRECTORIES.iter().find(|(place, _)| path.starts_with(place));
    file.or_else(directory).map(|(_, role)| *role)
}

/// Returns whether not even the first component of any of the paths exists, such as `.claude`: then there is no acting file. A quick
/// check that settles most workspaces.
pub(super) fn has_no_candidates(workspace: &Path) -> bool {
    let tops = ACTING_FILES
        .iter()
        .chain(ACTING_DIRECTORIES)
        .filter_map(|(path, _)| path.split('/').next());
    let mut last = "";
    for top in tops {
        if top != last && workspace.join(top).symlink_metadata().is_ok() {
            return false;
        }
        last = top;
    }
    true
}

/// Reads the files at these paths. What cannot be read or exceeds a limit gives a warning.
pub(super) fn scan(files: &dyn Files) -> ActingFiles {
    let mut found = ActingFiles::default();
    for (path, role) in ACTING_FILES {
        add_file(files, Path::new(path), *role, &mut found);
    }
    for (path, role) in ACTING_DIRECTORIES {
        let mut paths = Vec::new();
        if let Err(why) = list_files(files, Path::new(path), *role, 0, &mut paths) {
            found.warnings.push(format!("cannot read {path}: {why}"));
        }
        paths.sort();
        if paths.len() > MAX_FILES {
            let count = paths.len();
            let warning = format!("{path} has {count} files; the first {MAX_FILES} are looked at");
            found.warnings.push(warning);
            paths.truncate(MAX_FILES);
        }
        for path in paths {
            add_file(files, &path, *role, &mut found);
        }
    }
    found
}

/// Adds the role, path and content of a file, or a warning if it cannot be read. A missing file adds nothing.
fn add_file(files: &dyn Files, path: &Path, role: ActingFileRole, found: &mut ActingFiles) {
    match Pin::take(files, path) {
        Ok((Pin { hash: None, .. }, _)) => {}
        Ok((_, bytes)) => found.files.push(Acting { role, path: path.to_owned(), bytes }),
        Err(why) => found.warnings.push(format!("not used: {why}")),
    }
}

/// Adds the paths of the files in a directory, in no order. Descends into subdirectories, except for command tools. Too many files or
/// too deep a subdirectory is an error; the paths found before stay in `into`.
fn list_files(
    files: &dyn Files,
    directory: &Path,
    role: ActingFileRole,
    depth: usize,
    into: &mut Vec<PathBuf>,
) -> io::Result<()> {
    let at = files.resolve(directory).map_err(io::Error::other)?;
    if !at.exists {
        return Ok(());
    }
    if at.inside.is_none() {
        return Err(io::Error::other("it leads out of the workspace"));
    }
    let kind = files.stat(&at).map_err(io::Error::other)?.kind;
    if kind != FileKind::Directory {
        return Err(io::Error::other(format!("it is {kind}")));
    }
    for entry in std::fs::read_dir(&at.path)? {
        let entry = entry?;
        let path = directory.join(entry.file_name());
        match role {
            ActingFileRole::CommandTool => into.extend(may_be_tool(&path).then_some(path)),
            _ if !entry.file_type()?.is_dir() => into.push(path),
            _ if depth < MAX_DEPTH => list_files(files, &path, role, depth + 1, into)?,
            _ => {
                let path = quote::path(&path);
                return Err(io::Error::other(format!("{path} is deeper than {MAX_DEPTH}")));
            }
        }
        if into.len() > MAX_FILES * 16 {
            return Err(io::Error::other("it has too many files"));
        }
    }
    Ok(())
}

/// Returns whether a file name can be that of a command tool: `*.md`, except hidden files and a readme.
fn may_be_tool(path: &Path) -> bool {
    let is_markdown = path.extension().is_some_and(|extension| extension == "md");
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    is_markdown && !name.starts_with(b".") && !name.eq_ignore_ascii_case(b"readme.md")
}
