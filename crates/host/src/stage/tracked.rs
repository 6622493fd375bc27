//! Finds build directories that hold files which git tracks.
//!
//! An ignore file does not apply to tracked files, so such a directory is not ignored as a whole: its files are sources, and
//! changes of them need a history. Without this check a program could add `build/` to `.gitignore` in one command and destroy
//! the tracked files in `build` without a trace in the next.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use memchr::memmem;
use rustix::fs::Mode;
use windlass_core::FileKind;

use super::git_index;
use super::masked_index::normalize;
use crate::kernel::{FOR_READING, stat};

/// Maximum bytes of an index that is searched. One of a million files has about 100 MiB.
const MAX_INDEX_BYTES: u64 = 512 << 20;

/// Returns the candidates that hold tracked files. All paths are relative to the workspace; `git` are the entries of git directories and of
/// the files that point to one.
///
/// Every repository around a candidate counts, not only the innermost: a program could plant an inner one.
pub(crate) fn tracked(workspace: &Path, git: &[PathBuf], candidates: &[PathBuf]) -> Vec<PathBuf> {
    if candidates.is_empty() {
        return Vec::new();
    }
    let inside = git.iter().map(|entry| workspace.join(entry));
    let above = workspace.ancestors().skip(1).map(|directory| directory.join(".git"));
    // A directory with a repository of its own holds files that are tracked there.
    let has_repository =
        |path: &&PathBuf| workspace.join(path).join(".git").symlink_metadata().is_ok();
    let mut tracked: Vec<PathBuf> = candidates.iter().filter(has_repository).cloned().collect();
    for entry in inside.chain(above) {
        let Some(tree) = entry.parent() else { continue };
        let within: Vec<(&PathBuf, PathBuf)> = candidates
            .iter()
            .filter(|candidate| !tracked.contains(*candidate))
            .filter_map(|candidate| {
                let path = workspace.join(candidate);
                Some((candidate, path.strip_prefix(tree).ok()?.to_owned()))
            })
            .collect();
        if within.is_empty() {
            continue;
        }
        let Some(directory) = git_directory(&entry) else { continue };
        let index = match read(&directory.join("index")) {
            IndexContent::Read(index) => index,
            // Git recreates the index from the last commit.
            IndexContent::Absent if has_commits(&directory) => None,
            IndexContent::Absent => continue,
        };
        let held = within.into_iter().filter(|(_, path)| holds_tracked(index.as_deref(), path));
        tracked.extend(held.map(|(candidate, _)| candidate.clone()));
    }
    tracked
}

/// Returns those of some absolute paths that are tracked or hold tracked files, in whichever repository around them.
pub(super) fn among(workspace: &Path, paths: &[PathBuf]) -> Vec<PathBuf> {
    let inside = |path: &PathBuf| path.strip_prefix(workspace).ok().map(Path::to_owned);
    let candidates: Vec<PathBuf> = paths.iter().filter_map(inside).collect();
    let above: BTreeSet<&Path> =
        candidates.iter().flat_map(|path| path.ancestors().skip(1)).collect();
    let entries = above.into_iter().map(|directory| directory.join(".git"));
    let git: Vec<PathBuf> =
        entries.filter(|entry| workspace.join(entry).symlink_metadata().is_ok()).collect();
    let tracked = tracked(workspace, &git, &candidates);
    tracked.into_iter().map(|path| workspace.join(path)).collect()
}

/// Returns whether a repository has a commit that could track files.
fn has_commits(directory: &Path) -> bool {
    let has_branch = || {
        let branches = std::fs::read_dir(directory.join("refs/heads"));
        branches.is_ok_and(|mut branches| branches.next().is_some())
    };
    // A linked worktree has its branches elsewhere.
    ["packed-refs", "commondir", "logs/HEAD"].iter().any(|name| directory.join(name).exists())
        || has_branch()
}

/// Result of reading an index.
enum IndexContent {
    /// There is no index, so nothing is tracked.
    Absent,
    /// Its bytes; `None` if it cannot be read or is too large, so anything may be tracked.
    Read(Option<Vec<u8>>),
}

