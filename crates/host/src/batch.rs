//! Makes many changes of files that wait for the disk together.
//!
//! Waiting for the disk after each of 50,000 files takes minutes. A batch waits twice for all of them: for the new contents before the
//! first name is given, and for the names in the end. So no name ever points to content that a power cut could take, and the caller is told
//! that the batch is made only when all of it is safe.
//!
//! To sync a file system is to wait for everything that any program has written there. A batch of few contents and few directories, such as
//! the move of a directory, syncs these alone.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use windlass_core::{
    Alteration, Altered, Batch, ContentHash, ContentSource, ExpectedState, FileError,
    FileErrorKind, Files, FoundEntry, OpenFile, Resolved, SessionId, Stat, TargetState, Visitor,
    WalkOptions, WalkReport,
};

use crate::alter;
use crate::files::LocalFiles;
use crate::kernel::{FOR_LISTING, errno_file_error, file_error};

/// Up to this number, contents, attributes or directories are synced one by one; beyond it, whole file systems are.
const MAX_SINGLE_SYNCS: usize = 32;

/// Files of this machine while many of them are changed together.
#[derive(Debug)]
pub(crate) struct LocalBatch {
    files: LocalFiles,
    /// The same files, for alterations that wait for the disk at once.
    immediate: LocalFiles,
    /// True if few contents come from a stage, so that each is synced when it gets its name.
    has_few_contents: bool,
    unsynced: Mutex<UnsyncedChanges>,
    /// One path on each device with prepared contents that may not be on the disk yet.
    prepared: Mutex<HashMap<u64, Resolved>>,
}

/// Changes that may not be on the disk yet.
#[derive(Debug, Default)]
struct UnsyncedChanges {
    /// One path on each device with changes.
    devices: HashMap<u64, Resolved>,
    /// Directories in which names changed, each with a path in it.
    directories: HashMap<PathBuf, Resolved>,
    /// Number of alterations that waited for the disk at once.
    immediate: usize,
    /// True if more changed than the names in a few directories.
    is_wide: bool,
}

impl UnsyncedChanges {
    /// Records an alteration that did not wait for the disk.
    fn record(&mut self, path: &Resolved, alteration: &Alteration<'_>, device: Option<u64>) {
        if let Some(device) = device {
            self.devices.entry(device).or_insert_with(|| path.clone());
        }
        if self.is_wide {
            return;
        }
        self.record_parent(path);
        match alteration.to {
            TargetState::Moved { from, .. } => self.record_parent(from),
            // The new directory itself must be synced as well.
            TargetState::Directory { .. } => self.record_directory(&path.path, path),
            _ => {}
        }
        if self.directories.len() > MAX_SINGLE_SYNCS {
            self.is_wide = true;
            self.directories.clear();
        }
    }

    /// Records a change in the parent directory of a path.
    fn record_parent(&mut self, path: &Resolved) {
        if let Some(directory) = path.path.parent() {
            self.record_directory(directory, path);
        }
    }

    /// Records a change of names in a directory.
    fn record_directory(&mut self, directory: &Path, path: &Resolved) {
        if !self.directories.contains_key(directory) {
            self.directories.insert(directory.to_owned(), path.clone());
        }
    }
}

impl LocalBatch {
    /// Begins a batch. `contents` are the files of the stage that will get names in it. If they are many, this waits until they are on the
    /// disk.
    pub(crate) fn begin(files: &LocalFiles, contents: &[&Path]) -> Result<Self, FileError> {
        let has_few_contents = contents.len() <= MAX_SINGLE_SYNCS;
        if files.durability.is_on_disk() && !has_few_contents {
            sync_contents(files, contents)?;
        }
        Ok(Self {
            files: files.in_batch(),
            immediate: files.another_handle(),
            has_few_contents,
            unsynced: Mutex::default(),
            prepared: Mutex::default(),
        })
    }

    /// Returns whether an alteration waits for the disk at once, and counts it.
    fn waits_at_once(&self, path: &Resolved, alteration: &Alteration<'_>) -> bool {
        let mut unsynced = self.unsynced();
        let is_single = match alteration.to {
            TargetState::Nothing | TargetState::Moved { .. } | TargetState::Directory { .. } => {
                return false;
            }
            // Prepared content is on the disk already.
            TargetState::File { content: ContentSource::At(place), .. }
                if place.parent() != path.path.parent() =>
            {
                return self.has_few_contents;
            }
            _ => unsynced.immediate < MAX_SINGLE_SYNCS,
        };
        unsynced.immediate += 1;
        unsynced.is_wide |= !is_single;
        is_single
    }

    /// Locks the record of unsynced changes.
    fn unsynced(&self) -> std::sync::MutexGuard<'_, UnsyncedChanges> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the disk has the names in the changed directories, if these are few. Returns whether it has.
    fn sync_directories(&self, unsynced: &UnsyncedChanges) -> bool {
        let mut settled = HashSet::new();
        !unsynced.is_wide
            && unsynced.directories.iter().all(|(directory, path)| {
                let opened = nearest_directory(&self.files, path, directory);
                opened.is_ok_and(|(found, handle)| {
                    !settled.insert(found) || self.immediate.durability.sync_file(handle).is_ok()
                })
            })
    }

