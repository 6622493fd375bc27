//! The directories for temporary files of sessions: one for each, which its programs see as `/tmp` and its file tools mean by it.
//!
//! They are made when they are first needed. Each is named by a hash of the session's id, so that another process with the same
//! state finds it again.

use std::collections::HashSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, Mode};
use rustix::io::Errno;
use windlass_core::{ContentHash, SessionId};

use crate::isolate::clear::remove_tree;
use crate::kernel::FOR_LISTING;
use crate::random;

/// Temporary files of a session that nobody has used for so long are removed.
const KEPT_FOR: Duration = Duration::from_hours(3 * 24);

/// The names of directories without a session begin with this; the number of the process follows.
const PROCESS: &str = "process-";

/// Another process may remove an empty directory before it is opened; then it is made again, this often at most.
const MAX_TRIES: usize = 16;

/// Directories that are removed in the end if they are empty. More are left to [`sweep`].
const MOST_MADE: usize = 1024;

/// The directories for temporary files of all sessions. Those that are empty go when this is dropped.
#[derive(Debug)]
pub(crate) struct TemporaryDirectories {
    state: Option<PathBuf>,
    base: OnceLock<PathBuf>,
    made: Mutex<HashSet<PathBuf>>,
}

/// The directory for temporary files of one session. While this is held, no process of ours removes it.
#[derive(Debug)]
pub(crate) struct TemporaryDirectory {
    pub(crate) path: PathBuf,
    pub(crate) handle: OwnedFd,
}

impl TemporaryDirectories {
    /// The directories in a state. Without one, no other process continues our sessions, and all of them go with us.
    pub(crate) fn new(state: Option<PathBuf>) -> Self {
        Self { state, base: OnceLock::new(), made: Mutex::default() }
    }

    /// Opens the directory of a session, or of what this process runs without one. Makes it if it is not there.
    pub(crate) fn open(&self, session: Option<&SessionId>) -> io::Result<TemporaryDirectory> {
        let path = self.base()?.join(directory_name(session));
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() < MOST_MADE {
            made.insert(path.clone());
        }
        drop(made);
        for _ in 0..MAX_TRIES {
            match private(&path) {
                // The directory above was removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                made => made?,
            }
            match take_hold(&path) {
                Ok(Some(handle)) => return Ok(TemporaryDirectory { path, handle }),
                Ok(None) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(io::Error::other(format!("{} is removed again and again", path.display())))
    }

    fn base(&self) -> io::Result<&Path> {
        if let Some(known) = self.base.get() {
            return Ok(known);
        }
        let path = match &self.state {
            Some(state) => state.join("tmp"),
            None => stateless().join("tmp").join(random::name()?),
        };
        Ok(self.base.get_or_init(|| path))
    }
}

impl Drop for TemporaryDirectories {
    fn drop(&mut self) {
        // What a program left unreadable stays until it is swept.
        if let (None, Some(base)) = (&self.state, self.base.get()) {
            drop(fs::remove_dir_all(base));
            return;
        }
        for path in self.made.get_mut().unwrap_or_else(PoisonError::into_inner).drain() {
            let _ = remove_if_unused(&path);
        }
    }
}

/// The directory for everything that would be in the state, if there is none.
pub(crate) fn stateless() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    std::env::temp_dir().join(format!("windlass-{user}"))
}

/// Makes a directory that is nobody else's, with those above it.
pub(crate) fn private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Removes the directories that processes left behind which were killed: empty ones and those without a session at once, those of
/// sessions, which may be continued, after [`KEPT_FOR`] without use.
pub(crate) fn sweep(state: &Path) {
    let Ok(entries) = fs::read_dir(state.join("tmp")) else { return };
    let now = SystemTime::now();
    for entry in entries.flatten() {
        let path = entry.path();
        // A process that is alive holds its directories. It makes one again that is removed before it holds it.
        let Ok(locked) = lock_alone(&path) else { continue };
        let is_of_session = !entry.file_name().as_encoded_bytes().starts_with(PROCESS.as_bytes());
        let is_needed = is_of_session && rustix::fs::rmdir(&path).is_err();
        if is_needed && !is_unused(&locked, now) {
            continue;
        }
        // What cannot be removed is tried again by the next sweep.
        drop(remove_tree(&path));
    }
}

/// Removes files and directories `*.tmp` that processes left behind which were killed while they filled them. Whoever fills one holds
/// a lock on it.
pub(crate) fn sweep_unfinished(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|ending| ending != "tmp") {
            continue;
        }
        let Ok(file) = fs::File::open(&path) else { continue };
        if file.try_lock().is_ok() && fs::remove_file(&path).is_err() {
            // What cannot be removed is tried again by the next sweep.
            drop(remove_tree(&path));
        }
    }
}

/// Makes a directory that [`sweep_unfinished`] leaves alone until the file is closed.
pub(crate) fn unfinished(path: &Path) -> io::Result<fs::File> {
    for _ in 0..MAX_TRIES {
        private(path)?;
        let directory = match fs::File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        // Not every file system has locks; there, nothing is swept either.
        drop(directory.try_lock());
        if directory.metadata()?.nlink() > 0 {
            return Ok(directory);
        }
    }
    Err(io::Error::other(format!("{} is removed again and again", path.display())))
}

