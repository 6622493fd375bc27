//! Directories for temporary files of sessions. Each session has one: its programs see it as `/tmp`, and its file tools do too.
//!
//! A directory is created on first use. Its name is a hash of the session's id, so that another process with the same state directory finds
//! it again.

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

use crate::isolate::remove_tree::remove_tree;
use crate::kernel::FOR_LISTING;
use crate::random;

/// Time after the last use for which the temporary files of a session are kept.
const SESSION_FILES_LIFETIME: Duration = Duration::from_hours(3 * 24);

/// Prefix of the names of directories for programs without a session; the id of the process follows.
const PROCESS_PREFIX: &str = "process-";

/// Maximum attempts to create a directory that other processes remove before it is opened.
const MAX_CREATE_TRIES: usize = 16;

/// Maximum directories that are remembered, so that empty ones are removed on drop. Any others are left to [`sweep`].
const MAX_REMEMBERED_DIRECTORIES: usize = 1024;

/// Creates and finds the directories for temporary files of all sessions. Removes the empty ones when it is dropped.
#[derive(Debug)]
pub(crate) struct TemporaryDirectories {
    state: Option<PathBuf>,
    base: OnceLock<PathBuf>,
    remembered: Mutex<HashSet<PathBuf>>,
}

/// The directory for temporary files of one session. While this value exists, no process of Windlass removes the directory.
#[derive(Debug)]
pub(crate) struct TemporaryDirectory {
    pub(crate) path: PathBuf,
    pub(crate) handle: OwnedFd,
}

impl TemporaryDirectories {
    /// Uses directories in a state directory. Without one, no other process continues the sessions, and all directories are removed on
    /// drop.
    pub(crate) fn new(state: Option<PathBuf>) -> Self {
        Self { state, base: OnceLock::new(), remembered: Mutex::default() }
    }

    /// Opens the directory of a session, or of this process if there is no session. Creates it if it is missing.
    pub(crate) fn open(&self, session: Option<&SessionId>) -> io::Result<TemporaryDirectory> {
        let path = self.base()?.join(directory_name(session));
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() < MAX_REMEMBERED_DIRECTORIES {
            remembered.insert(path.clone());
        }
        drop(remembered);
        for _ in 0..MAX_CREATE_TRIES {
            match create_private_directory(&path) {
                // Another process removed the parent directory in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                remembered => remembered?,
            }
            match open_with_shared_lock(&path) {
                Ok(Some(handle)) => return Ok(TemporaryDirectory { path, handle }),
                Ok(None) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(io::Error::other(format!("{} is removed again and again", path.display())))
    }

    /// Returns the parent of all session directories, and chooses it on first use.
    fn base(&self) -> io::Result<&Path> {
        if let Some(known) = self.base.get() {
            return Ok(known);
        }
        let path = match &self.state {
            Some(state) => state.join("tmp"),
            None => stateless_directory().join("tmp").join(random::name()?),
        };
        Ok(self.base.get_or_init(|| path))
    }
}

impl Drop for TemporaryDirectories {
    fn drop(&mut self) {
        // Anything that a program left unreadable stays until the next sweep.
        if let (None, Some(base)) = (&self.state, self.base.get()) {
            drop(fs::remove_dir_all(base));
            return;
        }
        for path in self.remembered.get_mut().unwrap_or_else(PoisonError::into_inner).drain() {
            let _ = remove_if_unlocked(&path);
        }
    }
}

/// Returns the user's directory under the machine's temporary directory, for data that has no state directory.
pub(crate) fn stateless_directory() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    std::env::temp_dir().join(format!("windlass-{user}"))
}

/// Creates a directory and its missing parents, accessible to this user alone.
pub(crate) fn create_private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Removes directories that killed processes left behind: empty ones and those without a session at once; those of sessions, which may be
/// continued, after [`SESSION_FILES_LIFETIME`] without use.
pub(crate) fn sweep(state: &Path) {
    let Ok(entries) = fs::read_dir(state.join("tmp")) else { return };
    let now = SystemTime::now();
    for entry in entries.flatten() {
        let path = entry.path();
        // A living process holds a lock on its directories. If one is removed before the process locks it, the process creates it again.
        let Ok(locked) = open_with_exclusive_lock(&path) else { continue };
        let is_of_session =
            !entry.file_name().as_encoded_bytes().starts_with(PROCESS_PREFIX.as_bytes());
        let is_needed = is_of_session && rustix::fs::rmdir(&path).is_err();
        if is_needed && !is_unused(&locked, now) {
            continue;
        }
        // A directory that cannot be removed now is tried again by the next sweep.
        drop(remove_tree(&path));
    }
}

/// Removes the files and directories `*.tmp` of processes that were killed while they filled them. A living process holds a lock on each
/// that it fills.
pub(crate) fn sweep_unfinished(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|ending| ending != "tmp") {
            continue;
        }
        let Ok(file) = fs::File::open(&path) else { continue };
        if file.try_lock().is_ok() && fs::remove_file(&path).is_err() {
            // A directory that cannot be removed now is tried again by the next sweep.
            drop(remove_tree(&path));
        }
    }
}