    /// Waits until the disk has everything on the file systems of these paths.
    fn sync_devices(&self, places: &HashMap<u64, Resolved>) -> Result<(), FileError> {
        for path in places.values() {
            self.sync_file_system_of(path)
                .map_err(|errno| errno_file_error("save", path, errno))?;
        }
        Ok(())
    }

    /// Waits until the disk has everything on the file system of a path's directory.
    fn sync_file_system_of(&self, path: &Resolved) -> Result<(), Errno> {
        let Self { files, .. } = self;
        if !files.durability.is_on_disk() {
            return Ok(());
        }
        let directory = match nearest_directory(files, path, parent_of(path)) {
            // A directory that cannot be listed cannot be opened for a sync; the workspace can.
            Err(Errno::ACCESS) => {
                let root = files.resolver.resolved(files.workspace().to_owned(), true);
                files.resolver.open_place(&root, FOR_LISTING)?
            }
            opened => opened?.1,
        };
        files.durability.sync_file_system(&directory)
    }
}

/// Waits until the disk has these files, by one sync per file system. Nothing is mounted over a file on a stage, so each file is on the
/// file system of its directory.
fn sync_contents(files: &LocalFiles, contents: &[&Path]) -> Result<(), FileError> {
    let mut devices = Vec::new();
    let mut directory = None;
    for path in contents {
        let above = path.parent();
        if directory.replace(above) == Some(above) {
            continue;
        }
        let failed = |why: std::io::Error| FileError::new("save", *path, FileErrorKind::Io(why));
        let device = std::fs::symlink_metadata(path).map_err(failed)?.dev();
        if devices.contains(&device) {
            continue;
        }
        let settled = File::open(path).and_then(|file| {
            files.durability.sync_file_system(&file).map_err(std::io::Error::from)
        });
        settled.map_err(failed)?;
        devices.push(device);
    }
    Ok(())
}

/// Returns the device on which an alteration changed something.
fn device_of(altered: &Altered, expect: ExpectedState) -> Option<u64> {
    let made = altered.stat.map(|stat| stat.fingerprint.device);
    made.or(match expect {
        ExpectedState::Same(seen) => Some(seen.device),
        ExpectedState::Absent => None,
    })
}

impl Batch for LocalBatch {
    fn prepare(
        &self,
        path: &Resolved,
        alteration: &Alteration<'_>,
    ) -> Result<Option<PathBuf>, FileError> {
        let prepared = alter::prepare(&self.files, path, alteration);
        let prepared = prepared.map_err(|kind| file_error("write", path, kind))?;
        if let Some((device, _)) = prepared {
            let mut places = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
            places.entry(device).or_insert_with(|| path.clone());
        }
        Ok(prepared.map(|(_, place)| place))
    }

    fn sync_contents(&self) -> Result<(), FileError> {
        let mut places = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        self.sync_devices(&std::mem::take(&mut *places))
    }

    fn sync_all(&self) -> Result<(), FileError> {
        let unsynced = std::mem::take(&mut *self.unsynced());
        if self.sync_directories(&unsynced) {
            return Ok(());
        }
        self.sync_devices(&unsynced.devices)
    }
}

/// Returns the parent directory of a path, or the path itself if it is `/`.
fn parent_of(path: &Resolved) -> &Path {
    path.path.parent().unwrap_or(&path.path)
}

/// Opens a directory, or the nearest directory above it that exists, on the same device. The directory may be gone or replaced by now,
/// perhaps by a symbolic link.
fn nearest_directory<'a>(
    files: &LocalFiles,
    path: &Resolved,
    directory: &'a Path,
) -> Result<(&'a Path, OwnedFd), Errno> {
    let mut last = Errno::NOENT;
    for directory in directory.ancestors() {
        let (from, way) = files.resolver.handle_and_path_above(path, directory)?;
        match files.resolver.lookup().open(from, way, FOR_LISTING) {
            Ok(opened) => return Ok((directory, opened)),
            Err(errno @ (Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) => last = errno,
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

    fn hash_index_entries(&self, index: &[u8]) -> Option<ContentHash> {
        self.files.hash_index_entries(index)
    }

    fn inspect(&self, path: &Resolved) -> Result<Option<FoundEntry>, FileError> {
        self.files.inspect(path)
    }

    fn alter(&self, path: &Resolved, alteration: &Alteration<'_>) -> Result<Altered, FileError> {
        if self.waits_at_once(path, alteration) {
            return self.immediate.alter(path, alteration);
        }
        let altered = self.files.alter(path, alteration)?;
        self.unsynced().record(path, alteration, device_of(&altered, alteration.expect));
        Ok(altered)
    }

    fn excluded_by(&self, path: &Resolved) -> Result<Option<PathBuf>, FileError> {
        self.files.excluded_by(path)
    }

    fn nearest(&self, path: &Path) -> Option<PathBuf> {
        self.files.nearest(path)
    }
}
