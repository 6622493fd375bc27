//! Stages that outlive their process, because a person has not answered yet whether their changes are kept.
//!
//! Such a stage has a record of its changes. It is removed when the question expires, when the answer is no, or when its changes are
//! made.

use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use windlass_core::{ApprovalId, HeldChanges, HeldFor, ProcessChanges};

/// The file on a stage that says which question it waits for, and what it holds.
const RECORD: &str = "held.json";

/// The most bytes that the stages of one directory hold for questions.
const MOST_BYTES: u64 = 4 << 30;

/// Writes the record of a stage that lies beside others.
pub(super) fn write(
    stage: &Path,
    workspace: &Path,
    held: &HeldFor,
    changes: &ProcessChanges,
) -> io::Result<()> {
    let others = stage.parent().map_or(Ok(0), |all| bytes_of_others(all, stage))?;
    if others + bytes_below(stage)? > MOST_BYTES {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let temporary = stage.join("held.tmp");
    fs::write(&temporary, HeldChanges::text(held, workspace, changes))?;
    fs::rename(temporary, stage.join(RECORD))
}

/// Removes the record.
pub(super) fn forget(stage: &Path) -> io::Result<()> {
    fs::remove_file(stage.join(RECORD))
}

/// The record of a stage, if it has one.
pub(super) fn read(stage: &Path) -> io::Result<Option<HeldChanges>> {
    match fs::read_to_string(stage.join(RECORD)) {
        Ok(text) => Ok(HeldChanges::parse(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The record of a stage that waits for this question.
pub(super) fn read_for(stage: &Path, id: &ApprovalId) -> io::Result<Option<HeldChanges>> {
    Ok(read(stage)?.filter(|held| held.held.approval == *id))
}

/// Returns whether a stage waits for a question that has not expired. One whose record cannot be read may.
pub(super) fn is_awaited(stage: &Path, now: SystemTime) -> bool {
    match read(stage) {
        Ok(Some(held)) => held.held.until > now,
        Ok(None) => false,
        Err(_) => true,
    }
}

fn bytes_of_others(all: &Path, own: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(all)? {
        let path = entry?.path();
        if path != own && path.join(RECORD).exists() {
            bytes += bytes_below(&path)?;
        }
    }
    Ok(bytes)
}

/// Returns whether anything in a directory, or itself, changed after a time, in nanoseconds since 1970. What cannot be read counts as
/// changed; what is not there does not.
pub(super) fn is_changed_since(path: &Path, since: i64) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let found = match path.symlink_metadata() {
        Err(error) => return error.kind() != io::ErrorKind::NotFound,
        Ok(found) => found,
    };
    let changed = found.ctime().saturating_mul(1_000_000_000).saturating_add(found.ctime_nsec());
    if changed > since {
        return true;
    }
    let is_changed = |entry: io::Result<fs::DirEntry>| {
        entry.map_or(true, |entry| is_changed_since(&entry.path(), since))
    };
    found.is_dir() && fs::read_dir(path).map_or(true, |mut all| all.any(is_changed))
}

/// The number and the bytes of the files below a directory. What cannot be read is not counted.
pub(super) fn size_below(directory: &Path) -> (u64, u64) {
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(found) if found.is_dir() => {
                let below = size_below(&entry.path());
                (files, bytes) = (files + below.0, bytes + below.1);
            }
            Ok(found) if found.is_file() => (files, bytes) = (files + 1, bytes + found.len()),
            _ => {}
        }
    }
    (files, bytes)
}

/// The bytes on disk of everything below a directory.
fn bytes_below(directory: &Path) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += found.blocks() * 512;
        if found.is_dir() {
            bytes += bytes_below(&entry.path())?;
        }
    }
    Ok(bytes)
}
