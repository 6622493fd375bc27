//! Many changes of files that wait for the disk together.
//!
//! Waiting for the disk after each of 50,000 files takes minutes. A batch waits twice for all of them: for the new contents before
//! the first name is given, and for the names in the end. So nothing ever has a name whose content a loss of power could take; and
//! whoever made the batch is told that it is made only when all of it is safe.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use windlass_core::{
    Alteration, Altered, Batch, Expect, FileError, FileErrorKind, Files, Found, OpenFile, Resolved,
    SessionId, Stat, Visitor, WalkOptions, WalkReport,
};

use crate::alter;
use crate::files::LocalFiles;
use crate::kernel::{FOR_LISTING, failure, refusal};

/// The files of a machine while many of them are changed together.
#[derive(Debug)]
pub(crate) struct LocalBatch {
    files: LocalFiles,
    /// A place on each device on which something was changed.
    touched: Mutex<HashMap<u64, Resolved>>,
    /// The same for contents that were prepared and that the disk may not have yet.
    prepared: Mutex<HashMap<u64, Resolved>>,
}

impl LocalBatch {
    /// Begins a batch, in which the files at these places, which are ours, get names. Their contents are on the disk then.
    pub(crate) fn begin(files: &LocalFiles, contents: &[&Path]) -> Result<Self, FileError> {
        if files.durability.is_on_disk() {
            secure(files, contents)?;
        }
        Ok(Self { files: files.in_batch(), touched: Mutex::default(), prepared: Mutex::default() })
    }

    /// Waits until the disk has the file systems that these places are on.
    fn settle_devices(&self, places: &Mutex<HashMap<u64, Resolved>>) -> Result<(), FileError> {
        let places = std::mem::take(&mut *places.lock().unwrap_or_else(PoisonError::into_inner));
        for path in places.values() {
            self.settle_around(path).map_err(|errno| failure("save", path, errno))?;
        }
        Ok(())
    }

    fn settle_around(&self, path: &Resolved) -> Result<(), Errno> {
        let Self { files, .. } = self;
        if !files.durability.is_on_disk() {
            return Ok(());
        }
        let directory = match nearest_directory(files, path) {
            // One that cannot be listed cannot be opened for that; the workspace can.
            Err(Errno::ACCESS) => {
                let root = files.resolver.resolved(files.workspace().to_owned(), true);
                files.resolver.open_place(&root, FOR_LISTING)?
            }
            opened => opened?,
        };
        files.durability.settle_file_system(&directory)
    }
}

/// Notes that something was changed on a device.
fn note(places: &Mutex<HashMap<u64, Resolved>>, path: &Resolved, device: Option<u64>) {
    let Some(device) = device else { return };
    let mut places = places.lock().unwrap_or_else(PoisonError::into_inner);
    places.entry(device).or_insert_with(|| path.clone());
}

/// Waits until the disk has these files. Each file system is waited for once.
fn secure(files: &LocalFiles, contents: &[&Path]) -> Result<(), FileError> {
    let mut devices = Vec::new();
    for path in contents {
        let failed = |why: std::io::Error| FileError::new("save", *path, FileErrorKind::Io(why));
        let device = std::fs::symlink_metadata(path).map_err(failed)?.dev();
        if devices.contains(&device) {
            continue;
        }
        let settled = File::open(path).and_then(|file| {
            files.durability.settle_file_system(&file).map_err(std::io::Error::from)
        });
        settled.map_err(failed)?;
        devices.push(device);
    }
    Ok(())
}

/// The device on which an alteration changed something.
fn device(altered: &Altered, expect: Expect) -> Option<u64> {
    let made = altered.stat.map(|stat| stat.fingerprint.device);
    made.or(match expect {
        Expect::Same(seen) => Some(seen.device),
        Expect::Absent => None,
    })
}

impl Batch for LocalBatch {
    fn prepare(
        &self,
        path: &Resolved,
        alteration: &Alteration<'_>,
    ) -> Result<Option<PathBuf>, FileError> {
        let prepared = alter::prepare(&self.files, path, alteration);
        let prepared = prepared.map_err(|kind| refusal("write", path, kind))?;
        note(&self.prepared, path, prepared.as_ref().map(|(device, _)| *device));
        Ok(prepared.map(|(_, place)| place))
    }

    fn secure(&self) -> Result<(), FileError> {
        self.settle_devices(&self.prepared)
    }

    fn settle(&self) -> Result<(), FileError> {
        self.settle_devices(&self.touched)
    }
}

/// Opens the directory that something is in, or was: it may be gone by now, and the next one above it is on the same device.
fn nearest_directory(files: &LocalFiles, path: &Resolved) -> Result<std::os::fd::OwnedFd, Errno> {
    let mut last = Errno::NOENT;
    for directory in path.path.ancestors().skip(1) {
        let (from, way) = files.resolver.place_around(path, directory)?;
        match files.resolver.lookup().open(from, way, FOR_LISTING) {
            Ok(directory) => return Ok(directory),
            Err(errno @ (Errno::NOENT | Errno::NOTDIR)) => last = errno,
            Err(errno) => return Err(errno),
        }
    }
    Err(last)
}

impl Files for LocalBatch {
    fn workspace(&self) -> &Path {
        self.files.workspace()
    }

    fn session_tmp(&self) -> Option<&SessionId> {
        self.files.session_tmp()
    }

    fn resolve(&self, path: &Path) -> Result<Resolved, FileError> {
        self.files.resolve(path)
    }

    fn stat(&self, path: &Resolved) -> Result<Stat, FileError> {
        self.files.stat(path)
    }

    fn open(&self, path: &Resolved) -> Result<OpenFile, FileError> {
        self.files.open(path)
    }

    fn walk<'a>(
        &self,
        root: &Resolved,
        options: &WalkOptions<'a>,
        visitors: &(dyn Fn() -> Box<dyn Visitor + 'a> + Sync + 'a),
    ) -> Result<WalkReport, FileError> {
        self.files.walk(root, options, visitors)
    }

    fn look(&self, path: &Resolved) -> Result<Option<Found>, FileError> {
        self.files.look(path)
    }

    fn alter(&self, path: &Resolved, alteration: &Alteration<'_>) -> Result<Altered, FileError> {
        let altered = self.files.alter(path, alteration)?;
        note(&self.touched, path, device(&altered, alteration.expect));
        Ok(altered)
    }

    fn excluded_by(&self, path: &Resolved) -> Result<Option<PathBuf>, FileError> {
        self.files.excluded_by(path)
    }

    fn nearest(&self, path: &Path) -> Option<PathBuf> {
        self.files.nearest(path)
    }
}
