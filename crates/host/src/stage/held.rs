//! Records stages that outlive their process, because a person has not yet answered whether their changes are kept.
//!
//! Such a stage has a record of its changes, which is written once everything that it names is on the disk. It is removed when the approval
//! expires or is denied, or when the changes are committed.

use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use windlass_core::{ApprovalId, HeldChanges, ProcessChanges, StageHold};

use super::durable;
use super::measure::bytes_on_disk;

/// Name of the record on a stage: the approval for which it waits, and its changes.
const RECORD_NAME: &str = "held.json";

/// Maximum bytes that all stages of one directory hold for approvals.
const MAX_HELD_BYTES: u64 = 4 << 30;

/// Writes the record of a stage. Fails with `StorageFull` if all held stages together would be too large.
pub(super) fn write(
    stage: &Path,
    workspace: &Path,
    held: &StageHold,
    changes: &ProcessChanges,
) -> io::Result<()> {
    let others = stage.parent().map_or(Ok(0), |all| bytes_of_others(all, stage))?;
    if others + bytes_on_disk(stage)? > MAX_HELD_BYTES {
        return Err(io::ErrorKind::StorageFull.into());
    }
    durable::sync_contents(stage, changes)?;
    durable::write_record(
        stage,
        RECORD_NAME,
        HeldChanges::text(held, workspace, changes).as_bytes(),
    )?;
    durable::sync_name(stage)
}

/// Returns whether a stage has a record.
pub(super) fn is_held(stage: &Path) -> bool {
    stage.join(RECORD_NAME).exists()
}

/// Removes the record of a stage.
pub(super) fn forget(stage: &Path) -> io::Result<()> {
    fs::remove_file(stage.join(RECORD_NAME))
}

/// Reads the record of a stage; `None` if it has none.
pub(super) fn read(stage: &Path) -> io::Result<Option<HeldChanges>> {
    match fs::read_to_string(stage.join(RECORD_NAME)) {
        Ok(text) => Ok(HeldChanges::parse(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the record of a stage if it waits for this approval.
pub(super) fn read_for(stage: &Path, id: &ApprovalId) -> io::Result<Option<HeldChanges>> {
    Ok(read(stage)?.filter(|held| held.held.approval == *id))
}

/// Returns whether a stage waits for an approval that has not expired. True if its record cannot be read.
pub(super) fn is_awaited(stage: &Path, now: SystemTime) -> bool {
    match read(stage) {
        Ok(Some(held)) => held.held.until > now,
        Ok(None) => false,
        Err(_) => true,
    }
}

/// Returns the bytes of all other held stages.
fn bytes_of_others(all: &Path, own: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(all)? {
        let path = entry?.path();
        if path != own && is_held(&path) {
            bytes += bytes_on_disk(&path)?;
        }
    }
    Ok(bytes)
}
