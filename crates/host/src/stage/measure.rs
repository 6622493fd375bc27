//! Measures sizes and times below a directory. Trees are walked without recursion: a program can nest directories as deep as paths go.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Returns the bytes on disk of everything below a directory.
pub(super) fn bytes_on_disk(directory: &Path) -> io::Result<u64> {
    iterate_below(directory).map(|found| Ok(found?.blocks() * 512)).sum()
}

/// Returns the number and the bytes of the files below a directory. Unreadable ones are not counted.
pub(super) fn files_below(directory: &Path) -> (u64, u64) {
    let files = iterate_below(directory).flatten().filter(Metadata::is_file);
    files.fold((0, 0), |(count, bytes), found| (count + 1, bytes + found.len()))
}

/// Returns whether a directory or anything in it changed after a time, in nanoseconds since 1970. Unreadable objects count as changed, a
/// missing directory does not.
pub(super) fn is_changed_since(directory: &Path, since: i64) -> bool {
    let is_later = |found: io::Result<Metadata>| match found {
        Err(error) => error.kind() != io::ErrorKind::NotFound,
        Ok(found) => {
            let seconds = found.ctime().saturating_mul(1_000_000_000);
            seconds.saturating_add(found.ctime_nsec()) > since
        }
    };
    is_later(directory.symlink_metadata()) || iterate_below(directory).any(is_later)
}

/// Iterates over everything below a directory, in no order, without following links.
fn iterate_below(directory: &Path) -> impl Iterator<Item = io::Result<Metadata>> {
    let mut waiting = vec![directory.to_owned()];
    let mut entries: Option<fs::ReadDir> = None;
    std::iter::from_fn(move || {
        loop {
            match entries.as_mut().and_then(Iterator::next) {
                Some(entry) => return Some(entry.and_then(|entry| visit(&entry, &mut waiting))),
                None => match fs::read_dir(waiting.pop()?) {
                    Ok(listed) => entries = Some(listed),
                    Err(error) => return Some(Err(error)),
                },
            }
        }
    })
}

/// Returns facts about an entry, and queues it if it is a directory.
fn visit(entry: &fs::DirEntry, waiting: &mut Vec<PathBuf>) -> io::Result<Metadata> {
    let found = entry.metadata()?;
    if found.is_dir() {
        waiting.push(entry.path());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_of_any_depth_is_measured() {
        let ground = tempfile::tempdir().unwrap();
        let deep: PathBuf = std::iter::repeat_n("d", 1_800).collect();
        fs::create_dir_all(ground.path().join(&deep)).unwrap();
        fs::write(ground.path().join(&deep).join("f"), "four").unwrap();
        fs::write(ground.path().join("g"), "seven..").unwrap();
        assert_eq!(files_below(ground.path()), (2, 11));
        assert!(bytes_on_disk(ground.path()).unwrap() > 1_800 * 512);
        let changed = |path: &Path| {
            let found = path.metadata().unwrap();
            found.ctime() * 1_000_000_000 + found.ctime_nsec()
        };
        let last = changed(ground.path()).max(changed(&ground.path().join(&deep).join("f")));
        assert!(!is_changed_since(ground.path(), last));
        assert!(is_changed_since(ground.path(), last - 1));
        assert!(!is_changed_since(&ground.path().join("none"), 0), "it does not exist");
    }
}