/// Creates a directory that [`sweep_unfinished`] spares until the returned handle is closed.
pub(crate) fn create_unfinished_directory(path: &Path) -> io::Result<fs::File> {
    for _ in 0..MAX_CREATE_TRIES {
        create_private_directory(path)?;
        let directory = match fs::File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        // On a file system without locks, the sweep cannot lock the directory either and spares it.
        drop(directory.try_lock());
        if directory.metadata()?.nlink() > 0 {
            return Ok(directory);
        }
    }
    Err(io::Error::other(format!("{} is removed again and again", path.display())))
}

/// Returns whether the directory of a session has not been used for [`SESSION_FILES_LIFETIME`]. Each use sets its mode, and so its change
/// time.
fn is_unused(directory: &OwnedFd, now: SystemTime) -> bool {
    let Ok(found) = rustix::fs::fstat(directory) else { return false };
    let used = found.st_mtime.max(found.st_ctime);
    let used = SystemTime::UNIX_EPOCH + Duration::from_secs(used.try_into().unwrap_or(0));
    now.duration_since(used).is_ok_and(|age| age > SESSION_FILES_LIFETIME)
}

/// Returns the name of a session's directory: a hash, because ids are chosen by people and need not be file names.
fn directory_name(session: Option<&SessionId>) -> String {
    let Some(id) = session else { return format!("{PROCESS_PREFIX}{}", std::process::id()) };
    let mut name = ContentHash::of(id.as_str().as_bytes()).to_string();
    name.truncate(32);
    name
}

/// Opens a session's directory with a shared lock, so that no other process removes it; `None` if it was removed in the meantime.
fn open_with_shared_lock(path: &Path) -> Result<Option<OwnedFd>, Errno> {
    let open = || rustix::fs::open(path, FOR_LISTING, Mode::empty());
    let handle = match open() {
        // A program may have removed the permissions.
        Err(Errno::ACCESS) => {
            rustix::fs::chmod(path, Mode::RWXU)?;
            open()?
        }
        other => other?,
    };
    // Works without a lock too: not every file system has locks, and a program that locks its `/tmp` must not stop us.
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

/// Removes an empty directory, unless a process holds a lock on it.
fn remove_if_unlocked(path: &Path) -> Result<(), Errno> {
    let _locked = open_with_exclusive_lock(path)?;
    rustix::fs::rmdir(path)
}

/// Opens a directory with an exclusive lock; fails if another process holds a lock.
fn open_with_exclusive_lock(path: &Path) -> Result<OwnedFd, Errno> {
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
    fn leftovers_of_dead_processes_are_removed_if_empty_or_without_a_session() {
        let state = tempfile::tempdir().unwrap();
        let tmp = state.path().join("tmp");
        for name in ["empty", "filled", "process-1", "process-2"] {
            create_private_directory(&tmp.join(name)).unwrap();
        }
        fs::write(tmp.join("filled/note"), "of a session that may go on").unwrap();
        // Without write permission, as programs leave them.
        create_private_directory(&tmp.join("process-1/closed/deep")).unwrap();
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
        // A file in it is older than that; only the last use counts.
        fs::File::open(&directory.path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        for (later, is_old) in [
            (Duration::ZERO, false),
            (SESSION_FILES_LIFETIME / 2, false),
            (SESSION_FILES_LIFETIME + Duration::from_mins(1), true),
        ] {
            assert_eq!(is_unused(&directory.handle, now + later), is_old, "{later:?}");
        }
    }

    #[test]
    fn unfinished_files_and_directories_are_removed_once_they_are_unlocked() {
        let ground = tempfile::tempdir().unwrap();
        let path = |name: &str| ground.path().join(name);
        for name in ["dead.tmp", "whole", "living.tmp"] {
            fs::write(path(name), "x").unwrap();
        }
        create_private_directory(&path("dead-directory.tmp/inside")).unwrap();
        let file = fs::File::open(path("living.tmp")).unwrap();
        file.try_lock().unwrap();
        let directory = create_unfinished_directory(&path("living-directory.tmp")).unwrap();
        sweep_unfinished(ground.path());
        assert_eq!(names(ground.path()), ["living-directory.tmp", "living.tmp", "whole"]);
        drop((file, directory));
        sweep_unfinished(ground.path());
        assert_eq!(names(ground.path()), ["whole"]);
    }
}
