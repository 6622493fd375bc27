//! Makes the records of a stage, and the files that they name, survive a power cut.
//!
//! A record is written after everything that it names: first the contents, then the record under a temporary name, its final name, and the
//! directories above. So after a power cut there is either a complete stage with its record, or a stage without one, which is swept.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use windlass_core::{ChangedTo, ProcessChanges};

use super::open_directory;

/// Maximum changes that are synced file by file; beyond it, the whole file system is synced once.
const MAX_SINGLE_SYNCS: usize = 64;

/// Writes a record completely or not at all, and waits for the disk.
pub(super) fn write_record(stage: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let path = stage.join(name);
    let temporary = path.with_extension("tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(temporary, path)?;
    sync_directory(stage)
}

/// Waits until the disk has the name of the stage itself.
pub(super) fn sync_name(stage: &Path) -> io::Result<()> {
    stage.parent().map_or(Ok(()), sync_directory)
}

/// Waits until the disk has the contents of changes, because their stage is about to outlive this process.
pub(super) fn sync_contents(stage: &Path, changes: &ProcessChanges) -> io::Result<()> {
    if !changes.built.is_empty() || changes.changes.len() > MAX_SINGLE_SYNCS {
        return Ok(rustix::fs::syncfs(open_directory(stage)?)?);
    }
    let mut directories: HashSet<PathBuf> = HashSet::new();
    for change in &changes.changes {
        let ChangedTo::File(place, _) = &change.to else { continue };
        // A path that is no file any more fails at the commit.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file: File = rustix::fs::open(place, flags, Mode::empty())?.into();
        file.sync_all()?;
        let above = place.ancestors().skip(1).take_while(|above| above.starts_with(stage));
        directories.extend(above.map(Path::to_owned));
    }
    directories.iter().try_for_each(|directory| sync_directory(directory))
}

/// Waits until the disk has the entries of a directory.
fn sync_directory(path: &Path) -> io::Result<()> {
    open_directory(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use windlass_core::{Attributes, ProcessChange, Tracking};

    use super::*;

    fn changes(places: &[PathBuf]) -> ProcessChanges {
        let change = |place: &PathBuf| ProcessChange {
            path: "/w/file".into(),
            before: None,
            to: ChangedTo::File(place.clone(), Attributes::default()),
        };
        let changes = places.iter().map(change).collect();
        ProcessChanges { changes, ..ProcessChanges::none(Tracking::Staged) }
    }

    #[test]
    fn record_is_complete_and_leaves_no_other_file() {
        let ground = tempfile::tempdir().unwrap();
        for text in ["one", "another"] {
            write_record(ground.path(), "held.json", text.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(ground.path().join("held.json")).unwrap(), text);
            assert_eq!(std::fs::read_dir(ground.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn missing_content_is_an_error() {
        let ground = tempfile::tempdir().unwrap();
        let place = ground.path().join("upper/d/file");
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(&place, "new").unwrap();
        for count in [1, MAX_SINGLE_SYNCS + 1] {
            sync_contents(ground.path(), &changes(&vec![place.clone(); count])).unwrap();
        }
        let gone = changes(&[place, ground.path().join("upper/gone")]);
        let error = sync_contents(ground.path(), &gone).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
