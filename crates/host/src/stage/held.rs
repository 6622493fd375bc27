//! Stages that outlive their process, because a person has not answered yet whether their changes are kept.
//!
//! Such a stage has a record of its changes, which is written when all that it names is safe. It is removed when the question expires,
//! when the answer is no, or when its changes are made.

use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use windlass_core::{ApprovalId, HeldChanges, HeldFor, ProcessChanges};

use super::durable;
use super::measure::bytes_on_disk;

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
    if others + bytes_on_disk(stage)? > MOST_BYTES {
        return Err(io::ErrorKind::StorageFull.into());
    }
    durable::sync_contents(stage, changes)?;
    durable::write_record(stage, RECORD, HeldChanges::text(held, workspace, changes).as_bytes())?;
    durable::sync_name(stage)
}

/// Returns whether a stage has a record.
pub(super) fn is_held(stage: &Path) -> bool {
    stage.join(RECORD).exists()
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
        if path != own && is_held(&path) {
            bytes += bytes_on_disk(&path)?;
        }
    }
    Ok(bytes)
}
