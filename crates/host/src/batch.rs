//! Many changes of files that wait for the disk together.
//!
//! Waiting for the disk after each of 50,000 files takes minutes. A batch waits twice for all of them: for the new contents before
//! the first name is given, and for the names in the end. So nothing ever has a name whose content a loss of power could take; and
//! whoever made the batch is told that it is made only when all of it is safe.
//!
//! To wait for a file system is to wait for all that any program has written there. A batch of few contents and few directories, such
//! as that of a directory that was moved, waits for these alone.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use windlass_core::{
    Alteration, Altered, Batch, Expect, FileError, FileErrorKind, Files, Found, OpenFile, Resolved,
    SessionId, Source, Stat, To, Visitor, WalkOptions, WalkReport,
};

use crate::alter;
use crate::files::LocalFiles;
use crate::kernel::{FOR_LISTING, failure, refusal};

/// Contents, attributes or directories up to this number are waited for one by one.
const FEW: usize = 32;

/// The files of a machine while many of them are changed together.
#[derive(Debug)]
pub(crate) struct LocalBatch {
    files: LocalFiles,
    /// The same files for what waits for the disk at once.
    at_once: LocalFiles,
    /// Whether the contents on a stage are few, so that each waits for the disk when it gets its name.
    has_few_contents: bool,
    touched: Mutex<Touched>,
    /// A place on each device with contents that were prepared and that the disk may not have yet.
    prepared: Mutex<HashMap<u64, Resolved>>,
}

/// Changes that the disk may not have yet.
#[derive(Debug, Default)]
struct Touched {
    /// A place on each device on which something was changed.
    devices: HashMap<u64, Resolved>,
    /// Directories in which names changed, each with a place in it.
    directories: HashMap<PathBuf, Resolved>,
    /// How many alterations waited for the disk at once.
    at_once: usize,
    /// Whether more changed than the names in a few directories.
    is_wide: bool,
}

impl Touched {
    /// Notes an alteration of names.
    fn note(&mut self, path: &Resolved, alteration: &Alteration<'_>, device: Option<u64>) {
        if let Some(device) = device {
            self.devices.entry(device).or_insert_with(|| path.clone());
        }
        if self.is_wide {
            return;
        }
        self.note_names_around(path);
        match alteration.to {
            To::Moved { from, .. } => self.note_names_around(from),
            // The disk must have the new directory as well.
            To::Directory { .. } => self.note_names(&path.path, path),
            _ => {}
        }
        if self.directories.len() > FEW {
            self.is_wide = true;
            self.directories.clear();
        }
    }

    fn note_names_around(&mut self, path: &Resolved) {
        if let Some(directory) = path.path.parent() {
            self.note_names(directory, path);
        }
    }

    fn note_names(&mut self, directory: &Path, path: &Resolved) {
        if !self.directories.contains_key(directory) {
            self.directories.insert(directory.to_owned(), path.clone());
        }
    }
}

impl LocalBatch {
    /// Begins a batch, in which the files at these places, which are ours, get names. If they are many, their contents are on the disk
    /// then.
    pub(crate) fn begin(files: &LocalFiles, contents: &[&Path]) -> Result<Self, FileError> {
        let has_few_contents = contents.len() <= FEW;
        if files.durability.is_on_disk() && !has_few_contents {
            secure(files, contents)?;
        }
        Ok(Self {
            files: files.in_batch(),
            at_once: files.alike(),
            has_few_contents,
            touched: Mutex::default(),
            prepared: Mutex::default(),
        })
    }

    /// Returns whether an alteration waits for the disk at once, and counts it.
    fn is_at_once(&self, path: &Resolved, alteration: &Alteration<'_>) -> bool {
        let mut touched = self.touched();
        let is_counted = match alteration.to {
            To::Nothing | To::Moved { .. } | To::Directory { .. } => return false,
            // What was prepared is on the disk already.
            To::File { content: Source::At(place), .. } if place.parent() != path.path.parent() => {
                return self.has_few_contents;
            }
            _ => touched.at_once < FEW,
        };
        touched.at_once += 1;
        touched.is_wide |= !is_counted;
        is_counted
    }

    fn touched(&self) -> std::sync::MutexGuard<'_, Touched> {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the disk has the names in the directories that were touched, if these are few. Returns whether it has.
    fn settle_directories(&self, touched: &Touched) -> bool {
        let mut settled = HashSet::new();
        !touched.is_wide
            && touched.directories.iter().all(|(directory, path)| {
                let opened = nearest_directory(&self.files, path, directory);
                opened.is_ok_and(|(found, handle)| {
                    !settled.insert(found) || self.at_once.durability.settle_file(handle).is_ok()
                })
            })
    }

    /// Waits until the disk has the file systems that these places are on.
    fn settle_devices(&self, places: &HashMap<u64, Resolved>) -> Result<(), FileError> {
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
        let directory = match nearest_directory(files, path, around(path)) {
            // One that cannot be listed cannot be opened for that; the workspace can.
            Err(Errno::ACCESS) => {
                let root = files.resolver.resolved(files.workspace().to_owned(), true);
                files.resolver.open_place(&root, FOR_LISTING)?
            }
            opened => opened?.1,
        };
        files.durability.settle_file_system(&directory)
    }
}

/// Waits until the disk has these files. Each file system is waited for once. Nothing is mounted over a file on a stage: it is on
/// the file system of its directory.
fn secure(files: &LocalFiles, contents: &[&Path]) -> Result<(), FileError> {
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
        if let Some((device, _)) = prepared {
            let mut places = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
            places.entry(device).or_insert_with(|| path.clone());
        }
        Ok(prepared.map(|(_, place)| place))
    }

    fn secure(&self) -> Result<(), FileError> {
        let mut places = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        self.settle_devices(&std::mem::take(&mut *places))
    }

    fn settle(&self) -> Result<(), FileError> {
        let touched = std::mem::take(&mut *self.touched());
        if self.settle_directories(&touched) {
            return Ok(());
        }
        self.settle_devices(&touched.devices)
    }
}

/// The directory that something is in.
fn around(path: &Resolved) -> &Path {
    path.path.parent().unwrap_or(&path.path)
}

/// Opens a directory at or above a place, or the next one above it: it may be gone or replaced by now, perhaps by a symbolic link, and
/// that one is on the same device.
fn nearest_directory<'a>(
    files: &LocalFiles,
    path: &Resolved,
    directory: &'a Path,
) -> Result<(&'a Path, OwnedFd), Errno> {
    let mut last = Errno::NOENT;
    for directory in directory.ancestors() {
        let (from, way) = files.resolver.place_around(path, directory)?;
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

    fn look(&self, path: &Resolved) -> Result<Option<Found>, FileError> {
        self.files.look(path)
    }

    fn alter(&self, path: &Resolved, alteration: &Alteration<'_>) -> Result<Altered, FileError> {
        if self.is_at_once(path, alteration) {
            return self.at_once.alter(path, alteration);
        }
        let altered = self.files.alter(path, alteration)?;
        self.touched().note(path, alteration, device(&altered, alteration.expect));
        Ok(altered)
    }

    fn excluded_by(&self, path: &Resolved) -> Result<Option<PathBuf>, FileError> {
        self.files.excluded_by(path)
    }

    fn nearest(&self, path: &Path) -> Option<PathBuf> {
        self.files.nearest(path)
    }
}
