//! The last step: the journal of the tour is verified, and so is a copy of it in which one byte is another.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use windlass::journal::{Store, VerifyError};

use super::Passed;
use super::tour::Tour;

/// Texts that are changed in the copy, each with the one that takes its place. The first one that is on record is taken.
const FORGERIES: &[(&[u8], &[u8])] = &[(b"rm -rf *", b"rm -ri *"), (b"colour", b"colors")];

pub(super) fn run(tour: &mut Tour<'_>) -> Result<Passed> {
    tour.narrator.say(
        "Each call is on record before it is answered. Each record holds the hash of the one before it, so \
         that a changed byte is found.",
    )?;
    tour.narrator.typed("windlass log verify")?;
    let verified = tour.sample.hub().store()?.verify();
    tour.narrator.show(&match &verified {
        Ok(whole) => format!("whole: {} records, head {}", whole.records, whole.head),
        Err(error) => format!("not whole: {error}"),
    })?;
    tour.narrator.check("the journal of this tour is whole", verified.is_ok())?;

    let copy = tour.sample.path().join("copy");
    copy_journal(&tour.sample.state(), &copy)?;
    let (was, is) = forge(&copy)?;
    let told = format!("In a copy of it one letter is changed: `{was}` into `{is}`.");
    tour.narrator.say(&told)?;
    tour.narrator.typed("windlass log verify")?;
    let verified = Store::open(&copy)?.verify();
    let is_noticed = matches!(verified, Err(VerifyError::Broken(_)));
    tour.narrator.show(&match verified {
        Ok(_) => "whole".to_owned(),
        Err(error) => format!("not whole: {error}"),
    })?;
    tour.narrator.check("the changed letter is noticed, and its record named", is_noticed)?;
    Ok(Passed::Shown)
}

/// Changes one byte in the journal of a state directory.
fn forge(state: &Path) -> Result<(String, String)> {
    // What waits elsewhere would be a second copy of what is changed.
    Store::open(state)?.checkpoint()?;
    let path = state.join("journal.db");
    let mut bytes = fs::read(&path)?;
    for (was, is) in FORGERIES {
        let Some(at) = bytes.windows(was.len()).position(|part| part == *was) else { continue };
        bytes.splice(at..at + was.len(), is.iter().copied());
        fs::write(&path, bytes)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        return Ok((text(was), text(is)));
    }
    anyhow::bail!("none of the calls of the tour is in the journal")
}

/// Copies the journal of a state directory: its files, and those of its writers.
fn copy_journal(from: &Path, to: &Path) -> Result<()> {
    for directory in ["", "writers"] {
        let (from, to) = (from.join(directory), to.join(directory));
        fs::create_dir_all(&to).with_context(|| format!("cannot create {}", to.display()))?;
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), to.join(entry.file_name()))?;
            }
        }
    }
    Ok(())
}