/// Returns whether an index has an entry below a directory. True if it cannot be parsed.
fn holds_tracked(index: Option<&[u8]>, directory: &Path) -> bool {
    let Some(index) = index else { return true };
    let name = directory.as_os_str().as_bytes();
    // Names are complete in versions 2 and 3. In version 4 an entry shares the beginning of the one before it, and in a split index most
    // entries are in another file.
    let is_compressed = index.get(4..8) == Some(&[0, 0, 0, 4]);
    let may_hold = is_compressed
        || memmem::find(index, name).is_some()
        || memmem::find(index, b"link").is_some();
    // A submodule is one entry, with the name of the directory itself.
    let is_it = |path: &[u8]| {
        path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    may_hold && git_index::has_entry(index, &is_it).unwrap_or(true)
}

/// Reads an index or a small file.
fn read(path: &Path) -> IndexContent {
    let opened = match rustix::fs::open(path, FOR_READING, Mode::empty()) {
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return IndexContent::Absent,
        opened => opened,
    };
    let file = opened.ok().filter(|file| {
        stat(file).is_ok_and(|stat| stat.kind == FileKind::File && stat.len <= MAX_INDEX_BYTES)
    });
    IndexContent::Read(file.and_then(|file| {
        let mut bytes = Vec::new();
        File::from(file).take(MAX_INDEX_BYTES).read_to_end(&mut bytes).ok().map(|_| bytes)
    }))
}

/// Returns the git directory that an entry named `.git` is or points to.
fn git_directory(entry: &Path) -> Option<PathBuf> {
    let found = entry.symlink_metadata().ok()?;
    if !found.is_file() {
        return Some(entry.to_owned());
    }
    let IndexContent::Read(Some(text)) = read(entry) else { return None };
    let target = text.strip_prefix(b"gitdir:")?.trim_ascii();
    Some(normalize(&entry.parent()?.join(Path::new(std::ffi::OsStr::from_bytes(target)))))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    fn git(directory: &Path, arguments: &[&str]) {
        let done = Command::new("git").arg("-C").arg(directory).args(arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
    }

    #[test]
    fn directory_with_a_tracked_file_is_not_a_build_directory() {
        for version in ["2", "3", "4"] {
            let ground = tempfile::tempdir().unwrap();
            let work = fs::canonicalize(ground.path()).unwrap();
            git(&work, &["init", "-q"]);
            git(&work, &["config", "index.version", version]);
            for path in ["build/a.c", "buil", "dist/b", "app/build/c", "other/build/d"] {
                fs::create_dir_all(work.join(path).parent().unwrap()).unwrap();
                fs::write(work.join(path), path).unwrap();
            }
            git(&work, &["add", "buil", "build/a.c", "app/build/c"]);
            let candidates = ["build", "dist", "app/build", "other/build"].map(PathBuf::from);
            let found = tracked(&work, &[".git".into()], &candidates);
            assert_eq!(found, [Path::new("build"), Path::new("app/build")], "version {version}");
            // The workspace is a part of the repository.
            let found = tracked(&work.join("app"), &[], &["build".into()]);
            assert_eq!(found, [Path::new("build")], "version {version}");
            for (change, is_tracked) in [
                ("git update-index --split-index", true),
                ("rm .git/index", false),
                ("git -c user.name=x -c user.email=x@x commit -q -m x; rm .git/index", true),
            ] {
                let copy = tempfile::tempdir().unwrap();
                let copied = copy.path().join("work");
                let script = format!("cp -a . {0} && cd {0} && {change}", copied.display());
                let done = Command::new("sh").args(["-c", &script]).current_dir(&work).status();
                assert!(done.unwrap().success(), "{change}");
                let found = tracked(&copied, &[".git".into()], &["build".into()]);
                assert_eq!(!found.is_empty(), is_tracked, "{change}");
            }
            // An inner repository that was planted changes nothing.
            git(&work.join("app"), &["init", "-q"]);
            let found = tracked(&work, &[".git".into(), "app/.git".into()], &candidates);
            assert_eq!(found, [Path::new("build"), Path::new("app/build")], "version {version}");
            fs::write(work.join(".git/index"), "DIRC no index").unwrap();
            assert_eq!(tracked(&work, &[".git".into()], &["dist".into()]).len(), 0);
            fs::write(work.join(".git/index"), "DIRC\0\0\0\x04no index, dist/").unwrap();
            assert_eq!(tracked(&work, &[".git".into()], &["dist".into()]).len(), 1);
        }
    }
}
