//! Finds the directories on `PATH` that a program's view lacks, and those to which links in them lead.

use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::showable::is_showable;

/// Maximum entries of a directory that are checked for links.
const MAX_ENTRIES: usize = 200;

/// Maximum directories that links add.
const MAX_LINKED_DIRECTORIES: usize = 50;

/// Maximum links that are followed one after the other.
const MAX_HOPS: usize = 8;

/// Directories of the system, whose links lead to paths that every view has.
const SYSTEM_DIRECTORIES: &[&str] = &["/bin", "/sbin", "/usr/bin", "/usr/sbin"];

/// Returns the absolute directories on `PATH` that the view lacks, in order, then those of the files to which links in them lead.
///
/// Links are also followed from directories that the view has, because a toolchain's `bin` may lead anywhere. Directories are spelled as in
/// `PATH` and in the links.
pub(in crate::processes) fn path_directories(
    path: &OsStr,
    home: &Path,
    exists_in_view: &dyn Fn(&Path) -> bool,
) -> Vec<PathBuf> {
    let real_home = fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
    let is_showable_directory = |directory: &Path| {
        is_showable(directory, home)
            && directory.is_dir()
            && is_really_showable(directory, &real_home)
    };
    let mut directories: Vec<PathBuf> = Vec::new();
    for directory in std::env::split_paths(path) {
        let directory: PathBuf = directory.components().collect();
        if !is_system(&directory)
            && !directories.contains(&directory)
            && is_showable_directory(&directory)
        {
            directories.push(directory);
        }
    }
    let mut missing: Vec<PathBuf> =
        directories.iter().filter(|directory| !exists_in_view(directory)).cloned().collect();
    let limit = missing.len() + MAX_LINKED_DIRECTORIES;
    for link in directories.iter().flat_map(|directory| links(directory)) {
        for target in link_targets(link) {
            let Some(directory) = target.parent() else { continue };
            let is_known = missing.iter().any(|known| directory.starts_with(known));
            if missing.len() < limit
                && !is_known
                && !exists_in_view(directory)
                && is_showable_directory(directory)
            {
                missing.push(directory.to_owned());
            }
        }
    }
    missing
}

/// Returns whether a directory may be shown by its real path.
fn is_really_showable(directory: &Path, home: &Path) -> bool {
    fs::canonicalize(directory).is_ok_and(|real| is_system(&real) || is_showable(&real, home))
}

/// Returns whether a directory is one of the system's.
fn is_system(directory: &Path) -> bool {
    SYSTEM_DIRECTORIES.iter().any(|system| directory == Path::new(system))
}

/// Returns the links in a directory, ordered by name.
fn links(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let is_link =
        |entry: &fs::DirEntry| entry.file_type().is_ok_and(|file_type| file_type.is_symlink());
    let mut links: Vec<PathBuf> =
        entries.take(MAX_ENTRIES).flatten().filter(is_link).map(|entry| entry.path()).collect();
    links.sort();
    links
}

/// Returns each path on the way from a link to the file to which it leads; empty if that is not a file.
fn link_targets(link: PathBuf) -> Vec<PathBuf> {
    if !fs::metadata(&link).is_ok_and(|metadata| metadata.is_file()) {
        return Vec::new();
    }
    let mut targets = Vec::new();
    let mut place = link;
    while let Ok(target) = fs::read_link(&place) {
        let Some(next) = place.parent().map(|parent| normalized(&parent.join(target))) else {
            break;
        };
        if targets.len() == MAX_HOPS || next.symlink_metadata().is_err() {
            break;
        }
        targets.push(next.clone());
        place = next;
    }
    targets
}

/// Removes `.` and `..` from a path.
fn normalized(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normalized.pop();
            }
            _ => normalized.push(component),
        }
    }
    normalized
}
