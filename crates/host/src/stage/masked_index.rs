//! Replaces git's indexes in a view from which tracked files are masked.
//!
//! To git a masked file looks deleted, and `git add -A` would record that. So the view shows an index in which such files have the
//! skip-worktree bit, and git takes them for unchanged. After the program has ended, the bits are cleared in the index that it wrote.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use windlass_core::{ChangedTo, FileKind, ProcessChange};

use super::copy_attributes;
use super::git_index;

/// An index that is replaced in the view.
#[derive(Debug)]
pub(crate) struct ReplacedIndex {
    /// Path relative to the workspace.
    path: PathBuf,
    /// Paths of the entries that got the bit.
    entries: Vec<Vec<u8>>,
}

/// Writes indexes with the bits set into a layer over the workspace. `git` are the git directories, and the files that point to one.
pub(crate) fn replace(
    workspace: &Path,
    git: &[PathBuf],
    masked: &[(PathBuf, FileKind)],
    layer: &Path,
) -> io::Result<Vec<ReplacedIndex>> {
    if masked.is_empty() {
        return Ok(Vec::new());
    }
    let mut replaced = Vec::new();
    for entry in git {
        let (Some(directory), Some(tree)) = (git_directory(workspace, entry), entry.parent())
        else {
            continue;
        };
        let path = directory.join("index");
        let Ok(bytes) = fs::read(workspace.join(&path)) else { continue };
        let is_masked = |name: &[u8]| {
            let name = tree.join(Path::new(std::ffi::OsStr::from_bytes(name)));
            masked.iter().any(|(masked, _)| name.starts_with(masked))
        };
        // An index that cannot be parsed stays as it is: git then shows masked files as deleted, which loses nothing, because a commit of
        // that is decided on.
        let Ok(Some(hidden)) = git_index::hide(&bytes, &is_masked) else { continue };
        write_to_layer(workspace, layer, &path, &hidden.bytes)?;
        replaced.push(ReplacedIndex { path, entries: hidden.paths });
    }
    Ok(replaced)
}

/// Clears the bits in the indexes that a program has written.
pub(crate) fn restore(upper: &Path, replaced: &[ReplacedIndex]) -> io::Result<()> {
    for index in replaced {
        let path = upper.join(&index.path);
        let Ok(found) = path.symlink_metadata() else { continue };
        if !found.is_file() {
            continue;
        }
        if let Ok(Some(bytes)) = git_index::show(&fs::read(&path)?, &index.entries) {
            fs::write(&path, bytes)?;
            // By this time, git finds the files that may have changed since it read them.
            set_modified(&path, found.modified()?)?;
        }
    }
    Ok(())
}

/// Returns whether a change only refreshes a git index: facts about files on disk and caches changed, staged entries did not.
pub(crate) fn is_refresh(change: &ProcessChange) -> bool {
    let ChangedTo::File(new, _) = &change.to else { return false };
    let is_index = change.path.file_name().is_some_and(|name| name == "index")
        && change.path.components().any(|part| part.as_os_str() == ".git");
    is_index
        && change.before.is_some()
        && matches!((fs::read(&change.path), fs::read(new)), (Ok(old), Ok(new)) if git_index::stage_the_same(&old, &new))
}

/// Returns the git directory behind an entry, relative to the workspace; `None` if it is outside.
fn git_directory(workspace: &Path, entry: &Path) -> Option<PathBuf> {
    let found = workspace.join(entry).symlink_metadata().ok()?;
    if found.is_dir() {
        return Some(entry.to_owned());
    }
    let text = found.is_file().then(|| fs::read_to_string(workspace.join(entry)).ok())??;
    let target = Path::new(text.strip_prefix("gitdir:")?.trim());
    let target = workspace.join(entry.parent()?).join(target);
    normalize(&target).strip_prefix(workspace).ok().map(Path::to_owned)
}

/// Removes `.` and `..` from a path, without looking at the file system.
pub(super) fn normalize(path: &Path) -> PathBuf {
    let mut normalize = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normalize.pop()),
            Component::CurDir => {}
            other => normalize.push(other),
        }
    }
    normalize
}

/// Writes a file into a layer, in directories with the attributes of the workspace's.
fn write_to_layer(workspace: &Path, layer: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut missing = Vec::new();
    for parent in path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()) {
        if !layer.join(parent).is_dir() {
            missing.push(parent);
        }
    }
    for parent in missing.iter().rev() {
        fs::create_dir(layer.join(parent))?;
    }
    fs::write(layer.join(path), bytes)?;
    let found = fs::metadata(workspace.join(path))?;
    fs::set_permissions(layer.join(path), found.permissions())?;
    set_modified(&layer.join(path), found.modified()?)?;
    for parent in missing {
        copy_attributes(&layer.join(parent), &workspace.join(parent))?;
    }
    Ok(())
}

/// Sets the modification time of a file.
fn set_modified(path: &Path, modified: SystemTime) -> io::Result<()> {
    let file = fs::File::options().write(true).open(path)?;
    file.set_times(fs::FileTimes::new().set_modified(modified))
}
