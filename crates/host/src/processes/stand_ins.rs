//! Puts empty stand-ins at missing protected paths of a workspace, and removes them again.
//!
//! A program that works on the real directory needs an object there that can be mounted read-only. The stand-ins are recorded while they
//! exist: if this process is killed, the next one removes them.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::create_private_directory;
use crate::random;

/// Paths in a workspace at which an empty stand-in may have been created. It is removed on drop.
#[derive(Debug)]
pub(super) struct StandIns {
    record: PathBuf,
    /// Lock that is held while they are needed. The kernel releases it if the process dies.
    _lock: File,
    places: Vec<PathBuf>,
}

impl StandIns {
    /// Records the paths at which stand-ins will be created; `None` if there are none.
    pub(super) fn record(directory: &Path, places: Vec<PathBuf>) -> io::Result<Option<Self>> {
        if places.is_empty() {
            return Ok(None);
        }
        create_private_directory(directory)?;
        let record = directory.join(random::name()?);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&record)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        for place in &places {
            file.write_all(place.as_os_str().as_bytes())?;
            file.write_all(b"\0")?;
        }
        Ok(Some(Self { record, _lock: file, places }))
    }

    /// Removes the stand-ins of processes that are gone.
    pub(super) fn sweep(directory: &Path) {
        let Ok(records) = fs::read_dir(directory) else { return };
        for record in records.flatten() {
            let path = record.path();
            let Ok(mut file) = File::open(&path) else { continue };
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let mut bytes = Vec::new();
            if file.read_to_end(&mut bytes).is_ok() {
                let places = bytes.split(|byte| *byte == 0).filter(|place| !place.is_empty());
                let places = places.map(|place| PathBuf::from(OsStr::from_bytes(place)));
                drop(Self { record: path, _lock: file, places: places.collect() });
            }
        }
    }
}

impl Drop for StandIns {
    fn drop(&mut self) {
        for place in &self.places {
            // A stand-in that is no longer empty belongs to another program.
            match place.symlink_metadata() {
                Ok(found) if found.is_dir() => drop(fs::remove_dir(place)),
                Ok(found) if found.is_file() && found.len() == 0 => drop(fs::remove_file(place)),
                _ => {}
            }
        }
        drop(fs::remove_file(&self.record));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_ins_of_a_dead_process_are_removed_and_nothing_else() {
        let ground = tempfile::tempdir().unwrap();
        let (records, place) =
            (ground.path().join("records"), |name: &str| ground.path().join(name));
        let places = ["empty", "directory", "filled", "absent"].map(place).to_vec();
        let held = StandIns::record(&records, places.clone()).unwrap().unwrap();
        fs::write(place("empty"), "").unwrap();
        fs::create_dir(place("directory")).unwrap();
        fs::write(place("filled"), "another program's").unwrap();
        StandIns::sweep(&records);
        assert!(place("empty").exists(), "its process still runs");
        // As if its process had been killed: the record exists, and no process holds its lock.
        let (path, record) = (held.record.clone(), fs::read(&held.record).unwrap());
        drop(held);
        fs::write(place("empty"), "").unwrap();
        fs::create_dir(place("directory")).unwrap();
        fs::write(&path, record).unwrap();
        StandIns::sweep(&records);
        assert!(!place("empty").exists() && !place("directory").exists());
        assert_eq!(fs::read(place("filled")).unwrap(), b"another program's");
        assert_eq!(fs::read_dir(&records).unwrap().count(), 0);
    }
}
