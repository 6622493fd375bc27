//! A state directory put back from an older copy: noticed by what is kept outside of it.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use windlass_store::{DrainAtClose, Fault, Settings, Store, VerifyError};

use crate::common::{call, moment};

/// A state directory, and an anchor outside of it.
struct Ground(TempDir);

impl Ground {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self, drain_at_close: DrainAtClose) -> Store {
        let outside_anchor = Some(self.path("outside/anchor"));
        let settings =
            Settings { clock: moment, drain_at_close, outside_anchor, ..Settings::default() };
        Store::open_with(&self.path("state"), settings).unwrap()
    }

    /// A process that makes these calls.
    fn calls(&self, drain_at_close: DrainAtClose, names: &[&str]) {
        let store = self.open(drain_at_close);
        for name in names {
            call(&store, "s", name);
        }
    }

    fn copy(&self, from: &str, to: &str) {
        drop(std::fs::remove_dir_all(self.path(to)));
        copy(&self.path(from), &self.path(to));
    }

    fn verify(&self) -> Result<u64, Fault> {
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
fn an_older_copy_is_noticed_before_and_after_what_followed_came_into_the_chain() {
    for (drain, expected) in
        [(DrainAtClose::Always, Fault::OlderCopy(8)), (DrainAtClose::WhenLarge, Fault::LastMissing)]
    {
        let ground = Ground::new();
        ground.calls(DrainAtClose::Always, &["c1", "c2"]);
        ground.copy("state", "older");
        ground.calls(drain, &["c3", "c4"]);
        assert_eq!(ground.verify(), Ok(8), "{drain:?}");
        ground.copy("state", "newer");
        ground.copy("newer", "state");
        assert_eq!(ground.verify(), Ok(8), "{drain:?}: the same state");
        if drain == DrainAtClose::WhenLarge {
            // Looking brought the records into the chain; as if nobody had looked:
            let anchor = std::fs::read(ground.path("older/journal.head")).unwrap();
            std::fs::write(ground.path("outside/anchor"), anchor).unwrap();
        }
        ground.copy("older", "state");
        assert_eq!(ground.verify(), Err(expected.clone()), "{drain:?}");
        assert_eq!(ground.verify(), Err(expected), "{drain:?}: and stays noticed");
    }
}

#[test]
fn an_older_copy_that_goes_on_has_it_on_its_record() {
    let ground = Ground::new();
    ground.calls(DrainAtClose::Always, &["c1"]);
    ground.copy("state", "older");
    ground.calls(DrainAtClose::Always, &["c2", "c3"]);
    ground.copy("older", "state");
    ground.calls(DrainAtClose::Always, &["d2", "d3", "d4", "d5"]);
    assert_eq!(ground.verify(), Err(Fault::LossNoted));
}

#[test]
fn a_state_that_was_removed_is_noticed() {
    let ground = Ground::new();
    ground.calls(DrainAtClose::Always, &["c1"]);
    std::fs::remove_dir_all(ground.path("state")).unwrap();
    assert_eq!(ground.verify(), Err(Fault::OlderCopy(2)));
    ground.calls(DrainAtClose::Always, &["d1", "d2"]);
    assert_eq!(ground.verify(), Err(Fault::LossNoted));
}

#[test]
fn a_copy_of_the_whole_state_is_no_fault_elsewhere_and_the_anchor_may_be_behind_or_missing() {
    let ground = Ground::new();
    ground.calls(DrainAtClose::Always, &["c1"]);
    ground.copy("outside", "behind");
    ground.calls(DrainAtClose::Always, &["c2"]);
    ground.copy("behind", "outside");
    assert_eq!(ground.verify(), Ok(4), "a process was killed before it moved the anchor");
    std::fs::remove_dir_all(ground.path("outside")).unwrap();
    assert_eq!(ground.verify(), Ok(4));
    ground.calls(DrainAtClose::Always, &["c3"]);
    assert!(ground.path("outside/anchor").exists() && ground.path("outside/anchor.last").exists());
    assert_eq!(ground.verify(), Ok(6));
}

#[test]
fn where_nothing_can_be_kept_outside_the_journal_goes_on() {
    let ground = Ground::new();
    std::fs::write(ground.path("outside"), "a file").unwrap();
    ground.calls(DrainAtClose::Always, &["c1", "c2"]);
    assert_eq!(ground.verify(), Ok(4));
}
