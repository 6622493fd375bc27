//! A state directory that was replaced by an older copy is detected by the anchors outside of it.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use windlass_store::{DrainAtClose, RecordFault, Store, StoreSettings, VerifyError};

use crate::common::{append_call, test_time};

/// A state directory, and an anchor outside of it.
struct StateAndAnchor(TempDir);

impl StateAndAnchor {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self, drain_at_close: DrainAtClose) -> Store {
        let outside_anchor = Some(self.path("outside/anchor"));
        let settings = StoreSettings {
            clock: test_time,
            drain_at_close,
            outside_anchor,
            ..StoreSettings::default()
        };
        Store::open_with(&self.path("state"), settings).unwrap()
    }

    /// A process that makes these calls.
    fn calls(&self, drain_at_close: DrainAtClose, names: &[&str]) {
        let store = self.open(drain_at_close);
        for name in names {
            append_call(&store, "s", name);
        }
    }

    fn copy(&self, from: &str, to: &str) {
        drop(std::fs::remove_dir_all(self.path(to)));
        copy(&self.path(from), &self.path(to));
    }

    fn verify(&self) -> Result<u64, RecordFault> {
        match self.open(DrainAtClose::Always).verify() {
            Ok(verified) => Ok(verified.records),
            Err(VerifyError::Broken(broken)) => Err(broken.fault),
            Err(other) => panic!("{other}"),
        }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn an_older_copy_is_detected_whether_later_records_were_drained_or_not() {
    for (drain, expected) in [
        (DrainAtClose::Always, RecordFault::OlderCopy(8)),
        (DrainAtClose::WhenLarge, RecordFault::LastMissing),
    ] {
        let files = StateAndAnchor::new();
        files.calls(DrainAtClose::Always, &["c1", "c2"]);
        files.copy("state", "older");
        files.calls(drain, &["c3", "c4"]);
        assert_eq!(files.verify(), Ok(8), "{drain:?}");
        files.copy("state", "newer");
        files.copy("newer", "state");
        assert_eq!(files.verify(), Ok(8), "{drain:?}: the same state");
        if drain == DrainAtClose::WhenLarge {
            // `verify` drained the records and moved the anchor; this sets the anchor back:
            let anchor = std::fs::read(files.path("older/journal.head")).unwrap();
            std::fs::write(files.path("outside/anchor"), anchor).unwrap();
        }
        files.copy("older", "state");
        assert_eq!(files.verify(), Err(expected.clone()), "{drain:?}");
        assert_eq!(files.verify(), Err(expected), "{drain:?}: and stays noticed");
    }
}

#[test]
fn an_older_copy_that_is_written_to_notes_the_loss() {
    let files = StateAndAnchor::new();
    files.calls(DrainAtClose::Always, &["c1"]);
    files.copy("state", "older");
    files.calls(DrainAtClose::Always, &["c2", "c3"]);
    files.copy("older", "state");
    files.calls(DrainAtClose::Always, &["d2", "d3", "d4", "d5"]);
    assert_eq!(files.verify(), Err(RecordFault::LossNoted));
}

#[test]
fn a_removed_state_directory_is_detected() {
    let files = StateAndAnchor::new();
    files.calls(DrainAtClose::Always, &["c1"]);
    std::fs::remove_dir_all(files.path("state")).unwrap();
    assert_eq!(files.verify(), Err(RecordFault::OlderCopy(2)));
    files.calls(DrainAtClose::Always, &["d1", "d2"]);
    assert_eq!(files.verify(), Err(RecordFault::LossNoted));
}

#[test]
fn an_outside_anchor_that_is_behind_or_missing_is_no_fault() {
    let files = StateAndAnchor::new();
    files.calls(DrainAtClose::Always, &["c1"]);
    files.copy("outside", "behind");
    files.calls(DrainAtClose::Always, &["c2"]);
    files.copy("behind", "outside");
    assert_eq!(files.verify(), Ok(4), "a process was killed before it moved the anchor");
    std::fs::remove_dir_all(files.path("outside")).unwrap();
    assert_eq!(files.verify(), Ok(4));
    files.calls(DrainAtClose::Always, &["c3"]);
    assert!(files.path("outside/anchor").exists() && files.path("outside/anchor.last").exists());
    assert_eq!(files.verify(), Ok(6));
}

#[test]
fn the_journal_works_without_an_outside_anchor() {
    let files = StateAndAnchor::new();
    std::fs::write(files.path("outside"), "a file").unwrap();
    files.calls(DrainAtClose::Always, &["c1", "c2"]);
    assert_eq!(files.verify(), Ok(4));
}