/// Tells whether the directory of a session has not been used for [`KEPT_FOR`]. Each use sets its mode, and so its change time.
fn is_unused(directory: &OwnedFd, now: SystemTime) -> bool {
    let Ok(found) = rustix::fs::fstat(directory) else { return false };
    let used = found.st_mtime.max(found.st_ctime);
    let used = SystemTime::UNIX_EPOCH + Duration::from_secs(used.try_into().unwrap_or(0));
    now.duration_since(used).is_ok_and(|age| age > KEPT_FOR)
}

/// Returns the name of a session's directory. Ids are chosen by people and are no file names.
fn directory_name(session: Option<&SessionId>) -> String {
    let Some(id) = session else { return format!("{PROCESS}{}", std::process::id()) };
    let mut name = ContentHash::of(id.as_str().as_bytes()).to_string();
    name.truncate(32);
    name
}

/// Opens a directory that is ours and keeps others from removing it; `None` if it was removed meanwhile.
fn take_hold(path: &Path) -> Result<Option<OwnedFd>, Errno> {
    let open = || rustix::fs::open(path, FOR_LISTING, Mode::empty());
    let handle = match open() {
        // A program may have closed it.
        Err(Errno::ACCESS) => {
            rustix::fs::chmod(path, Mode::RWXU)?;
            open()?
        }
        other => other?,
    };
    // Not every file system has locks, and a program that locks its `/tmp` must not stop us.
    let _ = rustix::fs::flock(&handle, FlockOperation::NonBlockingLockShared);
    let found = rustix::fs::fstat(&handle)?;
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::PERM);
    }
    if found.st_nlink == 0 {
        return Ok(None);
    }
    rustix::fs::fchmod(&handle, Mode::RWXU)?;
    Ok(Some(handle))
}

/// Removes a directory that is empty, unless a process holds it.
fn remove_if_unused(path: &Path) -> Result<(), Errno> {
    let _locked = lock_alone(path)?;
    rustix::fs::rmdir(path)
}

/// Locks a directory, unless a process holds it.
fn lock_alone(path: &Path) -> Result<OwnedFd, Errno> {
    let handle = rustix::fs::open(path, FOR_LISTING, Mode::empty())?;
    rustix::fs::flock(&handle, FlockOperation::NonBlockingLockExclusive)?;
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).into_iter().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_the_dead_left_empty_or_without_a_session_goes_at_once() {
        let state = tempfile::tempdir().unwrap();
        let tmp = state.path().join("tmp");
        for name in ["empty", "filled", "process-1", "process-2"] {
            private(&tmp.join(name)).unwrap();
        }
        fs::write(tmp.join("filled/note"), "of a session that may go on").unwrap();
        // As programs leave them: closed to everybody.
        private(&tmp.join("process-1/closed/deep")).unwrap();
        fs::write(tmp.join("process-1/closed/deep/file"), "x").unwrap();
        for path in ["process-1/closed/deep", "process-1/closed", "process-1"] {
            fs::set_permissions(tmp.join(path), fs::Permissions::from_mode(0o500)).unwrap();
        }
        let living = TemporaryDirectories::new(Some(state.path().to_owned()));
        let (session, process) =
            (living.open(Some(&SessionId::new("s"))).unwrap(), living.open(None).unwrap());
        sweep(state.path());
        let name =
            |held: &TemporaryDirectory| held.path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut left = vec!["filled".to_owned(), name(&session), name(&process)];
        left.sort();
        assert_eq!(names(&tmp), left);
        drop((session, process, living));
        assert_eq!(names(&tmp), ["filled"]);
    }

    #[test]
    fn files_of_a_session_are_kept_for_days_after_their_last_use() {
        let state = tempfile::tempdir().unwrap();
        let held = TemporaryDirectories::new(Some(state.path().to_owned()));
        let directory = held.open(Some(&SessionId::new("s"))).unwrap();
        let now = SystemTime::now();
        // A file in it is older than that; the use counts.
        fs::File::open(&directory.path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        for (later, is_old) in [
            (Duration::ZERO, false),
            (KEPT_FOR / 2, false),
            (KEPT_FOR + Duration::from_mins(1), true),
        ] {
            assert_eq!(is_unused(&directory.handle, now + later), is_old, "{later:?}");
        }
    }

    #[test]
    fn unfinished_files_and_directories_go_when_nobody_fills_them() {
        let ground = tempfile::tempdir().unwrap();
        let path = |name: &str| ground.path().join(name);
        for name in ["dead.tmp", "whole", "living.tmp"] {
            fs::write(path(name), "x").unwrap();
        }
        private(&path("dead-directory.tmp/inside")).unwrap();
        let file = fs::File::open(path("living.tmp")).unwrap();
        file.try_lock().unwrap();
        let directory = unfinished(&path("living-directory.tmp")).unwrap();
        sweep_unfinished(ground.path());
        assert_eq!(names(ground.path()), ["living-directory.tmp", "living.tmp", "whole"]);
        drop((file, directory));
        sweep_unfinished(ground.path());
        assert_eq!(names(ground.path()), ["whole"]);
    }
}
