//! The last step: verifies the journal of the tour, and a copy of it in which one byte was changed.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use windlass::journal::{Store, VerifyError};

use super::StepEnd;
use super::tour::Tour;

/// Texts to change in the copy, each with its replacement of the same length. The first text that is in the journal is replaced.
const REPLACEMENTS: &[(&[u8], &[u8])] = &[(b"rm -rf *", b"rm -ri *"), (b"colour", b"colors")];

/// Runs the step and checks that the journal is whole and the copy is not.
pub(super) fn run(tour: &mut Tour<'_>) -> Result<StepEnd> {
    tour.narrator.explain(
        "Each call is on record before it is answered. Each record holds the hash of the one before it, so \
         that a changed byte is found.",
    )?;
    tour.narrator.print_command_line("windlass log verify")?;
    let verified = tour.sample.hub().store()?.verify();
    tour.narrator.print_output(&match &verified {
        Ok(whole) => format!("whole: {} records, head {}", whole.records, whole.head),
        Err(error) => format!("not whole: {error}"),
    })?;
    tour.narrator.check("the journal of this tour is whole", verified.is_ok())?;

    let copy = tour.sample.path().join("copy");
    copy_journal(&tour.sample.state(), &copy)?;
    let (was, is) = change_one_byte(&copy)?;
    let explanation = format!("In a copy of it one letter is changed: `{was}` into `{is}`.");
    tour.narrator.explain(&explanation)?;
    tour.narrator.print_command_line("windlass log verify")?;
    let verified = Store::open(&copy)?.verify();
    let is_noticed = matches!(verified, Err(VerifyError::Broken(_)));
    tour.narrator.print_output(&match verified {
        Ok(_) => "whole".to_owned(),
        Err(error) => format!("not whole: {error}"),
    })?;
    tour.narrator.check("the changed letter is noticed, and its record named", is_noticed)?;
    Ok(StepEnd::Done)
}

/// Changes one byte in the journal of a state directory. Returns the text before and after.
fn change_one_byte(state: &Path) -> Result<(String, String)> {
    // Records in the write-ahead log would be a second copy of the changed text.
    Store::open(state)?.checkpoint()?;
    let path = state.join("journal.db");
    let mut bytes = fs::read(&path)?;
    for (was, is) in REPLACEMENTS {
        let Some(at) = bytes.windows(was.len()).position(|part| part == *was) else { continue };
        bytes.splice(at..at + was.len(), is.iter().copied());
        fs::write(&path, bytes)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        return Ok((text(was), text(is)));
    }
    anyhow::bail!("none of the calls of the tour is in the journal")
}

/// Copies the journal of a state directory: its database files, and the spools in `writers`.
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
